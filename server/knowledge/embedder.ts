/** What turns texts into vectors, as ingestion and search know it, whoever stands behind it. */
import type { Usage } from '../contract/api.ts';

export type Embedder = {
  /** What made a vector: a corpus remembers it, and is stale when it differs. */
  readonly identity: string;
  readonly dimensions: number;
  /** The most texts that it asks for at once; all of them if absent. */
  readonly batchSize?: number;
  /** One vector of length 1 for each text, in their order. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>;
};

/** Why there is none is a sentence that searches and settings show. */
export type EmbedderAtHand =
  | { readonly embedder: Embedder }
  | { readonly embedder: null; readonly reason: string };

/** What one call of a provider has used. */
export type EmbeddingSpent = {
  readonly model: string;
  readonly usage: Usage;
  /** Null where it is not known. */
  readonly cost: number | null;
};

/** Who pays for vectors that a provider makes. Those of this machine cost nothing. */
export type EmbeddingPayer = {
  /** Before a call, which it may refuse; what is answered is told what the call has used, and ends it. */
  begin(model: string): Promise<{ spent(spent: EmbeddingSpent): Promise<void>; end(): Promise<void> }>;
};

/** What of a passage is embedded: a sentence alone often does not say what it is about. */
export function embeddedText({
  headings,
  text,
}: {
  readonly headings: readonly string[];
  readonly text: string;
}) {
  return [...headings, text].join('\n');
}
