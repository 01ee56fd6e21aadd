/** Gives somebody another role in an organization: never above the giver's own, and an owner remains. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { actingRole, type Person, roleRequired } from './person-reach.ts';
import { covers, notFound, type Reach } from './reach.ts';

export async function changeRole(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  role: Role,
  organizationId: string | undefined,
): Promise<void> {
  const membership = membershipOf(reach, person, organizationId);
  const { organization_id } = membership;
  const acting = actingRole(reach, organization_id);
  if (!acting || !covers(acting, membership.role) || !covers(acting, role))
    throw roleRequired(
      `Nobody gives a role above their own, or changes that of those above them; yours is ${acting ?? 'none'}.`,
    );
  if (membership.role === role) return;
  const place = { organization_id, user_id: person.row.id };
  if (membership.role === 'owner') await requireOtherOwner(sql, place);
  // As `putOrgMember` leaves it: whoever has read the membership before has read another one.
  await sql('memberships')
    .where(place)
    .update({ role, revision: sql.raw('revision + 1') });
  recordAudit(sql, reach, {
    action: 'organization_member.update',
    target: { type: 'user', id: place.user_id },
    organizationId: organization_id,
    before: { role: membership.role },
    after: { role },
  });
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

/** All owners are locked, so that of two who go at once one remains. Throws `last_owner`. */
export async function requireOtherOwner(
  sql: Knex.Transaction,
  { organization_id, user_id }: { readonly organization_id: string; readonly user_id: string },
): Promise<void> {
  const owners: string[] = await sql('memberships')
    .where({ organization_id, role: 'owner' })
    .orderBy('user_id')
    .forUpdate()
    .pluck('user_id');
  if (owners.some((owner) => owner !== user_id)) return;
  throw lastOwner();
}

export function lastOwner(): Problem {
  return new Problem('last_owner', 'The organization has no other owner; make somebody else owner first.');
}
