/** Which embedder counts now: the model on this machine, where it is there and whole. */
import { createEmbeddedEmbedder, type EmbeddedEmbedder } from './embedded/embedded-embedder.ts';
import {
  embeddedDimensions,
  embeddedIdentity,
  marksOf,
  modelFault,
  modelFolder,
  openedFiles,
} from './embedded/pinned-model.ts';
import type { EmbedderAtHand } from './embedder.ts';

export interface Embedders {
  /** What embeds at this moment. */
  current(): Promise<EmbedderAtHand>;
  close(): Promise<void>;
}

export interface EmbeddersOptions {
  /** Where the models of this machine lie. */
  readonly modelsDirectory: string;
}

export function createEmbedders({ modelsDirectory }: EmbeddersOptions): Embedders {
  const folder = modelFolder(modelsDirectory);
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
    async current() {
      const marks = await marksOf(folder);
      if (marks === null) return { embedder: null, reason: absent(folder) };
      // The files are read once, and again when they have become others.
      if (checked?.marks !== marks) checked = { marks, found: open() };
      return await checked.found;
    },
    async close() {
      await Promise.all(opened.map((embedder) => embedder.close()));
    },
  };
}

function absent(folder: string): string {
  return `The embedding model is not on this machine (${folder}): run \`service embedder install\`.`;
}

function broken(fault: string): string {
  return `The embedding model cannot be used: ${fault}. Run \`service embedder install\`.`;
}
