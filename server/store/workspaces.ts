/** Workspaces: what holds for all of one, and where its files lie; each organization has a default one. */
import type { Knex } from 'knex';
import type {
  operations,
  PermissionMode,
  PermissionRule,
  Workspace,
  WorkspaceCreate,
  WorkspaceUpdate,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import type { Cursors } from './cursor.ts';
import { deleteSessions, emptyCorpora } from './delete-in-parts.ts';
import { noteDeletedWorkspaces } from './deleted-workspaces.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import { etagOf, requireMatch } from './etag.ts';
import { requireRoomFor } from './given-workspaces.ts';
import { holdItemsAtWork } from './ingestion-rows.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { covers, notFound, type Reach, requireRole, roleIn, wholeOrganizations } from './reach.ts';
import { remembered } from './remembered.ts';
import { timestamp } from './timestamps.ts';

/** As much of a workspace as those who work in it need. */
export interface FoundWorkspace {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly isDefault: boolean;
}

export interface TaggedWorkspace {
  readonly workspace: Workspace;
  readonly etag: string;
}

/** What a run in a workspace has to know of it. */
export interface WorkspaceTerms {
  /** The real path of a folder that was there before; null for one of its own. */
  readonly path: string | null;
  readonly model: string | null;
  readonly permissionMode: PermissionMode | null;
  readonly permissionRules: readonly PermissionRule[];
}

/** What went with a workspace. */
export interface DeletedWorkspace {
  readonly path: string | null;
  readonly sessionIds: readonly string[];
  /** The runs that had not ended. */
  readonly runIds: readonly string[];
}

export type NewWorkspace = Omit<WorkspaceCreate, 'path'> & { readonly path?: string | null };

export type WorkspaceQuery = Partial<NonNullable<operations['listWorkspaces']['parameters']['query']>>;

export interface Workspaces {
  /** The default workspace of the caller's first organization, or the one that their key is bound to; null without one. */
  defaultOf(reach: Reach): Promise<FoundWorkspace | null>;
  find(reach: Reach, id: string): Promise<FoundWorkspace | null>;
  /**
   * In the caller's first organization unless one is named. `path` is a real path, or null where the one that was asked
   * for is not accepted. Throws `not_found`, `role_required`, `path_refused` or `workspace_limit`.
   */
  create(reach: Reach, input: NewWorkspace): Promise<TaggedWorkspace>;
  /** Throws `role_required`. */
  get(reach: Reach, id: string): Promise<TaggedWorkspace | null>;
  list(reach: Reach, query: WorkspaceQuery): Promise<Page<Workspace>>;
  /** A merge patch. Throws `not_found` or `precondition_failed`. */
  update(
    reach: Reach,
    id: string,
    patch: WorkspaceUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedWorkspace>;
  /**
   * Wants every run of it to stop, before it is deleted. Answers with those that have not ended. Throws as `delete`.
   */
  stopRuns(reach: Reach, id: string, ifMatch?: string | undefined): Promise<string[]>;
  /** With all that is in it. Throws `not_found`, `precondition_failed` or `workspace_is_default`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<DeletedWorkspace>;
  /** For the server's own work; null for one that is gone. */
  terms(id: string): Promise<WorkspaceTerms | null>;
}

interface WorkspaceRow {
  id: string;
  organization_id: string;
  name: string;
  is_default: boolean;
  path: string | null;
  default_model: string | null;
  permission_mode: PermissionMode | null;
  permission_rules: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

export function workspaceRepository({ database, clock, cursors }: StoreParts): Workspaces {
  const now = (): number => clock.now().getTime();
  return {
    defaultOf: (reach) => database.read(reach, (sql) => findDefaultWorkspace(sql, reach)),
    find: (reach, id) => database.read(reach, (sql) => findWorkspace(sql, reach, id)),
    create: (reach, input) =>
      // Whether a folder is taken, all organizations have to be asked.
      database.write(input.path === undefined ? reach : 'installation', (sql) =>
        insertWorkspace(sql, reach, input, now()),
      ),
    get: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await workspaceWithin(sql, reach, id).first();
        if (!row) return null;
        requireRole(reach, placeOf(row));
        return tagged(row);
      }),
    list: (reach, query) => database.read(reach, (sql) => listWorkspaces(sql, cursors, reach, query)),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockWorkspace(sql, reach, id, ifMatch);
        const changed = { ...row, ...columnsOf(patch), revision: row.revision + 1, updated_at: now() };
        await sql<WorkspaceRow>('workspaces').where({ id }).update(changed);
        recordAudit(sql, reach, { ...auditOf('update', row), before: told(row), after: told(changed) });
        return tagged(changed);
      }),
    stopRuns: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        requireDeletable(await lockWorkspace(sql, reach, id, ifMatch));
        const runs = () => sql('runs').where({ workspace_id: id, ended_at: null });
        await runs().whereNull('interrupt_requested').update({ interrupt_requested: 'requested' });
        return runs().pluck('id');
      }),
    delete: (reach, id, ifMatch) =>
      despiteDeadlocks(() => database.write(reach, (sql) => deleteWorkspace(sql, reach, id, ifMatch))),
    terms: remembered(
      database,
      (id) => id,
      (id) =>
        database.read('installation', async (sql) => {
          const row = await sql<WorkspaceRow>('workspaces').where({ id }).first();
          return row ? toTerms(row) : null;
        }),
    ),
  };
}

export async function findDefaultWorkspace(sql: Knex, reach: Reach): Promise<FoundWorkspace | null> {
  if (reach.workspaceId !== undefined) return findWorkspace(sql, reach, reach.workspaceId);
  const [organizationId] = reach.organizationIds;
  if (organizationId === undefined) return null;
  const row = await sql<WorkspaceRow>('workspaces')
    .where({ organization_id: organizationId, is_default: true })
    .first();
  return row ? toFound(row) : null;
}

export async function findWorkspace(sql: Knex, reach: Reach, id: string): Promise<FoundWorkspace | null> {
  const row = await workspaceWithin(sql, reach, id).first();
  return row ? toFound(row) : null;
}

function workspaceWithin(sql: Knex, reach: Reach, id: string) {
  return sql<WorkspaceRow>('workspaces')
    .where({ id })
    .where((seen) =>
      seen.whereIn('organization_id', wholeOrganizations(reach)).orWhereIn(
        'id',
        reach.workspaces.map((workspace) => workspace.id),
      ),
    );
}

/** The workspace, held against other writers until the transaction ends, where the caller may change it. */
export async function lockWorkspace(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch?: string | undefined,
): Promise<WorkspaceRow> {
  const row = await workspaceWithin(sql, reach, id).forUpdate().first();
  if (!row) throw notFound('workspace');
  requireRole(reach, placeOf(row));
  requireMatch(ifMatch, row);
  return row;
}

async function insertWorkspace(
  sql: Knex.Transaction,
  reach: Reach,
  input: NewWorkspace,
  now: number,
): Promise<TaggedWorkspace> {
  const organizationId = input.organization_id ?? reach.organizationIds[0];
  const place = { organization_id: organizationId ?? '', workspace_id: null };
  const role = roleIn(reach, place);
  if (role === null) throw notFound('organization');
  requireRole(reach, place);
  if (input.path === null) throw pathRefused();
  if (input.path !== undefined) await requireFree(sql, place.organization_id, input.path);
  const row = workspaceRow(place.organization_id, input, now);
  await sql('workspaces').insert(row);
  // Whoever does not reach every workspace of the organization anyway.
  if (!covers(role, 'admin')) {
    await requireRoomFor(sql, reach, { userId: reach.userId });
    await sql('workspace_members').insert({
      organization_id: row.organization_id,
      workspace_id: row.id,
      principal_id: reach.userId,
      user_id: reach.userId,
      role: 'admin',
      created_at: now,
    });
  }
  recordAudit(sql, reach, { ...auditOf('create', row), after: told(row) });
  return tagged(row);
}

function workspaceRow(organizationId: string, input: NewWorkspace, now: number): WorkspaceRow {
  return {
    id: newId('workspace'),
    organization_id: organizationId,
    name: input.name,
    is_default: false,
    path: input.path ?? null,
    default_model: input.default_model ?? null,
    permission_mode: input.permission_mode ?? null,
    permission_rules: JSON.stringify(input.permission_rules ?? []),
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

/** Of two organizations neither may have a folder that the other one works in, nor one around it. */
async function requireFree(sql: Knex.Transaction, organizationId: string, path: string): Promise<void> {
  // Two that ask at once are asked one after the other.
  await sql('installation').where({ id: 1 }).forUpdate().first();
  const others: string[] = await sql('workspaces')
    .whereNotNull('path')
    .whereNot({ organization_id: organizationId })
    .pluck('path');
  const overlaps = (other: string) =>
    other === path || other.startsWith(`${path}/`) || path.startsWith(`${other}/`);
  if (others.some(overlaps)) throw pathRefused();
}

/** The same answer whatever is wrong with the path: nobody learns what there is on the server. */
function pathRefused(): Problem {
  return new Problem(
    'path_refused',
    'This server does not accept this path for a workspace: name an existing folder below one that its operator lists (SERVICE_WORKSPACE_ROOTS), or leave path out.',
  );
}

async function listWorkspaces(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: WorkspaceQuery,
): Promise<Page<Workspace>> {
  const { sort = '-created_at', organization_id } = query;
  const listing = {
    name: 'workspaces',
    reach,
    filters: { organization_id },
    columns: ['created_at', 'id'],
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: partsOf(sql, reach, organization_id),
  };
  const { data, next_cursor } = await readPage<WorkspaceRow>(sql, cursors, listing, query);
  return { data: data.map(toWorkspace), next_cursor };
}

/** Each organization that is reached as a whole, and what was given elsewhere. */
function partsOf(sql: Knex, reach: Reach, organizationId: string | undefined): Knex.QueryBuilder[] {
  const wanted = (id: string) => organizationId === undefined || id === organizationId;
  const whole = wholeOrganizations(reach);
  const given = reach.workspaces.filter(
    (workspace) => wanted(workspace.organizationId) && !whole.includes(workspace.organizationId),
  );
  const ids = given.map(({ id }) => id);
  return [
    ...whole.filter(wanted).map((organization_id) => sql('workspaces').where({ organization_id })),
    ...(ids.length > 0 ? [sql('workspaces').whereIn('id', ids)] : []),
  ];
}

async function deleteWorkspace(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<DeletedWorkspace> {
  // Sessions are locked before all else, as everywhere: two transactions then never wait for each other.
  const found = await findWorkspace(sql, reach, id);
  const sessionIds: string[] = found
    ? await sql('sessions').where({ workspace_id: id }).orderBy('id').forUpdate().pluck('id')
    : [];
  if (found) await holdItemsAtWork(sql, { workspace_id: id });
  const row = await lockWorkspace(sql, reach, id, ifMatch);
  requireDeletable(row);
  const runIds: string[] = await sql('runs').where({ workspace_id: id, ended_at: null }).pluck('id');
  await emptyCorpora(sql, { workspace_id: id });
  await deleteSessions(sql, sessionIds);
  await noteDeletedWorkspaces(sql, { id });
  await sql('workspaces').where({ id }).delete();
  recordAudit(sql, reach, {
    ...auditOf('delete', row),
    before: { ...told(row), sessions: sessionIds.length },
  });
  return { path: row.path, sessionIds, runIds };
}

function requireDeletable(row: WorkspaceRow): void {
  if (!row.is_default) return;
  throw new Problem(
    'workspace_is_default',
    'The default workspace of an organization goes with the organization.',
  );
}

function columnsOf({ permission_rules, ...columns }: WorkspaceUpdate): Partial<WorkspaceRow> {
  return { ...columns, ...(permission_rules && { permission_rules: JSON.stringify(permission_rules) }) };
}

function placeOf({ id, organization_id }: WorkspaceRow) {
  return { organization_id, workspace_id: id };
}

function auditOf(verb: 'create' | 'update' | 'delete', { id, organization_id }: WorkspaceRow) {
  return {
    action: `workspace.${verb}`,
    target: { type: 'workspace', id },
    organizationId: organization_id,
  } as const;
}

function told({ name, path, default_model, permission_mode, permission_rules }: WorkspaceRow) {
  return { name, path, default_model, permission_mode, permission_rules: JSON.parse(permission_rules) };
}

function toFound(row: WorkspaceRow): FoundWorkspace {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    isDefault: Boolean(row.is_default),
  };
}

function toTerms(row: WorkspaceRow): WorkspaceTerms {
  return {
    path: row.path,
    model: row.default_model,
    permissionMode: row.permission_mode,
    permissionRules: JSON.parse(row.permission_rules),
  };
}

function tagged(row: WorkspaceRow): TaggedWorkspace {
  return { workspace: toWorkspace(row), etag: etagOf(row) };
}

function toWorkspace(row: WorkspaceRow): Workspace {
  return {
    id: row.id,
    organization_id: row.organization_id,
    name: row.name,
    is_default: Boolean(row.is_default),
    path: row.path,
    default_model: row.default_model,
    permission_mode: row.permission_mode,
    permission_rules: JSON.parse(row.permission_rules),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
