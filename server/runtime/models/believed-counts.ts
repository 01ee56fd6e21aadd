/** What a provider says was used, as far as it can be believed: a person's own may say what it likes, and quotas are held by it. */
import type { Cost } from './cost.ts';
import type { TokenCount } from './model.ts';

/** Far more than any model reads or writes at once. */
const mostTokens = 1_000_000_000;
/** Dollars. A price that is a slip, or a joke, must not use up what a whole organization may spend. */
const mostCost = 1_000_000;

/** A whole number; 0 for what is none, or cannot be. */
export function believedCount(said: unknown): number {
  const whole = typeof said === 'number' ? Math.round(said) : 0;
  return whole > 0 && whole <= mostTokens ? whole : 0;
}

/** Of what was read no more came from the cache, or went there, than there was. */
export function believedTokens(said: { readonly [Name in keyof TokenCount]: unknown }): TokenCount {
  const input_tokens = believedCount(said.input_tokens);
  const cached_input_tokens = Math.min(believedCount(said.cached_input_tokens), input_tokens);
  const cacheWriteTokens = Math.min(believedCount(said.cacheWriteTokens), input_tokens - cached_input_tokens);
  const longCacheWriteTokens = Math.min(believedCount(said.longCacheWriteTokens), cacheWriteTokens);
  const webSearches = believedCount(said.webSearches);
  return {
    ...{ input_tokens, output_tokens: believedCount(said.output_tokens), cached_input_tokens },
    ...(cacheWriteTokens > 0 && { cacheWriteTokens }),
    ...(longCacheWriteTokens > 0 && { longCacheWriteTokens }),
    ...(webSearches > 0 && { webSearches }),
  };
}

/** Null where no price can be meant: it is then not known. */
export function believedCost(cost: Cost): Cost {
  return cost !== null && cost >= 0 && cost <= mostCost ? cost : null;
}
