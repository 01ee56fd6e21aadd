/** Which embedder counts now: a model of a provider where the operator has chosen one, else the model on this machine. */
import { Problem } from '../problem.ts';
import {
  createEmbeddedEmbedder,
  type EmbeddedEmbedder,
  mostWaitingCalls,
} from './embedded/embedded-embedder.ts';
import {
  embeddedDimensions,
  embeddedIdentity,
  marksOf,
  modelFault,
  modelFolder,
  openedFiles,
} from './embedded/pinned-model.ts';
import type { EmbedderAtHand, EmbeddingPayer } from './embedder.ts';
import { createProviderEmbedder, type ProviderChoice, type VectorModel } from './provider-embedder.ts';

export { embeddedDimensions, embeddedIdentity, embeddedModel } from './embedded/pinned-model.ts';

export type { ProviderChoice } from './provider-embedder.ts';

/** A model of a provider that was not asked yet: how long its vectors are may be left to it. */
export type WantedEmbedder = Omit<ProviderChoice, 'identity' | 'dimensions' | 'asksDimensions'> & {
  readonly dimensions: number | null;
};

/** What embeds, and the most texts of one request to it. */
interface Chosen {
  /** Null where the model of this machine embeds. */
  readonly chosen: ProviderChoice | null;
  readonly batchSize: number;
}

export interface Embedders {
  /** What embeds at this moment. */
  current(payer?: EmbeddingPayer): Promise<EmbedderAtHand>;
  /** What has made the vectors of a corpus: as long as it has them, its questions are embedded by that, too. */
  named(identity: string, payer?: EmbeddingPayer): Promise<EmbedderAtHand>;
  /** What `current` would be called, whether or not it can embed at this moment. */
  identity(): Promise<string>;
  /** Asks the model for a vector. Throws Problem: `embedder_unsuited`, or what the provider has to say. */
  tried(wanted: WantedEmbedder, signal: AbortSignal): Promise<ProviderChoice>;
  /** What the model of this machine has not answered yet, and how much that may be. */
  queue(): { readonly waiting: number; readonly limit: number };
  close(): Promise<void>;
}

export interface EmbeddersOptions {
  /** Where the models of this machine lie. */
  readonly modelsDirectory: string;
  /** What the operator has chosen. */
  chosen(): Promise<Chosen>;
  /** What was chosen once, by what it is called. */
  known(identity: string): Promise<Chosen>;
  /** Throws Problem where there is no such model, or no way to it. */
  open(wanted: WantedEmbedder): Promise<VectorModel>;
  /** The first pause before a failed call of a provider is repeated. */
  readonly pauseMs?: number;
}

export function createEmbedders(options: EmbeddersOptions): Embedders {
  const local = createLocal(modelFolder(options.modelsDirectory));
  const { chosen, known, open, pauseMs } = options;

  const provided = async (
    choice: ProviderChoice,
    batchSize: number,
    payer?: EmbeddingPayer,
  ): Promise<EmbedderAtHand> => {
    try {
      const model = await open({ ...choice, dimensions: choice.asksDimensions ? choice.dimensions : null });
      return { embedder: createProviderEmbedder({ choice, batchSize, model, payer, pauseMs }) };
    } catch (error) {
      if (error instanceof Problem) return { embedder: null, reason: error.message };
      throw error;
    }
  };

  return {
    async current(payer) {
      const { chosen: choice, batchSize } = await chosen();
      return choice ? provided(choice, batchSize, payer) : local.current();
    },
    async named(identity, payer) {
      if (identity === embeddedIdentity) return local.current();
      const { chosen: choice, batchSize } = await known(identity);
      if (choice) return provided(choice, batchSize, payer);
      return {
        embedder: null,
        reason: `What has made the vectors, ${identity}, is not known here any more.`,
      };
    },
    identity: async () => (await chosen()).chosen?.identity ?? embeddedIdentity,
    async tried(wanted, signal) {
      const model = await open(wanted);
      const [numbers = []] = await model.ask(['How long is a vector?'], {
        signal,
        spent: async () => undefined,
      });
      const dimensions = numbers.length;
      if (wanted.dimensions !== null && wanted.dimensions !== dimensions)
        throw new Problem(
          'embedder_unsuited',
          `The model gives vectors of ${dimensions} numbers, and none of ${wanted.dimensions}; leave dimensions out, or choose another model.`,
        );
      const { providerSettingId, provider, model: modelId } = wanted;
      const identity = `provider:${providerSettingId ?? provider}:${modelId}:${dimensions}`;
      return { ...wanted, dimensions, asksDimensions: wanted.dimensions !== null, identity };
    },
    queue: () => ({ waiting: local.waiting(), limit: mostWaitingCalls }),
    close: local.close,
  };
}

/** The model on this machine, where it is there and whole. */
function createLocal(folder: string) {
  let checked: { readonly marks: string; readonly found: Promise<EmbedderAtHand> } | null = null;
  const opened: EmbeddedEmbedder[] = [];

  const open = async (): Promise<EmbedderAtHand> => {
    const fault = await modelFault(folder);
    if (fault !== null) return { embedder: null, reason: broken(fault) };
    const embedder = createEmbeddedEmbedder({
      identity: embeddedIdentity,
      dimensions: embeddedDimensions,
      files: openedFiles(folder),
    });
    opened.push(embedder);
    return { embedder };
  };

  return {
    async current(): Promise<EmbedderAtHand> {
      const marks = await marksOf(folder);
      if (marks === null) return { embedder: null, reason: absent };
      // The files are read once, and again when they have become others.
      if (checked?.marks !== marks) checked = { marks, found: open() };
      const look = checked;
      return await look.found.catch((error: unknown) => {
        // A look that failed says nothing of the files: the next one may find them.
        if (checked === look) checked = null;
        throw error;
      });
    },
    waiting: () => opened.reduce((sum, embedder) => sum + embedder.waiting(), 0),
    async close() {
      await Promise.all(opened.map((embedder) => embedder.close()));
    },
  };
}

const absent = 'The embedding model is not on this machine: run `service embedder install`.';

function broken(fault: string): string {
  return `The embedding model cannot be used: ${fault}. Run \`service embedder install\`.`;
}
