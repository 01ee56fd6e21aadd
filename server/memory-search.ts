/** Searches memories by words, and by meaning too where there is an embedder, which reads then what it has not read. */
import type { Memory, MemorySearch, MemorySearchResult } from './contract/api.ts';
import {
  type Embedders,
  type EmbeddingPayer,
  embeddingFailure,
  embedTexts,
  isRefusedText,
  type Reranker,
} from './knowledge/knowledge.ts';
import type { Log } from './log.ts';
import { Problem } from './problem.ts';
import type {
  AgentSearch,
  FoundMemories,
  MemoryText,
  QueryMeaning,
  RememberingRun,
  Searcher,
  Store,
} from './store/store.ts';

export interface MemorySearches {
  /** Throws Problem where the caller may not rerank. */
  find(
    searcher: Searcher,
    search: Omit<MemorySearch, 'rerank'>,
    signal: AbortSignal,
    reranker?: Reranker,
  ): Promise<MemorySearchResult>;
  /** With the rights that the run has by now. Throws Problem where it has none. */
  findForRun(run: RememberingRun, search: AgentSearch, signal: AbortSignal): Promise<MemorySearchResult>;
  /** What may matter to the prompt of a run, by words alone where meaning is not known in time. */
  recall(run: RememberingRun, prompt: string, by: 'words' | 'words_and_meaning'): Promise<readonly Memory[]>;
}

interface MemorySearchParts {
  readonly store: Pick<Store, 'memories' | 'runMemories'>;
  readonly embedders: Pick<Embedders, 'current'>;
  /** Who pays for the vectors. */
  readonly payers: { searcher(searcher: Searcher): EmbeddingPayer; run(run: RememberingRun): EmbeddingPayer };
  readonly log: Log;
}

type EmbedderAtHand = Awaited<ReturnType<Embedders['current']>>;
type Embedder = NonNullable<EmbedderAtHand['embedder']>;

/** One search, whoever makes it. */
interface Asked {
  readonly query: string;
  readonly payer: EmbeddingPayer;
  unread(embedder: string, most: number): Promise<readonly MemoryText[]>;
  find(meaning: QueryMeaning | null): Promise<FoundMemories>;
}

/** A run waits no longer than this for what an embedder makes of its prompt; a thread that sleeps is awake by then. */
const recallMs = 2000;
/** Embedders read no more than this of a text at most, and the provider of one refuses more. */
const mostRecalledBy = 4000;

/** So many that are new are embedded before a search: each takes some milliseconds. */
const mostEmbedded = 16;

export function createMemorySearches(parts: MemorySearchParts): MemorySearches {
  const { embedders, payers, log } = parts;
  const { memories, runMemories } = parts.store;
  return {
    async find(searcher, search, signal, reranker) {
      const { query, top_k = 10 } = search;
      const wide = { ...search, top_k: Math.max(top_k, reranker?.candidates ?? 0) };
      const found = await answer(
        {
          query,
          payer: payers.searcher(searcher),
          unread: (embedder, most) => memories.withoutVector(searcher, embedder, most),
          find: (meaning) => memories.search(searcher, wide, meaning),
        },
        signal,
      );
      const told = reranker ? await reranked(reranker, query, found, signal) : found;
      return { ...told, data: told.data.slice(0, top_k) };
    },
    findForRun: (run, search, signal) =>
      answer(
        {
          query: search.query,
          payer: payers.run(run),
          unread: (embedder, most) => runMemories.withoutVector(run, search, embedder, most),
          find: (meaning) => runMemories.search(run, search, meaning),
        },
        signal,
      ),
    async recall(run, prompt, by) {
      const byWords = await runMemories.recall(run, prompt, null);
      if (by === 'words') return byWords;
      // Of most runs there is nothing more to be found: no embedder is asked, and nobody pays.
      if (prompt.trim() === '' || !(await runMemories.knowsMore(run, byWords))) return byWords;
      try {
        return (await recallByMeaning(run, prompt)) ?? byWords;
      } catch (error) {
        log.warn({ err: error, run: run.runId }, 'a run is told of memories by their words alone');
        return byWords;
      }
    },
  };

  async function recallByMeaning(run: RememberingRun, prompt: string): Promise<readonly Memory[] | null> {
    const { embedder } = await embedders.current(payers.run(run));
    if (embedder === null) return null;
    const query = prompt.slice(0, mostRecalledBy);
    const unread = await runMemories.withoutVector(run, {}, embedder.identity, mostEmbedded);
    const meaning = await read(embedder, query, unread, AbortSignal.timeout(recallMs));
    return runMemories.recall(run, prompt, meaning);
  }

  /** Answers with what the query means, and keeps that of what was not read yet. */
  async function read(
    embedder: Embedder,
    query: string,
    texts: readonly MemoryText[],
    signal: AbortSignal,
  ): Promise<QueryMeaning> {
    const said = [query, ...texts.map(({ content }) => content)];
    try {
      const [vector, ...vectors] = await embedder.embed(said, signal);
      await keep(embedder, texts, vectors);
      return meaningOf(embedder, vector);
    } catch (error) {
      if (texts.length === 0 || !isRefusedText(error)) throw error;
      return readEach(embedder, query, texts, signal);
    }
  }

  /** Each by itself, so that what is made of the others is kept however far this comes. */
  async function readEach(
    embedder: Embedder,
    query: string,
    texts: readonly MemoryText[],
    signal: AbortSignal,
  ): Promise<QueryMeaning> {
    const [vector] = await embedder.embed([query], signal);
    for (const text of texts) {
      const [made = null] = await embedTexts(embedder, [text.content], signal);
      if (made === null)
        log.warn({ memory: text.id }, 'the embedder refuses a memory: it is found by its words alone');
      // Like nothing; and as long as memory and embedder stay as they are, it is not asked for again.
      await keep(embedder, [text], [made ?? new Float32Array(embedder.dimensions)]);
    }
    return meaningOf(embedder, vector);
  }

  async function keep(
    { identity }: Embedder,
    texts: readonly MemoryText[],
    vectors: readonly Float32Array[],
  ): Promise<void> {
    const made = texts.flatMap(({ id, revision }, index) => {
      const vector = vectors[index];
      return vector ? [{ id, revision, vector }] : [];
    });
    if (made.length > 0) await memories.keepVectors(identity, made);
  }

  async function answer(asked: Asked, signal: AbortSignal): Promise<MemorySearchResult> {
    let present: EmbedderAtHand;
    try {
      present = await embedders.current(asked.payer);
      if (present.embedder) return await byMeaning(asked, present.embedder, signal);
    } catch (error) {
      if (signal.aborted || isRefusal(error)) throw error;
      const { said, level } = embeddingFailure(error);
      if (level !== null) log[level]({ err: error }, 'memories could not be embedded');
      return byWords(asked, said ?? 'The embedding model failed; the log says why.');
    }
    return byWords(asked, present.reason);
  }

  async function byMeaning(asked: Asked, embedder: Embedder, signal: AbortSignal) {
    const unread = await asked.unread(embedder.identity, mostEmbedded + 1);
    const meaning = await read(embedder, asked.query, unread.slice(0, mostEmbedded), signal);
    const found = await asked.find(meaning);
    return { ...found, notice: unread.length > mostEmbedded ? someUnread : null };
  }
}

async function reranked(
  reranker: Reranker,
  query: string,
  before: MemorySearchResult,
  signal: AbortSignal,
): Promise<MemorySearchResult> {
  const candidates = before.data.slice(0, reranker.candidates);
  const { found, notice } = await reranker.order(query, candidates, ({ memory }) => memory.content, signal);
  if (found) return { ...before, data: [...found] };
  return { ...before, notice: before.notice === null ? notice : `${before.notice} ${notice}` };
}

async function byWords(asked: Asked, reason: string): Promise<MemorySearchResult> {
  const notice = `Memories were searched by their words alone. ${reason}`;
  return { ...(await asked.find(null)), notice };
}

function meaningOf({ identity }: Embedder, vector: Float32Array = new Float32Array()): QueryMeaning {
  return { embedder: identity, vector };
}

/** What a search may not read is no fault of the embedder. */
function isRefusal(error: unknown): boolean {
  return error instanceof Problem && (error.code === 'role_required' || error.code === 'scope_required');
}

const someUnread =
  'Some older memories have not been embedded yet, and were searched by their words alone; search again for them.';
