/** What is done about a model that does not answer: it is asked again after a pause, then another in its place. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RuntimeEvent } from '../../contract/api.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import { ModelFailure } from './model.ts';
import type { ModelChoice } from './model-choice.ts';

/** How often and how slowly a model is asked the same thing. */
export interface Patience {
  readonly attempts: number;
  /** The first pause; each later one is twice as long. */
  readonly pauseMs: number;
  /** Whether an answer that broke off is asked for again: not where whoever reads it cannot take its beginning back. */
  readonly forgetsBeginnings: boolean;
}

const usual = { attempts: settingDefaults['options.limits.max_attempts'], pauseMs: 500 };

export function patienceOf(
  { options }: ClientConfig,
  forgetsBeginnings: boolean,
  pauseMs = usual.pauseMs,
): Patience {
  return { attempts: options?.limits?.max_attempts ?? usual.attempts, pauseMs, forgetsBeginnings };
}

/** No pause is longer, whatever the provider wants: it is then not asked again. */
const longestPauseMs = 60_000;
/** All pauses of one call together: whoever waits for an answer wants it some time. */
const longestWaitMs = 120_000;

export interface PatientCall<Answer> {
  readonly choice: ModelChoice;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  /** Asks the model of the choice once. */
  readonly attempt: () => Promise<Answer>;
  /** Whether anybody has seen something of the attempt that failed. */
  readonly hasBegun: () => boolean;
  /** Told what is done next, before the pause. */
  readonly told: (
    event: Extract<RuntimeEvent, { type: 'model_retried' | 'model_replaced' }>,
  ) => Promise<void>;
}

/** Throws the last ModelFailure where nothing helps; whatever else `attempt` throws, at once. */
export async function askPatiently<Answer>(call: PatientCall<Answer>): Promise<Answer> {
  const { choice, signal } = call;
  let waitedMs = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call.attempt();
    } catch (error) {
      if (!(error instanceof ModelFailure) || signal.aborted) throw error;
      if (call.hasBegun() && !call.patience.forgetsBeginnings) throw error;
      const pauseMs = pauseBefore(call.patience, error, attempt, waitedMs);
      if (pauseMs !== null) {
        await call.told(retried(choice, error, attempt + 1, pauseMs));
        await sleep(pauseMs, undefined, { signal });
        waitedMs += pauseMs;
      } else {
        const from = choice.model.name;
        if (!mayReplace(error) || !choice.replace()) throw error;
        await call.told(replaced(from, choice.model.name, error));
        [attempt, waitedMs] = [0, 0];
      }
    }
  }
}

/** Null where the same model is not asked again. */
function pauseBefore(
  { attempts, pauseMs }: Patience,
  { remedy, retryAfterMs }: ModelFailure,
  attempt: number,
  waitedMs: number,
): number | null {
  if (remedy !== 'retry' || attempt >= attempts) return null;
  // Half of it by chance, so that many who failed together do not come back together.
  const grown = pauseMs * 2 ** (attempt - 1) * (0.5 + Math.random() / 2);
  const pause = Math.round(Math.max(grown, retryAfterMs ?? 0));
  return pause > longestPauseMs || waitedMs + pause > longestWaitMs ? null : pause;
}

/** Another model may do where this one's provider could not or would not; what was asked is the same for all. */
function mayReplace({ remedy }: ModelFailure): boolean {
  return remedy === 'retry' || remedy === 'replace';
}

function retried({ model }: ModelChoice, { code, message }: ModelFailure, attempt: number, waitMs: number) {
  return {
    type: 'model_retried' as const,
    model: model.name,
    attempt,
    wait_ms: waitMs,
    code,
    reason: message,
  };
}

function replaced(from: string, to: string, { code, message }: ModelFailure) {
  return { type: 'model_replaced' as const, from, to, code, reason: message };
}
