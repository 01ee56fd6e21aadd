/** Who acts: a person, through a login or an API key, with what that credential may do. */
import type { Role, Scope } from '../contract/api.ts';
import type { CredentialOwner, Origin, PrincipalMembership, ReachedWorkspace } from './records.ts';

/** The caller as every handler and every query sees them; read anew for each request. */
export interface Principal {
  readonly userId: string;
  readonly email: string;
  /** Whether this account runs the installation. */
  readonly operator: boolean;
  readonly memberships: readonly PrincipalMembership[];
  /** Beyond what their roles in organizations give them. */
  readonly workspaces: readonly ReachedWorkspace[];
  readonly organizationIds: readonly string[];
  readonly credential: 'login' | 'api_key';
  /** The id of the login or of the API key. */
  readonly credentialId: string;
  /** All of them for a login. */
  readonly scopes: ReadonlySet<Scope>;
  /** The least role that the operation asks for where its object belongs. */
  readonly needs?: Role;
  /** Where the request came from; absent where the server acts by itself. */
  readonly origin?: Origin | undefined;
}

/** A record, so that a scope that the contract gains does not compile until it stands here. */
const everyScope: Readonly<Record<Scope, true>> = {
  query: true,
  messages: true,
  'sessions:read': true,
  'sessions:write': true,
  'agents:read': true,
  'agents:write': true,
  'organizations:read': true,
  'organizations:write': true,
  'account:read': true,
  'account:write': true,
  'keys:read': true,
  'keys:write': true,
  'workspaces:read': true,
  'workspaces:write': true,
  'metrics:read': true,
  'quotas:read': true,
  'quotas:write': true,
  'audit:read': true,
};

/** What a login may do. */
// The keys of a record that is typed by Scope are scopes; Object.keys cannot say so.
export const allScopes: ReadonlySet<Scope> = new Set(Object.keys(everyScope) as Scope[]);

export function toPrincipal(
  owner: CredentialOwner,
  credential: { readonly kind: 'login' | 'api_key'; readonly id: string; readonly scopes: Iterable<Scope> },
): Principal {
  return {
    userId: owner.user.id,
    email: owner.user.email,
    operator: owner.user.operator,
    memberships: owner.memberships,
    workspaces: owner.workspaces,
    organizationIds: owner.memberships.map((membership) => membership.organizationId),
    credential: credential.kind,
    credentialId: credential.id,
    scopes: new Set(credential.scopes),
  };
}

/** Whether somebody still has every right they had: what may be gained in the meantime does not matter. */
export function keepsItsRights(before: Principal, now: Principal): boolean {
  return (
    (now.operator || !before.operator) &&
    [...before.scopes].every((scope) => now.scopes.has(scope)) &&
    before.memberships.every(({ organizationId, role }) =>
      now.memberships.some((other) => other.organizationId === organizationId && other.role === role),
    )
  );
}
