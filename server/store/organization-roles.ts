/** Roles in an organization as they change: one after the other, none above the giver's own, and an owner who can act stays. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { holdOrganization } from './organizations.ts';
import { covers, notFound, type Reach } from './reach.ts';
import { withdrawLinksBeyond } from './shown-links.ts';
import { stopRunsWithoutRole } from './stop-runs.ts';

export interface MembershipRow {
  organization_id: string;
  user_id: string;
  role: Role;
  revision: number;
  created_at: number;
}

/** As they are until the transaction ends. */
export interface HeldRoles {
  /** The role that the caller acts in: the operator acts as an owner. */
  readonly acting: Role;
  readonly member: MembershipRow;
}

const roles: readonly Role[] = ['viewer', 'member', 'admin', 'owner'];

/** Nobody else changes a role in the organization meanwhile. Throws `not_found` where either does not belong to it by now. */
export async function holdRoles(
  sql: Knex.Transaction,
  reach: Reach,
  organization_id: string,
  user_id: string,
): Promise<HeldRoles> {
  const acting = await holdActingRole(sql, reach, organization_id);
  const member = await sql<MembershipRow>('memberships').where({ organization_id, user_id }).first();
  if (!member) throw notFound('member');
  return { acting, member };
}

/** The same for somebody who comes in. */
export async function holdActingRole(
  sql: Knex.Transaction,
  { userId, operator }: Reach,
  organization_id: string,
): Promise<Role> {
  const organization = await holdOrganization(sql, organization_id);
  const own = { organization_id, user_id: userId };
  const caller = await sql<MembershipRow>('memberships').where(own).first('role');
  const role = operator ? 'owner' : caller?.role;
  // Somebody else was faster: the caller has left by now, or it is gone.
  if (!organization || !role) throw notFound('organization');
  return role;
}

/** Takes along what the role before allowed. Answers with the runs that were stopped. */
export async function changeRole(
  sql: Knex.Transaction,
  reach: Reach,
  { acting, member }: HeldRoles,
  role: Role,
): Promise<string[]> {
  requireCovers(acting, 'admin');
  requireCovers(acting, member.role);
  requireCovers(acting, role);
  if (member.role === role) return [];
  const place = placeOf(member);
  if (member.role === 'owner') await requireOtherOwner(sql, place);
  await sql<MembershipRow>('memberships')
    .where(place)
    .update({ role, revision: member.revision + 1 });
  await withdrawInvitationsBeyond(sql, place, role);
  await withdrawLinksBeyond(sql, place, role);
  audit(sql, reach, member, 'update', { before: { role: member.role }, after: { role } });
  return stopRunsWithoutRole(sql, place);
}

/** Ends a membership, and all that somebody was given or has begun by it. What they have made stays. */
export async function endMembership(
  sql: Knex.Transaction,
  reach: Reach,
  { acting, member }: HeldRoles,
): Promise<string[]> {
  const place = placeOf(member);
  requireCovers(acting, member.role === 'owner' ? 'owner' : 'viewer');
  if (member.role === 'owner') await requireOtherOwner(sql, place);
  // The membership first: whoever gives them something meanwhile holds it, and has given before this goes on.
  for (const table of ['memberships', 'group_members', 'workspace_members', 'corpus_grants'])
    await sql(table).where(place).delete();
  await withdrawInvitationsBeyond(sql, place, null);
  await withdrawLinksBeyond(sql, place, null);
  audit(sql, reach, member, 'delete', { before: { role: member.role } });
  return stopRunsWithoutRole(sql, place);
}

/** Nobody gives a role above their own, nor takes one. */
export function requireCovers(own: Role, role: Role): void {
  if (covers(own, role)) return;
  throw new Problem('role_required', `This needs the role ${role} in the organization; yours is ${own}.`);
}

interface Place {
  readonly organization_id: string;
  readonly user_id: string;
}

/** The one guard of owners. The organization is held: of two who go at once, one remains. Throws `last_owner`. */
async function requireOtherOwner(sql: Knex.Transaction, place: Place): Promise<void> {
  if (!(await hasOtherOwner(sql, place))) throw lastOwner();
}

/** Owners who are suspended can do nothing for it. */
export async function hasOtherOwner(
  sql: Knex.Transaction,
  { organization_id, user_id }: Place,
): Promise<boolean> {
  const other = await sql('memberships')
    .join('users', 'users.id', 'memberships.user_id')
    .where({ 'memberships.organization_id': organization_id, 'memberships.role': 'owner' })
    .where({ 'users.status': 'active' })
    .whereNot({ 'memberships.user_id': user_id })
    .first('users.id');
  return other !== undefined;
}

export function lastOwner(): Problem {
  return new Problem(
    'last_owner',
    'The organization has no other owner whose account is active; make somebody else owner first.',
  );
}

/** Whoever may not invite into a role any more has invited nobody into it who is not there yet. */
export async function withdrawInvitationsBeyond(
  sql: Knex.Transaction,
  { organization_id, user_id }: Place,
  role: Role | null,
): Promise<void> {
  const allowed = role && covers(role, 'admin') ? roles.filter((one) => covers(role, one)) : [];
  await sql('invitations')
    .where({ organization_id, invited_by: user_id, used_at: null })
    .whereNotIn('role', [...allowed])
    .delete();
}

function placeOf({ organization_id, user_id }: MembershipRow): Place {
  return { organization_id, user_id };
}

function audit(
  sql: Knex.Transaction,
  reach: Reach,
  { organization_id, user_id }: MembershipRow,
  what: 'update' | 'delete',
  change: { readonly before: { role: Role }; readonly after?: { role: Role } },
): void {
  recordAudit(sql, reach, {
    ...change,
    action: `organization_member.${what}`,
    target: { type: 'user', id: user_id },
    organizationId: organization_id,
  });
}
