/** How much a run may do before it ends by itself. */
import type { QueryLimits, StopReason, Usage } from '../../contract/api.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import type { Cost } from '../models/cost.ts';

export interface LimitsOfRun {
  readonly maxSteps: number;
  readonly maxTokens: number;
  /** US dollars. */
  readonly maxCost: number;
}

const usualSteps: number = settingDefaults['options.limits.max_steps'];

/** What the settings allow, or less where the query asks for less. */
export function limitsOf(
  { options }: ClientConfig,
  asked: QueryLimits = {},
  steps = usualSteps,
): LimitsOfRun {
  const allowed = options?.limits ?? {};
  const least = (...values: readonly (number | undefined)[]) =>
    Math.min(...values.map((value) => value ?? Number.POSITIVE_INFINITY));
  return {
    maxSteps: least(allowed.max_steps ?? steps, asked.max_steps),
    maxTokens: least(allowed.max_tokens, asked.max_tokens),
    maxCost: least(allowed.max_cost, asked.max_cost),
  };
}

export interface MetLimit {
  readonly stopReason: Extract<StopReason, 'step_limit' | 'token_limit' | 'cost_limit'>;
  /** In a sentence, for a person. */
  readonly message: string;
}

/** The limit that keeps the run from calling the model once more; null where none does. */
export function metLimit(
  { maxSteps, maxTokens, maxCost }: LimitsOfRun,
  { steps, usage, cost }: { readonly steps: number; readonly usage: Usage; readonly cost: Cost },
): MetLimit | null {
  const tokens = usage.input_tokens + usage.output_tokens;
  if (steps >= maxSteps)
    return {
      stopReason: 'step_limit',
      message: `The run has taken ${steps} step${steps === 1 ? '' : 's'}, as many as it may.`,
    };
  if (tokens >= maxTokens)
    return {
      stopReason: 'token_limit',
      message: `The run, with its agents, has used ${tokens} tokens; it may use ${maxTokens}.`,
    };
  if (cost !== null && cost >= maxCost)
    return {
      stopReason: 'cost_limit',
      message: `The run, with its agents, has cost $${cost}; it may cost $${maxCost}.`,
    };
  return null;
}
