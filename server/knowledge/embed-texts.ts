/** Embeds texts of which an embedder may refuse some: those it refuses have no vector, and the others have theirs. */
import { Problem } from '../problem.ts';
import type { Embedder } from './embedder.ts';

/** What every embedder takes: one that refuses this as well refuses how it is asked, and not what. */
const harmless = 'What is this text about?';

/** Throws what the embedder throws, where that is not about a text. */
export async function embedTexts(
  embedder: Embedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<(Float32Array | null)[]> {
  const { batchSize = Math.max(1, texts.length) } = embedder;
  const vectors: (Float32Array | null)[] = [];
  // What is answered is paid for, and no refusal in a later batch takes it along.
  for (let from = 0; from < texts.length; from += batchSize)
    vectors.push(...(await embedBatch(embedder, texts.slice(from, from + batchSize), signal)));
  return vectors;
}

/** A refused text takes all along that are asked for with it, so that each half is asked for by itself then. */
async function embedBatch(
  embedder: Embedder,
  texts: readonly string[],
  signal: AbortSignal,
): Promise<(Float32Array | null)[]> {
  try {
    const vectors = await embedder.embed(texts, signal);
    if (vectors.length === texts.length) return vectors;
    throw new Error(`${embedder.identity} made ${vectors.length} vectors of ${texts.length} texts.`);
  } catch (error) {
    if (!isRefusedText(error)) throw error;
    if (texts.length === 1) {
      await embedder.embed([harmless], signal);
      return [null];
    }
    const middle = Math.ceil(texts.length / 2);
    const first = await embedBatch(embedder, texts.slice(0, middle), signal);
    return [...first, ...(await embedBatch(embedder, texts.slice(middle), signal))];
  }
}

/** What is wrong with what was asked, and will be the next time. */
export function isRefusedText(error: unknown): boolean {
  return error instanceof Problem && refusals.has(error.code);
}

const refusals: ReadonlySet<string> = new Set(['provider_request_refused', 'provider_prompt_too_long']);
