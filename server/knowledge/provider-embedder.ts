/** An embedder that asks a model of a provider: in batches, patiently, and with vectors that are all alike. */
import { Problem } from '../problem.ts';
import type { Embedder, EmbeddingPayer, EmbeddingSpent } from './embedder.ts';
import { patiently } from './patience.ts';

/** A model of a provider, as the operator has chosen it. */
export type ProviderChoice = {
  readonly identity: string;
  readonly providerSettingId: string | null;
  readonly provider: string | null;
  readonly model: string;
  readonly dimensions: number;
  /** Whether the model is asked for that length; else it is its own, and many take no such wish. */
  readonly asksDimensions: boolean;
};

/** The model behind it, as the runtime has it. */
export type VectorModel = {
  readonly name: string;
  ask(
    texts: readonly string[],
    call: { readonly signal: AbortSignal; readonly spent: (spent: EmbeddingSpent) => Promise<void> },
  ): Promise<readonly (readonly number[])[]>;
};

export type ProviderEmbedderOptions = {
  readonly choice: ProviderChoice;
  /** The most texts of one request. */
  readonly batchSize: number;
  readonly model: VectorModel;
  /** Nobody pays if absent. */
  readonly payer?: EmbeddingPayer | undefined;
  /** The first pause before a failed call is repeated. */
  readonly pauseMs?: number | undefined;
};

export function createProviderEmbedder(options: ProviderEmbedderOptions): Embedder {
  const { choice, batchSize, model, payer, pauseMs = 500 } = options;
  const { identity, dimensions } = choice;
  const patience = { pausesMs: [pauseMs, pauseMs * 3, pauseMs * 9] };

  const once = async (texts: readonly string[], signal: AbortSignal) => {
    const call = await payer?.begin(model.name);
    try {
      return await model.ask(texts, { signal, spent: async (spent) => await call?.spent(spent) });
    } finally {
      await call?.end();
    }
  };

  return {
    identity,
    dimensions,
    batchSize,
    async embed(texts, signal) {
      const vectors: Float32Array[] = [];
      for (let from = 0; from < texts.length; from += batchSize) {
        signal.throwIfAborted();
        // Vendors refuse texts without anything in them.
        const batch = texts.slice(from, from + batchSize).map((text) => text || ' ');
        const answer = await patiently(() => once(batch, signal), patience, signal);
        for (const numbers of answer) vectors.push(normalized(numbers, choice));
      }
      return vectors;
    },
  };
}

/** Not every vendor gives vectors the length 1, above all not shortened ones. */
function normalized(numbers: readonly number[], { model, dimensions }: ProviderChoice): Float32Array {
  const length = Math.hypot(...numbers);
  if (numbers.length !== dimensions)
    throw new Problem(
      'embedder_failed',
      `The model ${model} gave a vector of ${numbers.length} numbers, and ${dimensions} were agreed on; set the embedder anew.`,
    );
  if (!(length > 0))
    throw new Problem(
      'embedder_failed',
      `The model ${model} gave a vector that points nowhere; try another model.`,
    );
  return Float32Array.from(numbers, (value) => value / length);
}
