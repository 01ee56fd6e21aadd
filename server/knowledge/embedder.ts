/** What turns texts into vectors, as ingestion and search know it, whoever stands behind it. */

export type Embedder = {
  /** What made a vector: a corpus remembers it, and is stale when it differs. */
  readonly identity: string;
  readonly dimensions: number;
  /** One vector of length 1 for each text, in their order. */
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>;
};

/** Why there is none is a sentence that searches and settings show. */
export type EmbedderAtHand =
  | { readonly embedder: Embedder }
  | { readonly embedder: null; readonly reason: string };
