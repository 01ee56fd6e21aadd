/** The caller's own account, and the people of an organization. */
import type { Account, Me, Preferences, User } from '../contract/api.ts';
import { type Call, etagWith, type Handler, isCurrent, rowTags, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';

export const getMe: Handler<'getMe'> = async ({ principal, headers }, { store }) => {
  const found = await store.users.find(principal);
  if (!found) throw new Problem('not_found', 'This account does not exist any more.');
  const me = toMe(found.user, principal);
  const ETag = etagOf(me, found.etag);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: me };
};

export const updateMe: Handler<'updateMe'> = async ({ principal, headers, body }, { store }) => {
  const { user, etag } = await store.users.update(principal, body, rowTags(headers['If-Match']));
  const me = toMe(user, principal);
  return { status: 200, headers: { ETag: etagOf(me, etag) }, body: me };
};

export const getPreferences: Handler<'getPreferences'> = async ({ principal, headers }, { store }) => {
  const { preferences, etag: ETag } = await store.preferences.find(principal);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: preferences };
};

export const updatePreferences: Handler<'updatePreferences'> = async (call, { store }) => {
  const { principal, headers, body } = call;
  requireTimezone(body.timezone);
  const { preferences, etag } = await store.preferences.update(principal, body, headers['If-Match']);
  return { status: 200, headers: { ETag: etag }, body: preferences };
};

export const listUsers: Handler<'listUsers'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.people.list(principal, query),
});

export const createUser: Handler<'createUser'> = async ({ principal, body }, { identity }) => {
  const created = await identity.createPerson(principal, body);
  return { status: 201, headers: { Location: `/api/v1/users/${created.user.id}` }, body: created };
};

export const getUser: Handler<'getUser'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.people.find(principal, path.user_id);
  const ETag = accountTag(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.account };
};

export const updateUser: Handler<'updateUser'> = async ({ principal, path, headers, body }, services) => {
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await services.store.people.update(principal, path.user_id, body, ifMatch);
  wakeAll(changed.stoppedRuns, services);
  return { status: 200, headers: { ETag: accountTag(changed) }, body: changed.account };
};

export const deleteUser: Handler<'deleteUser'> = async ({ principal, path, query, headers }, services) => {
  const { stoppedRuns } = await services.store.people.delete(principal, path.user_id, {
    transferTo: query.transfer_to,
    ifMatch: rowTags(headers['If-Match']),
  });
  wakeAll(stoppedRuns, services);
  return { status: 204 };
};

export const revokeUserLogins: Handler<'revokeUserLogins'> = async ({ principal, path }, { store }) => {
  await store.people.revokeLogins(principal, path.user_id);
  return { status: 204 };
};

/** Those at work here notice at once; other nodes when they renew their leases. */
function wakeAll(runIds: readonly string[], { runtime }: Services): void {
  for (const runId of runIds) runtime.wake(runId);
}

/** The names are those that this server's time zone data know. */
function requireTimezone(timezone: Preferences['timezone'] | undefined): void {
  if (!timezone) return;
  try {
    new Intl.DateTimeFormat('en', { timeZone: timezone });
  } catch (cause) {
    const message = 'must be a name of the IANA time zone database, such as Europe/London';
    throw new Problem('invalid_request', `body/timezone: ${message}`, {
      errors: [{ in: 'body', pointer: '/timezone', message, code: 'timezone' }],
      cause,
    });
  }
}

function toMe(user: User, principal: Call<'getMe'>['principal']): Me {
  return {
    ...user,
    operator: principal.operator,
    memberships: principal.memberships.map((membership) => ({
      organization_id: membership.organizationId,
      organization_name: membership.organizationName,
      role: membership.role,
      default_workspace_id: membership.defaultWorkspaceId,
    })),
    workspaces: principal.workspaces.map(({ id, organizationId, role }) => ({
      workspace_id: id,
      organization_id: organizationId,
      role,
    })),
    credential: principal.credential,
    workspace_id: principal.workspaceId ?? null,
    scopes: [...principal.scopes],
  };
}

/** Two credentials of one account see two representations; what either may change is the account alone. */
function etagOf(
  { memberships, workspaces, operator, credential, workspace_id, scopes }: Me,
  etag: string,
): string {
  return etagWith(etag, [memberships, workspaces, operator, credential, workspace_id, scopes]);
}

/** Roles stand in rows of their own, and each caller sees those that they administer. */
function accountTag({ account, etag }: { readonly account: Account; readonly etag: string }): string {
  return etagWith(etag, [account.memberships, account.managed_by]);
}
