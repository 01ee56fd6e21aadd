/** The tools by which a model sees what MCP servers have to read. They are there where a server offers resources. */
import { z } from 'zod';
import type { McpResource } from '../../contract/api.ts';
import { resourcePath } from '../permissions/resource-path.ts';
import { defineTool, failure, interrupted, success } from '../tools/define-tool.ts';
import type { Tool, ToolContext, ToolOutput } from '../tools/tool.ts';
import { bounded, textOfResource } from './content.ts';
import { McpFailure, oneLine } from './failure.ts';
import { listResources } from './resources.ts';
import type { NamedServer } from './server-tools.ts';

const mostListed = 200;

/** Of the connected servers that offer resources; none where there is no such server. */
export function resourceTools(servers: readonly NamedServer[]): Tool[] {
  const offering = servers.filter(({ server }) => server.listing?.hasResources);
  return offering.length === 0 ? [] : [listTool(offering), readTool(offering)];
}

function listTool(servers: readonly NamedServer[]): Tool {
  return defineTool({
    name: 'list_mcp_resources',
    description: `Lists what an MCP server has to read. Servers: ${namesOf(servers)}.`,
    idempotent: true,
    needsPermission: false,
    input: z.strictObject({ server: z.string().describe('The name of the server') }),
    prepare: ({ server }, context) => ({
      permission: null,
      run: () => answer(servers, server, context, listed),
    }),
  });
}

function readTool(servers: readonly NamedServer[]): Tool {
  return defineTool({
    name: 'read_mcp_resource',
    description: `Reads a resource of an MCP server, by its URI. Servers: ${namesOf(servers)}.`,
    idempotent: true,
    needsPermission: true,
    input: z.strictObject({
      server: z.string().describe('The name of the server'),
      uri: z
        .string()
        .min(1)
        .max(4000)
        .describe('As list_mcp_resources gives it, or made from one of its templates'),
    }),
    prepare: ({ server, uri }, context) => ({
      permission: {
        action: 'read',
        description: `Read ${oneLine(uri, 200)} from the MCP server ${oneLine(server, 60)}`,
        path: resourcePath(server),
        file: resourcePath(server, uri),
        params: { server, uri },
      },
      run: () => answer(servers, server, context, (named) => read(named, uri, context)),
    }),
  });
}

async function answer(
  servers: readonly NamedServer[],
  wanted: string,
  context: ToolContext,
  ask: (named: NamedServer, context: ToolContext) => Promise<string>,
): Promise<ToolOutput> {
  const named = servers.find(({ name }) => name === wanted);
  if (!named)
    return failure(`No MCP server ${oneLine(wanted, 60)} offers resources; there are: ${namesOf(servers)}.`);
  try {
    return success(bounded(await ask(named, context)));
  } catch (error) {
    if (context.signal.aborted) return interrupted();
    if (!(error instanceof McpFailure)) throw error;
    return failure(`The MCP server ${wanted} did not do it: ${error.message}.`);
  }
}

async function listed({ server }: NamedServer, { signal }: ToolContext): Promise<string> {
  const lines = (await listResources(server, signal)).map(lineOf);
  const more = lines.length > mostListed ? [`… and ${lines.length - mostListed} more`] : [];
  return [...lines.slice(0, mostListed), ...more].join('\n') || '(The server lists none.)';
}

function lineOf({ uri, is_template, name, mime_type, description }: McpResource): string {
  const facts = [name, mime_type, description].filter(Boolean).join('; ');
  return `${oneLine(uri, 1000)}${is_template ? ' (template)' : ''}: ${oneLine(facts)}`;
}

async function read({ server }: NamedServer, uri: string, { signal }: ToolContext): Promise<string> {
  const { contents } = await server.request(
    (client, options) => client.readResource({ uri }, options),
    signal,
  );
  return contents.map(textOfResource).join('\n\n') || '(The resource is empty.)';
}

function namesOf(servers: readonly NamedServer[]): string {
  return servers.map(({ name }) => name).join(', ');
}
