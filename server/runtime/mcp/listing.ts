/** What a connected MCP server offers. */
import type { Client, Implementation, Prompt, Tool } from '@modelcontextprotocol/client';
import { oneLine } from './failure.ts';

export interface Listing {
  readonly server: Implementation | undefined;
  readonly protocolVersion: string;
  /** What the server wants models to know before they use it. */
  readonly instructions: string;
  readonly tools: readonly Tool[];
  readonly prompts: readonly Prompt[];
  readonly hasResources: boolean;
}

/** More would fill the context of every model before the first word. */
const mostTools = 500;
const mostSchemaLength = 100_000;
const mostDescriptionLength = 10_000;
const mostInstructionsLength = 4000;

/** Asks for all pages of everything; tools that no model could be told of are left out. */
export async function listAll(client: Client, signal: AbortSignal, timeout: number): Promise<Listing> {
  const options = { signal, timeout, cacheMode: 'refresh' } as const;
  const capabilities = client.getServerCapabilities() ?? {};
  const [tools, prompts] = await Promise.all([
    capabilities.tools ? client.listTools(undefined, options).then(({ tools }) => tools) : [],
    capabilities.prompts ? client.listPrompts(undefined, options).then(({ prompts }) => prompts) : [],
  ]);
  return {
    server: client.getServerVersion(),
    protocolVersion: client.getNegotiatedProtocolVersion() ?? '',
    instructions: clean(client.getInstructions() ?? '', mostInstructionsLength),
    tools: tools.filter(isBearable).slice(0, mostTools).map(withoutExcess),
    prompts: prompts.slice(0, mostTools),
    hasResources: capabilities.resources !== undefined,
  };
}

function isBearable({ inputSchema }: Tool): boolean {
  return JSON.stringify(inputSchema).length <= mostSchemaLength;
}

function withoutExcess(tool: Tool): Tool {
  return { ...tool, description: clean(tool.description ?? tool.title ?? '', mostDescriptionLength) };
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
