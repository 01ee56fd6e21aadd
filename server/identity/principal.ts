/** Who acts: a person, through a login or an API key, with what that credential may do. */
import type { PermissionRule, Role, Scope } from '../contract/api.ts';
import { isEveryScope } from '../scopes.ts';
import { isAllowedFrom } from './address-ranges.ts';
import type {
  ApiKeyOwner,
  CredentialOwner,
  Origin,
  PrincipalMembership,
  ReachedWorkspace,
} from './records.ts';

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
  /** The one workspace that the API key is bound to. */
  readonly workspaceId?: string | undefined;
  /** What the API key says besides; absent for a login. */
  readonly key?: KeyLimits | undefined;
  /** The least role that the operation asks for where its object belongs. */
  readonly needs?: Role;
  /** Where the request came from; absent where the server acts by itself. */
  readonly origin?: Origin | undefined;
}

/** What limits an API key, and which of its secrets was given. */
export interface KeyLimits {
  readonly ipAllow: readonly string[];
  readonly permissionRules: readonly PermissionRule[];
  readonly rateLimit: number | null;
  readonly hasEnd: boolean;
  readonly hasQuota: boolean;
  readonly secretNumber: number;
  /** Secrets with a lower number are not good any more. */
  readonly oldestSecret: number;
}

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

/** The principal of a key. One that is bound to a workspace reaches that alone, and runs no installation. */
export function principalOfKey({ apiKey, ...owner }: ApiKeyOwner): Principal {
  const { id, scopes, workspace, ...limits } = apiKey;
  const { ipAllow, permissionRules, rateLimit, hasEnd, hasQuota, secretNumber, oldestSecret } = limits;
  const key = { ipAllow, permissionRules, rateLimit, hasEnd, hasQuota, secretNumber, oldestSecret };
  const whole = { ...toPrincipal(owner, { kind: 'api_key', id, scopes }), key };
  if (!workspace) return whole;
  const { id: workspaceId, organizationId } = workspace;
  const role = roleIn(whole, workspaceId, organizationId);
  const reached = organizationId !== null && role !== null;
  return {
    ...whole,
    operator: false,
    memberships: [],
    workspaces: reached ? [{ id: workspaceId, organizationId, role }] : [],
    organizationIds: reached ? [organizationId] : [],
    workspaceId,
  };
}

/** Whether something narrows the key besides its scopes. */
export function isRestricted({ key, workspaceId }: Principal): boolean {
  if (!key) return false;
  const { ipAllow, permissionRules, rateLimit, hasEnd, hasQuota } = key;
  const lists = [ipAllow, permissionRules];
  const others = [workspaceId !== undefined, rateLimit !== null, hasEnd, hasQuota];
  return lists.some(({ length }) => length > 0) || others.includes(true);
}

/** Whether nothing keeps the credential from all that its person may do. */
export function isWhole(principal: Principal): boolean {
  return !isRestricted(principal) && isEveryScope(principal.scopes);
}

const rank: Readonly<Record<Role, number>> = { viewer: 0, member: 1, admin: 2, owner: 3 };

/** Their role in a workspace: the one they were given there, or that of an admin of the organization. */
function roleIn(
  { memberships, workspaces }: Pick<Principal, 'memberships' | 'workspaces'>,
  workspaceId: string,
  organizationId: string | null,
): Role | null {
  const { role } = memberships.find((membership) => membership.organizationId === organizationId) ?? {};
  if (role && rank[role] >= rank.admin) return role;
  return workspaces.find(({ id }) => id === workspaceId)?.role ?? null;
}

/** Whether somebody still has every right they had: what may be gained in the meantime does not matter. */
export function keepsItsRights(before: Principal, now: Principal): boolean {
  return (
    (now.operator || !before.operator) &&
    [...before.scopes].every((scope) => now.scopes.has(scope)) &&
    before.memberships.every(({ organizationId, role }) =>
      now.memberships.some(
        (other) => other.organizationId === organizationId && rank[other.role] >= rank[role],
      ),
    ) &&
    before.workspaces.every(({ id, organizationId, role }) => {
      const left = roleIn(now, id, organizationId);
      return left !== null && rank[left] >= rank[role];
    }) &&
    keyStillServes(before, now)
  );
}

/** Whether the secret that was given is still good, and may be used from where it came. */
function keyStillServes({ key, origin }: Principal, now: Principal): boolean {
  if (!key || !now.key) return key === now.key;
  return key.secretNumber >= now.key.oldestSecret && isAllowedFrom(now.key.ipAllow, origin?.address ?? null);
}
