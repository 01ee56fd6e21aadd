/** What a connected MCP server offers. */
import {
  type Client,
  type Implementation,
  isSpecType,
  type Prompt,
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  type Tool,
} from '@modelcontextprotocol/client';
import { z } from 'zod';
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
  /** The names of those that no model can be told of: they break the rules of the protocol, or are too large. */
  readonly unusable: readonly string[];
  readonly prompts: readonly ListedPrompt[];
  readonly hasResources: boolean;
}

/** More would fill the context of every model before the first word. */
const mostTools = 500;
const mostSchemaLength = 100_000;
const mostDescriptionLength = 10_000;
const mostInstructionsLength = 4000;
const mostNamed = 10;

/**
 * Asks for what can be used of everything. The lists of the library are not used: it gathers all pages first, keeps them
 * as long as the connection lives, and one entry that breaks the rules of the protocol costs it all others.
 */
export async function listAll(client: Client, signal: AbortSignal, timeout: number): Promise<Listing> {
  const options = { signal, timeout };
  const capabilities = client.getServerCapabilities() ?? {};
  const toolPage = async (params: { readonly cursor?: string }) => {
    const { tools: items, nextCursor } = await client.request(
      { method: 'tools/list', params },
      toolsRules,
      options,
    );
    return { items, nextCursor: nextCursor ?? undefined };
  };
  const promptPage = async (params: { readonly cursor?: string }) => {
    const request = { method: 'prompts/list', params };
    const { prompts: items, nextCursor } = await client.request(request, promptsRules, options);
    return { items, nextCursor: nextCursor ?? undefined };
  };
  const unusable: string[] = [];
  const keep = (item: unknown) => {
    const kept = keptOfTool(item);
    if (kept === null && unusable.length < mostTools) unusable.push(nameOf(item));
    return kept;
  };
  const [tools, prompts] = await Promise.all([
    capabilities.tools ? gather(toolPage, keep, mostTools) : [],
    capabilities.prompts ? gather(promptPage, keptOfPrompt, mostTools).catch(noneWhereUnknown) : [],
  ]);
  return {
    server: client.getServerVersion(),
    protocolVersion: client.getNegotiatedProtocolVersion() ?? '',
    instructions: clean(client.getInstructions() ?? '', mostInstructionsLength),
    tools,
    unusable,
    prompts,
    hasResources: capabilities.resources !== undefined,
  };
}

/** Many servers write null in the place of nothing: of a list, a text, a schema. */
const entries = z
  .array(z.unknown())
  .nullish()
  .transform((list) => list ?? []);
const toolsRules = z.object({ tools: entries, nextCursor: z.string().nullish() });
const promptsRules = z.object({ prompts: entries, nextCursor: z.string().nullish() });

const promptRules = z.object({
  name: z.string().min(1),
  title: z.string().nullish(),
  description: z.string().nullish(),
  arguments: z
    .array(
      z.object({
        name: z.string(),
        description: z.string().nullish(),
        required: z.boolean().nullish(),
      }),
    )
    .nullish(),
});

const toolRules = z.object({
  name: z.string().min(1),
  title: z.string().nullish(),
  description: z.string().nullish(),
  inputSchema: z
    .looseObject({ type: z.literal('object').default('object') })
    .nullish()
    .transform((schema) => schema ?? ({ type: 'object' } as const)),
});

function keptOfTool(item: unknown): ListedTool | null {
  const { data } = toolRules.safeParse(item);
  if (!data || JSON.stringify(data.inputSchema).length > mostSchemaLength) return null;
  const { name, title, description, inputSchema } = data;
  const listed = { name, description: clean(description ?? title ?? '', mostDescriptionLength), inputSchema };
  return isSpecType.Tool(listed) ? listed : null;
}

function nameOf(item: unknown): string {
  const { data } = toolRules.pick({ name: true }).safeParse(item);
  return data ? oneLine(data.name, 80) : 'one without a name';
}

/** Some servers say that they have prompts, and know no question for them, or no answer. Their tools are well. */
function noneWhereUnknown(error: unknown): readonly [] {
  const isUnknown = error instanceof ProtocolError && error.code === ProtocolErrorCode.MethodNotFound;
  if (isUnknown || (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult)) return [];
  throw error;
}

/** Null for one that breaks the rules: only people choose prompts, and they see which there are. */
function keptOfPrompt(item: unknown): ListedPrompt | null {
  const { data } = promptRules.safeParse(item);
  if (!data) return null;
  return {
    name: data.name,
    title: data.title ?? undefined,
    description: clean(data.description ?? '', mostDescriptionLength) || undefined,
    arguments: data.arguments?.map(({ name, description, required }) => ({
      name,
      description: description ?? undefined,
      required: required ?? undefined,
    })),
  };
}

function clean(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** What is missing of it, as the rest of a sentence about it; null where nothing is. */
export function missingOf({ unusable }: Listing): string | null {
  if (unusable.length === 0) return null;
  const more = unusable.length > mostNamed ? ' and others' : '';
  const names = unusable.slice(0, mostNamed).join(', ');
  return `it has tools that no model can be told of, since they break the rules of the protocol or are too large: ${names}${more}`;
}

/** The server as it names itself, for people. */
export function describeServer({ server, protocolVersion }: Listing): string {
  const itself = server
    ? `${oneLine(server.name, 80)} ${oneLine(server.version, 40)}`
    : 'a server without a name';
  return `${itself}, protocol ${oneLine(protocolVersion, 40)}`;
}
