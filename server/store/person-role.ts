/** The role that somebody is given by way of their account: in the organization that is named, or in their only one. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { type HeldRoles, holdRoles } from './organization-roles.ts';
import { type Person, roleRequired } from './person-reach.ts';
import { notFound, type Reach } from './reach.ts';

/** From then on nobody else changes it. */
export async function holdRoleOf(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  organizationId: string | undefined,
): Promise<HeldRoles> {
  const { organization_id } = membershipOf(reach, person, organizationId);
  return holdRoles(sql, reach, organization_id, person.row.id);
}

/** The role that is meant: where the organization is not named, there may be one only. */
function membershipOf(reach: Reach, { memberships, seen }: Person, organizationId: string | undefined) {
  const [only, ...others] = seen;
  if (organizationId === undefined && only && others.length === 0) return only;
  if (organizationId === undefined)
    throw new Problem('invalid_request', 'body/organization_id: say in which organization the role counts', {
      errors: [
        {
          in: 'body',
          pointer: '/organization_id',
          message: 'is needed where there are several',
          code: 'required',
        },
      ],
    });
  const named = seen.find(({ organization_id }) => organization_id === organizationId);
  if (named) return named;
  const shared =
    reach.organizationIds.includes(organizationId) &&
    memberships.some(({ organization_id }) => organization_id === organizationId);
  if (shared) throw roleRequired('This needs the role admin in the organization.');
  throw notFound('organization');
}
