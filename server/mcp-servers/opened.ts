/** MCP servers with their secrets opened, as runs use them, or why they cannot. */
import type { McpServer } from '../contract/config.ts';
import type { McpServersParts } from './parts.ts';
import { type KeptLogins, openSecrets, type ServerSecrets, type StoredServer } from './stored.ts';

/** What the runtime is told of one; its `OwnMcpServer` asks for nothing more. */
export interface OpenedServer {
  readonly id: string;
  readonly name: string;
  readonly entry: McpServer;
  readonly mark: string;
  readonly userId: string | null;
  readonly logins: KeptLogins;
  readonly fault: string | null;
}

/** Never throws for what is stored: one that does not work is told of in its own place. */
export function openServer(
  parts: Pick<McpServersParts, 'sealing' | 'refusalOf' | 'loginsOf' | 'log'>,
  stored: StoredServer,
  userId: string,
): OpenedServer {
  const secrets = openedSecrets(parts, stored);
  const entry = { ...stored.entry, ...secrets };
  return {
    id: stored.id,
    name: stored.name,
    entry,
    mark: markOf(stored.connection, mayNeedLogin(entry) ? stored.loggedInAt : null),
    userId: mayNeedLogin(entry) ? userId : null,
    logins: parts.loginsOf(stored.id, userId),
    fault: faultOf(parts, stored, secrets),
  };
}

export function markOf(connection: number, loggedInAt: number | null | undefined): string {
  return `${connection} ${loggedInAt ?? ''}`;
}

/** A credential of the setting's own counts for all who use it; without one each is on their own. */
function mayNeedLogin({ type, headers = {} }: McpServer): boolean {
  // An empty value is not sent, and says nothing of who asks.
  const hasCredential = Object.entries(headers).some(
    ([name, value]) => name.toLowerCase() === 'authorization' && value !== '',
  );
  return (type === 'http' || type === 'sse') && !hasCredential;
}

function faultOf(
  { refusalOf }: Pick<McpServersParts, 'refusalOf'>,
  { entry, strange: [strange] }: StoredServer,
  secrets: ServerSecrets | null,
): string | null {
  if (strange !== undefined)
    return strange === ''
      ? 'this version of the server cannot read what is stored of it: delete it, and make another'
      : `this version of the server cannot read ${strange}: write it again`;
  if (secrets === null)
    return 'its secrets cannot be opened with the master key of this server: write them again';
  // The server may have become one for many since it was written.
  const refused = entry.url === undefined ? null : refusalOf(entry.url);
  return refused && `its url is refused: ${refused.message.replace(/\.$/, '')}`;
}

/** Null where they cannot be opened. */
export function openedSecrets(
  { sealing, log }: Pick<McpServersParts, 'sealing' | 'log'>,
  stored: StoredServer,
): ServerSecrets | null {
  try {
    return openSecrets(sealing, stored);
  } catch (error) {
    log.warn({ err: error, mcp_server_id: stored.id }, 'the secrets of an MCP server cannot be opened');
    return null;
  }
}
