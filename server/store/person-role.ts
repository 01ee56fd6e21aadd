/** Gives somebody another role by way of their account: in the organization that is named, or in their only one. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { changeRole, holdRoles } from './organization-roles.ts';
import { type Person, roleRequired } from './person-reach.ts';
import { notFound, type Reach } from './reach.ts';

/** Answers with the runs that were stopped. */
export async function changeRoleOf(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  role: Role,
  organizationId: string | undefined,
): Promise<string[]> {
  const { organization_id } = membershipOf(reach, person, organizationId);
  return changeRole(sql, reach, await holdRoles(sql, reach, organization_id, person.row.id), role);
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
