/** The people of an organization, as those see them who manage them. */
import type { AccountCreated } from '../contract/api.ts';
import { type Handler, isCurrent } from '../handler.ts';
import { removeFiles, wakeRuns } from './after-changes.ts';

export const listUsers: Handler<'listUsers'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.people.list(principal, query),
});

export const createUser: Handler<'createUser'> = async (call, { identity }) => {
  const { principal, body, keepMeanwhile } = call;
  const keep = (created: AccountCreated, hiddenMs: number) => keepMeanwhile(createdReply(created), hiddenMs);
  return createdReply(await identity.createPerson(principal, body, keep));
};

function createdReply(created: AccountCreated) {
  const Location = `/api/v1/users/${created.user.id}`;
  return { status: 201, headers: { Location }, body: created } as const;
}

export const getUser: Handler<'getUser'> = async ({ principal, path, headers }, { store }) => {
  const { account, etag: ETag } = await store.people.find(principal, path.user_id);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: account };
};

export const updateUser: Handler<'updateUser'> = async ({ principal, path, headers, body }, services) => {
  const changed = await services.store.people.update(principal, path.user_id, body, headers['If-Match']);
  wakeRuns(changed, services);
  return { status: 200, headers: { ETag: changed.etag }, body: changed.account };
};

export const deleteUser: Handler<'deleteUser'> = async ({ principal, path, query, headers }, services) => {
  const gone = await services.store.people.delete(principal, path.user_id, {
    transferTo: query.transfer_to,
    ifMatch: headers['If-Match'],
  });
  wakeRuns(gone, services);
  await removeFiles(gone, services);
  return { status: 204 };
};

export const revokeUserLogins: Handler<'revokeUserLogins'> = async ({ principal, path }, { store }) => {
  await store.people.revokeLogins(principal, path.user_id);
  return { status: 204 };
};
