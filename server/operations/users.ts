/** The people of an organization, as those see them who manage them. */
import type { Account, AccountCreated } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
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
  const found = await store.people.find(principal, path.user_id);
  const ETag = accountTag(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.account };
};

export const updateUser: Handler<'updateUser'> = async ({ principal, path, headers, body }, services) => {
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await services.store.people.update(principal, path.user_id, body, ifMatch);
  wakeRuns(changed, services);
  return { status: 200, headers: { ETag: accountTag(changed) }, body: changed.account };
};

export const deleteUser: Handler<'deleteUser'> = async ({ principal, path, query, headers }, services) => {
  const gone = await services.store.people.delete(principal, path.user_id, {
    transferTo: query.transfer_to,
    ifMatch: rowTags(headers['If-Match']),
  });
  wakeRuns(gone, services);
  await removeFiles(gone, services);
  return { status: 204 };
};

export const revokeUserLogins: Handler<'revokeUserLogins'> = async ({ principal, path }, { store }) => {
  await store.people.revokeLogins(principal, path.user_id);
  return { status: 204 };
};

/** Roles stand in rows of their own, and each caller sees those that they administer. */
function accountTag({ account, etag }: { readonly account: Account; readonly etag: string }): string {
  return etagWith(etag, [account.memberships, account.managed_by]);
}
