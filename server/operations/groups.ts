/** Groups of people, to whom workspaces are given. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { wakeRuns } from './after-changes.ts';

export const listGroups: Handler<'listGroups'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.groups.list(principal, query),
});

export const createGroup: Handler<'createGroup'> = async ({ principal, body }, { store }) => {
  const { group, etag } = await store.groups.create(principal, body);
  return { status: 201, headers: { Location: `/api/v1/groups/${group.id}`, ETag: etag }, body: group };
};

export const getGroup: Handler<'getGroup'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.groups.find(principal, path.group_id);
  if (!found) throw new Problem('not_found', 'There is no such group, or it is not yours.');
  const { group, etag } = found;
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: group };
};

export const updateGroup: Handler<'updateGroup'> = async ({ principal, path, headers, body }, { store }) => {
  const { group, etag } = await store.groups.update(principal, path.group_id, body, headers['If-Match']);
  return { status: 200, headers: { ETag: etag }, body: group };
};

export const deleteGroup: Handler<'deleteGroup'> = async ({ principal, path, headers }, services) => {
  wakeRuns(await services.store.groups.delete(principal, path.group_id, headers['If-Match']), services);
  return { status: 204 };
};

export const listGroupMembers: Handler<'listGroupMembers'> = async (
  { principal, path, query },
  { store },
) => ({
  status: 200,
  body: await store.groups.listMembers(principal, path.group_id, query),
});

export const addGroupMember: Handler<'addGroupMember'> = async ({ principal, path }, { store }) => {
  await store.groups.addMember(principal, path.group_id, path.user_id);
  return { status: 204 };
};

export const removeGroupMember: Handler<'removeGroupMember'> = async ({ principal, path }, services) => {
  wakeRuns(await services.store.groups.removeMember(principal, path.group_id, path.user_id), services);
  return { status: 204 };
};
