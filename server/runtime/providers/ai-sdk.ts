/** Speaks to a provider through its AI SDK package: our request in, our parts out, its failures in our words. */
import type {
  JSONSchema7,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolChoice,
  LanguageModelV4Usage,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import type { StopReason, ToolResult } from '../../contract/api.ts';
import { believedCount, believedTokens } from '../models/believed-counts.ts';
import {
  ModelFailure,
  type ModelMessage,
  type ModelPart,
  type ModelRequest,
  type TokenCount,
} from '../models/model.ts';
import { mostCalls } from './answer-bounds.ts';
import type { ProviderType } from './provider-definition.ts';
import type { AnsweringModel } from './provider-factory.ts';
import { cutShort, failureOf, statusOf, timedOut, tooLong, withoutSecrets } from './provider-failures.ts';
import { SentCalls } from './sent-calls.ts';
import type { Silence } from './silence.ts';
import { StorableParts } from './storable-parts.ts';
import type { Thoughts } from './thoughts.ts';
import type { VendorOptions } from './vendor-options.ts';

/** How long a provider may be silent before its answer counts as lost. */
export interface ModelTimeouts {
  readonly silenceMs: number;
}

/** One call of one of the AI SDK's models. */
export interface SdkCall {
  readonly model: AnsweringModel;
  /** The full name of the model. */
  readonly name: string;
  readonly type: ProviderType;
  readonly request: ModelRequest;
  readonly signal: AbortSignal;
  /** How long the provider may be silent; ended with the call. */
  readonly silence: Silence;
  /** Those of the connection: no failure will quote them. */
  readonly secrets: readonly string[];
  readonly vendor: VendorOptions;
  readonly thoughts: Thoughts;
  /** Whether the provider wants an answer between what a tool gave and the next prompt. */
  readonly separatesResults: boolean;
  /** Whether the provider takes only such ids of tool calls as Mistral gives. */
  readonly wantsNine: boolean;
}

/** What the model writes, in our parts. Throws ModelFailure; ends early without one only when the signal aborts. */
export async function* streamFromSdk(call: SdkCall): AsyncGenerator<ModelPart> {
  const { model, name, type, request, signal, silence, secrets, vendor, thoughts, wantsNine } = call;
  const listen = thoughts.listener();
  const toolNames = new Map<string, string>();
  const storable = new StorableParts();
  const calls = new SentCalls({ name, type, tools: request.tools, wantsNine });
  try {
    const { stream } = await model.doStream({
      ...options(call, calls),
      // The SDK keeps to itself what is said to have been read until the end, which may not come.
      ...(type === 'anthropic' && { includeRawChunks: true }),
      abortSignal: silence.signal,
      providerOptions: vendor.options,
      ...(vendor.reasoning && { reasoning: vendor.reasoning }),
    });
    for await (const part of stream) {
      silence.heard();
      listen(part);
      const said = partOf(part, toolNames, calls, type);
      if (said) yield* storable.take(said);
      // Some servers keep the connection open behind it; the answer does not wait for its end.
      if (said?.type === 'finish') return;
    }
    throw cutShort();
  } catch (error) {
    // Whoever aborted knows why, and wants no second reason.
    if (signal.aborted) return;
    if (silence.signal.aborted) throw timedOut(silence.limitMs, withoutSecrets(error, secrets));
    throw failureOf(error, secrets);
  } finally {
    silence.end();
  }
}

/** Whether the provider did not know the credential: a key that was resolved a while ago may have been replaced. */
export function isUnauthorized(error: unknown): boolean {
  return error instanceof ModelFailure && statusOf(error.cause) === 401;
}

function options(call: SdkCall, calls: SentCalls) {
  const { request, vendor } = call;
  const { keptUpTo } = vendor;
  const said = prompt(call, calls);
  return {
    // Only who has tools is likely to come again with the same and more: to be kept costs more than to be read once.
    prompt: keptUpTo && request.tools.length > 0 ? marked(said, keptUpTo) : said,
    ...(request.whole && { whole: true }),
    ...(request.tools.length > 0 && {
      tools: request.tools.map(({ name, description, inputSchema }) => ({
        type: 'function' as const,
        name: calls.nameOf(name),
        description,
        inputSchema,
      })),
      ...(request.toolChoice && { toolChoice: toolChoice(request.toolChoice, calls) }),
    }),
    ...(request.answerSchema && {
      // Every schema of the vendor's surface is an object of JSON.
      responseFormat: { type: 'json' as const, schema: request.answerSchema as JSONSchema7 },
    }),
    ...(request.maxTokens !== undefined && { maxOutputTokens: request.maxTokens }),
    ...(request.temperature !== undefined && { temperature: request.temperature }),
    ...(request.topP !== undefined && { topP: request.topP }),
    ...(request.topK !== undefined && { topK: request.topK }),
    ...(request.frequencyPenalty !== undefined && { frequencyPenalty: request.frequencyPenalty }),
    ...(request.presencePenalty !== undefined && { presencePenalty: request.presencePenalty }),
    ...(request.stopSequences && { stopSequences: [...request.stopSequences] }),
  };
}

function toolChoice(
  choice: NonNullable<ModelRequest['toolChoice']>,
  calls: SentCalls,
): LanguageModelV4ToolChoice {
  return typeof choice === 'string'
    ? { type: choice }
    : { type: 'tool', toolName: calls.nameOf(choice.tool) };
}

function prompt(
  { request: { system, messages }, thoughts, separatesResults }: SdkCall,
  calls: SentCalls,
): LanguageModelV4Prompt {
  const head: LanguageModelV4Message[] = system ? [{ role: 'system', content: system }] : [];
  const said = messages
    .filter((one, index) => index === messages.length - 1 || says(one))
    .map((one) => message(one, thoughts, calls));
  const begun = [...head, ...(said[0]?.role === 'assistant' ? [answered] : []), ...said];
  return separatesResults ? begun.flatMap(separated) : begun;
}

/** Most providers want a person to speak first, who may have deleted what they said. */
const answered: LanguageModelV4Message = {
  role: 'user',
  content: [{ type: 'text', text: '[The conversation begins with an answer.]' }],
};

/** As after a run that ended with its last step, or where a client has more to say than what its tools gave. */
function separated(
  message: LanguageModelV4Message,
  index: number,
  all: LanguageModelV4Prompt,
): LanguageModelV4Prompt {
  return message.role === 'user' && all[index - 1]?.role === 'tool' ? [taken, message] : [message];
}

const taken: LanguageModelV4Message = {
  role: 'assistant',
  content: [{ type: 'text', text: '[The results of the tools were read.]' }],
};

/** Behind the instructions, what was said last, and where the call before ended: what is kept is not looked for far back. */
function marked(
  said: LanguageModelV4Prompt,
  providerOptions: SharedV4ProviderOptions,
): LanguageModelV4Prompt {
  const asked = said.flatMap(({ role }, index) => (role === 'user' || role === 'tool' ? [index] : []));
  const ends = new Set(asked.slice(-2));
  return said.map((message, index) =>
    message.role === 'system' || ends.has(index) ? { ...message, providerOptions } : message,
  );
}

/**
 * A thought that was cut off leaves a message without words, and providers refuse a conversation in which there is one:
 * its session could never go on. Only the newest is sent as it is, for the provider to judge.
 */
function says({ parts }: ModelMessage): boolean {
  return parts.some((part) => (part.type === 'text' ? part.text.trim() !== '' : part.type !== 'reasoning'));
}

function message(whole: ModelMessage, thoughts: Thoughts, calls: SentCalls): LanguageModelV4Message {
  const { role, parts } = whole;
  if (role === 'user')
    return { role, content: parts.flatMap((part) => [...textPart(part), ...filePart(part)]) };
  if (role === 'tool') return { role, content: parts.flatMap((part) => resultPart(part, calls)) };
  calls.readAnswer(whole);
  // Reasoning is sent back only with its provider's signature over it: without, it would be refused. So would empty lines
  // before a call.
  const said = parts.filter((part) => part.type !== 'text' || part.text.trim() !== '');
  const content = said.flatMap((part) => [...textPart(part), ...callPart(part, thoughts, calls)]);
  return { role, content: [...thoughts.before(whole), ...content] };
}

type Part = ModelMessage['parts'][number];

function textPart(part: Part) {
  return part.type === 'text' ? [{ type: 'text' as const, text: part.text }] : [];
}

function filePart(part: Part) {
  if (part.type !== 'file') return [];
  const { data, name } = part;
  const content = data instanceof URL ? { type: 'url' as const, url: data } : { type: 'data' as const, data };
  const mediaType =
    part.mediaType === 'image/*' && data instanceof URL ? pictureType(data.pathname) : part.mediaType;
  return [{ type: 'file' as const, mediaType, data: content, ...(name !== undefined && { filename: name }) }];
}

/** Google has to be told which kind of picture lies at an address, where nobody has looked. */
function pictureType(path: string): string {
  const ending = /\.(png|gif|webp)$/i.exec(path)?.[1] ?? 'jpeg';
  return `image/${ending.toLowerCase()}`;
}

function callPart(part: Part, thoughts: Thoughts, calls: SentCalls) {
  if (part.type !== 'tool_use') return [];
  const { id, name, input } = part;
  const providerOptions = thoughts.signatureOf(id);
  return [
    {
      type: 'tool-call' as const,
      toolCallId: calls.idOf(id),
      toolName: calls.nameOf(name),
      input,
      ...(providerOptions && { providerOptions }),
    },
  ];
}

function resultPart(part: Part, calls: SentCalls) {
  return part.type === 'tool_result' ? [toolResult(part, calls)] : [];
}

function toolResult({ tool_use_id, name, content, is_error }: ToolResult, calls: SentCalls) {
  const type = is_error ? ('error-text' as const) : ('text' as const);
  return {
    type: 'tool-result' as const,
    toolCallId: calls.idOf(tool_use_id),
    toolName: calls.nameOf(name),
    output: { type, value: content },
  };
}

/** What a part of the SDK's says in our words; null where it says nothing there. */
function partOf(
  part: LanguageModelV4StreamPart,
  toolNames: Map<string, string>,
  calls: SentCalls,
  type: ProviderType,
): ModelPart | null {
  switch (part.type) {
    case 'text-delta':
      return part.delta ? { type: 'text', text: part.delta } : null;
    case 'reasoning-start':
    case 'reasoning-delta':
      return thought(part);
    case 'tool-input-start':
      toolNames.set(part.id, calls.toolOf(part.toolName));
      if (toolNames.size > mostCalls) throw tooLong();
      return null;
    case 'tool-input-delta': {
      const { id, delta: json } = part;
      return json ? { type: 'tool_input', id, name: toolNames.get(id) ?? '', json } : null;
    }
    case 'tool-call':
      return {
        ...{ type: 'tool_use', id: part.toolCallId, name: calls.toolOf(part.toolName) },
        ...toolInput(part.input),
      };
    case 'raw':
      return readPart(part.rawValue);
    case 'finish':
      return { type: 'finish', stopReason: stopReason(part.finishReason, type), usage: usage(part.usage) };
    case 'error':
      throw part.error;
    default:
      return null;
  }
}

/** As Anthropic begins an answer. */
function readPart(raw: unknown): ModelPart | null {
  const { type, message } = (raw ?? {}) as {
    readonly type?: unknown;
    readonly message?: { readonly usage?: unknown };
  }; // looked at member by member
  if (type !== 'message_start' || typeof message?.usage !== 'object' || message.usage === null) return null;
  const said: { readonly [name: string]: unknown } = { ...message.usage };
  const [own, cached, written] = [
    said.input_tokens,
    said.cache_read_input_tokens,
    said.cache_creation_input_tokens,
  ].map(believedCount);
  const input_tokens = (own ?? 0) + (cached ?? 0) + (written ?? 0);
  if (input_tokens === 0) return null;
  const count = {
    ...{ input_tokens, output_tokens: 0 },
    cached_input_tokens: cached,
    cacheWriteTokens: written,
  };
  return { type: 'read', usage: believedTokens(count) };
}

/** Anthropic signs with the last piece, which has no text; of what it shows to nobody there is no piece at all. */
function thought(
  part: Extract<LanguageModelV4StreamPart, { type: 'reasoning-start' | 'reasoning-delta' }>,
): ModelPart | null {
  const { signature, redactedData: redacted } = part.providerMetadata?.anthropic ?? {};
  const text = part.type === 'reasoning-delta' ? part.delta : '';
  if (typeof redacted === 'string') return { type: 'reasoning', text: '', redacted };
  if (typeof signature === 'string') return { type: 'reasoning', text, signature };
  return text === '' ? null : { type: 'reasoning', text };
}

/** Arguments that are no object reach the tool as an empty one, whose input check tells the model what is missing. */
function toolInput(json: string): Pick<Called, 'input' | 'unreadable'> {
  try {
    const value: unknown = JSON.parse(json || '{}');
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return { input: isObject ? { ...value } : {} };
  } catch (error) {
    if (error instanceof SyntaxError) return { input: {}, unreadable: true };
    throw error;
  }
}

type Called = Extract<ModelPart, { type: 'tool_use' }>;

function stopReason({ unified, raw }: LanguageModelV4FinishReason, type: ProviderType): StopReason {
  if (unified === 'interrupted' || unified === 'error') throw cutShort();
  // A vendor that does not say why it stopped has not stopped: its stream ended early.
  if (unified === 'other' && (!raw || isBrokenOff(raw, type))) throw cutShort();
  if (unified === 'stop') return raw === 'stop_sequence' ? 'stop_sequence' : 'end_turn';
  if (unified === 'length') return 'max_tokens';
  if (unified === 'tool-calls') return 'tool_use';
  return unified === 'content-filter' ? 'refusal' : 'end_turn';
}

function isBrokenOff(raw: string, type: ProviderType): boolean {
  return (type === 'gemini' || type === 'vertexai') && googlesFaults.has(raw);
}

/** Its client tells them from an end no better than a reason that is new: https://ai.google.dev/api/generate-content#FinishReason. */
const googlesFaults = new Set([
  ...['OTHER', 'FINISH_REASON_UNSPECIFIED', 'LANGUAGE', 'MALFORMED_RESPONSE'],
  ...['UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS'],
]);

function usage({ inputTokens, outputTokens }: LanguageModelV4Usage): TokenCount {
  return believedTokens({
    input_tokens: inputTokens.total,
    output_tokens: outputTokens.total,
    cached_input_tokens: inputTokens.cacheRead,
    cacheWriteTokens: inputTokens.cacheWrite,
  });
}
