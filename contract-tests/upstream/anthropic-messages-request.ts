// Anthropic's Messages API: what its request must be, and what a script sees of it.
import type { IncomingHttpHeaders } from 'node:http';
import type Anthropic from '@anthropic-ai/sdk';
import type Legacy from '@anthropic-ai/sdk-legacy';
import { z } from 'zod';
import { bindingOf, refuseUnbound } from './bound-thoughts.ts';
import { deepestIssue, ignored, Refusal } from './dialect.ts';
import type { Entry, Prompt } from './prompt.ts';

const cacheable = { cache_control: ignored };
const text = z.strictObject({
  type: z.literal('text'),
  text: z.string().min(1, 'text content blocks must be non-empty'),
  citations: ignored,
  ...cacheable,
});
const media = (type: 'image' | 'document' | 'search_result' | 'container_upload' | 'browser_state') =>
  z.looseObject({ type: z.literal(type) });
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id: z.string().regex(/^[a-zA-Z0-9_-]+$/),
  name: z.string().min(1).max(200),
  input: z.record(z.string(), z.unknown()),
  caller: ignored,
  toolset_name: ignored,
  ...cacheable,
});
const toolResult = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: z.string().regex(/^[a-zA-Z0-9_-]+$/),
  content: z
    .union([
      z.string(),
      z.array(
        z.discriminatedUnion('type', [
          text,
          media('image'),
          media('document'),
          media('search_result'),
          z.strictObject({ type: z.literal('tool_reference'), tool_name: z.string(), ...cacheable }),
          media('browser_state'),
        ]),
      ),
    ])
    .optional(),
  is_error: z.boolean().optional(),
  toolset_name: ignored,
  ...cacheable,
});
const thinking = z.strictObject({
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: z.string().min(1, 'Invalid `signature` in `thinking` block'),
});
const redacted = z.strictObject({ type: z.literal('redacted_thinking'), data: z.string() });

const userBlock = z.discriminatedUnion('type', [
  text,
  toolResult,
  media('image'),
  media('document'),
  media('search_result'),
  media('container_upload'),
]);
const assistantBlock = z.discriminatedUnion('type', [text, toolUse, thinking, redacted]);
const systemBlock = z.discriminatedUnion('type', [
  text,
  z.strictObject({ type: z.enum(['tool_addition', 'tool_removal']), tool: ignored, ...cacheable }),
]);
const content = <Block extends z.ZodType>(block: Block) =>
  z.union([z.string().min(1), z.array(block).min(1)]);
const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('user'), content: content(userBlock) }),
  z.strictObject({ role: z.literal('assistant'), content: content(assistantBlock) }),
  z
    .strictObject({
      role: z.literal('system'),
      content: content(systemBlock).optional(),
      clear_at: z.enum(['next_user_message', 'never']).nullish(),
      output_config: z.strictObject({ effort: ignored }).nullish(),
    })
    .refine(({ content, output_config }) => content !== undefined || output_config?.effort !== undefined, {
      message: 'content or output_config is required',
    })
    .transform((it) => ({ ...it, content: it.content ?? [] })),
]);

const tool = z
  .looseObject({
    /** A toolset has none of its own. */
    name: z
      .string()
      .regex(/^[a-zA-Z0-9_-]{1,128}$/)
      .optional(),
    type: z.string().nullish(),
    input_schema: ignored,
  })
  .superRefine((it, context) => {
    if (it.type !== undefined && it.type !== null && it.type !== 'custom') return;
    if (it.name === undefined)
      context.addIssue({ code: 'custom', path: ['name'], message: 'Field required' });
    if (z.looseObject({ type: z.literal('object') }).safeParse(it.input_schema).success) return;
    context.addIssue({ code: 'custom', path: ['input_schema', 'type'], message: "Input should be 'object'" });
  });

type PublishedName = keyof Anthropic.Beta.MessageCreateParams | keyof Legacy.MessageCreateParams;
/** A name that the vendor's own types do not have, of today or of the line before, stops this from compiling. */
type Published = Partial<Record<PublishedName, z.ZodType>>;

const passedOver = [
  'billing_policy',
  'cache_control',
  'compaction',
  'container',
  'context_management',
  'diagnostics',
  'fallback_credit_token',
  'fallbacks',
  'inference_geo',
  'mcp_servers',
  'output_config',
  'output_format',
  'speed',
  'thread',
  'user_profile_id',
  'workspace_id',
] as const satisfies readonly (keyof Published)[];

const requestSchema = z.strictObject({
  model: z.string().min(1),
  max_tokens: z.int().min(0),
  messages: z.array(message).min(1, 'at least one message is required'),
  system: z.union([z.string(), z.array(text)]).optional(),
  stream: z.boolean().optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(0).optional(),
  stop_sequences: z
    .array(z.string().regex(/\S/, 'each stop sequence must contain non-whitespace'))
    .optional(),
  tools: z.array(tool).optional(),
  tool_choice: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.enum(['auto', 'any']), disable_parallel_tool_use: z.boolean().optional() }),
      z.strictObject({ type: z.literal('none') }),
      z.strictObject({
        type: z.literal('tool'),
        name: z.string(),
        disable_parallel_tool_use: z.boolean().optional(),
      }),
    ])
    .optional(),
  thinking: z
    .discriminatedUnion('type', [
      z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1024), display: ignored }),
      z.strictObject({ type: z.literal('disabled') }),
      z.looseObject({ type: z.enum(['adaptive', 'between_tools']) }),
    ])
    .or(z.strictObject({ type: z.undefined().optional(), block_binding: z.looseObject({}) }))
    .optional(),
  metadata: z.strictObject({ user_id: z.string().max(512).nullish() }).optional(),
  service_tier: z.enum(['auto', 'standard_only']).optional(),
  ...Object.fromEntries(passedOver.map((name) => [name, ignored])),
} satisfies Published);
const countSchema = requestSchema.partial({ max_tokens: true });

type Message = z.infer<typeof message>;
type Block = Exclude<Message['content'], string>[number];

/** Throws a `Refusal` with the vendor's words where the vendor would answer 400. */
export function readMessagesRequest(
  body: unknown,
  headers: IncomingHttpHeaders,
  only?: 'count_tokens',
): { model: string; prompt: Prompt; binding: string } {
  if (headers['anthropic-version'] === undefined)
    throw new Refusal(400, 'anthropic-version: header is required');
  const parsed = (only === undefined ? requestSchema : countSchema).safeParse(body);
  if (!parsed.success) {
    const { path, message: reason } = deepestIssue(parsed.error.issues);
    throw new Refusal(400, path.length === 0 ? reason : `${path.join('.')}: ${reason}`);
  }
  const request = parsed.data;
  refuseWrongTurns(request.messages);
  refuseWrongTools(request);
  refuseUnbound(request, headers);
  if (
    request.thinking?.type === 'enabled' &&
    request.thinking.budget_tokens >= (request.max_tokens ?? Infinity)
  ) {
    throw new Refusal(400, '`max_tokens` must be greater than `thinking.budget_tokens`');
  }
  const prompt: Prompt = {
    dialect: 'anthropic_messages',
    model: request.model,
    stream: request.stream ?? false,
    tools: namesOf(request.tools),
    entries: [
      ...(request.system === undefined ? [] : [{ from: 'system' as const, text: textOf(request.system) }]), // Narrows the literal.
      ...request.messages.flatMap(entriesOf),
    ],
  };
  return { model: request.model, prompt, binding: bindingOf(request) };
}

function namesOf(tools: { name?: string | undefined }[] | undefined): string[] {
  return (tools ?? []).flatMap(({ name }) => name ?? []);
}

function refuseWrongTools(request: {
  tools?: { name?: string | undefined }[] | undefined;
  tool_choice?: { type: string; name?: string } | undefined;
}): void {
  const names = namesOf(request.tools);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Refusal(400, `tools: Tool names must be unique. Found: ${twice}`);
  const choice = request.tool_choice;
  if (choice === undefined) return;
  if (names.length === 0) throw new Refusal(400, 'tool_choice may only be specified while providing tools');
  if (choice.type === 'tool' && !names.includes(choice.name ?? '')) {
    throw new Refusal(400, `Tool '${choice.name}' not found in provided tools`);
  }
}

function refuseWrongTurns(messages: Message[]): void {
  if (messages[0]?.role !== 'user')
    throw new Refusal(400, 'messages: first message must use the "user" role');
  const turns = mergedTurns(messages);
  turns.forEach((turn, at) => {
    const asked = toolUseIds(turns[at - 1]?.blocks ?? []);
    const answered = toolResultIds(turn.blocks);
    const orphan = answered.find((id) => !asked.includes(id));
    if (orphan !== undefined) throw new Refusal(400, orphanMessage(turn.at, orphan));
    const open = toolUseIds(turn.blocks).filter(
      (id) => !toolResultIds(turns[at + 1]?.blocks ?? []).includes(id),
    );
    if (open.length > 0) throw new Refusal(400, openMessage(turn.at, open));
  });
  const last = turns.at(-1);
  const lastBlock = last?.blocks.at(-1);
  if (last?.role === 'assistant' && lastBlock?.type === 'text' && /\s$/.test(String(lastBlock.text))) {
    throw new Refusal(400, 'messages: final assistant content cannot end with trailing whitespace');
  }
}

function orphanMessage(at: number, id: string): string {
  return (
    `messages.${at}.content: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each ` +
    '`tool_result` block must have a corresponding `tool_use` block in the previous message.'
  );
}

function openMessage(at: number, ids: string[]): string {
  return (
    `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ` +
    `${ids.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
  );
}

/** Messages of one role in a row count as one turn; system messages stand beside the turns. */
function mergedTurns(messages: Message[]): { at: number; role: string; blocks: Block[] }[] {
  const turns: { at: number; role: string; blocks: Block[] }[] = [];
  messages.forEach((it, at) => {
    if (it.role === 'system') return;
    const last = turns.at(-1);
    if (last?.role === it.role) last.blocks.push(...blocksOf(it));
    else turns.push({ at, role: it.role, blocks: [...blocksOf(it)] });
  });
  return turns;
}

function blocksOf(it: Message): Block[] {
  return typeof it.content === 'string' ? [{ type: 'text', text: it.content }] : it.content;
}

function toolUseIds(blocks: Block[]): string[] {
  return blocks.flatMap((block) => (block.type === 'tool_use' ? [String(block.id)] : []));
}

function toolResultIds(blocks: Block[]): string[] {
  return blocks.flatMap((block) => (block.type === 'tool_result' ? [String(block.tool_use_id)] : []));
}

function entriesOf(it: Message): Entry[] {
  const blocks = blocksOf(it);
  const words = textOf(blocks);
  if (it.role !== 'user') return [{ from: it.role, text: words }];
  const results = blocks.flatMap((block): Entry[] =>
    block.type === 'tool_result' ? [{ from: 'tool', text: textOf(block.content ?? '') }] : [],
  );
  const spoke = blocks.some((block) => block.type !== 'tool_result');
  return spoke ? [...results, { from: 'user', text: words }] : results;
}

function textOf(said: string | readonly { type: string; text?: unknown }[]): string {
  if (typeof said === 'string') return said;
  return said.flatMap((block) => (block.type === 'text' ? [String(block.text)] : [])).join('\n');
}
