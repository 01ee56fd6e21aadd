/** The members of organizations: their roles, and how they leave. */
import type { Knex } from 'knex';
import type { OrganizationMember, Role } from '../contract/api.ts';
import { etagOfContent, requireTag } from './etag.ts';
import { changeRole, endMembership, holdRoles, type MembershipRow } from './organization-roles.ts';
import { requireOrganization } from './organizations.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { type Reach, requireRole } from './reach.ts';
import type { Stopped } from './stop-runs.ts';
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
  ): Promise<TaggedMember & Stopped>;
  /** Everybody may leave. Throws as `setRole`. */
  remove(
    reach: Reach,
    organizationId: string,
    userId: string,
    ifMatch?: string | undefined,
  ): Promise<Stopped>;
}

interface MemberRow extends MembershipRow {
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
        const held = await holdMember(sql, reach, organizationId, userId, ifMatch);
        const stoppedRuns = await changeRole(sql, reach, held, role);
        const which = { organization_id: organizationId, user_id: userId };
        const row: MemberRow = await people(sql).where(qualified(which)).first();
        return { member: toMember(row), etag: tagOf(row), stoppedRuns };
      }),
    remove: (reach, organizationId, userId, ifMatch) =>
      database.write(reach, async (sql) => {
        const asks = userId === reach.userId ? { ...reach, needs: 'viewer' as const } : reach;
        const held = await holdMember(sql, asks, organizationId, userId, ifMatch);
        return { stoppedRuns: await endMembership(sql, reach, held) };
      }),
  };
}

/** By the role that the caller has as a member, which is the operator's right here, too. */
async function holdMember(
  sql: Knex.Transaction,
  reach: Reach,
  organizationId: string,
  userId: string,
  ifMatch: string | undefined,
) {
  requireOrganization(reach, organizationId);
  const held = await holdRoles(sql, { ...reach, operator: false }, organizationId, userId);
  const memberships = [{ organizationId, role: held.acting }];
  requireRole({ ...reach, memberships }, { organization_id: organizationId, workspace_id: null });
  requireTag(ifMatch, tagOf(held.member));
  return held;
}

function people(sql: Knex) {
  return sql('memberships')
    .join('users', 'users.id', 'memberships.user_id')
    .select('memberships.*', 'users.email', 'users.name');
}

function qualified(columns: object): Record<string, string> {
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [`memberships.${name}`, value]));
}

/** Whoever comes back after they had left is another member. */
function tagOf({ revision, created_at }: MembershipRow): string {
  return etagOfContent([revision, created_at]);
}

function toMember(row: MemberRow): OrganizationMember {
  return {
    user_id: row.user_id,
    email: row.email,
    name: row.name,
    role: row.role,
    etag: tagOf(row),
    created_at: timestamp(row.created_at),
  };
}
