/** Puts what is no setting of all vendors into each vendor's own words. */
import type { LanguageModelV4CallOptions, SharedV4ProviderOptions } from '@ai-sdk/provider';
import type { ProviderModel } from '../../contract/config.ts';
import type { AnswerTerms, Generation } from '../models/model.ts';
import { isAnthropicsOwn } from './anthropic-address.ts';
import { responsesBody } from './openai-responses.ts';
import type { ProviderType } from './provider-definition.ts';
import type { BodyChange, RequestBody } from './provider-factory.ts';

/** What a call carries besides what every vendor knows. */
export interface VendorOptions {
  /** For the vendor's client. */
  readonly options: SharedV4ProviderOptions;
  /** How much the model thinks, where its client knows what that means for each model. */
  readonly reasoning?: NonNullable<LanguageModelV4CallOptions['reasoning']>;
  /** For the body that the client makes; null where it stays as it is. */
  readonly changeBody: BodyChange | null;
  /** Marks how far a conversation is kept by the vendor, who then reads it for less; absent where it keeps what it likes. */
  readonly keptUpTo?: SharedV4ProviderOptions;
}

/** What the words for a call depend on. */
export interface VendorCall {
  readonly type: ProviderType;
  readonly request: Generation & AnswerTerms;
  /** What the settings say of the model. */
  readonly model: ProviderModel | undefined;
  /** Those of the vendor's own, for the body. */
  readonly fields: RequestBody;
  /** Whether OpenAI is asked by its Responses API. */
  readonly responses: boolean;
  /** Whether an answer without its thoughts must be sent, which Anthropic refuses while it thinks. */
  readonly answersThoughtless: boolean;
  /** Whether Anthropic can be told to leave out thoughts that do not fit any more. */
  readonly thoughtsMayGo: boolean;
}

export function vendorOptions(call: VendorCall): VendorOptions {
  return words[call.type](call);
}

const words: Readonly<Record<ProviderType, (call: VendorCall) => VendorOptions>> = {
  openai: ({ request, fields, responses }) =>
    responses
      ? responding(request, fields)
      : { options: { openai: effortOf(request) }, changeBody: change(fields) },
  'openai-compat': compatible,
  anthropic: thinking,
  gemini: (call) => google('google', call),
  azure: ({ request, fields, model }) => ({
    // The name of a deployment does not tell whether its model reasons.
    options: { openai: { ...effortOf(request), ...(model?.can_reason && { forceReasoning: true }) } },
    changeBody: change(fields),
  }),
  vertexai: (call) => google('googleVertex', call),
};

function effortOf({ reasoningEffort, oneToolAtMost, answerSchema }: VendorCall['request']): OpenAiOptions {
  return {
    ...strictness(answerSchema),
    ...(reasoningEffort !== undefined && { reasoningEffort }),
    ...(oneToolAtMost && { parallelToolCalls: false }),
  };
}

/** Nothing is left with the vendor: what a model thought goes to and fro, sealed by it. */
function responding(request: VendorCall['request'], fields: RequestBody): VendorOptions {
  const added = change(fields);
  const reasoningSummary = request.think ? 'auto' : null;
  return {
    options: { openai: { ...effortOf(request), store: false, forceReasoning: true, reasoningSummary } },
    changeBody: (body) => responsesBody(added?.(body) ?? body),
  };
}

type OpenAiOptions = { reasoningEffort?: string; parallelToolCalls?: boolean; strictJsonSchema?: boolean };

/** OpenAI refuses to hold an answer strictly to a schema that leaves anything open, and then gives none. */
function strictness(answerSchema: unknown): { strictJsonSchema?: boolean } {
  return answerSchema === undefined || isClosed(answerSchema) ? {} : { strictJsonSchema: false };
}

/** Whether each object in the schema has all of its members, and no others. */
function isClosed(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true;
  const { type, properties, required, additionalProperties }: Readonly<Record<string, unknown>> = {
    ...schema,
  };
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object'));
  if (isObject || properties !== undefined) {
    const needed: readonly unknown[] = Array.isArray(required) ? required : [];
    if (
      additionalProperties !== false ||
      !Object.keys(properties ?? {}).every((name) => needed.includes(name))
    )
      return false;
  }
  return Object.entries(schema).flatMap(schemasIn).every(isClosed);
}

/** Names of members are no words of a schema. */
function schemasIn([word, value]: [string, unknown]): readonly unknown[] {
  const named = word === 'properties' || word === '$defs' || word === 'definitions';
  return named || Array.isArray(value) ? Object.values(value ?? {}) : [value];
}

/** OpenAI has no top_k, so that its client sends none; many that imitate it have. */
function compatible({ request, fields }: VendorCall): VendorOptions {
  const { topK, onlyStandard, oneToolAtMost, reasoningEffort, answerSchema } = request;
  const more = {
    ...fields,
    ...(topK !== undefined && !onlyStandard && { top_k: topK }),
    ...(oneToolAtMost && { parallel_tool_calls: false }),
  };
  const options = {
    openaiCompatible: {
      ...(reasoningEffort !== undefined && { reasoningEffort }),
      ...strictness(answerSchema),
    },
  };
  return { options, changeBody: change(more) };
}

/** The least that Anthropic takes, and as much as most models can give besides their answer. */
const thinkingBudget = { least: 1024, most: 16_384, usual: 4096 };

/** Its newest models refuse a thought where anything has changed that stood before it, as what is recalled for each prompt. */
const bindingModels = /^claude-(fable-5-[12]|opus-5-5|sonnet-5-5)/;

/**
 * Only at Anthropic's own address: others may know neither the field nor the beta that it belongs to, and refuse the
 * request. What settings say of thinking would be replaced.
 */
export function leavesOutThoughts({
  baseUrl,
  modelId,
  fields,
}: {
  readonly baseUrl: string | undefined;
  readonly modelId: string;
  readonly fields: RequestBody;
}): boolean {
  return isAnthropicsOwn(baseUrl) && bindingModels.test(modelId) && !('thinking' in fields);
}

function thinking({ request, fields, answersThoughtless, thoughtsMayGo }: VendorCall): VendorOptions {
  const { think, maxTokens, oneToolAtMost } = request;
  const budget = think && !answersThoughtless ? budgetWithin(maxTokens) : null;
  const thought = {
    ...(budget !== null && { type: 'enabled', budgetTokens: budget }),
    // These models choose themselves how much they think.
    ...(thoughtsMayGo && { blockBinding: { prefixMismatchBehavior: 'drop_block' } }),
    ...(thoughtsMayGo && budget !== null && { type: 'adaptive' }),
  };
  const asked = {
    // It says with them that it is still at work.
    includePings: true,
    ...(Object.keys(thought).length > 0 && { thinking: thought }),
    ...(oneToolAtMost && { disableParallelToolUse: true }),
  };
  return {
    options: { anthropic: asked },
    changeBody: change(fields, budget === null ? null : maxTokens),
    keptUpTo: { anthropic: { cacheControl: { type: 'ephemeral' } } },
  };
}

/** Half of the answer, so that there is room for what comes of the thought. */
function budgetWithin(maxTokens: number | undefined): number | null {
  if (maxTokens === undefined) return thinkingBudget.usual;
  if (maxTokens <= thinkingBudget.least) return null;
  return Math.min(Math.max(Math.floor(maxTokens / 2), thinkingBudget.least), thinkingBudget.most);
}

const levels = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

/** Google's client knows which of its models take a level and which a number of tokens. */
function google(name: 'google' | 'googleVertex', { request, fields }: VendorCall): VendorOptions {
  const { reasoningEffort, think } = request;
  const level = levels.find((one) => one === reasoningEffort);
  const thoughts = think || level ? { thinkingConfig: { includeThoughts: true } } : {};
  return {
    options: { [name]: thoughts },
    ...(level && { reasoning: level }),
    changeBody: change(fields),
  };
}

/** What makes up the conversation is not for settings to say: they may come from a repository. Google takes both spellings. */
const ours = new Set([
  ...['messages', 'model', 'stream', 'system', 'tool_choice', 'tools'],
  ...['contents', 'systemInstruction', 'system_instruction', 'toolConfig', 'tool_config'],
  ...['cachedContent', 'cached_content'],
  ...['input', 'instructions', 'previous_response_id', 'conversation', 'prompt'],
]);

/** Those fields of the settings that may stand in a body. */
export function addedFields(fields: RequestBody): RequestBody {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !ours.has(name)));
}

function change(fields: RequestBody, maxTokens: number | undefined | null = null): BodyChange | null {
  const added = addedFields(fields);
  if (Object.keys(added).length === 0 && maxTokens == null) return null;
  return (body) => ({
    ...added,
    ...body,
    ...both(added, body, 'generationConfig'),
    // The client adds the budget to the limit; the settings mean both together.
    ...(maxTokens != null && { max_tokens: Math.min(Number(body.max_tokens), maxTokens) }),
  });
}

/** Google keeps its settings in an object of their own, which has to hold those of the request and the added ones. */
function both(added: RequestBody, body: RequestBody, name: string): RequestBody {
  const [more, said] = [added[name], body[name]];
  if (typeof more !== 'object' || typeof said !== 'object') return {};
  return { [name]: { ...more, ...said } };
}
