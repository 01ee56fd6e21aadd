/** MCP servers that somebody keeps, as operations ask after them: how they are here, and what they offer. */
import { performance } from 'node:perf_hooks';
import type { McpPrompt, McpResource, McpServer, McpServerTest, McpTool } from '../../contract/api.ts';
import { Problem } from '../../problem.ts';
import type { ExtensionPlace } from '../extension.ts';
import { offers } from './entry.ts';
import { McpFailure, oneLine } from './failure.ts';
import type { Mcp } from './mcp.ts';
import type { OwnMcpServer } from './own-servers.ts';
import { listResources } from './resources.ts';
import type { ConnectedServer } from './server.ts';
import { inputSchemaOf } from './server-tools.ts';
import { nameTools } from './tool-names.ts';

/** What a server lists. */
export interface McpListing {
  readonly tools: readonly McpTool[];
  readonly prompts: readonly McpPrompt[];
}

/** The workspace says where a process works; null for a remote server. */
export interface McpServersAtHand {
  /** For whoever may use it, on this node. */
  stateOf(own: OwnMcpServer, workspaceId: string | null): Promise<Pick<McpServer, 'state' | 'detail'>>;
  /** Throws Problem `mcp_server_failed`. */
  test(own: OwnMcpServer, workspaceId: string | null): Promise<McpServerTest>;
  /** The servers that count beside it have a say in the names of its tools. Throws Problem `mcp_server_failed`. */
  listing(
    own: OwnMcpServer,
    workspaceId: string | null,
    beside: readonly OwnMcpServer[],
  ): Promise<McpListing>;
  /** Throws Problem `mcp_server_failed`. */
  resources(
    own: OwnMcpServer,
    workspaceId: string | null,
    signal: AbortSignal,
  ): Promise<readonly McpResource[]>;
  /** The servers to which this node holds connections. */
  held(): readonly string[];
  /** Ends the connections of this node to it, or those that one person's login has opened. */
  end(id: string, userId?: string): Promise<void>;
}

export function mcpServersAtHand(
  mcp: Pick<Mcp, 'namesIn' | 'stateOfOwn' | 'connectOwn' | 'tryOwn' | 'heldOwn' | 'endOwn'>,
  placeOf: (workspaceId: string) => Promise<ExtensionPlace>,
): McpServersAtHand {
  // A remote server works in no folder, and none is made for it.
  const placeFor = async ({ entry }: OwnMcpServer, workspaceId: string | null): Promise<ExtensionPlace> =>
    entry.type === 'stdio' && workspaceId !== null ? await placeOf(workspaceId) : { workspacePath: '' };
  const connected = async (own: OwnMcpServer, workspaceId: string | null): Promise<ConnectedServer> => {
    try {
      return await mcp.connectOwn(own, await placeFor(own, workspaceId));
    } catch (error) {
      throw problemOf(own, error);
    }
  };
  return {
    stateOf: async (own, workspaceId) => {
      const { state, detail } = mcp.stateOfOwn(own, await placeFor(own, workspaceId));
      return { state, detail };
    },
    async test(own, workspaceId) {
      if (own.fault !== null) return refused('setting_unusable', own.fault, null);
      const server = mcp.tryOwn(own, await placeFor(own, workspaceId));
      const begun = performance.now();
      try {
        await server.use();
        return outcomeOf(own, server, Math.round(performance.now() - begun));
      } finally {
        await server.close();
      }
    },
    async listing(own, workspaceId, beside) {
      const server = await connected(own, workspaceId);
      const { listing } = server;
      if (!listing) throw failedAs(own, server.state.detail);
      const named = nameTools(
        listing.tools.map((listed) => ({ server: own.name, tool: listed.name, listed })),
        mcp.namesIn({ workspacePath: '', ownMcpServers: beside }),
      );
      return {
        tools: [...named].map(([name, { tool, listed }]) => ({
          ...{ name, tool },
          description: listed.description ?? '',
          input_schema: inputSchemaOf(listed),
          enabled: offers(own.entry, tool),
        })),
        prompts: listing.prompts.map(({ name, title, description, arguments: values = [] }) => ({
          name,
          description: description ?? title ?? null,
          arguments: values.map((value) => ({
            name: value.name,
            description: value.description ?? null,
            required: value.required ?? false,
          })),
        })),
      };
    },
    async resources(own, workspaceId, signal) {
      const server = await connected(own, workspaceId);
      if (!server.listing) throw failedAs(own, server.state.detail);
      if (!server.listing.hasResources) return [];
      try {
        return await listResources(server, signal);
      } catch (error) {
        throw problemOf(own, error);
      }
    },
    held: () => mcp.heldOwn(),
    end: (id, userId) => mcp.endOwn(id, userId),
  };
}

function outcomeOf(own: OwnMcpServer, server: ConnectedServer, latency_ms: number): McpServerTest {
  const { listing } = server;
  if (!listing) {
    const why = server.state.detail ?? 'it is not connected';
    if (server.needsLogin) return refused('login_needed', why, latency_ms);
    throw failedAs(own, why);
  }
  const { server: itself, tools, prompts, hasResources, protocolVersion } = listing;
  return {
    ok: true,
    latency_ms,
    server: itself ? `${oneLine(itself.name, 80)} ${oneLine(itself.version, 40)}` : null,
    protocol_version: oneLine(protocolVersion, 40),
    tool_count: tools.length,
    prompt_count: prompts.length,
    has_resources: hasResources,
    error: null,
  };
}

function refused(
  code: 'setting_unusable' | 'login_needed',
  message: string,
  latency_ms: number | null,
): McpServerTest {
  const nothing = { server: null, protocol_version: null, tool_count: null, prompt_count: null };
  return { ok: false, latency_ms, ...nothing, has_resources: null, error: { code, message } };
}

function failedAs({ name }: OwnMcpServer, why: string | null, cause?: unknown): Problem {
  const detail = `The MCP server ${name} cannot be used: ${why ?? 'it is not connected'}.`;
  return new Problem('mcp_server_failed', detail, { cause });
}

function problemOf(own: OwnMcpServer, error: unknown): unknown {
  return error instanceof McpFailure ? failedAs(own, error.message, error) : error;
}
