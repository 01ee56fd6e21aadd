/** The language servers of all workspaces of a runtime. */

import type { ExtensionSettings } from '../extension.ts';
import { createLanguageServer, type LanguageServer, type ServerParts } from './language-server.ts';
import { automaticServers, type ChosenServer, namedServers, serversFor } from './server-choice.ts';

/** More at once would fill the machine. */
export const mostServers = 24;

export interface ServerPool {
  /** The servers for a file, in order; none is started by this. */
  serversFor(path: string, workspacePath: string): readonly LanguageServer[];
  /** Those of a workspace that were used before. */
  known(workspacePath: string): readonly LanguageServer[];
  /** Ends what these settings no longer hold as it is. */
  apply(settings: ExtensionSettings): Promise<void>;
  close(): Promise<void>;
}

/** Builds the pool of so many at most; `settings` are asked anew at each use. */
export function createServerPool(
  settings: () => ExtensionSettings,
  parts: ServerParts,
  most: number,
): ServerPool {
  const servers = new Map<string, LanguageServer>();
  let closed = false;

  const ending = new Set<Promise<void>>();
  const end = (key: string, server: LanguageServer, politely: boolean): Promise<void> => {
    servers.delete(key);
    const stopped = server
      .stop(politely)
      .catch((error) => parts.log.error({ err: error, lsp: server.definition.name }, 'it did not end'))
      .finally(() => ending.delete(stopped));
    ending.add(stopped);
    return stopped;
  };

  const serverOf = ({ definition, root }: ChosenServer, workspacePath: string): LanguageServer => {
    const key = [workspacePath, root, definition.name].join('\0');
    const present = servers.get(key);
    if (present?.definition.fingerprint === definition.fingerprint) return present;
    if (present) void end(key, present, false);
    const made = createLanguageServer(definition, { workspacePath, root }, parts);
    servers.set(key, made);
    return made;
  };

  const makeRoom = (wanted: readonly LanguageServer[]) => {
    if (servers.size <= most) return;
    const others = inTheirOrder([...servers.values()]).filter((server) => !wanted.includes(server));
    const excess = new Set(others.slice(0, servers.size - most));
    for (const [key, server] of [...servers]) if (excess.has(server)) void end(key, server, true);
  };

  return {
    serversFor(path, workspacePath) {
      if (closed) return [];
      const { config, shared } = settings();
      const chosen = serversFor(path, workspacePath, config, shared);
      const wanted = chosen.map((one) => serverOf(one, workspacePath));
      makeRoom(wanted);
      return wanted;
    },
    known: (workspacePath) =>
      [...servers.values()].filter((server) => server.workspacePath === workspacePath),
    async apply({ config }) {
      const current = [...namedServers(config), ...automaticServers(config)];
      const valid = new Set(current.map(({ fingerprint }) => fingerprint));
      const gone = [...servers].filter(([, { definition }]) => !valid.has(definition.fingerprint));
      await Promise.all(gone.map(([key, server]) => end(key, server, false)));
    },
    async close() {
      closed = true;
      await Promise.all([...servers].map(([key, server]) => end(key, server, true)));
      await Promise.all(ending);
    },
  };
}

/**
 * Which of them ends first where there are too many: what has no process, then what nobody waits for, of the workspace
 * that has the most; the one longest unused. So a workspace of many projects makes room for itself, and not at the cost
 * of others.
 */
function inTheirOrder(servers: readonly LanguageServer[]): readonly LanguageServer[] {
  const counts = new Map<string, number>();
  for (const { workspacePath } of servers) counts.set(workspacePath, (counts.get(workspacePath) ?? 0) + 1);
  const rank = (server: LanguageServer) => [
    Number(['ready', 'starting'].includes(server.state().state)),
    Number(server.busy),
    -(counts.get(server.workspacePath) ?? 0),
    server.lastUsed,
  ];
  return servers
    .map((server) => ({ server, rank: rank(server) }))
    .sort((one, other) => compared(one.rank, other.rank))
    .map(({ server }) => server);
}

/** By the first number that differs. */
function compared(one: readonly number[], other: readonly number[]): number {
  return one.map((number, at) => number - (other[at] ?? 0)).find((difference) => difference !== 0) ?? 0;
}
