/** What a connected MCP server offers. */
import type { Client, Implementation, Prompt, Tool } from '@modelcontextprotocol/client';
import { oneLine } from './failure.ts';
import { gather } from './pages.ts';

/** What is kept of a tool: the rest may be large, and is told to nobody. */
export type ListedTool = Pick<Tool, 'name' | 'description' | 'inputSchema'>;
export type ListedPrompt = Pick<Prompt, 'name' | 'title' | 'description' | 'arguments'>;

export interface Listing {
  readonly server: Implementation | undefined;
  readonly protocolVersion: string;
  /** What the server wants models to know before they use it. */
  readonly instructions: string;
  readonly tools: readonly ListedTool[];
  readonly prompts: readonly ListedPrompt[];
  readonly hasResources: boolean;
}

/** More would fill the context of every model before the first word. */
const mostTools = 500;
const mostSchemaLength = 100_000;
const mostDescriptionLength = 10_000;
const mostInstructionsLength = 4000;

/**
 * Asks for what can be used of everything; tools that no model could be told of are left out. The lists of the library are
 * not used: it gathers all pages first, and keeps them as long as the connection lives.
 */
export async function listAll(client: Client, signal: AbortSignal, timeout: number): Promise<Listing> {
  const options = { signal, timeout };
  const capabilities = client.getServerCapabilities() ?? {};
  const toolPage = async (params: { readonly cursor?: string }) => {
    const { tools: items, nextCursor } = await client.request({ method: 'tools/list', params }, options);
    return { items, nextCursor };
  };
  const promptPage = async (params: { readonly cursor?: string }) => {
    const { prompts: items, nextCursor } = await client.request({ method: 'prompts/list', params }, options);
    return { items, nextCursor };
  };
  const [tools, prompts] = await Promise.all([
    capabilities.tools ? gather(toolPage, keptOfTool, mostTools) : [],
    capabilities.prompts ? gather(promptPage, keptOfPrompt, mostTools) : [],
  ]);
  return {
    server: client.getServerVersion(),
    protocolVersion: client.getNegotiatedProtocolVersion() ?? '',
    instructions: clean(client.getInstructions() ?? '', mostInstructionsLength),
    tools,
    prompts,
    hasResources: capabilities.resources !== undefined,
  };
}

function keptOfTool({ name, title, description, inputSchema }: Tool): ListedTool | null {
  if (JSON.stringify(inputSchema).length > mostSchemaLength) return null;
  return { name, description: clean(description ?? title ?? '', mostDescriptionLength), inputSchema };
}

function keptOfPrompt({ name, title, description, arguments: values }: Prompt): ListedPrompt {
  const told = description === undefined ? undefined : clean(description, mostDescriptionLength);
  return { name, title, description: told, arguments: values };
}

function clean(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** The server as it names itself, for people. */
export function describeServer({ server, protocolVersion }: Listing): string {
  const itself = server
    ? `${oneLine(server.name, 80)} ${oneLine(server.version, 40)}`
    : 'a server without a name';
  return `${itself}, protocol ${oneLine(protocolVersion, 40)}`;
}
