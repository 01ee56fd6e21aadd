/** Who was given a role in a workspace: people and groups of its organization. */
import type { Knex } from 'knex';
import type { WorkspaceMember } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import type { Cursors } from './cursor.ts';
import { etagOfContent, requireTag } from './etag.ts';
import { requireRoomFor } from './given-workspaces.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { type Stopped, stopRunsWithoutRole } from './stop-runs.ts';
import { timestamp } from './timestamps.ts';
import { findWorkspace, lockWorkspace } from './workspaces.ts';

export interface WorkspaceMembers {
  /** The oldest first. Throws `not_found`. */
  list(reach: Reach, workspaceId: string, query: PageQuery): Promise<Page<WorkspaceMember>>;
  /** Throws `not_found` also for who is not of the organization, `precondition_failed` or `workspace_limit`. */
  put(
    reach: Reach,
    workspaceId: string,
    principalId: string,
    role: WorkspaceMember['role'],
    ifMatch?: string | undefined,
  ): Promise<Stopped & { readonly member: WorkspaceMember }>;
  /** Throws `not_found` or `precondition_failed`. */
  remove(
    reach: Reach,
    workspaceId: string,
    principalId: string,
    ifMatch?: string | undefined,
  ): Promise<Stopped>;
}

/** What the ETag of a member tells from any other. */
interface GivenRow {
  role: WorkspaceMember['role'];
  created_at: number;
}

interface MemberRow extends GivenRow {
  principal_id: string;
  group_id: string | null;
  user_name: string | null;
  email: string | null;
  group_name: string | null;
}

export function workspaceMemberRepository({ database, clock, cursors }: StoreParts): WorkspaceMembers {
  return {
    list: (reach, workspaceId, query) =>
      database.read(reach, (sql) => listMembers(sql, cursors, reach, workspaceId, query)),
    put: (reach, workspaceId, principalId, role, ifMatch) =>
      database.write(reach, (sql) =>
        putMember(sql, reach, { workspaceId, principalId, role, ifMatch, now: clock.now().getTime() }),
      ),
    remove: (reach, workspaceId, principalId, ifMatch) =>
      database.write(reach, async (sql) => {
        const { organization_id } = await lockWorkspace(sql, reach, workspaceId);
        const which = { workspace_id: workspaceId, principal_id: principalId };
        const before = await sql<GivenRow>('workspace_members').where(which).first('role', 'created_at');
        if (!before) throw notFound('member of the workspace');
        requireTag(ifMatch, tagOf(before));
        await sql('workspace_members').where(which).delete();
        recordAudit(sql, reach, {
          ...auditOf('delete', workspaceId, organization_id),
          before: { principal_id: principalId, role: before.role },
        });
        return { stoppedRuns: await stopRunsWithoutRole(sql, { organization_id }) };
      }),
  };
}

async function listMembers(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  workspaceId: string,
  query: PageQuery,
): Promise<Page<WorkspaceMember>> {
  const workspace = await findWorkspace(sql, reach, workspaceId);
  if (!workspace) throw notFound('workspace');
  requireRole(reach, { organization_id: workspace.organizationId, workspace_id: workspaceId });
  const listing = {
    name: 'workspace members',
    reach,
    filters: { workspaceId },
    columns: ['workspace_members.created_at', 'workspace_members.principal_id'],
    direction: 'asc',
    parts: [membersOf(sql, workspaceId)],
  } as const;
  const { data, next_cursor } = await readPage<MemberRow>(sql, cursors, listing, query);
  return { data: data.map(toMember), next_cursor };
}

/** What was given to somebody counts only as long as they are of the organization. */
function membersOf(sql: Knex, workspaceId: string): Knex.QueryBuilder {
  return sql('workspace_members')
    .leftJoin('users', 'users.id', 'workspace_members.user_id')
    .leftJoin('groups', 'groups.id', 'workspace_members.group_id')
    .where({ 'workspace_members.workspace_id': workspaceId })
    .where((present) =>
      present
        .whereNull('workspace_members.user_id')
        .orWhereExists(
          sql('memberships')
            .where('memberships.organization_id', sql.ref('workspace_members.organization_id'))
            .where('memberships.user_id', sql.ref('workspace_members.user_id')),
        ),
    )
    .select({
      principal_id: 'workspace_members.principal_id',
      group_id: 'workspace_members.group_id',
      role: 'workspace_members.role',
      created_at: 'workspace_members.created_at',
      user_name: 'users.name',
      email: 'users.email',
      group_name: 'groups.name',
    });
}

interface GivenRole {
  readonly workspaceId: string;
  readonly principalId: string;
  readonly role: WorkspaceMember['role'];
  readonly ifMatch: string | undefined;
  readonly now: number;
}

async function putMember(
  sql: Knex.Transaction,
  reach: Reach,
  { workspaceId, principalId, role, ifMatch, now }: GivenRole,
): Promise<Stopped & { readonly member: WorkspaceMember }> {
  const { organization_id } = await lockWorkspace(sql, reach, workspaceId);
  const isGroup = principalId.startsWith('grp_');
  await requireOfOrganization(sql, organization_id, principalId, isGroup);
  const which = { workspace_id: workspaceId, principal_id: principalId };
  const before = await sql<GivenRow>('workspace_members').where(which).first('role', 'created_at');
  requireTag(ifMatch, before ? tagOf(before) : null);
  if (before) await sql('workspace_members').where(which).update({ role });
  else {
    await requireRoomFor(sql, reach, isGroup ? { groupId: principalId } : { userId: principalId });
    await sql('workspace_members').insert({
      ...which,
      organization_id,
      ...(isGroup ? { group_id: principalId } : { user_id: principalId }),
      role,
      created_at: now,
    });
  }
  if (before?.role !== role)
    recordAudit(sql, reach, {
      ...auditOf(before ? 'update' : 'create', workspaceId, organization_id),
      before: before && { role: before.role },
      after: { principal_id: principalId, role },
    });
  const row: MemberRow = await membersOf(sql, workspaceId)
    .where({ 'workspace_members.principal_id': principalId })
    .first();
  return { member: toMember(row), stoppedRuns: await stopRunsWithoutRole(sql, { organization_id }) };
}

/** Held against whoever would remove them meanwhile. Strangers are answered like those who do not exist. */
async function requireOfOrganization(
  sql: Knex.Transaction,
  organization_id: string,
  principalId: string,
  isGroup: boolean,
): Promise<void> {
  const found = isGroup
    ? await sql('groups').where({ organization_id, id: principalId }).forUpdate().first('id')
    : await sql('memberships').where({ organization_id, user_id: principalId }).forUpdate().first('user_id');
  if (!found) throw notFound(isGroup ? 'group of the organization' : 'member of the organization');
}

function auditOf(verb: 'create' | 'update' | 'delete', workspaceId: string, organizationId: string) {
  return {
    action: `workspace_member.${verb}`,
    target: { type: 'workspace', id: workspaceId },
    organizationId,
  } as const;
}

function tagOf({ role, created_at }: GivenRow): string {
  return etagOfContent([role, created_at]);
}

function toMember(row: MemberRow): WorkspaceMember {
  return {
    principal_id: row.principal_id,
    type: row.group_id === null ? 'user' : 'group',
    name: row.group_name ?? row.user_name ?? '',
    email: row.email,
    role: row.role,
    etag: tagOf(row),
    created_at: timestamp(row.created_at),
  };
}
