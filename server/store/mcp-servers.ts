/** MCP servers that people, admins and the operator keep on the server: whose they are, and who may change them. */
import type { Knex } from 'knex';
import type { McpServer, WorkspaceEvent } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { requireMatch } from './etag.ts';
import {
  installation,
  type McpServerContent,
  type McpServerOwner,
  type McpServerRow,
  type StoredMcpServer,
  serverColumns,
  toldServer,
  toServerRow,
  toStoredServer,
} from './mcp-server-rows.ts';
import { ofOwnersSeen, partsOfOwners } from './owners-seen.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { remembered } from './remembered.ts';
import { tellWorkspaces } from './workspace-events.ts';

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

/** All of one owner's are read for every step that may use them. */
const mostOfOneOwner = 50;
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
        return { data: page.data.map(toStoredServer), next_cursor: page.next_cursor };
      }),
    create: (reach, owner, server) =>
      database
        .write(writing(reach), async (sql) => {
          const row = toServerRow(reach, owner, server, now());
          allow(reach, row);
          await refuseTooMany(sql, row.owner_id);
          await sql('mcp_servers').insert(row);
          record(sql, reach, 'create', null, row);
          await tell(sql, row, 'created', now());
          return toStoredServer(row);
        })
        .catch(nameTaken(server.name)),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await seen(sql, reach, id).first();
        if (row) allow(reach, row);
        return row ? toStoredServer(row) : null;
      }),
    mayChange: (reach, { scope, organizationId, workspaceId }) =>
      mayChange(reach, { scope, organization_id: organizationId, workspace_id: workspaceId }),
    replace: (reach, { id, revision }, { reconnects, ...content }, ifMatch) =>
      database
        .write(writing(reach), async (sql) => {
          const row = await lock(sql, reach, id, ifMatch);
          if (row.revision !== revision) return null;
          const connection = row.connection + (reconnects ? 1 : 0);
          const changes = {
            ...serverColumns(content),
            connection,
            revision: revision + 1,
            updated_at: now(),
          };
          const changed = { ...row, ...changes };
          await sql<McpServerRow>('mcp_servers').where({ id }).update(changed);
          record(sql, reach, 'update', row, changed);
          await tell(sql, changed, 'updated', now());
          return toStoredServer(changed);
        })
        .catch(nameTaken(content.name)),
    reconnect: (reach, id) =>
      database.write(writing(reach), async (sql) => {
        const row = await lock(sql, reach, id, undefined);
        const connection = row.connection + 1;
        await sql<McpServerRow>('mcp_servers').where({ id }).update({ connection });
        record(sql, reach, 'reconnect', null, row);
        await tell(sql, row, 'reconnected', now());
        return toStoredServer({ ...row, connection });
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
      ({ userId, workspaceId, bound = false }) => `${userId} ${workspaceId} ${bound}`,
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
          return rows
            .sort(byPrecedence)
            .map((row) => ({ ...toStoredServer(row), loggedInAt: row.connected_at }));
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
    ...(before && { before: toldServer(before) }),
    ...(after && { after: toldServer(after) }),
  });
}
