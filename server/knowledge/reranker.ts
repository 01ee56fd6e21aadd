/** Has a model of a provider put what a search has found into order; without its answer the order stays as it was. */
import { Problem } from '../problem.ts';
import type { EmbeddingPayer, EmbeddingSpent } from './embedder.ts';
import { patiently } from './patience.ts';

/** The model behind it, as the runtime has it. */
export type ScoringModel = {
  readonly name: string;
  ask(
    request: { readonly query: string; readonly texts: readonly string[] },
    call: { readonly signal: AbortSignal; readonly spent: (spent: EmbeddingSpent) => Promise<void> },
  ): Promise<readonly number[]>;
};

/** What was found, with the scores of the model and the best first; null where it failed, and a notice that says why. */
export type Reranked<Found> =
  | { readonly found: readonly Found[]; readonly notice: null }
  | { readonly found: null; readonly notice: string };

export type Reranker = {
  /** So many of the first are to be given to it. */
  readonly candidates: number;
  /** Throws Problem where the caller may not ask the model. */
  order<Found extends { readonly score: number }>(
    query: string,
    found: readonly Found[],
    textOf: (one: Found) => string,
    signal: AbortSignal,
  ): Promise<Reranked<Found>>;
};

export type RerankerOptions = {
  readonly model: ScoringModel;
  readonly candidates: number;
  readonly payer: EmbeddingPayer;
  /** How long it may take, however often it is asked; 30 s if absent. */
  readonly limitMs?: number;
  /** Is told why the model has failed, of which the caller reads a sentence. */
  failed(error: unknown): void;
};

/** Nobody waits longer for an order that the search can do without. */
const usualLimitMs = 30_000;
const patience = { pausesMs: [500] };

/** What keeps the caller from asking at all is no fault of the model. */
const refusals: ReadonlySet<string> = new Set(['quota_exceeded', 'role_required', 'not_found']);

export function createReranker(options: RerankerOptions): Reranker {
  const { model, candidates, payer, failed, limitMs = usualLimitMs } = options;
  const once = async (request: Parameters<ScoringModel['ask']>[0], signal: AbortSignal) => {
    const call = await payer.begin(model.name);
    try {
      return await model.ask(request, { signal, spent: (spent) => call.spent(spent) });
    } finally {
      await call.end();
    }
  };

  return {
    candidates,
    async order(query, found, textOf, signal) {
      if (found.length === 0) return { found, notice: null };
      const limit = AbortSignal.timeout(limitMs);
      const either = AbortSignal.any([signal, limit]);
      // Vendors refuse texts without anything in them.
      const request = { query, texts: found.map((one) => textOf(one) || ' ') };
      try {
        const scores = await patiently(() => once(request, either), patience, either);
        const scored = found.map((one, index) => ({ ...one, score: scores[index] ?? 0 }));
        return { found: scored.sort((left, right) => right.score - left.score), notice: null };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Problem && refusals.has(error.code)) throw error;
        failed(error);
        return { found: null, notice: noticeOf(error, limit.aborted ? limitMs : null) };
      }
    },
  };
}

function noticeOf(error: unknown, passedMs: number | null): string {
  const reason =
    passedMs !== null
      ? `The model took longer than ${passedMs / 1000} s.`
      : error instanceof Problem
        ? error.message
        : 'The model failed; try again in a moment.';
  return `Not reranked, and in the order of the search. ${reason}`;
}
