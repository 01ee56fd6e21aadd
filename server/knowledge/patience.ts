/** Asks a provider again where a moment may mend what went wrong. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Problem } from '../problem.ts';

/** What a moment may mend. */
const passing: ReadonlySet<string> = new Set([
  'provider_rate_limited',
  'provider_timeout',
  'provider_failed',
]);

export function isPassing(error: unknown): error is Problem {
  return error instanceof Problem && passing.has(error.code);
}

export type Patience = {
  /** One before each call that is repeated. */
  readonly pausesMs: readonly number[];
  /** Whether a pause may mend it. */
  readonly mends?: (error: unknown) => error is Problem;
};

/** Whoever says when to come back is asked then, and not at all where that is later than all pauses would be over. */
export async function patiently<Answer>(
  ask: () => Promise<Answer>,
  { pausesMs, mends = isPassing }: Patience,
  signal: AbortSignal,
): Promise<Answer> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      const pause = mends(error) ? pauseBefore(error, pausesMs.slice(tries)) : null;
      if (pause === null) throw error;
      await sleep(pause, undefined, { signal });
    }
  }
}

function pauseBefore({ headers }: Problem, leftMs: readonly number[]): number | null {
  const wanted = Number(headers['Retry-After'] ?? 0) * 1000;
  const [next] = leftMs;
  const most = leftMs.reduce((sum, pause) => sum + pause, 0);
  return next === undefined || wanted > most ? null : Math.max(next, wanted);
}
