/** An embedder for work that nobody waits for: what a provider allows in a minute is used up, and gone on with after it. */
import { Problem } from '../problem.ts';
import type { Embedder } from './embedder.ts';
import { type Patience, patiently } from './patience.ts';

/** Two minutes for each call: a limit of a minute is over by then, and one of a day is not waited for. */
const patience: Patience = {
  pausesMs: [1000, 2000, 4000, 8000, 15_000, 30_000, 60_000],
  mends: (error): error is Problem => error instanceof Problem && error.code === 'provider_rate_limited',
};

export function patientEmbedder(embedder: Embedder): Embedder {
  return {
    ...embedder,
    embed: (texts, signal) => patiently(() => embedder.embed(texts, signal), patience, signal),
  };
}
