/** An MCP server as the store keeps it, and what of it is sealed. */
import type { McpServer } from '../contract/api.ts';
import type { McpServer as McpEntry } from '../contract/config.ts';

export interface ServerContent {
  readonly name: string;
  /** As an entry of service.json has it, without secrets. */
  readonly entry: McpEntry;
  readonly envNames: readonly string[];
  readonly headerNames: readonly string[];
  /** Sealed; null where there are none. */
  readonly secrets: string | null;
}

export interface StoredServer extends ServerContent {
  readonly id: string;
  readonly scope: McpServer['scope'];
  readonly organizationId: string | null;
  readonly workspaceId: string | null;
  /** The members of its entry that this version cannot read, and that are left out of it. */
  readonly strange: readonly string[];
  readonly connection: number;
  readonly loggedInAt?: number | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What is kept of one person's login to one server; the runtime's `LoginKeeper` asks for nothing more. */
export interface KeptLogins {
  /** How long `locked` is sure to keep others away. */
  readonly holdsMs: number;
  read(server: string): Promise<string | null>;
  write(server: string, secret: string): Promise<void>;
  remove(server: string): Promise<void>;
  locked<Result>(server: string, action: () => Promise<Result>): Promise<Result>;
}

/** What is never told. */
export type ServerSecrets = Pick<McpEntry, 'env' | 'headers'>;

/** Seals secrets and opens them in the row that they belong to. */
export interface Sealing {
  seal(secret: Uint8Array, rowId: string): string;
  /** Throws where it cannot be opened with the master key of this server. */
  open(sealed: string, rowId: string): Buffer;
}

export function sealSecrets(sealing: Sealing, id: string, secrets: ServerSecrets): string | null {
  if (Object.keys(secrets).length === 0) return null;
  return sealing.seal(Buffer.from(JSON.stringify(secrets)), rowId(id));
}

export function openSecrets(
  sealing: Sealing,
  { id, secrets }: Pick<StoredServer, 'id' | 'secrets'>,
): ServerSecrets {
  // What was sealed here, and cannot have been changed since.
  return secrets === null ? {} : (JSON.parse(sealing.open(secrets, rowId(id)).toString()) as ServerSecrets);
}

function rowId(id: string): string {
  return `mcp_servers/${id}`;
}
