/** Groups of people in an organization, to whom workspaces are given. */
import type { Knex } from 'knex';
import type { Group, GroupCreate, GroupMember, GroupUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOf, requireMatch } from './etag.ts';
import { requireRoomFor } from './given-workspaces.ts';
import { requireOrganization } from './organizations.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole, wholeOrganizations } from './reach.ts';
import { type Stopped, stopRunsWithoutRole } from './stop-runs.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedGroup {
  readonly group: Group;
  readonly etag: string;
}

export interface Groups {
  /** Of one organization, or of all that the caller is owner or admin of. Throws `not_found` or `role_required`. */
  list(reach: Reach, query: PageQuery & { readonly organization_id?: string }): Promise<Page<Group>>;
  /** Throws `not_found`, `role_required` or `name_taken`. */
  create(reach: Reach, input: GroupCreate): Promise<TaggedGroup>;
  find(reach: Reach, id: string): Promise<TaggedGroup | null>;
  /** A merge patch. Throws `not_found`, `role_required`, `precondition_failed` or `name_taken`. */
  update(reach: Reach, id: string, patch: GroupUpdate, ifMatch?: string | undefined): Promise<TaggedGroup>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<Stopped>;
  /** Throws `not_found` or `role_required`. */
  listMembers(reach: Reach, id: string, query: PageQuery): Promise<Page<GroupMember>>;
  /** Throws `not_found` also for somebody who does not belong to the organization, or `workspace_limit`. */
  addMember(reach: Reach, id: string, userId: string): Promise<void>;
  removeMember(reach: Reach, id: string, userId: string): Promise<Stopped>;
}

interface GroupRow {
  id: string;
  organization_id: string;
  name: string;
  external_id: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

interface GroupMemberRow {
  user_id: string;
  email: string;
  name: string;
  created_at: number;
}

export function groupRepository({ database, clock, cursors }: StoreParts): Groups {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, { organization_id, ...page }) =>
      database.read(reach, async (sql) => {
        const listing = {
          name: 'groups',
          reach,
          filters: { organization_id },
          columns: ['created_at', 'id'],
          direction: 'asc',
          parts: organizationsOf(reach, organization_id).map((id) =>
            sql('groups').where({ organization_id: id }),
          ),
        } as const;
        const { data, next_cursor } = await readPage<GroupRow>(sql, cursors, listing, page);
        return { data: data.map(toGroup), next_cursor };
      }),
    create: (reach, input) =>
      database
        .write(reach, async (sql) => {
          requireOrganization(reach, input.organization_id);
          const row = groupRow(input, now());
          await sql('groups').insert(row);
          audit(sql, reach, row, 'create', { after: visible(row) });
          return tagged(row);
        })
        .catch(nameTaken),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await groupWithin(sql, reach, id).first();
        if (row) requireRole(reach, placeOf(row));
        return row ? tagged(row) : null;
      }),
    update: (reach, id, patch, ifMatch) =>
      database
        .write(reach, async (sql) => {
          const row = await lockGroup(sql, reach, id);
          requireMatch(ifMatch, row);
          const changes = { ...patch, revision: row.revision + 1, updated_at: now() };
          await sql<GroupRow>('groups').where({ id }).update(changes);
          const changed = { ...row, ...changes };
          audit(sql, reach, row, 'update', { before: visible(row), after: visible(changed) });
          return tagged(changed);
        })
        .catch(nameTaken),
    delete: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockGroup(sql, reach, id);
        requireMatch(ifMatch, row);
        await sql('groups').where({ id }).delete();
        audit(sql, reach, row, 'delete', { before: visible(row) });
        return { stoppedRuns: await stopRunsWithoutRole(sql, { organization_id: row.organization_id }) };
      }),
    listMembers: (reach, id, query) =>
      database.read(reach, async (sql) => {
        await requireGroup(groupWithin(sql, reach, id), reach);
        const listing = {
          name: 'group members',
          reach,
          filters: { group_id: id },
          columns: ['group_members.created_at', 'group_members.user_id'],
          direction: 'asc',
          parts: [
            sql('group_members')
              .join('users', 'users.id', 'group_members.user_id')
              .where({ 'group_members.group_id': id })
              .select('group_members.user_id', 'group_members.created_at', 'users.email', 'users.name'),
          ],
        } as const;
        const { data, next_cursor } = await readPage<GroupMemberRow>(sql, cursors, listing, query);
        return { data: data.map(toGroupMember), next_cursor };
      }),
    addMember: (reach, id, userId) =>
      database.write(reach, async (sql) => {
        const row = await lockGroup(sql, reach, id);
        const { organization_id } = row;
        // Held until the end: whoever leaves the organization meanwhile leaves its groups after this.
        const member = await sql('memberships')
          .where({ organization_id, user_id: userId })
          .forShare()
          .first();
        if (!member) throw notFound('member');
        const added = { organization_id, group_id: id, user_id: userId, created_at: now() };
        const which = { group_id: id, user_id: userId };
        if (await sql('group_members').where(which).first('user_id')) return;
        await requireRoomFor(sql, reach, { userId }, await workspacesOf(sql, id));
        await sql('group_members').insert(added);
        auditMember(sql, reach, row, 'create', userId);
      }),
    removeMember: (reach, id, userId) =>
      database.write(reach, async (sql) => {
        const row = await lockGroup(sql, reach, id);
        const gone = await sql('group_members').where({ group_id: id, user_id: userId }).delete();
        if (gone === 0) throw notFound('member');
        auditMember(sql, reach, row, 'delete', userId);
        const theirs = { organization_id: row.organization_id, user_id: userId };
        return { stoppedRuns: await stopRunsWithoutRole(sql, theirs) };
      }),
  };
}

/** How many workspaces the group was given, which is held: it is given none meanwhile. */
async function workspacesOf(sql: Knex.Transaction, group_id: string): Promise<number> {
  const [row] = await sql('workspace_members').where({ group_id }).count<{ count: number }[]>({ count: '*' });
  return Number(row?.count ?? 0);
}

/** The organizations whose groups are listed. */
function organizationsOf(reach: Reach, asked: string | undefined): string[] {
  if (asked !== undefined) {
    requireOrganization(reach, asked);
    return [asked];
  }
  const managed = wholeOrganizations(reach);
  if (managed.length > 0) return managed;
  throw new Problem('role_required', 'This needs the role admin in an organization; you have it in none.');
}

/** Members without a role for it are told so; to others the group is not there. */
function groupWithin(sql: Knex, reach: Reach, id: string) {
  return sql<GroupRow>('groups').where({ id }).whereIn('organization_id', reach.organizationIds);
}

/** Until the transaction ends: who is in a group changes one after the other. */
async function lockGroup(sql: Knex.Transaction, reach: Reach, id: string): Promise<GroupRow> {
  return requireGroup(groupWithin(sql, reach, id).forUpdate(), reach);
}

async function requireGroup(query: ReturnType<typeof groupWithin>, reach: Reach): Promise<GroupRow> {
  const row = await query.first();
  if (!row) throw notFound('group');
  requireRole(reach, placeOf(row));
  return row;
}

function placeOf({ organization_id }: GroupRow) {
  return { organization_id, workspace_id: null };
}

function groupRow({ organization_id, name, external_id = null }: GroupCreate, now: number): GroupRow {
  const times = { created_at: now, updated_at: now };
  return { id: newId('group'), organization_id, name, external_id, revision: 1, ...times };
}

function nameTaken(error: unknown): never {
  if (!isDuplicate(error)) throw error;
  throw new Problem(
    'name_taken',
    'The organization has a group with this name or this external id already; choose another.',
  );
}

/** What the audit log tells of a group. */
function visible({ name, external_id }: GroupRow) {
  return { name, external_id };
}

function audit(
  sql: Knex.Transaction,
  reach: Reach,
  { id, organization_id }: GroupRow,
  what: 'create' | 'update' | 'delete',
  change: { readonly before?: object; readonly after?: object },
): void {
  recordAudit(sql, reach, {
    action: `group.${what}`,
    target: { type: 'group', id },
    organizationId: organization_id,
    ...(change.before && { before: { ...change.before } }),
    ...(change.after && { after: { ...change.after } }),
  });
}

function auditMember(
  sql: Knex.Transaction,
  reach: Reach,
  { id, organization_id }: GroupRow,
  what: 'create' | 'delete',
  userId: string,
): void {
  const change = { user_id: userId };
  recordAudit(sql, reach, {
    action: `group_member.${what}`,
    target: { type: 'group', id },
    organizationId: organization_id,
    ...(what === 'create' ? { after: change } : { before: change }),
  });
}

function tagged(row: GroupRow): TaggedGroup {
  return { group: toGroup(row), etag: etagOf(row) };
}

function toGroup(row: GroupRow): Group {
  return {
    id: row.id,
    organization_id: row.organization_id,
    name: row.name,
    external_id: row.external_id,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

function toGroupMember(row: GroupMemberRow): GroupMember {
  return { user_id: row.user_id, email: row.email, name: row.name, created_at: timestamp(row.created_at) };
}
