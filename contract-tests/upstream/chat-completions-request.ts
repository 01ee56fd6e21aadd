// OpenAI's chat completions API: what its request must be, and what a script sees of it.
import type { ChatCompletionCreateParams } from 'openai/resources';
import { z } from 'zod';
import { Refusal } from './dialect.ts';
import { answerFormat, checkedBody, functionName, functionParameters, ignoredFields } from './openai.ts';
import type { DialectName, Entry, Prompt } from './prompt.ts';

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() });
const userPart = z.discriminatedUnion('type', [
  textPart,
  z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) }),
  z.looseObject({ type: z.literal('input_audio'), input_audio: z.looseObject({ data: z.string() }) }),
  z.looseObject({ type: z.literal('file'), file: z.looseObject({}) }),
]);
const texts = z.union([z.string(), z.array(textPart).min(1)]);
const toolCall = z.looseObject({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.looseObject({ name: functionName, arguments: z.string() }),
});

// Loose: servers that speak this dialect add fields of their own to messages, such as reasoning_content.
const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.enum(['system', 'developer']), content: texts }),
  z.looseObject({ role: z.literal('user'), content: z.union([z.string(), z.array(userPart).min(1)]) }),
  z
    .looseObject({
      role: z.literal('assistant'),
      content: texts.nullish(),
      tool_calls: z.array(toolCall).min(1).optional(),
    })
    .refine(
      (it) => typeof it.content === 'string' || Array.isArray(it.content) || it.tool_calls !== undefined,
      {
        path: ['content'],
        message: 'expected a string, got null.',
      },
    ),
  z.looseObject({ role: z.literal('tool'), content: texts, tool_call_id: z.string().min(1) }),
]);

const tool = z.looseObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: functionName,
    description: z.string().optional(),
    parameters: functionParameters,
    strict: z.boolean().nullish(),
  }),
});

/** A name that the vendor's own types do not have stops this from compiling. */
type Published = Partial<Record<keyof ChatCompletionCreateParams, z.ZodType>>;

const passedOver = [
  'audio',
  'frequency_penalty',
  'function_call',
  'functions',
  'logit_bias',
  'logprobs',
  'metadata',
  'modalities',
  'moderation',
  'prediction',
  'presence_penalty',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning_effort',
  'safety_identifier',
  'seed',
  'service_tier',
  'store',
  'top_logprobs',
  'user',
  'verbosity',
  'web_search_options',
] as const satisfies readonly (keyof Published)[];

const requestSchema = z.strictObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() })
    .nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  n: z.literal(1).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  tools: z.array(tool).min(1).optional(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: z.looseObject({ json_schema: answerFormat.optional() }).optional(),
  ...ignoredFields(passedOver),
} satisfies Published);

type Message = z.infer<typeof message>;
type Request = z.infer<typeof requestSchema>;

/** Throws a `Refusal` with the vendor's words where the vendor would answer 400. */
export function readChatRequest(
  body: unknown,
  dialect: DialectName,
): { model: string; prompt: Prompt; includeUsage: boolean } {
  const request = checkedBody(requestSchema, body);
  refuseContradictions(request);
  refuseWrongToolMessages(request.messages);
  if (isMistral(request.model)) {
    refuseForeignIds(request.messages);
    refusePromptAfterTool(request.messages);
  }
  const prompt: Prompt = {
    dialect,
    model: request.model,
    stream: request.stream ?? false,
    tools: (request.tools ?? []).map((it) => it.function.name),
    entries: request.messages.map(entryOf),
  };
  return { model: request.model, prompt, includeUsage: request.stream_options?.include_usage ?? false };
}

function refuseContradictions(request: Request): void {
  const onlyWith = (
    param: 'stream_options' | 'tool_choice' | 'parallel_tool_calls',
    needs: string,
    met: boolean,
  ) => {
    if (request[param] === undefined || request[param] === null || met) return;
    throw new Refusal(400, `Invalid value for '${param}': '${param}' is only allowed when ${needs}.`, {
      param,
    });
  };
  onlyWith('stream_options', "'stream' is enabled", request.stream === true);
  onlyWith('tool_choice', "'tools' are specified", request.tools !== undefined);
  onlyWith('parallel_tool_calls', "'tools' are specified", request.tools !== undefined);
  if (typeof request.max_tokens === 'number' && typeof request.max_completion_tokens === 'number') {
    throw new Refusal(
      400,
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      { code: 'invalid_parameter_combination', param: 'max_tokens' },
    );
  }
}

function refuseWrongToolMessages(messages: Message[]): void {
  let open: string[] = [];
  messages.forEach((it, at) => {
    if (it.role === 'tool') {
      if (!open.includes(it.tool_call_id)) throw orphan(at);
      open = open.filter((id) => id !== it.tool_call_id);
      return;
    }
    if (open.length > 0) throw unanswered(open, at);
    if (it.role === 'assistant') open = (it.tool_calls ?? []).map((call) => call.id);
  });
  if (open.length > 0) throw unanswered(open, messages.length);
}

/** Models of Mistral, which have rules of their own. */
export function isMistral(model: string): boolean {
  return /mistral/.test(model);
}

/** As Mistral does, in its words. */
function refuseForeignIds(messages: Message[]): void {
  const ids = messages.flatMap((it) => {
    if (it.role === 'tool') return [it.tool_call_id];
    return it.role === 'assistant' ? (it.tool_calls ?? []).map((call) => call.id) : [];
  });
  const foreign = ids.find((id) => !/^[a-zA-Z0-9]{9}$/.test(id));
  if (foreign === undefined) return;
  const message = `Tool call id was ${foreign} but must be a-z, A-Z, 0-9, with a length of 9.`;
  throw new Refusal(400, message, { type: 'invalid_function_call', code: '3280' });
}

/** The same. */
function refusePromptAfterTool(messages: Message[]): void {
  if (!messages.some(({ role }, at) => role === 'user' && messages[at - 1]?.role === 'tool')) return;
  throw new Refusal(400, "Unexpected role 'user' after role 'tool'", {
    type: 'invalid_request_message_order',
    code: '3230',
  });
}

function orphan(at: number): Refusal {
  const message = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
  return new Refusal(400, `Invalid parameter: ${message}`, { param: `messages.[${at}].role` });
}

function unanswered(ids: string[], at: number): Refusal {
  const message =
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
    `The following tool_call_ids did not have response messages: ${ids.join(', ')}`;
  return new Refusal(400, message, { param: `messages.[${at}].role` });
}

function entryOf(it: Message): Entry {
  const from = it.role === 'developer' ? 'system' : it.role;
  return { from, text: textOf(it.content ?? '') };
}

function textOf(content: string | readonly { type: string; text?: unknown }[]): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [String(part.text)] : [])).join('\n');
}
