/** The MCP servers that people, admins and the operator keep on the server: how they are written, shown, and used. The face of this folder. */
import type { McpServer, McpServerCreate, McpServerUpdate } from '../contract/api.ts';

export { keptLogins } from './login-keeper.ts';
export { createMcpLogins, type McpLogins } from './logins.ts';

import { markOf, type OpenedServer, openServer } from './opened.ts';
import type { McpServersParts } from './parts.ts';
import type { ServerContent, StoredServer } from './stored.ts';
import { changeServer, writeServer } from './written.ts';

/** What a caller is told of a server besides what it says itself. */
export interface ServerView {
  /** Whether they run the installation. */
  readonly operator: boolean;
  /** Whether they may change the server. */
  readonly mayChange: boolean;
  readonly state: Pick<McpServer, 'state' | 'detail'>;
}

export interface McpServers {
  /** What is to be stored of a new one. Throws `invalid_request` or `restricted_section`. */
  write(id: string, body: McpServerCreate, writer: { readonly operator: boolean }): ServerContent;
  /** What is to be stored of one that a merge patch changes. Throws `invalid_request` or `restricted_section`. */
  change(
    stored: StoredServer,
    patch: McpServerUpdate,
    writer: { readonly operator: boolean },
  ): ServerContent & { readonly reconnects: boolean };
  /** As it is used for a person. */
  open(stored: StoredServer, userId: string): Promise<OpenedServer>;
  /** Everything but its secrets. */
  show(stored: StoredServer, view: ServerView): McpServer;
  /** What counts for somebody in a workspace: of each name the nearest. */
  of(asker: {
    readonly userId: string;
    readonly workspaceId: string;
    readonly bound?: boolean | undefined;
  }): Promise<readonly OpenedServer[]>;
  marks(held: readonly Pick<OpenedServer, 'id' | 'userId'>[]): Promise<readonly (string | null)[]>;
}

export function createMcpServers(parts: McpServersParts): McpServers {
  const { records } = parts;
  return {
    write: (id, body, writer) => writeServer(parts, id, body, writer),
    change: (stored, patch, writer) => changeServer(parts, stored, patch, writer),
    async open(stored, userId) {
      const loggedInAt = await records.loggedInAt(stored.id, userId);
      return openServer(parts, { ...stored, loggedInAt }, userId);
    },
    show: showServer,
    async of({ userId, workspaceId, bound = false }) {
      const nearest = new Map<string, StoredServer>();
      for (const stored of await records.forRuns({ userId, workspaceId, bound }))
        if (!nearest.has(stored.name)) nearest.set(stored.name, stored);
      return [...nearest.values()].map((stored) => openServer(parts, stored, userId));
    },
    async marks(held) {
      const connections = await records.connections([...new Set(held.map(({ id }) => id))]);
      return held.map(({ id, userId }) => {
        const found = connections.get(id);
        return found ? markOf(found.connection, userId === null ? null : found.logins.get(userId)) : null;
      });
    },
  };
}

function showServer(stored: StoredServer, { operator, mayChange, state }: ServerView): McpServer {
  const { entry } = stored;
  return {
    id: stored.id,
    scope: stored.scope,
    organization_id: stored.organizationId,
    workspace_id: stored.workspaceId,
    name: stored.name,
    type: entry.type ?? 'stdio',
    command: operator ? (entry.command ?? null) : null,
    args: operator ? [...(entry.args ?? [])] : [],
    env_names: [...stored.envNames],
    url: mayChange ? (entry.url ?? null) : null,
    header_names: [...stored.headerNames],
    timeout: entry.timeout ?? usualTimeout,
    enabled_tools: entry.enabled_tools ? [...entry.enabled_tools] : null,
    disabled_tools: [...(entry.disabled_tools ?? [])],
    disabled: entry.disabled ?? false,
    ...state,
    created_at: stored.createdAt,
    updated_at: stored.updatedAt,
  };
}

/** In seconds. */
const usualTimeout = 15;
