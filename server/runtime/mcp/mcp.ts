/** MCP servers as an extension: those that the settings name, started where and when they are used. */
import type { GetPromptResult, Prompt } from '@modelcontextprotocol/client';
import type { McpServer } from '../../contract/config.ts';
import type { Extension, ExtensionParts, ExtensionPlace, ExtensionState } from '../extension.ts';
import { identityOf } from './entry.ts';
import { McpFailure } from './failure.ts';
import { resourceTools } from './resource-tools.ts';
import { ConnectedServer, type ServerTimes, serverTimes } from './server.ts';
import { type NamedServer, toolsOf } from './server-tools.ts';

/** A prompt that a server offers, for people to choose. */
export interface ServerPrompt extends Prompt {
  readonly server: string;
}

/** What MCP can besides being an extension. */
export interface Mcp extends Extension {
  /** One server, connected if it can be; null where the settings name none, or have it disabled. */
  connect(name: string, place: ExtensionPlace): Promise<ConnectedServer | null>;
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

interface Running {
  readonly name: string;
  readonly identity: string;
  /** Null where it serves every workspace. */
  readonly workspacePath: string | null;
  readonly server: ConnectedServer;
}

/** Starts nothing yet. */
export function createMcp(parts: ExtensionParts, times: ServerTimes = serverTimes): Mcp {
  let settings = parts.first;
  const running = new Map<string, Running>();
  let closed = false;

  const entries = (): [string, McpServer][] =>
    Object.entries(settings.config.mcp ?? {}).filter(([, entry]) => !entry.disabled);

  const find = (name: string, entry: McpServer, place: ExtensionPlace) => {
    const workspacePath = isLocal(entry) ? place.workspacePath : null;
    return { key: JSON.stringify([name, workspacePath]), workspacePath };
  };

  const serverFor = (name: string, entry: McpServer, place: ExtensionPlace): ConnectedServer => {
    const { key, workspacePath } = find(name, entry, place);
    const found = running.get(key);
    if (found) return found.server;
    const server = new ConnectedServer(entry, {
      ...parts,
      name,
      workspacePath: place.workspacePath,
      sandbox: settings.shared ? parts.sandbox : null,
      logins: parts.mcpLogins,
      times,
    });
    running.set(key, { name, identity: identityNow(entry), workspacePath, server });
    return server;
  };

  const identityNow = (entry: McpServer) => `${isLocal(entry) && settings.shared} ${identityOf(entry)}`;

  const allIn = (place: ExtensionPlace): NamedServer[] =>
    closed ? [] : entries().map(([name, entry]) => ({ name, server: serverFor(name, entry, place) }));

  const used = async (place: ExtensionPlace): Promise<NamedServer[]> => {
    const servers = allIn(place);
    await Promise.all(servers.map(({ server }) => server.use()));
    return servers;
  };

  return {
    name: 'mcp',
    async apply(next) {
      settings = next;
      const wanted = new Map(entries());
      const gone = [...running].filter(([key, { name, identity, server }]) => {
        const entry = wanted.get(name);
        if (!entry || identityNow(entry) !== identity) return running.delete(key);
        server.entry = entry;
        return false;
      });
      await Promise.all(gone.map(([, { server }]) => server.close()));
    },
    async tools(place) {
      const servers = await used(place);
      return [...toolsOf(servers), ...resourceTools(servers)];
    },
    async instructions(place) {
      const said = entries().flatMap(([name, entry]) => {
        const text = running.get(find(name, entry, place).key)?.server.listing?.instructions;
        return text ? [`The MCP server ${name} says about its tools:\n${text}`] : [];
      });
      return said.join('\n\n');
    },
    states: (place) =>
      Object.entries(settings.config.mcp ?? {}).map(([name, entry]): ExtensionState => {
        if (entry.disabled) return { name, state: 'disabled', detail: null };
        const found = running.get(find(name, entry, place).key);
        return { name, ...(found?.server.state ?? { state: 'idle', detail: null }) };
      }),
    async connect(name, place) {
      const entry = new Map(entries()).get(name);
      if (!entry || closed) return null;
      const server = serverFor(name, entry, place);
      await server.use();
      return server;
    },
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
      const all = [...running.values()];
      running.clear();
      await Promise.all(all.map(({ server }) => server.close()));
    },
  };
}

function isLocal({ type = 'stdio' }: McpServer): boolean {
  return type === 'stdio';
}
