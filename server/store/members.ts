/** The members of organizations: their roles, and how they leave. An organization always keeps an owner. */
import type { Knex } from 'knex';
import type { OrganizationMember, Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch } from './etag.ts';
import { lockOrganization, requireOrganization } from './organizations.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { requireOtherOwner } from './person-role.ts';
import { covers, notFound, type Reach, requireRole } from './reach.ts';
import { stopRunsOf } from './stop-runs.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedMember {
  readonly member: OrganizationMember;
  readonly etag: string;
}

export interface Members {
  /** The oldest membership first. Throws `not_found`. */
  list(
    reach: Reach,
    organizationId: string,
    query: PageQuery & { readonly role?: Role },
  ): Promise<Page<OrganizationMember>>;
  /** Throws `not_found`, `role_required`, `precondition_failed` or `last_owner`. */
  setRole(
    reach: Reach,
    organizationId: string,
    userId: string,
    role: Role,
    ifMatch?: string | undefined,
  ): Promise<TaggedMember>;
  /** Everybody may leave. Throws as `setRole`. */
  remove(reach: Reach, organizationId: string, userId: string, ifMatch?: string | undefined): Promise<void>;
}

interface MemberRow {
  organization_id: string;
  user_id: string;
  role: Role;
  revision: number;
  created_at: number;
  email: string;
  name: string;
}

export function memberRepository({ database, cursors }: StoreParts): Members {
  return {
    list: (reach, organizationId, { role, ...page }) =>
      database.read(reach, async (sql) => {
        requireOrganization(reach, organizationId);
        const filters = { organization_id: organizationId, ...(role !== undefined && { role }) };
        const listing = {
          name: 'organization members',
          reach,
          filters,
          columns: ['memberships.created_at', 'memberships.user_id'],
          direction: 'asc',
          parts: [people(sql).where(qualified(filters))],
        } as const;
        const { data, next_cursor } = await readPage<MemberRow>(sql, cursors, listing, page);
        return { data: data.map(toMember), next_cursor };
      }),
    setRole: (reach, organizationId, userId, role, ifMatch) =>
      database.write(reach, async (sql) => {
        requireOrganization(reach, organizationId);
        const { caller, member } = await lockMembers(sql, reach, organizationId, userId);
        requireMatch(ifMatch, member);
        requireCovers(caller.role, member.role === 'owner' ? 'owner' : role);
        if (member.role === 'owner' && role !== 'owner') await requireOtherOwner(sql, placeOf(member));
        const changed = { role, revision: member.revision + 1 };
        await membership(sql, member).update(changed);
        if (!covers(role, 'admin')) await withdrawInvitationsOf(sql, organizationId, userId);
        if (!covers(role, 'member')) await stopRunsOf(sql, userId, [organizationId]);
        audit(sql, reach, member, 'update', { before: { role: member.role }, after: { role } });
        return tagged({ ...member, ...changed });
      }),
    remove: (reach, organizationId, userId, ifMatch) =>
      database.write(reach, async (sql) => {
        const asks = userId === reach.userId ? { ...reach, needs: 'viewer' as const } : reach;
        requireOrganization(asks, organizationId);
        const { caller, member } = await lockMembers(sql, asks, organizationId, userId);
        requireMatch(ifMatch, member);
        requireCovers(caller.role, member.role === 'owner' ? 'owner' : 'viewer');
        if (member.role === 'owner') await requireOtherOwner(sql, placeOf(member));
        await removeMember(sql, organizationId, userId);
        audit(sql, reach, member, 'delete', { before: { role: member.role } });
      }),
  };
}

/** Ends a membership, and all that somebody was given or has begun by it. What they have made stays. */
async function removeMember(sql: Knex.Transaction, organizationId: string, userId: string): Promise<void> {
  const theirs = { organization_id: organizationId, user_id: userId };
  // The membership first: whoever gives them something meanwhile holds it, and has given before this goes on.
  for (const table of ['memberships', 'group_members', 'workspace_members'])
    await sql(table).where(theirs).delete();
  await withdrawInvitationsOf(sql, organizationId, userId);
  await stopRunsOf(sql, userId, [organizationId]);
}

/** Who may invite no more has invited nobody who is not there yet. */
async function withdrawInvitationsOf(
  sql: Knex.Transaction,
  organizationId: string,
  userId: string,
): Promise<void> {
  await sql('invitations')
    .where({ organization_id: organizationId, invited_by: userId, used_at: null })
    .delete();
}

/** The caller's membership and the one they mean, as they are now and until the transaction ends. */
async function lockMembers(
  sql: Knex.Transaction,
  reach: Reach,
  organizationId: string,
  userId: string,
): Promise<{ readonly caller: MemberRow; readonly member: MemberRow }> {
  await lockOrganization(sql, reach, organizationId);
  const rows: MemberRow[] = await people(sql)
    .where(qualified({ organization_id: organizationId }))
    .whereIn('memberships.user_id', [reach.userId, userId]);
  const caller = rows.find(({ user_id }) => user_id === reach.userId);
  // Somebody else was faster: the caller has left, or has another role by now.
  if (!caller) throw notFound('organization');
  const memberships = [{ organizationId, role: caller.role }];
  requireRole({ ...reach, memberships }, { organization_id: organizationId, workspace_id: null });
  const member = rows.find(({ user_id }) => user_id === userId);
  if (!member) throw notFound('member');
  return { caller, member };
}

/** Nobody gives a role above their own, nor takes one. */
export function requireCovers(own: Role, role: Role): void {
  if (covers(own, role)) return;
  throw new Problem('role_required', `This needs the role ${role} in the organization; yours is ${own}.`);
}

function people(sql: Knex) {
  return sql('memberships')
    .join('users', 'users.id', 'memberships.user_id')
    .select('memberships.*', 'users.email', 'users.name');
}

function qualified(columns: object): Record<string, string> {
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [`memberships.${name}`, value]));
}

function membership(sql: Knex.Transaction, row: MemberRow) {
  return sql<MemberRow>('memberships').where(placeOf(row));
}

function placeOf({ organization_id, user_id }: MemberRow) {
  return { organization_id, user_id };
}

function audit(
  sql: Knex.Transaction,
  reach: Reach,
  { organization_id, user_id }: MemberRow,
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

function tagged(row: MemberRow): TaggedMember {
  return { member: toMember(row), etag: etagOf(row) };
}

function toMember(row: MemberRow): OrganizationMember {
  return {
    user_id: row.user_id,
    email: row.email,
    name: row.name,
    role: row.role,
    created_at: timestamp(row.created_at),
  };
}
