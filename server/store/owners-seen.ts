/** Settings that belong to a person, a workspace or an organization each: whose of them somebody sees. */
import type { Knex } from 'knex';
import { covers, type Reach, wholeOrganizations } from './reach.ts';

/** More owners than this are not walked one by one. */
const mostParts = 50;

/** One query for each owner, and one for each organization of which all workspaces are within reach. */
export function partsOfOwners(
  table: () => Knex.QueryBuilder,
  reach: Reach,
  others: readonly string[] = [],
): Knex.QueryBuilder[] {
  const whole = wholeOrganizations(reach);
  const inWhole = new Set([
    ...whole,
    ...reach.workspaces.filter(({ organizationId }) => whole.includes(organizationId)).map(({ id }) => id),
  ]);
  const owners = [...ownersSeen(reach).filter((id) => !inWhole.has(id)), ...others];
  const alone =
    owners.length <= mostParts
      ? owners.map((owner_id) => table().where({ owner_id }))
      : [table().whereIn('owner_id', owners)];
  return [...whole.map((organization_id) => table().where({ organization_id })), ...alone];
}

/** Leaves of a query what owners have who are within reach. */
export function ofOwnersSeen<Query extends Knex.QueryBuilder>(
  query: Query,
  reach: Reach,
  others: readonly string[] = [],
): Query {
  const owners = [...ownersSeen(reach), ...others];
  const whole = wholeOrganizations(reach);
  query.where((one) => one.whereIn('owner_id', owners).orWhereIn('organization_id', whole));
  return query;
}

/** A credential that is bound to a workspace reaches nothing else of its person. */
function ownersSeen(reach: Reach): string[] {
  const { userId, workspaceId, memberships, workspaces, needs = 'viewer' } = reach;
  const given = [
    ...memberships.map(({ organizationId, role }) => ({ id: organizationId, role })),
    ...workspaces.map(({ id, role }) => ({ id, role })),
  ];
  const serving = given.filter(({ role }) => covers(role, needs)).map(({ id }) => id);
  return [...(workspaceId === undefined ? [userId] : []), ...serving];
}
