/** Searches memories by words, and by meaning too where there is an embedder, which reads then what it has not read. */
import type { MemorySearch, MemorySearchResult } from './contract/api.ts';
import type { Embedders, EmbeddingPayer } from './knowledge/knowledge.ts';
import type { Log } from './log.ts';
import { Problem } from './problem.ts';
import type {
  AgentSearch,
  FoundMemories,
  MemoryText,
  QueryMeaning,
  Reach,
  RememberingRun,
  Store,
} from './store/store.ts';

export interface MemorySearches {
  find(reach: Reach, search: MemorySearch, signal: AbortSignal): Promise<MemorySearchResult>;
  /** With the rights that the run has by now. Throws Problem where it has none. */
  findForRun(run: RememberingRun, search: AgentSearch, signal: AbortSignal): Promise<MemorySearchResult>;
}

interface MemorySearchParts {
  readonly store: Pick<Store, 'memories' | 'runMemories'>;
  readonly embedders: Pick<Embedders, 'current'>;
  /** Who pays for the vectors. */
  readonly payers: { caller(reach: Reach): EmbeddingPayer; person(userId: string): EmbeddingPayer };
  readonly log: Log;
}

type Embedder = NonNullable<Awaited<ReturnType<Embedders['current']>>['embedder']>;

/** One search, whoever makes it. */
interface Asked {
  readonly query: string;
  readonly payer: EmbeddingPayer;
  unread(embedder: string, most: number): Promise<readonly MemoryText[]>;
  find(meaning: QueryMeaning | null): Promise<FoundMemories>;
}

/** So many that are new are embedded before a search: each takes some milliseconds. */
const mostEmbedded = 16;

export function createMemorySearches(parts: MemorySearchParts): MemorySearches {
  const { embedders, payers, log } = parts;
  const { memories, runMemories } = parts.store;
  return {
    find: (reach, search, signal) =>
      answer(
        {
          query: search.query,
          payer: payers.caller(reach),
          unread: (embedder, most) => memories.withoutVector(reach, embedder, most),
          find: (meaning) => memories.search(reach, search, meaning),
        },
        signal,
      ),
    findForRun: (run, search, signal) =>
      answer(
        {
          query: search.query,
          payer: payers.person(run.userId),
          unread: (embedder, most) => runMemories.withoutVector(run, search, embedder, most),
          find: (meaning) => runMemories.search(run, search, meaning),
        },
        signal,
      ),
  };

  async function answer(asked: Asked, signal: AbortSignal): Promise<MemorySearchResult> {
    const present = await embedders.current(asked.payer);
    if (present.embedder === null) return byWords(asked, present.reason);
    try {
      return await byMeaning(asked, present.embedder, signal);
    } catch (error) {
      if (signal.aborted || isRefusal(error)) throw error;
      log.error({ err: error }, 'memories could not be embedded');
      return byWords(asked, 'The embedding model failed; the log says why.');
    }
  }

  async function byMeaning(asked: Asked, embedder: Embedder, signal: AbortSignal) {
    const unread = await asked.unread(embedder.identity, mostEmbedded + 1);
    const texts = unread.slice(0, mostEmbedded);
    const said = [asked.query, ...texts.map(({ content }) => content)];
    const [query = new Float32Array(), ...vectors] = await embedder.embed(said, signal);
    const made = texts.flatMap(({ id, revision }, index) => {
      const vector = vectors[index];
      return vector ? [{ id, revision, vector }] : [];
    });
    if (made.length > 0) await memories.keepVectors(embedder.identity, made);
    const found = await asked.find({ embedder: embedder.identity, vector: query });
    return { ...found, notice: unread.length > mostEmbedded ? someUnread : null };
  }
}

async function byWords(asked: Asked, reason: string): Promise<MemorySearchResult> {
  const notice = `Memories were searched by their words alone. ${reason}`;
  return { ...(await asked.find(null)), notice };
}

/** What a search may not read is no fault of the embedder. */
function isRefusal(error: unknown): boolean {
  return error instanceof Problem && (error.code === 'role_required' || error.code === 'scope_required');
}

const someUnread =
  'Some older memories have not been embedded yet, and were searched by their words alone; search again for them.';
