/** Embeds texts of which an embedder may refuse some: those it refuses have no vector, and the others have theirs. */
import { Problem } from '../problem.ts';
import type { Embedder } from './embedder.ts';

/** What every embedder takes: one that refuses this as well refuses how it is asked, and not what. */
const harmless = 'What is this text about?';

/**
 * A refused text takes all along that are asked for with it, so that each half is asked for by itself then. Throws what
 * the embedder throws, where that is not about a text.
 */
export async function embedTexts(
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
    const first = await embedTexts(embedder, texts.slice(0, middle), signal);
    return [...first, ...(await embedTexts(embedder, texts.slice(middle), signal))];
  }
}

/** What is wrong with what was asked, and will be the next time. */
export function isRefusedText(error: unknown): boolean {
  return error instanceof Problem && refusals.has(error.code);
}

const refusals: ReadonlySet<string> = new Set(['provider_request_refused', 'provider_prompt_too_long']);
