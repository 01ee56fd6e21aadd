/** Git repositories of skills: named and fetched by the operator, who looks at what has come before it is used. */
import { etagWith, type Handler, isCurrent, rowTags, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';

type Tagged = Awaited<ReturnType<Services['skillRepositories']['sync']>>;

export const listSkillRepositories: Handler<'listSkillRepositories'> = async (call, { store }) => ({
  status: 200,
  body: await store.skillRepositories.list(call.principal, call.query),
});

export const addSkillRepository: Handler<'addSkillRepository'> = async (call, { skillRepositories }) => {
  const made = await skillRepositories.add(call.principal, call.body);
  const Location = `/api/v1/skills/repositories/${made.repository.id}`;
  return { status: 201, headers: { Location, ETag: tagOf(made) }, body: made.repository };
};

export const getSkillRepository: Handler<'getSkillRepository'> = async ({ path, headers }, { store }) => {
  const found = await store.skillRepositories.find(path.repository_id);
  if (!found) throw new Problem('not_found', 'There is no such repository of skills.');
  const ETag = tagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.repository };
};

export const updateSkillRepository: Handler<'updateSkillRepository'> = async (call, services) => {
  const { principal, path, headers, body } = call;
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await services.skillRepositories.update(principal, path.repository_id, body, ifMatch);
  return { status: 200, headers: { ETag: tagOf(changed) }, body: changed.repository };
};

export const removeSkillRepository: Handler<'removeSkillRepository'> = async (call, { store }) => {
  const { principal, path, headers } = call;
  await store.skillRepositories.remove(principal, path.repository_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

export const getSkillRepositoryProposal: Handler<'getSkillRepositoryProposal'> = async (call, services) => ({
  status: 200,
  body: await services.skillRepositories.proposal(call.path.repository_id),
});

export const applySkillRepository: Handler<'applySkillRepository'> = async (call, { store }) => {
  const { principal, path, body } = call;
  const applied = await store.skillRepositories.apply(principal, path.repository_id, body.commit);
  return { status: 200, headers: { ETag: tagOf(applied) }, body: applied.repository };
};

export const syncSkillRepository: Handler<'syncSkillRepository'> = async (call, { skillRepositories }) => {
  const begun = await skillRepositories.sync(call.principal, call.path.repository_id);
  return { status: 202, headers: { ETag: tagOf(begun) }, body: begun.repository };
};

/** What syncs bring changes by itself: a change is held against what the operator has written. */
function tagOf({ repository, etag }: Tagged): string {
  return etagWith(etag, repository);
}
