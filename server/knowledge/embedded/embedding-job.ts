/** What the embedder and its thread say to each other. */

/** What the thread is told when it starts. */
export interface EmbeddingFiles {
  readonly model: string;
  readonly tokenizer: string;
  /** Processors that one text is computed on. */
  readonly processors: number;
}

export type EmbeddingRequest =
  | { readonly kind: 'embed'; readonly id: number; readonly texts: readonly string[] }
  | { readonly kind: 'cancel'; readonly id: number }
  | { readonly kind: 'close' };

export type EmbeddingAnswer =
  | { readonly id: number; readonly vectors: readonly Float32Array[] }
  | { readonly id: number; readonly failure: string };
