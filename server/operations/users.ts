/** The caller's own account. */
import type { Me, User } from '../contract/api.ts';
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

function toMe(user: User, principal: Call<'getMe'>['principal']): Me {
  return {
    ...user,
    memberships: principal.memberships.map((membership) => ({
      organization_id: membership.organizationId,
      organization_name: membership.organizationName,
      role: membership.role,
      default_workspace_id: membership.defaultWorkspaceId,
    })),
    credential: principal.credential,
    scopes: [...principal.scopes],
  };
}

/** Two credentials of one account see two representations; what either may change is the account alone. */
function etagOf({ memberships, credential, scopes }: Me, etag: string): string {
  return etagWith(etag, [memberships, credential, scopes]);
}
