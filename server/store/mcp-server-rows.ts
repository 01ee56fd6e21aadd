/** Rows of MCP servers: as they are stored, what is read of them, and what is told. */
import type { McpServer } from '../contract/api.ts';
import type { McpServer as McpEntry } from '../contract/config.ts';
import { etagOf } from './etag.ts';
import type { Reach } from './reach.ts';
import { readMcpEntry } from './settings-entry.ts';
import { timestamp } from './timestamps.ts';

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

export interface McpServerRow {
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

/** Owns what everybody has. */
export const installation = 'installation';

/** That a secret has changed is told, what it is never; nor what is said to a command, which may hold one. */
export function toldServer({
  scope,
  workspace_id,
  name,
  entry,
  env_names,
  header_names,
  secrets,
}: McpServerRow) {
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

export function toServerRow(
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
    ...serverColumns(server),
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

export function serverColumns({ name, entry, envNames, headerNames, secrets }: McpServerContent) {
  return {
    ...{ name, secrets },
    entry: JSON.stringify(entry),
    env_names: JSON.stringify(envNames),
    header_names: JSON.stringify(headerNames),
  };
}

export function toStoredServer(row: McpServerRow): StoredMcpServer {
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
