/** Organizations and their members. */
import type { Organization } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
import { Problem } from '../problem.ts';
import { removeFiles, wakeRuns } from './after-changes.ts';

export const listOrganizations: Handler<'listOrganizations'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.organizations.list(principal, query),
});

export const createOrganization: Handler<'createOrganization'> = async ({ principal, body }, { store }) => {
  const created = await store.organizations.create(principal, body);
  const { organization } = created;
  const headers = { Location: `/api/v1/organizations/${organization.id}`, ETag: etagOf(created) };
  return { status: 201, headers, body: organization };
};

export const getOrganization: Handler<'getOrganization'> = async (
  { principal, path, headers },
  { store },
) => {
  const found = await store.organizations.find(principal, path.org_id);
  if (!found) throw new Problem('not_found', 'There is no such organization, or it is not yours.');
  const ETag = etagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.organization };
};

export const updateOrganization: Handler<'updateOrganization'> = async (call, { store }) => {
  const { principal, path, headers, body } = call;
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await store.organizations.update(principal, path.org_id, body, ifMatch);
  return { status: 200, headers: { ETag: etagOf(changed) }, body: changed.organization };
};

export const deleteOrganization: Handler<'deleteOrganization'> = async (call, services) => {
  const { principal, path, headers } = call;
  const ifMatch = rowTags(headers['If-Match']);
  await removeFiles(await services.store.organizations.delete(principal, path.org_id, ifMatch), services);
  return { status: 204 };
};

export const listOrgMembers: Handler<'listOrgMembers'> = async ({ principal, path, query }, { store }) => ({
  status: 200,
  body: await store.members.list(principal, path.org_id, query),
});

export const putOrgMember: Handler<'putOrgMember'> = async (call, services) => {
  const { principal, path, headers, body } = call;
  const { org_id, user_id } = path;
  const { members } = services.store;
  const changed = await members.setRole(principal, org_id, user_id, body.role, headers['If-Match']);
  wakeRuns(changed, services);
  return { status: 200, headers: { ETag: changed.etag }, body: changed.member };
};

export const removeOrgMember: Handler<'removeOrgMember'> = async ({ principal, path, headers }, services) => {
  const { members } = services.store;
  wakeRuns(await members.remove(principal, path.org_id, path.user_id, headers['If-Match']), services);
  return { status: 204 };
};

/** What the caller sees beside the row differs from one to the other; what they may change is the row alone. */
function etagOf({
  organization,
  etag,
}: {
  readonly organization: Organization;
  readonly etag: string;
}): string {
  return etagWith(etag, [organization.role, organization.default_workspace_id]);
}
