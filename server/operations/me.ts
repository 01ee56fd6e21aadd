/** The caller's own account, and what they prefer. */
import type { Me, Preferences, User } from '../contract/api.ts';
import { type Call, etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
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
