/** Who may see and manage somebody's account: admins of the organizations that they share, and the operator. */
import type { Knex } from 'knex';
import type { Account, Membership, Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { covers, notFound, type Reach, wholeOrganizations } from './reach.ts';
import { toUser, type UserRow } from './user-row.ts';

/** A person within the reach of who asks, as they are now. */
export interface Person {
  readonly row: UserRow;
  /** All of their roles. */
  readonly memberships: readonly Membership[];
  /** Those in organizations that the caller administers. */
  readonly seen: readonly Membership[];
}

interface MembershipRow extends Membership {
  user_id: string;
}

/** The roles of people, the oldest first. */
export async function membershipsOf(
  sql: Knex,
  userIds: readonly string[],
): Promise<Map<string, Membership[]>> {
  if (userIds.length === 0) return new Map();
  const rows: MembershipRow[] = await sql('memberships')
    .join('organizations', 'organizations.id', 'memberships.organization_id')
    .join('workspaces', (join) =>
      join.on('workspaces.organization_id', 'organizations.id').onVal('workspaces.is_default', true),
    )
    .whereIn('memberships.user_id', userIds)
    .orderBy(['memberships.created_at', 'memberships.organization_id'])
    .select('memberships.user_id', 'memberships.role', {
      organization_id: 'organizations.id',
      organization_name: 'organizations.name',
      default_workspace_id: 'workspaces.id',
    });
  const byUser = Map.groupBy(rows, ({ user_id }) => user_id);
  return new Map(
    [...byUser].map(([id, own]) => [id, own.map(({ user_id: _user, ...membership }) => membership)]),
  );
}

/** Those of somebody's roles that the caller may see. */
export function seenBy(reach: Reach, memberships: readonly Membership[]): Membership[] {
  if (reach.operator) return [...memberships];
  const administered = new Set(wholeOrganizations(reach));
  return memberships.filter(({ organization_id }) => administered.has(organization_id));
}

/** Throws `not_found` for who shares no organization with the caller, `role_required` where the caller is no admin. */
export async function requirePerson(
  sql: Knex,
  reach: Reach,
  id: string,
  lock: boolean | 'alone' = false,
): Promise<Person> {
  const query = sql<UserRow>('users').where({ id });
  // Rows that refer to the person can be written meanwhile, but for who needs it `alone`: no membership comes then.
  const row = await (lock === 'alone' ? query.forUpdate() : lock ? query.forNoKeyUpdate() : query).first();
  const memberships = (await membershipsOf(sql, [id])).get(id) ?? [];
  const shared = memberships.some(({ organization_id }) => reach.organizationIds.includes(organization_id));
  if (!row || !(reach.operator || shared)) throw notFound('person');
  const seen = seenBy(reach, memberships);
  if (reach.operator || seen.length > 0) return { row, memberships, seen };
  throw roleRequired('Only admins of an organization that the person belongs to may do this.');
}

/** The role with which the caller acts in an organization: the operator acts as its owner. */
export function actingRole(reach: Reach, organizationId: string): Role | null {
  if (reach.operator) return 'owner';
  const own = reach.memberships.find((membership) => membership.organizationId === organizationId);
  return own?.role ?? null;
}

/** The organization that manages an account: the one that made it, as long as the person belongs to it. */
export function managerOf(row: UserRow, memberships: readonly Membership[]): string | null {
  return (
    memberships.find(({ organization_id }) => organization_id === row.managed_by)?.organization_id ?? null
  );
}

/** Refuses who may not suspend, delete or log out somebody: the account as a whole has to be theirs to manage. */
export function requireManager(reach: Reach, { row, memberships, seen }: Person): void {
  if (reach.operator) return;
  const manager = managerOf(row, memberships);
  const theirs = seen.find(({ organization_id }) => organization_id === manager);
  const acting = theirs && actingRole(reach, theirs.organization_id);
  if (theirs && acting && covers(acting, theirs.role) && !row.operator) return;
  throw roleRequired(
    'Only the operator, and admins of the organization that manages the account, may do this; you may take the person out of your organization instead.',
  );
}

/** The account as the caller sees it. */
export function toAccount({ row, seen }: Person): Account {
  return { ...toUser(row), managed_by: managerOf(row, seen), memberships: [...seen] };
}

export function roleRequired(detail: string): Problem {
  return new Problem('role_required', detail);
}
