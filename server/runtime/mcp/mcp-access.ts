/** MCP servers without an agent: to examine them, to log in to them, and to use their prompts. */
import { performance } from 'node:perf_hooks';
import type { ClientConfig, McpServer } from '../../contract/config.ts';
import type { Log } from '../../log.ts';
import { createOutbound, fetchFrom } from '../../outbound/outbound.ts';
import type { ExpandSetting, ExtensionPlace } from '../extension.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { textOfBlock } from './content.ts';
import { offers, resolveEntry } from './entry.ts';
import { McpFailure } from './failure.ts';
import { describeServer, missingOf } from './listing.ts';
import { type Browser, logIn } from './login.ts';
import type { LoginKeeper } from './login-keeper.ts';
import { createMcp } from './mcp.ts';
import { noOwnServers } from './own-servers.ts';
import { nameTools } from './tool-names.ts';

/** What somebody needs to reach the servers of his settings. */
export interface McpAccessParts extends ExtensionPlace {
  readonly config: ClientConfig;
  readonly expand: ExpandSetting;
  readonly logins: LoginKeeper;
  readonly log: Log;
}

/** What a server turned out to be. */
export interface McpExamination {
  readonly ok: boolean;
  /** Why it cannot be used; null where it can. */
  readonly fault: string | null;
  /** Its name, version and protocol, as it says them. */
  readonly server: string | null;
  readonly seconds: number;
  /** Under the names that models know, those that the settings leave. */
  readonly tools: readonly {
    readonly name: string;
    readonly description: string;
    readonly enabled: boolean;
  }[];
  readonly has_resources: boolean;
  readonly prompts: readonly string[];
  /** What is missing of it, as the rest of a sentence about it; null where nothing is. */
  readonly missing: string | null;
  /** What its process wrote to standard error last. */
  readonly last_words: string;
}

/** A prompt, as a person chooses one. */
export interface McpPrompt {
  readonly server: string;
  readonly name: string;
  readonly description: string;
  readonly arguments: readonly { readonly name: string; readonly required: boolean }[];
}

export interface McpAccess {
  /** Null where the settings name no such server, or have it disabled. */
  examine(name: string): Promise<McpExamination | null>;
  /** Where it is, which its login is known by; nothing else of its entry is resolved. Rejects with McpFailure. */
  address(name: string): Promise<URL>;
  /** The port that the login of this server has to come back to; any if null. Rejects with McpFailure. */
  callbackPort(name: string): Promise<number | null>;
  /** Logs in to a remote server. Rejects with McpFailure. */
  logIn(name: string, browser: Browser): Promise<void>;
  prompts(): Promise<readonly McpPrompt[]>;
  /** The text of a prompt. Rejects with McpFailure. */
  prompt(server: string, name: string, values: Readonly<Record<string, string>>): Promise<string>;
  close(): Promise<void>;
}

const promptLimitMs = 60_000;

/** Connects to nothing yet. */
export function openMcpAccess(parts: McpAccessParts): McpAccess {
  const { config, expand, logins, log } = parts;
  const outbound = createOutbound({ shared: () => false });
  const mcp = createMcp({
    first: { config, shared: false },
    sandbox: { unavailable: 'it is not needed for one person' },
    hiddenPaths: [],
    contextFiles: [],
    skillFolders: [],
    mcpLogins: logins,
    ownMcpServers: noOwnServers,
    ...{ expand, outbound, log },
  });

  const entryOf = (name: string): McpServer => {
    const entry = config.mcp?.[name];
    if (!entry) throw new McpFailure(`the settings name no MCP server ${name}`);
    return entry;
  };
  const remote = async (name: string, entry = entryOf(name)) => {
    const isLocal = (entry.type ?? 'stdio') === 'stdio';
    const target = isLocal
      ? null
      : await resolveEntry(name, entry, expand, AbortSignal.timeout(promptLimitMs));
    if (target === null || target.type === 'stdio')
      throw new McpFailure('it is a process of this machine, which needs no login');
    return target;
  };

  return {
    async examine(name) {
      const begun = performance.now();
      const server = await mcp.connect(name, parts);
      if (!server) return null;
      const seconds = Math.round(performance.now() - begun) / 1000;
      const { listing, lastWords: last_words } = server;
      const base = { seconds, last_words };
      if (!listing) {
        const fault = server.state.detail ?? 'it is not connected';
        const nothing = { tools: [], has_resources: false, prompts: [], missing: null };
        return { ...base, ok: false, fault, server: null, ...nothing };
      }
      return {
        ...{ ...base, ok: true, fault: null, server: describeServer(listing) },
        tools: toolsIn(name, server.entry, listing.tools, mcp.namesIn(parts)),
        has_resources: listing.hasResources,
        prompts: listing.prompts.map((prompt) => prompt.name),
        missing: missingOf(listing),
      };
    },
    async address(name) {
      const { type, url } = entryOf(name);
      return (await remote(name, { ...(type && { type }), ...(url !== undefined && { url }) })).url;
    },
    callbackPort: async (name) => (await remote(name)).oauth.callbackPort ?? null,
    async logIn(name, browser) {
      const { url, oauth } = await remote(name);
      await logIn(url, oauth, logins, boundedFetch(fetchFrom(url, outbound, 'operator')), browser);
    },
    async prompts() {
      return (await mcp.prompts(parts)).map(
        ({ server, name, title, description, arguments: values = [] }) => ({
          ...{ server, name, description: description ?? title ?? '' },
          arguments: values.map((value) => ({ name: value.name, required: value.required ?? false })),
        }),
      );
    },
    async prompt(server, name, values) {
      const { messages } = await mcp.prompt(
        { server, name, values },
        parts,
        AbortSignal.timeout(promptLimitMs),
      );
      return messages.map(({ content }) => textOfBlock(content)).join('\n\n');
    },
    async close() {
      await mcp.close();
      await outbound.close();
    },
  };
}

function toolsIn(
  server: string,
  entry: McpServer,
  tools: readonly { readonly name: string; readonly description?: string | undefined }[],
  servers: readonly string[],
): McpExamination['tools'] {
  const named = nameTools(
    tools.map((listed) => ({ server, tool: listed.name, listed })),
    servers,
  );
  return [...named].map(([name, { tool, listed }]) => ({
    name,
    description: listed.description ?? '',
    enabled: offers(entry, tool),
  }));
}
