/** Searches memories by words, and by meaning too where there is an embedder, which reads then what it has not read. */
import type { MemorySearch, MemorySearchResult } from './contract/api.ts';
import type { Embedders } from './knowledge/knowledge.ts';
import type { Log } from './log.ts';
import type { Reach, Store } from './store/store.ts';

export interface MemorySearches {
  find(reach: Reach, search: MemorySearch, signal: AbortSignal): Promise<MemorySearchResult>;
}

interface MemorySearchParts {
  readonly memories: Store['memories'];
  readonly embedders: Pick<Embedders, 'current'>;
  readonly log: Log;
}

type Embedder = NonNullable<Awaited<ReturnType<Embedders['current']>>['embedder']>;

/** So many that are new are embedded before a search: each takes some milliseconds. */
const mostEmbedded = 16;

export function createMemorySearches({ memories, embedders, log }: MemorySearchParts): MemorySearches {
  const byWords = async (reach: Reach, search: MemorySearch, reason: string) => ({
    ...(await memories.search(reach, search, null)),
    notice: `Memories were searched by their words alone. ${reason}`,
  });
  return {
    async find(reach, search, signal) {
      const present = await embedders.current();
      if (present.embedder === null) return byWords(reach, search, present.reason);
      try {
        return await byMeaning(reach, search, present.embedder, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        log.error({ err: error }, 'memories could not be embedded');
        return byWords(reach, search, 'The embedding model failed; the log says why.');
      }
    },
  };

  async function byMeaning(reach: Reach, search: MemorySearch, embedder: Embedder, signal: AbortSignal) {
    const unread = await memories.withoutVector(reach, embedder.identity, mostEmbedded + 1);
    const texts = unread.slice(0, mostEmbedded);
    const asked = [search.query, ...texts.map(({ content }) => content)];
    const [query = new Float32Array(), ...vectors] = await embedder.embed(asked, signal);
    const made = texts.flatMap(({ id, revision }, index) => {
      const vector = vectors[index];
      return vector ? [{ id, revision, vector }] : [];
    });
    if (made.length > 0) await memories.keepVectors(embedder.identity, made);
    const meaning = { embedder: embedder.identity, vector: query };
    const found = await memories.search(reach, search, meaning);
    return { ...found, notice: unread.length > mostEmbedded ? someUnread : null };
  }
}

const someUnread =
  'Some older memories have not been embedded yet, and were searched by their words alone; search again for them.';
