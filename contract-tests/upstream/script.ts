// The script: which rule answers a request, and with what.
import { z } from 'zod';
import type { Answer } from './dialect.ts';
import { deepestIssue } from './dialect.ts';
import {
  dialectNames,
  inputTokens,
  type Prompt,
  type Standing,
  standing,
  systemText,
  tasks,
  tokens,
} from './prompt.ts';

const pattern = z.string().transform((source, context) => {
  try {
    return new RegExp(source, 's');
  } catch (error) {
    context.addIssue({ code: 'custom', message: `not a regular expression: ${String(error)}` });
    return z.NEVER;
  }
});
const count = z.int().min(0);

const variables = 'last_user|last_tool_result|system|model|tools|tool_results|step|match\\.\\w+';
const template = z
  .string()
  .refine(
    (text) =>
      [...text.matchAll(/\{\{(.*?)\}\}/g)].every(([, name]) => RegExp(`^(${variables})$`).test(name ?? '')),
    {
      message: `a template knows {{${variables.replaceAll('|', '}}, {{').replace('\\.\\w+', '.NAME')}}} only`,
    },
  );

const conditions = z.strictObject({
  dialect: z.enum(dialectNames).optional(),
  model: pattern.optional(),
  api_key: pattern.optional(),
  system: pattern.optional(),
  last_user: pattern.optional(),
  last_tool_result: pattern.optional(),
  offers_tool: z.string().optional(),
  tool_results: count.optional(),
  step: count.optional(),
  stream: z.boolean().optional(),
  task: z.enum(tasks).optional(),
});

const reply = z.strictObject({
  reasoning: template.default(''),
  text: template.default(''),
  /** The text this many times over: for answers larger than any socket buffer. */
  repeat: z.int().min(1).default(1),
  tool_calls: z
    .array(
      z.strictObject({
        id: z.string().min(1).optional(),
        name: template,
        arguments: z.union([template, z.record(z.string(), z.unknown())]),
      }),
    )
    .default([]),
  stop_reason: z.enum(['end_turn', 'tool_use', 'max_tokens', 'stop_sequence', 'refusal']).optional(),
  stop_sequence: z.string().optional(),
  /** Google's, in its own words, instead of what the stop reason is there. */
  finish_reason: z.string().optional(),
  usage: z
    .strictObject({
      input: count,
      cached: count,
      output: count,
      reasoning: count,
      /** Of Anthropic's: what of the input went to the cache for an hour, and searches of the web. */
      kept_for_an_hour: count,
      searches: count,
      /** Of Anthropic's: what it counts beside the rest, entry by entry as it says it, and how fast it was. */
      iterations: z.array(z.record(z.string(), z.unknown())),
      speed: z.enum(['standard', 'fast']),
    })
    .partial()
    .default({}),
  /** What a model makes instead of the usual picture or sound. */
  file: z.base64().optional(),
  chunk_size: z.int().min(1).default(8),
  chunk_delay_ms: count.default(0),
  first_byte_delay_ms: count.default(0),
  /** Says so many times behind the first chunk that the answer is still being written, before it goes on. */
  keep_alive: z.strictObject({ times: count, every_ms: count }).optional(),
  /** Stop after this many chunks until `POST /_release`. */
  hold_after_chunks: count.optional(),
  /** At most this many bytes per write, so that frames and characters arrive in pieces. */
  write_bytes: z.int().min(1).optional(),
});

const afterChunks = { after_chunks: count.optional() };
const failure = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('status'),
    status: z.int().min(200).max(599),
    message: z.string().optional(),
    type: z.string().optional(),
    code: z.string().nullable().optional(),
    retry_after: z.string().optional(),
    /** Replaces the vendor's error body, as a proxy in between would. */
    body: z.string().optional(),
    content_type: z.string().default('text/html'),
  }),
  z.strictObject({ kind: z.literal('hang'), ...afterChunks }),
  z.strictObject({ kind: z.literal('cut'), ...afterChunks }),
  z.strictObject({ kind: z.literal('end'), after_chunks: count }),
  z.strictObject({ kind: z.literal('garbage'), ...afterChunks }),
  z.strictObject({ kind: z.literal('wrong_json'), ...afterChunks }),
  z.strictObject({
    kind: z.literal('error_frame'),
    after_chunks: count,
    status: z.int().default(529),
    message: z.string().default('Overloaded'),
    type: z.string().optional(),
    code: z.string().nullable().optional(),
  }),
]);

const rule = z
  .strictObject({
    name: z.string().optional(),
    when: conditions.default({}),
    times: z.int().min(1).optional(),
    reply: reply.optional(),
    fail: failure.optional(),
  })
  .refine((it) => it.reply !== undefined || it.fail !== undefined, {
    message: 'a rule needs a reply or a fail',
  });

const scriptSchema = z.strictObject({
  /** Listed by `GET /v1/models`; if given, any other model is refused. */
  models: z.array(z.string()).min(1).optional(),
  /** How `POST /token` answers: with tokens that last this long, or not at all. */
  token: z
    .strictObject({ expires_in: z.int().default(3600), status: z.int().min(400).max(599).optional() })
    .prefault({}),
  /** How lists of models are answered: this many a page where the vendor has pages, or not at all. */
  list: z.strictObject({ page_size: z.int().min(1).default(1000), fail: failure.optional() }).prefault({}),
  rules: z.array(rule),
});

export type Failure = z.infer<typeof failure>;
type Reply = z.infer<typeof reply>;

/** What the script decided for one request. */
export interface Verdict {
  rule: string;
  reply: Reply;
  answer: Answer;
  failure: Failure | undefined;
}

export interface Script {
  models: string[] | undefined;
  token: { expires_in: number; status?: number | undefined };
  list: { page_size: number; fail?: Failure | undefined };
  /** Undefined if no rule matches. A rule that answers has used up one of its `times`. */
  decide(prompt: Prompt, apiKey: string): Verdict | undefined;
}

/** Throws an `Error` that names the place if the script is not well formed. */
export function parseScript(json: unknown): Script {
  const parsed = scriptSchema.safeParse(json);
  if (!parsed.success) {
    const { path, message } = deepestIssue(parsed.error.issues);
    throw new Error(`script: ${path.join('.') || '(root)'}: ${message}`);
  }
  const { rules, models, token, list } = parsed.data;
  const used = rules.map(() => 0);
  return {
    models,
    token,
    list,
    decide(prompt, apiKey) {
      const at = rules.findIndex(
        (it, index) => (used[index] ?? 0) < (it.times ?? Infinity) && matches(it.when, prompt, apiKey),
      );
      const chosen = rules[at];
      if (chosen === undefined) return undefined;
      used[at] = (used[at] ?? 0) + 1;
      const said = chosen.reply ?? reply.parse({ text: 'You said: {{last_user}}' });
      const answer = answerOf(said, prompt, variablesOf(prompt, chosen.when));
      return { rule: chosen.name ?? `#${at}`, reply: said, answer, failure: chosen.fail };
    },
  };
}

function matches(when: z.infer<typeof conditions>, prompt: Prompt, apiKey: string): boolean {
  const now = standing(prompt);
  const texts: [RegExp | undefined, string | undefined][] = [
    [when.model, prompt.model],
    [when.api_key, apiKey],
    [when.system, systemText(prompt)],
    [when.last_user, now.lastUser],
    [when.last_tool_result, now.lastToolResult],
  ];
  const facts: [unknown, unknown][] = [
    [when.dialect, prompt.dialect],
    [when.tool_results, now.toolResults],
    [when.step, now.step],
    [when.stream, prompt.stream],
    [when.task, prompt.task],
  ];
  return (
    texts.every(([wanted, text]) => wanted === undefined || (text !== undefined && wanted.test(text))) &&
    facts.every(([wanted, fact]) => wanted === undefined || wanted === fact) &&
    (when.offers_tool === undefined || prompt.tools.includes(when.offers_tool))
  );
}

function variablesOf(prompt: Prompt, when: z.infer<typeof conditions>): Record<string, string> {
  const now: Standing = standing(prompt);
  const captured = {
    ...when.last_user?.exec(now.lastUser)?.groups,
    ...when.last_tool_result?.exec(now.lastToolResult ?? '')?.groups,
  };
  return {
    last_user: now.lastUser,
    last_tool_result: now.lastToolResult ?? '',
    system: systemText(prompt),
    model: prompt.model,
    tools: prompt.tools.join(', '),
    tool_results: String(now.toolResults),
    step: String(now.step),
    ...Object.fromEntries(Object.entries(captured).map(([name, text]) => [`match.${name}`, text ?? ''])),
  };
}

function answerOf(said: Reply, prompt: Prompt, values: Record<string, string>): Answer {
  const toolCalls = said.tool_calls.map((call) => ({
    ...(call.id !== undefined && { id: call.id }),
    name: fill(call.name, values),
    arguments:
      typeof call.arguments === 'string'
        ? fill(call.arguments, values)
        : JSON.stringify(fillDeep(call.arguments, values)),
  }));
  const reasoning = fill(said.reasoning, values);
  const text = fill(said.text, values).repeat(said.repeat);
  const called = toolCalls.flatMap((call) => [call.name, call.arguments]);
  return {
    reasoning,
    text,
    toolCalls,
    stopReason: said.stop_reason ?? (toolCalls.length > 0 ? 'tool_use' : 'end_turn'),
    stopSequence: said.stop_sequence ?? null,
    finishReason: said.finish_reason ?? null,
    usage: {
      input: said.usage.input ?? inputTokens(prompt),
      cached: said.usage.cached ?? 0,
      output: said.usage.output ?? tokens(reasoning, text, ...called),
      reasoning: said.usage.reasoning ?? tokens(reasoning),
      keptForAnHour: said.usage.kept_for_an_hour ?? 0,
      searches: said.usage.searches ?? 0,
      iterations: said.usage.iterations ?? null,
      speed: said.usage.speed ?? 'standard',
    },
    file: said.file === undefined ? null : Buffer.from(said.file, 'base64'),
    chunkSize: said.chunk_size,
  };
}

function fill(text: string, values: Record<string, string>): string {
  return text.replace(/\{\{([\w.]+)\}\}/g, (_, name: string) => values[name] ?? '');
}

function fillDeep(value: unknown, values: Record<string, string>): unknown {
  if (typeof value === 'string') return fill(value, values);
  if (Array.isArray(value)) return value.map((item) => fillDeep(item, values));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fillDeep(item, values)]));
}
