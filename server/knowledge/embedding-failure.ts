/** What a search tells of an embedder that did not answer, and how loud the log is about it. */
import { Problem } from '../problem.ts';

export interface EmbeddingFailure {
  /** For whoever asks; null where only the log says why. */
  readonly said: string | null;
  /** Null where nothing is out of order. */
  readonly level: 'warn' | 'error' | null;
}

export function embeddingFailure(error: unknown): EmbeddingFailure {
  if (error instanceof Problem && error.code === 'quota_exceeded')
    return { said: error.message, level: null };
  if (error instanceof Problem && error.code === 'overloaded') return { said: error.message, level: 'warn' };
  return { said: null, level: 'error' };
}
