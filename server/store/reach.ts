/** Whose data a caller may reach: part of every query, so that what is foreign is not there. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';

/** Who asks, and what they may reach. */
export interface Reach {
  readonly userId: string;
  /** The organizations they belong to, the oldest membership first. */
  readonly memberships: readonly { readonly organizationId: string; readonly role: Role }[];
  /** The ids of these organizations. */
  readonly organizationIds: readonly string[];
  /**
   * The workspaces that they were given, themselves or through a group, with the highest role they have there; and the
   * default workspace of each of their organizations, with their role in it. Owners and admins reach every workspace of
   * their organization besides.
   */
  readonly workspaces: readonly ReachedWorkspace[];
  /** Whether they run the installation, whose people are all within their reach. */
  readonly operator?: boolean;
  /** The one workspace that their credential is bound to. */
  readonly workspaceId?: string | undefined;
  /** The number of the secret that came, where their credential is an API key. */
  readonly key?: { readonly secretNumber: number } | undefined;
  /** The least role that the operation asks for where its object belongs; `viewer` if absent. */
  readonly needs?: Role;
  /** Where the request came from, for the audit log; absent where the server acts by itself. */
  readonly origin?: Origin | undefined;
}

/** Where a request came from. */
export interface Origin {
  readonly requestId: string;
  /** The address of the caller; null where the connection was gone before it was asked. */
  readonly address: string | null;
  /** Null where none was needed, or none that holds came. */
  readonly credential: { readonly kind: 'login' | 'api_key'; readonly id: string } | null;
}

/** A workspace in which somebody has a role. */
export interface ReachedWorkspace {
  readonly id: string;
  readonly organizationId: string;
  readonly role: Role;
}

/** Where a row belongs. Without a workspace it belongs to the whole organization. */
export interface Place {
  readonly organization_id: string;
  readonly workspace_id: string | null;
}

const rank: Readonly<Record<Role, number>> = { viewer: 0, member: 1, admin: 2, owner: 3 };

/** Whether one role holds all that another does. */
export function covers(role: Role, other: Role): boolean {
  return rank[role] >= rank[other];
}

/** The organizations in which they reach everything. */
export function wholeOrganizations({ memberships }: Reach): string[] {
  return memberships.flatMap(({ organizationId, role }) => (covers(role, 'admin') ? [organizationId] : []));
}

/** Leaves of a query the rows within reach; `table` where others are joined to it. */
export function within<Query extends Knex.QueryBuilder>(query: Query, reach: Reach, table?: string): Query {
  const column = (name: string) => (table === undefined ? name : `${table}.${name}`);
  query.where((seen) =>
    seen.whereIn(column('organization_id'), wholeOrganizations(reach)).orWhereIn(
      column('workspace_id'),
      reach.workspaces.map(({ id }) => id),
    ),
  );
  return query;
}

/** More workspaces than this are not walked one by one. */
const mostParts = 50;

/** The columns that a part of a list begins with. */
export interface Part {
  readonly organization_id: string;
  readonly workspace_id?: string;
}

/**
 * The parts of a list, each of which walks an index that begins with these columns: an organization where all of it is
 * within reach, a workspace elsewhere.
 */
export function partsWithin(reach: Reach, part: (place: Part) => Knex.QueryBuilder): Knex.QueryBuilder[] {
  const whole = new Set(wholeOrganizations(reach));
  const given = reach.workspaces.filter(({ organizationId }) => !whole.has(organizationId));
  const workspaces =
    given.length <= mostParts
      ? given.map(({ organizationId, id }) => part({ organization_id: organizationId, workspace_id: id }))
      : [...Map.groupBy(given, ({ organizationId }) => organizationId)].map(([organization_id, those]) =>
          part({ organization_id }).whereIn(
            'workspace_id',
            those.map(({ id }) => id),
          ),
        );
  return [...[...whole].map((organization_id) => part({ organization_id })), ...workspaces];
}

/** The role that somebody has where a row belongs; null where it is out of their reach. */
export function roleIn(reach: Reach, { organization_id, workspace_id }: Place): Role | null {
  const membership = reach.memberships.find(({ organizationId }) => organizationId === organization_id);
  if (membership && (workspace_id === null || covers(membership.role, 'admin'))) return membership.role;
  return reach.workspaces.find(({ id }) => id === workspace_id)?.role ?? null;
}

/** Whether somebody has at least this role where a row belongs. */
export function hasRole(reach: Reach, place: Place, needs: Role): boolean {
  const role = roleIn(reach, place);
  return role !== null && covers(role, needs);
}

/** Refuses what their role does not allow where the row belongs. The row itself is within reach. */
export function requireRole(reach: Reach, place: Place): void {
  const needs = reach.needs ?? 'viewer';
  const role = roleIn(reach, place);
  if (role !== null && covers(role, needs)) return;
  const where = place.workspace_id === null ? 'the organization' : 'the workspace';
  throw new Problem(
    'role_required',
    `This needs the role ${needs} in ${where} that it belongs to; yours is ${role ?? 'none'}.`,
  );
}

/** Refuses what is their person's alone to a key that is bound to a workspace: it reaches that, and no account. */
export function requireWholeReach({ workspaceId }: Pick<Reach, 'workspaceId'>): void {
  if (workspaceId === undefined) return;
  throw new Problem(
    'role_required',
    'This API key is bound to a workspace, and reaches nothing of its person besides; log in, or use a key that is not bound.',
  );
}

/** The same answer for what does not exist and for what belongs to someone else. */
export function notFound(noun: string): Problem {
  return new Problem('not_found', `There is no such ${noun}, or it is not yours.`);
}
