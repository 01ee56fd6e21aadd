/** MCP servers that people, admins and the operator keep on the server: whose they are, what is told of them, and what is sealed. */
import type { Knex } from 'knex';
import type { McpServer, WorkspaceEvent } from '../contract/api.ts';
import type { McpServer as McpEntry } from '../contract/config.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOf, requireMatch } from './etag.ts';
import { ofOwnersSeen, partsOfOwners } from './owners-seen.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { remembered } from './remembered.ts';
import { readMcpEntry } from './settings-entry.ts';
import { timestamp } from './timestamps.ts';
import { tellWorkspaces } from './workspace-events.ts';

export interface McpServerOwner {
  readonly scope: McpServer['scope'];
  readonly organizationId: string | null;
  readonly workspaceId: string | null;
}

/** What a setting says, as it is stored. */
export interface McpServerContent {
  readonly name: string;
  /** As an entry of service.json has it, without secrets. */
  readonly entry: McpEntry;
  readonly envNames: readonly string[];
  readonly headerNames: readonly string[];
  /** Sealed for the row `mcp_servers/<id>`; null where there are none. */
  readonly secrets: string | null;
}

export interface StoredMcpServer extends McpServerContent, McpServerOwner {
  readonly id: string;
  /** The members of its entry that cannot be read, and are left out. */
  readonly strange: readonly string[];
  /** Another one where connections that were made before are to end. */
  readonly connection: number;
  /** When the person who asks has logged in to it; null where they have not, absent where nobody has looked. */
  readonly loggedInAt?: number | null;
  readonly revision: number;
  readonly etag: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

export interface McpServerFilters {
  readonly scope?: McpServer['scope'] | undefined;
  readonly workspace_id?: string | undefined;
  readonly name?: string | undefined;
}

/**
 * A person's own servers are seen by nobody else; those of a workspace or an organization by whoever has the role there that
 * the operation asks for; those of the installation by everybody, and changed by the operator.
 */
export interface McpServers {
  /** The newest first. */
  list(reach: Reach, query: PageQuery & McpServerFilters): Promise<Page<StoredMcpServer>>;
  /** Throws `role_required`, `name_taken` or `too_many_settings`. The owner is within reach. */
  create(
    reach: Reach,
    owner: McpServerOwner,
    server: McpServerContent & { readonly id: string },
  ): Promise<StoredMcpServer>;
  /** Throws `role_required`. */
  find(reach: Reach, id: string): Promise<StoredMcpServer | null>;
  /** Whether the caller might change it. */
  mayChange(reach: Reach, server: McpServerOwner): boolean;
  /**
   * Puts other content in the place of what was read; null where somebody has changed it since. Throws `not_found`,
   * `role_required`, `precondition_failed` or `name_taken`.
   */
  replace(
    reach: Reach,
    read: Pick<StoredMcpServer, 'id' | 'revision'>,
    content: McpServerContent & { readonly reconnects: boolean },
    ifMatch?: string | undefined,
  ): Promise<StoredMcpServer | null>;
  /** Ends the connections of before. Throws `not_found` or `role_required`. */
  reconnect(reach: Reach, id: string): Promise<StoredMcpServer>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /**
   * What counts for a person's queries in a workspace: their own, then the workspace's, the organization's and the
   * installation's. Their right to the workspace has been checked.
   */
  forRuns(who: {
    readonly userId: string;
    readonly workspaceId: string;
    /** Whether they ask with a credential that is bound to the workspace: their own servers do not count then. */
    readonly bound: boolean;
  }): Promise<readonly StoredMcpServer[]>;
  /** For the server's own work: the `connection` of those that are still there, and when people have logged in to them. */
  connections(ids: readonly string[]): Promise<ReadonlyMap<string, ServerConnections>>;
  loggedInAt(id: string, userId: string): Promise<number | null>;
}

interface ServerConnections {
  readonly connection: number;
  readonly logins: ReadonlyMap<string, number>;
}

interface McpServerRow {
  id: string;
  scope: McpServer['scope'];
  owner_id: string;
  organization_id: string | null;
  workspace_id: string | null;
  user_id: string | null;
  name: string;
  entry: string;
  env_names: string;
  header_names: string;
  secrets: string | null;
  connection: number;
  created_by: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/** All of one owner's are read for every step that may use them. */
const mostOfOneOwner = 50;
const installation = 'installation';
const seenByAll = [installation];

export function mcpServerRepository({ database, clock, cursors }: StoreParts): McpServers {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, { limit, cursor, ...filters }) =>
      database.read(reach, async (sql) => {
        const listing = {
          name: 'mcp_servers',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts: partsOfOwners(() => sql('mcp_servers'), reach, seenByAll).map((part) =>
            filtered(part, filters),
          ),
        } as const;
        const page = await readPage<McpServerRow>(sql, cursors, listing, { limit, cursor });
        return { data: page.data.map(toStored), next_cursor: page.next_cursor };
      }),
    create: (reach, owner, server) =>
      database
        .write(writing(reach), async (sql) => {
          const row = rowOf(reach, owner, server, now());
          allow(reach, row);
          await refuseTooMany(sql, row.owner_id);
          await sql('mcp_servers').insert(row);
          record(sql, reach, 'create', null, row);
          await tell(sql, row, 'created', now());
          return toStored(row);
        })
        .catch(nameTaken(server.name)),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await seen(sql, reach, id).first();
        if (row) allow(reach, row);
        return row ? toStored(row) : null;
      }),
    mayChange: (reach, { scope, organizationId, workspaceId }) =>
      mayChange(reach, { scope, organization_id: organizationId, workspace_id: workspaceId }),
    replace: (reach, { id, revision }, { reconnects, ...content }, ifMatch) =>
      database
        .write(writing(reach), async (sql) => {
          const row = await lock(sql, reach, id, ifMatch);
          if (row.revision !== revision) return null;
          const connection = row.connection + (reconnects ? 1 : 0);
          const changes = { ...columnsOf(content), connection, revision: revision + 1, updated_at: now() };
          const changed = { ...row, ...changes };
          await sql<McpServerRow>('mcp_servers').where({ id }).update(changed);
          record(sql, reach, 'update', row, changed);
          await tell(sql, changed, 'updated', now());
          return toStored(changed);
        })
        .catch(nameTaken(content.name)),
    reconnect: (reach, id) =>
      database.write(writing(reach), async (sql) => {
        const row = await lock(sql, reach, id, undefined);
        const connection = row.connection + 1;
        await sql<McpServerRow>('mcp_servers').where({ id }).update({ connection });
        record(sql, reach, 'reconnect', null, row);
        await tell(sql, row, 'reconnected', now());
        return toStored({ ...row, connection });
      }),
    delete: (reach, id, ifMatch) =>
      database.write(writing(reach), async (sql) => {
        const row = await lock(sql, reach, id, ifMatch);
        await sql<McpServerRow>('mcp_servers').where({ id }).delete();
        record(sql, reach, 'delete', row, null);
        await tell(sql, row, 'deleted', now());
      }),
    forRuns: remembered(
      database,
      JSON.stringify,
      ({ userId, workspaceId, bound }: Parameters<McpServers['forRuns']>[0]) =>
        database.read('installation', async (sql) => {
          const organization = sql('workspaces').where({ id: workspaceId }).select('organization_id');
          const rows: (McpServerRow & { connected_at: number | null })[] = await sql('mcp_servers')
            .leftJoin('mcp_logins', (join) =>
              join.on('server_id', 'mcp_servers.id').andOnVal('mcp_logins.user_id', userId),
            )
            .select('mcp_servers.*', 'mcp_logins.connected_at')
            .whereIn('owner_id', [...(bound ? [] : [userId]), workspaceId, installation])
            .orWhere('owner_id', organization);
          return rows.sort(byPrecedence).map((row) => ({ ...toStored(row), loggedInAt: row.connected_at }));
        }),
    ),
    connections: (ids) =>
      database.read('installation', async (sql) => {
        const servers = await sql<McpServerRow>('mcp_servers')
          .whereIn('id', [...ids])
          .select('id', 'connection');
        const logins = await sql<{ server_id: string; user_id: string; connected_at: number }>('mcp_logins')
          .whereIn('server_id', [...ids])
          .select('server_id', 'user_id', 'connected_at');
        return new Map(
          servers.map(({ id, connection }) => {
            const own = logins.filter(({ server_id }) => server_id === id);
            return [id, { connection, logins: new Map(own.map((one) => [one.user_id, one.connected_at])) }];
          }),
        );
      }),
    loggedInAt: (id, userId) =>
      database.read('installation', async (sql) => {
        const row = await sql('mcp_logins').where({ server_id: id, user_id: userId }).first('connected_at');
        return row?.connected_at ?? null;
      }),
  };
}

const scopes: readonly McpServer['scope'][] = ['user', 'workspace', 'organization', 'installation'];

function byPrecedence(a: McpServerRow, b: McpServerRow): number {
  return scopes.indexOf(a.scope) - scopes.indexOf(b.scope) || (a.name < b.name ? -1 : 1);
}

/** Rows of the installation are written as the server itself does; what the operator may change, `allow` says. */
function writing(reach: Reach): Reach | 'installation' {
  return reach.operator ? 'installation' : reach;
}

function filtered(part: Knex.QueryBuilder, filters: McpServerFilters): Knex.QueryBuilder {
  const named = Object.entries(filters).filter(([, value]) => value !== undefined);
  return part.where(Object.fromEntries(named));
}

function seen(sql: Knex, reach: Reach, id: string) {
  const one = sql<McpServerRow>('mcp_servers').where({ id });
  return ofOwnersSeen(one, { ...reach, needs: 'viewer' }, seenByAll);
}

type OwnedRow = Pick<McpServerRow, 'scope' | 'organization_id' | 'workspace_id'>;

/** What is one's own needs no role. */
function allow(reach: Reach, { scope, organization_id, workspace_id }: OwnedRow): void {
  if (scope === 'user' && reach.workspaceId !== undefined)
    throw new Problem(
      'role_required',
      'This API key is bound to a workspace, and servers of the scope user are its person’s alone; use one that is not.',
    );
  if (scope === 'user') return;
  if (scope !== 'installation') requireRole(reach, { organization_id: organization_id ?? '', workspace_id });
  else if (!reach.operator && reach.needs === 'admin')
    throw new Problem('role_required', 'What the installation has, only its operator changes.');
}

function mayChange(reach: Reach, row: OwnedRow): boolean {
  try {
    allow({ ...reach, needs: 'admin' }, row);
    return true;
  } catch (error) {
    if (error instanceof Problem) return false;
    throw error;
  }
}

async function lock(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<McpServerRow> {
  const row = await seen(sql, reach, id).first();
  if (!row) throw notFound('MCP server');
  // Before it is locked: PostgreSQL locks no row for whoever may not write it.
  allow(reach, row);
  const locked = await sql<McpServerRow>('mcp_servers').where({ id }).forUpdate().first();
  if (!locked) throw notFound('MCP server');
  requireMatch(ifMatch, locked);
  return locked;
}

async function refuseTooMany(sql: Knex.Transaction, ownerId: string): Promise<void> {
  const rows = await sql('mcp_servers').where({ owner_id: ownerId }).limit(mostOfOneOwner).select('id');
  if (rows.length < mostOfOneOwner) return;
  throw new Problem(
    'too_many_settings',
    `There are ${mostOfOneOwner} MCP servers here already; delete one that is not needed.`,
  );
}

function nameTaken(name: string): (error: unknown) => never {
  return (error) => {
    if (!isDuplicate(error)) throw error;
    throw new Problem('name_taken', `There is an MCP server ${name} here already; choose another name.`);
  };
}

type Changed = Extract<WorkspaceEvent['event'], { type: 'mcp_server_changed' }>['change'];

/** Whoever works there is told; what is a person's own is nobody else's affair. */
async function tell(
  sql: Knex.Transaction,
  { id, name, scope, organization_id, workspace_id }: McpServerRow,
  change: Changed,
  now: number,
): Promise<void> {
  if (organization_id === null) return;
  const event = { type: 'mcp_server_changed', server_id: id, name, scope, change } as const;
  const place = { organizationId: organization_id, workspaceId: workspace_id };
  await tellWorkspaces(sql, place, { type: event.type, event }, now);
}

function record(
  sql: Knex.Transaction,
  reach: Reach,
  verb: 'create' | 'update' | 'delete' | 'reconnect',
  before: McpServerRow | null,
  after: McpServerRow | null,
): void {
  const row = after ?? before;
  recordAudit(sql, reach, {
    action: `mcp_server.${verb}`,
    target: { type: 'mcp_server', id: row?.id ?? null },
    // One that belongs to a person, or to all, is shown where whoever did it is at home.
    organizationId: row?.organization_id ?? reach.organizationIds[0] ?? null,
    ...(before && { before: told(before) }),
    ...(after && { after: told(after) }),
  });
}

/** That a secret has changed is told, what it is never; nor what is said to a command, which may hold one. */
function told({ scope, workspace_id, name, entry, env_names, header_names, secrets }: McpServerRow) {
  const { args, ...said } = readMcpEntry(entry).entry;
  return {
    ...{ scope, workspace_id, name },
    ...said,
    ...(args && { argument_count: args.length }),
    env_names: JSON.parse(env_names),
    header_names: JSON.parse(header_names),
    secrets,
  };
}

function rowOf(
  { userId }: Reach,
  owner: McpServerOwner,
  server: McpServerContent & { readonly id: string },
  now: number,
): McpServerRow {
  const { scope, organizationId, workspaceId } = owner;
  return {
    id: server.id,
    scope,
    owner_id: ownerIdOf(owner, userId),
    organization_id: organizationId,
    workspace_id: workspaceId,
    user_id: scope === 'user' ? userId : null,
    ...columnsOf(server),
    connection: 1,
    created_by: userId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function ownerIdOf({ scope, organizationId, workspaceId }: McpServerOwner, userId: string): string {
  const ids = { user: userId, workspace: workspaceId, organization: organizationId, installation };
  const id = ids[scope];
  if (id === null) throw new Error(`An MCP server of the scope ${scope} needs its owner`);
  return id;
}

function columnsOf({ name, entry, envNames, headerNames, secrets }: McpServerContent) {
  return {
    ...{ name, secrets },
    entry: JSON.stringify(entry),
    env_names: JSON.stringify(envNames),
    header_names: JSON.stringify(headerNames),
  };
}

function toStored(row: McpServerRow): StoredMcpServer {
  return {
    id: row.id,
    scope: row.scope,
    organizationId: row.organization_id,
    workspaceId: row.workspace_id,
    name: row.name,
    ...readMcpEntry(row.entry),
    envNames: JSON.parse(row.env_names),
    headerNames: JSON.parse(row.header_names),
    secrets: row.secrets,
    connection: row.connection,
    revision: row.revision,
    etag: etagOf(row),
    createdAt: timestamp(row.created_at),
    updatedAt: timestamp(row.updated_at),
  };
}
