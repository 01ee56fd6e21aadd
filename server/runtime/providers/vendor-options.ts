/** Puts what is no setting of all vendors into each vendor's own words. */
import type { SharedV4ProviderOptions } from '@ai-sdk/provider';
import type { Generation } from '../models/model.ts';
import type { BodyChange, RequestBody } from './provider-factory.ts';

/** What a call carries besides what every vendor knows. */
export interface VendorOptions {
  /** For the vendor's client. */
  readonly options: SharedV4ProviderOptions;
  /** For the body that the client makes; null where it stays as it is. */
  readonly changeBody: BodyChange | null;
}

type VendorType = 'openai' | 'openai-compat' | 'anthropic';

/** The least that Anthropic takes, and as much as most models can give besides their answer. */
const thinkingBudget = { least: 1024, most: 16_384, usual: 4096 };

/** `answersThoughtless`: whether an answer without its thoughts must be sent, which Anthropic refuses while it thinks. */
export function vendorOptions(
  type: VendorType,
  request: Generation,
  fields: RequestBody,
  answersThoughtless: boolean,
): VendorOptions {
  const { reasoningEffort, topK, maxTokens, onlyStandard } = request;
  if (type === 'anthropic') {
    const budget = request.think && !answersThoughtless ? budgetWithin(maxTokens) : null;
    const thinking = budget === null ? {} : { thinking: { type: 'enabled', budgetTokens: budget } };
    return {
      options: { anthropic: thinking },
      changeBody: change(fields, budget === null ? null : maxTokens),
    };
  }
  const effort = reasoningEffort === undefined ? {} : { reasoningEffort };
  if (type === 'openai') return { options: { openai: effort }, changeBody: change(fields) };
  // OpenAI has no top_k, so that its client sends none; many that imitate it have.
  const more = topK === undefined || onlyStandard ? fields : { ...fields, top_k: topK };
  return { options: { openaiCompatible: effort }, changeBody: change(more) };
}

/** Half of the answer, so that there is room for what comes of the thought. */
function budgetWithin(maxTokens: number | undefined): number | null {
  if (maxTokens === undefined) return thinkingBudget.usual;
  if (maxTokens <= thinkingBudget.least) return null;
  return Math.min(Math.max(Math.floor(maxTokens / 2), thinkingBudget.least), thinkingBudget.most);
}

/** What makes up the conversation is not for settings to say: they may come from a repository. */
const ours = ['messages', 'model', 'stream', 'system', 'tool_choice', 'tools'];

function change(fields: RequestBody, maxTokens: number | undefined | null = null): BodyChange | null {
  const added = Object.entries(fields).filter(([name]) => !ours.includes(name));
  if (added.length === 0 && maxTokens == null) return null;
  return (body) => ({
    ...Object.fromEntries(added),
    ...body,
    // The client adds the budget to the limit; the settings mean both together.
    ...(maxTokens != null && { max_tokens: Math.min(Number(body.max_tokens), maxTokens) }),
  });
}
