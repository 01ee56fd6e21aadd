/** Skills: what agents can load before work of one kind, and who has it. */
import type { Skill, SkillFault, SkillSwitch } from '../contract/api.ts';
import {
  type Call,
  etagWith,
  type Handler,
  isCurrent,
  type Principal,
  rowTags,
  type Services,
  type UploadedFile,
} from '../handler.ts';
import { Problem } from '../problem.ts';
import { quotaNotice } from './quota-notice.ts';
import { type ListedSkill, listedSkills, type SkillPlace } from './skill-listing.ts';

export const listSkills: Handler<'listSkills'> = async ({ principal, query }, services) => {
  const { limit, cursor, ...filters } = query;
  const { source, scope, enabled } = filters;
  const { skills } = services.store;
  const after = cursor === undefined ? '' : skills.positionIn(principal, filters, cursor);
  const place = await placeOf(principal, query.workspace_id, services);
  const all = (await listedSkills(principal, place, services))
    .map(({ skill }) => skill)
    .filter((skill) => positionOf(skill) > after)
    .filter((skill) => source === undefined || skill.source === source)
    .filter((skill) => scope === undefined || skill.scope === scope)
    .filter((skill) => enabled === undefined || skill.enabled === enabled)
    .sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1));
  const data = all.slice(0, limit);
  const last = data.at(-1);
  const next_cursor =
    last && all.length > limit ? skills.cursorAfter(principal, filters, positionOf(last)) : null;
  return { status: 200, body: { data, next_cursor } };
};

export const createSkill: Handler<'createSkill'> = async ({ principal, body }, services) => {
  const { scope, workspace_id } = body;
  const content = required(await checked(body.file, services));
  const owner = { scope, workspace_id };
  const { skill, notices } = await services.store.skills.create(principal, owner, content, keyOf(principal));
  const made = await found(principal, skill.id, workspace_id, services);
  const headers = { Location: `/api/v1/skills/${skill.id}`, ETag: tagOf(made), ...quotaNotice(notices) };
  return { status: 201, headers, body: made.skill };
};

export const validateSkill: Handler<'validateSkill'> = async ({ body }, services) => {
  const { skill, name, description, files, size, faults } = await checked(body.file, services);
  const digest = skill?.digest ?? null;
  return {
    status: 200,
    body: { valid: skill !== null, name, description, files, size, digest, errors: [...faults] },
  };
};

export const getSkill: Handler<'getSkill'> = async ({ principal, path, query, headers }, services) => {
  const one = await found(principal, path.skill_id, query.workspace_id, services);
  const ETag = tagOf(one);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: one.skill };
};

export const putSkill: Handler<'putSkill'> = async ({ principal, path, headers, body }, services) => {
  const { store } = services;
  const { skill_id } = path;
  const ifMatch = rowTags(headers['If-Match']);
  const before = await store.skills.requireChangeable(principal, skill_id, ifMatch);
  const content = required(await checked(body.file, services));
  if (content.name !== before.name) throw renamed(before.name, content.name);
  const { notices } = await store.skills.replace(principal, skill_id, content, ifMatch);
  const one = await found(principal, skill_id, undefined, services);
  return { status: 200, headers: { ETag: tagOf(one), ...quotaNotice(notices) }, body: one.skill };
};

export const deleteSkill: Handler<'deleteSkill'> = async ({ principal, path, headers }, { store }) => {
  await store.skills.delete(principal, path.skill_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

export const getSkillContent: Handler<'getSkillContent'> = async ({ principal, path, query }, services) => {
  const one = await found(principal, path.skill_id, query.workspace_id, services);
  const text = one.text ?? (await storedText(one, services));
  if (text === null)
    throw new Problem('not_found', `The SKILL.md of ${one.skill.name} cannot be read: ${one.skill.error}.`);
  return { status: 200, type: 'text/markdown', body: text };
};

export const listSkillFiles: Handler<'listSkillFiles'> = async ({ principal, path, query }, services) => {
  const one = await found(principal, path.skill_id, query.workspace_id, services);
  if (one.kept) {
    const files = await one.kept.files();
    const data = files.map(({ path, sha256, executable, content }) => ({
      ...{ path, sha256, executable },
      size: content.length,
    }));
    return { status: 200, body: { data, truncated: false } };
  }
  if (one.folder === null) return { status: 200, body: { data: [], truncated: false } };
  const { files, truncated } = services.runtime.listSkillFolder(one.folder);
  return { status: 200, body: { data: files.map((file) => ({ ...file, sha256: null })), truncated } };
};

export const enableSkill: Handler<'enableSkill'> = async (call, services) => ({
  status: 200,
  body: await switched(call, services, true),
});

export const disableSkill: Handler<'disableSkill'> = async (call, services) => ({
  status: 200,
  body: await switched(call, services, false),
});

async function switched(
  { principal, path, body }: Pick<Call<'enableSkill'>, 'principal' | 'path'> & { body: SkillSwitch },
  services: Services,
  enabled: boolean,
): Promise<Skill> {
  const place = await placeOfSkill(principal, path.skill_id, body.workspace_id, services);
  const { skill } = await foundIn(principal, path.skill_id, place, services);
  const owner = { scope: body.scope, workspace_id: place.id };
  await services.store.skills.switch(principal, owner, skill.name, enabled);
  return (await foundIn(principal, path.skill_id, place, services)).skill;
}

async function found(
  principal: Principal,
  id: string,
  workspaceId: string | undefined,
  services: Services,
): Promise<ListedSkill> {
  return foundIn(principal, id, await placeOfSkill(principal, id, workspaceId, services), services);
}

/** Where it is looked at: the place that is named, else the one where it counts, else the caller's default. */
async function placeOfSkill(
  principal: Principal,
  id: string,
  workspaceId: string | undefined,
  services: Services,
): Promise<SkillPlace> {
  const stored = workspaceId === undefined ? await services.store.skills.find(principal, id) : null;
  const elsewhere = stored && (stored.workspaceId ?? workspaceIn(principal, stored.organizationId ?? ''));
  return placeOf(principal, workspaceId ?? elsewhere ?? undefined, services);
}

async function foundIn(
  principal: Principal,
  id: string,
  place: SkillPlace,
  services: Services,
): Promise<ListedSkill> {
  const one = (await listedSkills(principal, place, services)).find(({ skill }) => skill.id === id);
  if (!one) throw new Problem('not_found', 'No skill has this id there, or it is not yours.');
  return one;
}

/** The default one of the organization stands before the others. */
function workspaceIn({ workspaces }: Principal, organizationId: string): string | undefined {
  return workspaces.find((workspace) => workspace.organizationId === organizationId)?.id;
}

async function placeOf(
  principal: Principal,
  workspaceId: string | undefined,
  { store }: Services,
): Promise<SkillPlace> {
  const place =
    workspaceId === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, workspaceId);
  if (place) return place;
  throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
}

async function storedText({ kept }: ListedSkill, _services: Services): Promise<string | null> {
  const files = (await kept?.files()) ?? [];
  const file = files.find(({ path }) => path === 'SKILL.md');
  return file ? new TextDecoder().decode(file.content) : null;
}

async function checked({ content }: UploadedFile, { skillBook }: Services) {
  return skillBook.check(Buffer.concat(await Array.fromAsync(content)));
}

/** More than these nobody mends at once. */
const mostFaults = 100;

function required({ skill, faults }: Awaited<ReturnType<typeof checked>>) {
  if (skill) return skill;
  const sentences = faults
    .slice(0, mostFaults)
    .map((fault) => ({ code: fault.code, message: sentenceOf(fault) }));
  throw new Problem(
    'skill_invalid',
    sentences
      .map(({ message }) => message)
      .slice(0, 5)
      .join('; '),
    {
      errors: sentences.map(({ code, message }) => ({ in: 'body', pointer: '/file', message, code })),
    },
  );
}

function renamed(before: string, now: string): Problem {
  const message = `SKILL.md: its name is ${now}, but the skill is ${before}: create another one, or keep the name`;
  return new Problem('skill_invalid', message, {
    errors: [{ in: 'body', pointer: '/file', message, code: 'name' }],
  });
}

function sentenceOf({ path, line, message }: SkillFault): string {
  const place = [path, line === null ? null : `line ${line}`].filter((part) => part !== null).join(', ');
  return place === '' ? message : `${place}: ${message}`;
}

function keyOf({ credential, credentialId }: Principal): string | null {
  return credential === 'api_key' ? credentialId : null;
}

/** Of the row, where there is one, and of what else is shown. */
function tagOf({ skill, rowTag }: ListedSkill): string {
  return etagWith(rowTag ?? '"0"', skill);
}

/** By name, and where several have one by id. */
function positionOf({ name, id }: Skill): string {
  return `${name} ${id}`;
}
