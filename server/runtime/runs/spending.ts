/** What an answer has used and cost, and how full the window is with it. */
import type { ContextUse, RuntimeEvent, Usage } from '../../contract/api.ts';
import { believedCost, believedTokens } from '../models/believed-counts.ts';
import { addCosts, type Cost } from '../models/cost.ts';
import { type ModelFacts, noUsage, type TokenCount } from '../models/model.ts';

/** One answer, counted. */
export interface Spending {
  readonly usage: Usage;
  readonly cost: Cost;
}

/**
 * What an answer has used, as its provider counts. Where it does not count, it is estimated by what was read and written:
 * quotas of tokens and of cost would otherwise never bind there.
 */
export function countedOr(
  said: TokenCount | undefined,
  { reads, writes }: { readonly reads: number; readonly writes: number },
): TokenCount {
  const counted = believedTokens(said ?? noUsage);
  if (counted.input_tokens + counted.output_tokens > 0 || writes === 0) return counted;
  return { ...counted, input_tokens: reads, output_tokens: writes };
}

export function spendingOf(facts: ModelFacts, count: TokenCount | undefined): Spending {
  const believed = believedTokens(count ?? noUsage);
  const { input_tokens, output_tokens, cached_input_tokens } = believed;
  return {
    usage: { input_tokens, output_tokens, cached_input_tokens },
    cost: believedCost(costOf(facts, believed)),
  };
}

/** A provider that does not count gives no answer for nothing, unless all of its answers are. */
function costOf({ price }: ModelFacts, count: TokenCount): Cost {
  if (count.input_tokens + count.output_tokens > 0) return price(count);
  return price({ ...noUsage, input_tokens: 1_000_000, output_tokens: 1_000_000 }) === 0 ? 0 : null;
}

/** Adds it to what the run has spent. */
export function spend(progress: { usage: Usage; cost: Cost }, { usage, cost }: Spending): void {
  progress.usage = addUsage(progress.usage, usage);
  progress.cost = addCosts(progress.cost, cost);
}

/** What the run has spent when this is added. */
export function usageUpdated(
  progress: Spending,
  { usage, cost }: Spending,
  context: ContextUse,
): Extract<RuntimeEvent, { type: 'usage_updated' }> {
  return {
    type: 'usage_updated',
    usage: addUsage(progress.usage, usage),
    cost: addCosts(progress.cost, cost),
    context,
  };
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
  };
}
