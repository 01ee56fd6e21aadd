/** Asks a provider again where a moment may mend what went wrong. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '../problem.ts';

/** What a moment may mend. */
const passing: ReadonlySet<string> = new Set([
  'provider_rate_limited',
  'provider_timeout',
  'provider_failed',
]);

export type Patience = {
  readonly mostTries: number;
  /** The first pause before a failed call is repeated. */
  readonly pauseMs: number;
};

export async function patiently<Answer>(
  ask: () => Promise<Answer>,
  { mostTries, pauseMs }: Patience,
  signal: AbortSignal,
): Promise<Answer> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      if (tries === mostTries || !(error instanceof Problem && passing.has(error.code))) throw error;
      await sleep(pauseMs * 3 ** (tries - 1), undefined, { signal });
    }
  }
}
