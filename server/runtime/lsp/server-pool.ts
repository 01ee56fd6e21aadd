/** The language servers of all workspaces of a runtime. */

import type { ExtensionSettings } from '../extension.ts';
import { createLanguageServer, type LanguageServer, type ServerParts } from './language-server.ts';
import { automaticServers, type ChosenServer, namedServers, serversFor } from './server-choice.ts';

/** More at once would fill the machine; the one longest unused ends then. */
const mostServers = 24;

export interface ServerPool {
  /** The servers for a file, in order; none is started by this. */
  serversFor(path: string, workspacePath: string): readonly LanguageServer[];
  /** Those of a workspace that were used before. */
  known(workspacePath: string): readonly LanguageServer[];
  /** Ends what these settings no longer hold as it is. */
  apply(settings: ExtensionSettings): Promise<void>;
  close(): Promise<void>;
}

/** Builds the pool; `settings` are asked anew at each use. */
export function createServerPool(settings: () => ExtensionSettings, parts: ServerParts): ServerPool {
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
    makeRoom(made);
    return made;
  };

  const makeRoom = (made: LanguageServer) => {
    if (servers.size <= mostServers) return;
    const others = [...servers].filter(([, server]) => server !== made);
    const [oldest] = others.sort(([, one], [, other]) => one.lastUsed - other.lastUsed);
    if (oldest) void end(...oldest, true);
  };

  return {
    serversFor(path, workspacePath) {
      if (closed) return [];
      const { config, shared } = settings();
      return serversFor(path, workspacePath, config, shared).map((chosen) => serverOf(chosen, workspacePath));
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
