// OpenAI's Responses API: what its request must be, and what a script sees of it.
import type { ResponseCreateParams } from 'openai/resources/responses/responses';
import { z } from 'zod';
import { ignored, Refusal } from './dialect.ts';
import { answerFormat, checkedBody, functionName, functionParameters, ignoredFields } from './openai.ts';
import type { Entry, Prompt } from './prompt.ts';

const inputPart = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('input_text'), text: z.string() }),
  z.looseObject({ type: z.literal('input_image') }),
  z.looseObject({ type: z.literal('input_file') }),
]);
const outputPart = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('output_text'), text: z.string() }),
  z.looseObject({ type: z.literal('refusal'), refusal: z.string() }),
]);
const said = <Part extends z.ZodType>(part: Part) => z.union([z.string(), z.array(part).min(1)]);
const asMessage = { type: z.literal('message').default('message') };
const message = z.discriminatedUnion('role', [
  z.looseObject({ ...asMessage, role: z.enum(['user', 'system', 'developer']), content: said(inputPart) }),
  z.looseObject({ ...asMessage, role: z.literal('assistant'), content: said(outputPart) }),
]);
const typedItem = z.discriminatedUnion('type', [
  z.looseObject({
    type: z.literal('function_call'),
    call_id: z.string().min(1),
    name: functionName,
    arguments: z.string(),
  }),
  z.looseObject({
    type: z.literal('function_call_output'),
    call_id: z.string().min(1),
    output: said(inputPart),
  }),
  z.looseObject({ type: z.literal('reasoning'), summary: z.array(z.unknown()) }),
  z.looseObject({ type: z.literal('item_reference'), id: z.string() }),
]);
const item = z.union([typedItem, message]);

/** A name that the vendor's own types do not have stops this from compiling. */
type Published = Partial<Record<keyof ResponseCreateParams, z.ZodType>>;

const passedOver = [
  'access_programs',
  'background',
  'context_management',
  'conversation',
  'image',
  'max_tool_calls',
  'moderation',
  'prompt',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'safety_identifier',
  'service_tier',
  'stream_options',
  'top_logprobs',
  'truncation',
  'user',
] as const satisfies readonly (keyof Published)[];

const requestSchema = z.strictObject({
  model: z.string().min(1),
  input: z.union([z.string(), z.array(item).min(1)]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().nullish(),
  store: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  include: z.array(z.string()).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  max_output_tokens: z.int().min(16).nullish(),
  tools: z
    .array(
      z.discriminatedUnion('type', [
        z.looseObject({ type: z.literal('function'), name: functionName, parameters: functionParameters }),
      ]),
    )
    .optional(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), name: z.string() }),
    ])
    .optional(),
  metadata: ignored,
  parallel_tool_calls: ignored,
  reasoning: ignored,
  text: z.looseObject({ format: answerFormat.optional() }).optional(),
  ...ignoredFields(passedOver),
} satisfies Published);

export type Item = z.infer<typeof item>;
export type ResponsesRequest = z.infer<typeof requestSchema>;

/** What the vendor keeps of earlier responses, so that later requests can refer to it. */
export interface Stored {
  /** Items by their own id, for `item_reference`. */
  items: Map<string, Item>;
  /** The whole conversation by response id, for `previous_response_id`. */
  conversations: Map<string, Item[]>;
}

/** Throws a `Refusal` with the vendor's words where the vendor would refuse. */
export function readResponsesRequest(
  body: unknown,
  stored: Stored,
): { request: ResponsesRequest; items: Item[]; prompt: Prompt } {
  const request = checkedBody(requestSchema, body);
  const items = [...previousItems(request, stored), ...inputItems(request, stored)];
  refuseUnpairedCalls(items);
  const instructions: Entry[] = request.instructions ? [{ from: 'system', text: request.instructions }] : [];
  const prompt: Prompt = {
    dialect: 'responses',
    model: request.model,
    stream: request.stream ?? false,
    tools: (request.tools ?? []).map((tool) => tool.name),
    entries: [...instructions, ...items.map(entryOf)],
  };
  return { request, items, prompt };
}

function previousItems(request: ResponsesRequest, stored: Stored): Item[] {
  const id = request.previous_response_id;
  if (id === undefined || id === null) return [];
  const found = stored.conversations.get(id);
  if (found !== undefined) return found;
  throw new Refusal(400, `Previous response with id '${id}' not found.`, {
    code: 'previous_response_not_found',
    param: 'previous_response_id',
  });
}

function inputItems(request: ResponsesRequest, stored: Stored): Item[] {
  if (typeof request.input === 'string') return [{ type: 'message', role: 'user', content: request.input }];
  return request.input.map((it) => {
    if (it.type !== 'item_reference') return it;
    const found = stored.items.get(String(it.id));
    if (found !== undefined) return found;
    throw new Refusal(404, `Item with id '${it.id}' not found.`, { code: null, param: 'input' });
  });
}

function refuseUnpairedCalls(items: Item[]): void {
  const calls = items.flatMap((it) => (it.type === 'function_call' ? [String(it.call_id)] : []));
  const outputs = items.flatMap((it) => (it.type === 'function_call_output' ? [String(it.call_id)] : []));
  const orphan = outputs.find((id) => !calls.includes(id));
  if (orphan !== undefined) {
    throw new Refusal(400, `No tool call found for function call output with call_id ${orphan}.`, {
      param: 'input',
    });
  }
  const open = calls.find((id) => !outputs.includes(id));
  if (open !== undefined) {
    throw new Refusal(400, `No tool output found for function call ${open}.`, { param: 'input' });
  }
}

function entryOf(it: Item): Entry {
  if (it.type === 'function_call_output') return { from: 'tool', text: textOf(it.output) };
  if (it.type !== 'message') return { from: 'assistant', text: '' };
  const role = it.role === 'developer' ? 'system' : it.role;
  return { from: role, text: textOf(it.content) };
}

function textOf(content: string | readonly { type: string; text?: unknown }[]): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (typeof part.text === 'string' ? [part.text] : [])).join('\n');
}
