/** MCP servers as an extension: those that the settings name and those that somebody keeps, started where and when they are used. */
import type { GetPromptResult } from '@modelcontextprotocol/client';
import type { McpServer } from '../../contract/config.ts';
import type { Extension, ExtensionParts, ExtensionPlace, ExtensionState } from '../extension.ts';
import { identityOf } from './entry.ts';
import { McpFailure } from './failure.ts';
import { HeldServers } from './held-servers.ts';
import type { ListedPrompt } from './listing.ts';
import { OwnConnections } from './own-connections.ts';
import type { OwnMcpServer } from './own-servers.ts';
import { resourceTools } from './resource-tools.ts';
import { ConnectedServer, type ServerTimes, serverTimes } from './server.ts';
import { type NamedServer, toolsOf } from './server-tools.ts';

/** A prompt that a server offers, for people to choose. */
export interface ServerPrompt extends ListedPrompt {
  readonly server: string;
}

/** What MCP can besides being an extension. */
export interface Mcp extends Extension {
  /**
   * One server of the settings, connected if it can be; null where they name none, or have it disabled. Rejects with
   * McpFailure where it cannot be tried.
   */
  connect(name: string, place: ExtensionPlace): Promise<ConnectedServer | null>;
  /** One that somebody keeps, connected if it can be. Rejects with McpFailure where it cannot be tried. */
  connectOwn(own: OwnMcpServer, place: ExtensionPlace): Promise<ConnectedServer>;
  /** The same beside all connections that there are; whoever asks closes it. */
  tryOwn(own: OwnMcpServer, place: ExtensionPlace): ConnectedServer;
  /** The names of all servers that are set there, usable or not: those of their tools depend on them. */
  namesIn(place: ExtensionPlace): readonly string[];
  stateOfOwn(own: OwnMcpServer, place: ExtensionPlace): Pick<ExtensionState, 'state' | 'detail'>;
  /** The servers of somebody to which there are connections. */
  heldOwn(): readonly string[];
  /** Ends the connections to a server that somebody keeps, or those that one person's login has opened. */
  endOwn(id: string, userId?: string): Promise<void>;
  /** What the servers offer to people. */
  prompts(place: ExtensionPlace): Promise<readonly ServerPrompt[]>;
  /** A prompt with its arguments filled in. Rejects with McpFailure. */
  prompt(
    wanted: {
      readonly server: string;
      readonly name: string;
      readonly values: Readonly<Record<string, string>>;
    },
    place: ExtensionPlace,
    signal: AbortSignal,
  ): Promise<GetPromptResult>;
}

/**
 * How many connections one process holds to servers that somebody keeps, and as many to those of the settings: neither takes
 * the room of the other. And how often it looks after the former.
 */
export const connectionBounds = { most: 500, lookMs: 3000 };

const full = 'this server has as many connections to MCP servers as it may; try again later';
const ownHint = 'log in to it with startMcpOauth';

/** Starts nothing yet. */
export function createMcp(
  parts: ExtensionParts,
  times: ServerTimes = serverTimes,
  bounds: typeof connectionBounds = connectionBounds,
): Mcp {
  let settings = parts.first;
  const named = new HeldServers<{ readonly name: string; readonly mark: string }>(bounds.most);
  let closed = false;
  const { marks } = parts.ownMcpServers;
  const own = new OwnConnections({ marks, log: parts.log, ...bounds });

  const entries = (): [string, McpServer][] =>
    Object.entries(settings.config.mcp ?? {}).filter(([, entry]) => !entry.disabled);

  /** Those of the settings that no nearer server of the same name stands for. */
  const leftIn = ({ ownMcpServers = [] }: ExtensionPlace): [string, McpServer][] =>
    entries().filter(([name]) => !ownMcpServers.some((nearer) => nearer.name === name));

  const namesIn = ({ ownMcpServers = [] }: ExtensionPlace): string[] => [
    ...ownMcpServers.map(({ name }) => name),
    ...Object.keys(settings.config.mcp ?? {}),
  ];

  const usableIn = ({ ownMcpServers = [] }: ExtensionPlace) =>
    ownMcpServers.filter(({ entry, fault }) => !entry.disabled && fault === null);

  const keyOf = (name: string, entry: McpServer, place: ExtensionPlace) =>
    JSON.stringify([name, pathFor(entry, place)]);

  const find = (name: string, entry: McpServer, place: ExtensionPlace) =>
    named.find(keyOf(name, entry, place), markNow(entry));

  const sandbox = () => (settings.shared ? parts.sandbox : null);

  const serverFor = (name: string, entry: McpServer, place: ExtensionPlace): ConnectedServer | null =>
    named.serverFor(
      keyOf(name, entry, place),
      { name, mark: markNow(entry) },
      () =>
        new ConnectedServer(entry, {
          ...parts,
          name,
          giver: 'operator',
          loginHint: `a person logs in with: service mcp login ${name}`,
          workspacePath: place.workspacePath,
          sandbox: sandbox(),
          logins: parts.mcpLogins,
          times,
        }),
    );

  const madeOf = ({ name, entry, logins }: OwnMcpServer, { workspacePath }: ExtensionPlace) =>
    new ConnectedServer(entry, {
      ...parts,
      ...{ name, workspacePath, logins, times },
      // Nobody's values are expanded but those of files.
      expand: async (value) => value,
      giver: 'account',
      loginHint: ownHint,
      sandbox: sandbox(),
    });

  const pathOf = ({ entry }: OwnMcpServer, place: ExtensionPlace) => pathFor(entry, place);

  const markNow = (entry: McpServer) => `${isLocal(entry) && settings.shared} ${identityOf(entry)}`;

  const allIn = (place: ExtensionPlace): NamedServer[] => {
    if (closed) return [];
    const kept = usableIn(place).flatMap((one) => {
      const server = own.serverFor(one, pathOf(one, place), () => madeOf(one, place));
      return server ? [{ name: one.name, server }] : [];
    });
    const fromSettings = leftIn(place).flatMap(([name, entry]) => {
      const server = serverFor(name, entry, place);
      return server ? [{ name, server }] : [];
    });
    return [...kept, ...fromSettings];
  };

  const used = async (place: ExtensionPlace): Promise<NamedServer[]> => {
    const servers = allIn(place);
    await Promise.all(servers.map(({ server }) => server.use()));
    return servers;
  };

  const runningIn = (place: ExtensionPlace): { name: string; server: ConnectedServer | null }[] => [
    ...usableIn(place).map((one) => ({ name: one.name, server: own.find(one, pathOf(one, place)) })),
    ...leftIn(place).map(([name, entry]) => ({ name, server: find(name, entry, place) })),
  ];

  const stateOfOwn = (one: OwnMcpServer, place: ExtensionPlace): Pick<ExtensionState, 'state' | 'detail'> => {
    if (one.entry.disabled) return { state: 'disabled', detail: null };
    if (one.fault !== null) return { state: 'failed', detail: one.fault };
    return own.find(one, pathOf(one, place))?.state ?? stateOfNone(own);
  };

  const connectOwn = async (one: OwnMcpServer, place: ExtensionPlace): Promise<ConnectedServer> => {
    if (one.fault !== null) throw new McpFailure(one.fault);
    const server = closed ? null : own.serverFor(one, pathOf(one, place), () => madeOf(one, place));
    if (!server) throw new McpFailure(full);
    await server.use();
    return server;
  };

  return {
    name: 'mcp',
    async apply(next) {
      // Where many come to share the server, what ran as one person's own does not go on.
      const becameShared = next.shared && !settings.shared;
      settings = next;
      const wanted = new Map(entries());
      const gone = named.end(({ facts, server }) => {
        const entry = wanted.get(facts.name);
        if (!entry || markNow(entry) !== facts.mark) return true;
        server.entry = entry;
        return false;
      });
      await Promise.all([gone, becameShared && own.endAll()]);
    },
    async tools(place) {
      const servers = await used(place);
      return [...toolsOf(servers, namesIn(place)), ...resourceTools(servers)];
    },
    async instructions(place) {
      const said = runningIn(place).flatMap(({ name, server }) => {
        const text = server?.listing?.instructions;
        return text ? [`The MCP server ${name} says about its tools:\n${text}`] : [];
      });
      return said.join('\n\n');
    },
    states(place) {
      const kept = (place.ownMcpServers ?? []).map((one) => ({ name: one.name, ...stateOfOwn(one, place) }));
      const taken = new Set(kept.map(({ name }) => name));
      const fromSettings = Object.entries(settings.config.mcp ?? {}).map(([name, entry]): ExtensionState => {
        if (entry.disabled) return { name, state: 'disabled', detail: null };
        return { name, ...(find(name, entry, place)?.state ?? stateOfNone(named)) };
      });
      return [...kept, ...fromSettings.filter(({ name }) => !taken.has(name))];
    },
    async connect(name, place) {
      const entry = new Map(entries()).get(name);
      if (!entry || closed) return null;
      const server = serverFor(name, entry, place);
      if (!server) throw new McpFailure(full);
      await server.use();
      return server;
    },
    connectOwn,
    tryOwn: madeOf,
    namesIn,
    stateOfOwn,
    heldOwn: () => own.ids,
    endOwn: (id, userId) => own.end(id, userId),
    async prompts(place) {
      const servers = await used(place);
      return servers.flatMap(({ name, server }) =>
        (server.listing?.prompts ?? []).map((prompt) => ({ ...prompt, server: name })),
      );
    },
    async prompt({ server, name, values }, place, signal) {
      const found = allIn(place).find((one) => one.name === server);
      if (!found) throw new McpFailure(`the settings name no MCP server ${server}, or have it disabled`);
      return await found.server.request(
        (client, options) => client.getPrompt({ name, arguments: { ...values } }, options),
        signal,
      );
    },
    async close() {
      closed = true;
      await Promise.all([named.end(() => true), own.close()]);
    },
  };
}

/** The state of a server to which there is no connection. */
function stateOfNone({ hasRoom }: { readonly hasRoom: boolean }): Pick<ExtensionState, 'state' | 'detail'> {
  return hasRoom ? { state: 'idle', detail: null } : { state: 'failed', detail: full };
}

/** A remote server serves every workspace. */
function pathFor(entry: McpServer, { workspacePath }: ExtensionPlace): string | null {
  return isLocal(entry) ? workspacePath : null;
}

function isLocal({ type = 'stdio' }: McpServer): boolean {
  return type === 'stdio';
}
