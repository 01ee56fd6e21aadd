/** The list of people, by address: those of the organizations that the caller administers, or all. */
import type { Knex } from 'knex';
import type { Account, operations } from '../contract/api.ts';
import type { Cursors } from './cursor.ts';
import { type Page, readPage } from './page.ts';
import { membershipsOf, roleRequired, seenBy, toAccount } from './person-reach.ts';
import { notFound, type Reach, wholeOrganizations } from './reach.ts';
import { nameKey, type UserRow } from './user-row.ts';

/** `limit`, `cursor` and the filters of the contract. */
export type PersonQuery = Partial<NonNullable<operations['listUsers']['parameters']['query']>>;

export async function listPeople(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: PersonQuery,
): Promise<Page<Account>> {
  const { q, role, status, organization_id } = query;
  const organizations = await organizationsOf(sql, reach, organization_id);
  const listing = {
    name: 'people',
    reach,
    filters: { q, role, status, organization_id },
    columns: ['users.email_key'],
    direction: 'asc',
    parts: membersOf(sql, organizations, role)
      .map((people) => (status === undefined ? people : people.where({ 'users.status': status })))
      .flatMap((people) => (q === undefined ? [people] : beginningWith(people, q))),
  } as const;
  const { data, next_cursor } = await readPage<UserRow>(sql, cursors, listing, query);
  const memberships = await membershipsOf(
    sql,
    data.map(({ id }) => id),
  );
  return {
    data: data.map((row) => {
      const own = memberships.get(row.id) ?? [];
      return toAccount({ row, memberships: own, seen: seenBy(reach, own) });
    }),
    next_cursor,
  };
}

/** Null for everybody. */
async function organizationsOf(
  sql: Knex,
  reach: Reach,
  organizationId: string | undefined,
): Promise<string[] | null> {
  const administered = wholeOrganizations(reach);
  if (organizationId === undefined) {
    if (reach.operator || administered.length > 0) return reach.operator ? null : administered;
    throw roleRequired('Only admins of an organization see its people; you administer none.');
  }
  if (administered.includes(organizationId)) return [organizationId];
  const known = reach.operator
    ? await sql('organizations').where({ id: organizationId }).first('id')
    : reach.organizationIds.includes(organizationId);
  if (!known) throw notFound('organization');
  if (reach.operator) return [organizationId];
  throw roleRequired('This needs the role admin in the organization.');
}

/** One part for each organization, and each person in the first of theirs alone. */
function membersOf(
  sql: Knex,
  organizations: readonly string[] | null,
  role: string | undefined,
): Knex.QueryBuilder[] {
  const withRole = (query: Knex.QueryBuilder, table: string) =>
    role === undefined ? query : query.where({ [`${table}.role`]: role });
  if (organizations === null) {
    const people = sql('users').select('users.*');
    if (role === undefined) return [people];
    const having = sql({ m: 'memberships' }).whereRaw('m.user_id = users.id');
    return [people.whereExists(withRole(having, 'm'))];
  }
  return organizations.map((organizationId, index) => {
    const members = sql('memberships')
      .join('users', 'users.id', 'memberships.user_id')
      .where({ 'memberships.organization_id': organizationId })
      .select('users.*');
    const before = organizations.slice(0, index);
    if (before.length === 0) return withRole(members, 'memberships');
    const named = sql({ m: 'memberships' })
      .whereRaw('m.user_id = users.id')
      .whereIn('m.organization_id', before);
    return withRole(members, 'memberships').whereNotExists(withRole(named, 'm'));
  });
}

/** What sorts behind everything that begins alike. */
const last = '\u{10ffff}';

/** By their address, and those whose name alone begins so. */
function beginningWith(people: Knex.QueryBuilder, q: string): Knex.QueryBuilder[] {
  const key = nameKey(q);
  const range = [key, key + last] as const;
  return [
    people.clone().whereBetween('users.email_key', range),
    people.clone().whereBetween('users.name_key', range).whereNotBetween('users.email_key', range),
  ];
}
