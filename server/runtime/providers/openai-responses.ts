/** OpenAI's Responses API: by it alone its models that reason keep their thoughts between two tool calls. */
import type { ProviderModel } from '../../contract/config.ts';
import type { ProviderType } from './provider-definition.ts';
import type { RequestBody } from './provider-factory.ts';

/** What the choice depends on. */
interface AskedModel {
  readonly type: ProviderType;
  readonly baseUrl: string | undefined;
  readonly modelId: string;
  /** What the settings say of the model. */
  readonly model: ProviderModel | undefined;
  /** Those of the vendor's own that the settings add to the body. */
  readonly fields: RequestBody;
}

/** Those of chat completions, which the other API refuses. */
const chatFields = new Set([
  ...['audio', 'frequency_penalty', 'function_call', 'functions', 'logit_bias', 'logprobs', 'max_tokens'],
  ...['max_completion_tokens', 'modalities', 'n', 'prediction', 'presence_penalty', 'reasoning_effort'],
  ...['response_format', 'seed', 'stop', 'verbosity', 'web_search_options'],
]);

/**
 * Only at OpenAI's own address, since servers that imitate it may not have this API; and only for models that reason, since
 * it knows fewer settings of the sampling, which those models do not take anyway.
 */
export function speaksResponses({ type, baseUrl, modelId, model, fields }: AskedModel): boolean {
  if (type !== 'openai' || !isOwnAddress(baseUrl)) return false;
  if (Object.keys(fields).some((name) => chatFields.has(name))) return false;
  return model?.can_reason ?? reasoningNames.test(modelId);
}

/** OpenAI tells it by the name alone. */
const reasoningNames = /^(o\d|gpt-[5-9](?!.*chat))/;

function isOwnAddress(baseUrl: string | undefined): boolean {
  if (!baseUrl) return true;
  return URL.canParse(baseUrl) && /^(\w+\.)?api\.openai\.com$/.test(new URL(baseUrl).host);
}

/** The least that OpenAI takes; clients of other vendors ask for one token to see whether somebody answers. */
const fewestTokens = 16;

/** What its client leaves to defaults that are not ours: by itself it makes every argument of a tool a required one. */
export function responsesBody(body: RequestBody): RequestBody {
  const { tools, max_output_tokens: most } = body;
  return {
    ...body,
    ...(typeof most === 'number' && { max_output_tokens: Math.max(most, fewestTokens) }),
    ...(Array.isArray(tools) && { tools: tools.map((tool: object) => ({ strict: false, ...tool })) }),
  };
}
