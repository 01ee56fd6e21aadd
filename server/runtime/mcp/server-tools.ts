/** The tools of MCP servers as tools of the agent: what a model is told of them, and how they are called. */
import type { CallToolResult } from '@modelcontextprotocol/client';
import { interrupted } from '../tools/define-tool.ts';
import {
  type PreparedCall,
  type Tool,
  type ToolContext,
  ToolInputError,
  type ToolOutput,
} from '../tools/tool.ts';
import { textOfResult } from './content.ts';
import { offers } from './entry.ts';
import { McpFailure, OutcomeUnknown, oneLine } from './failure.ts';
import type { ListedTool } from './listing.ts';
import type { ConnectedServer } from './server.ts';
import { nameTools } from './tool-names.ts';

/** A server by the name that the settings give it. */
export interface NamedServer {
  readonly name: string;
  readonly server: ConnectedServer;
}

/** The tools that the settings leave of all connected servers; `names` are those of all that are set. */
export function toolsOf(servers: readonly NamedServer[], names: readonly string[]): Tool[] {
  const all = servers.flatMap(({ name, server }) =>
    (server.listing?.tools ?? []).map((listed) => ({
      ...{ server: name, tool: listed.name, listed, connected: server },
    })),
  );
  // All are named, since what is left out today may be offered tomorrow.
  return [...nameTools(all, names)]
    .filter(([, { tool, connected }]) => offers(connected.entry, tool))
    .map(([name, { server, listed, connected }]) => agentTool(name, server, listed, connected));
}

function agentTool(name: string, server: string, listed: ListedTool, connected: ConnectedServer): Tool {
  return {
    name,
    description: listed.description ?? '',
    inputSchema: inputSchemaOf(listed),
    // What a server says about its tools in this respect is only a hint.
    idempotent: false,
    needsPermission: true,
    async prepare(input, context): Promise<PreparedCall> {
      if (typeof input !== 'object' || input === null || Array.isArray(input))
        throw new ToolInputError('Wrong input: this tool takes an object.');
      const values = input as Record<string, unknown>; // just seen
      return {
        permission: {
          action: 'execute',
          description: `Call ${oneLine(listed.name, 100)} of the MCP server ${oneLine(server, 60)}`,
          path: context.workspacePath,
          params: { server, tool: listed.name, input: values },
        },
        run: () => run(server, listed.name, values, connected, context),
      };
    },
  };
}

async function run(
  server: string,
  tool: string,
  input: Record<string, unknown>,
  connected: ConnectedServer,
  context: ToolContext,
): Promise<ToolOutput> {
  try {
    return outputOf(await connected.callTool(tool, input, context));
  } catch (error) {
    if (context.signal.aborted) return interrupted();
    if (!(error instanceof McpFailure)) throw error;
    const said =
      error instanceof OutcomeUnknown
        ? `It is not known whether the MCP server ${server} did it`
        : `The MCP server ${server} did not do it`;
    return { content: `${said}: ${error.message}.`, is_error: true };
  }
}

function outputOf(result: CallToolResult): ToolOutput {
  return { content: textOfResult(result), is_error: result.isError ?? false };
}

export function inputSchemaOf({ inputSchema }: ListedTool): Record<string, unknown> {
  // Providers take the schema without the dialect's address; some refuse unknown keywords.
  const { $schema: _dialect, ...rest } = inputSchema;
  return rest;
}
