/** Answers a question with passages: by their words, by their meaning, or by both, each with where it stands. */
import type { CorpusSearchAnswer, PassageHit, SearchMode } from '../contract/api.ts';
import { type Embedder, type EmbedderAtHand, embeddedText } from './embedder.ts';
import { embeddingFailure } from './embedding-failure.ts';
import type { Reranker } from './reranker.ts';

/** A passage by its number, the best first. */
export type RankedPassage = { readonly number: number; readonly score: number };

/** A passage as it is stored. */
export type StoredPassage = {
  readonly number: number;
  readonly id: string;
  readonly corpus_id: string;
  readonly document_id: string;
  readonly title: string;
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly page: number | null;
  readonly line: number;
  readonly headings: readonly string[];
};

/** Where a search looks. */
export type SearchPlace = {
  readonly corpusIds: readonly string[];
  /** What the metadata of a document has to say. */
  readonly filter?: Readonly<Record<string, string>> | undefined;
};

/** What the search needs of a store; `Caller` is whose rights the store asks for. */
export type PassageIndex<Caller> = {
  /** Why no vectors can be compared, and what helps; null where they can. */
  whyNoVectors(): Promise<string | null>;
  byWords(caller: Caller, place: SearchPlace, question: string, limit: number): Promise<RankedPassage[]>;
  byVector(
    caller: Caller,
    place: SearchPlace,
    question: { readonly embedder: string; readonly vector: Float32Array },
    limit: number,
  ): Promise<RankedPassage[]>;
  /** In no order; those that are gone by now are left out. */
  read(caller: Caller, numbers: readonly number[]): Promise<StoredPassage[]>;
};

export type Question = SearchPlace & {
  readonly query: string;
  readonly mode: SearchMode;
  readonly topK: number;
  readonly minScore?: number | undefined;
  /** Puts what was found into another order. */
  readonly reranker?: Reranker | undefined;
};

export type PassageSearch<Caller> = {
  /** Throws what the store throws, and where the caller may not rerank; models that fail are told in the notice. */
  search(caller: Caller, question: Question, signal: AbortSignal): Promise<CorpusSearchAnswer>;
};

export type SearchParts<Caller> = {
  readonly index: PassageIndex<Caller>;
  /** What has made the vectors there, or what makes them now. */
  embedder(caller: Caller, place: SearchPlace): Promise<EmbedderAtHand>;
  /** Is told why an embedder has failed, which the caller is not, and how loud that is. */
  embeddingFailed(error: unknown, level: 'warn' | 'error'): void;
};

/** The passages of each ranking that are looked at: the second half of a page of 100 hits still has two ranks. */
const depth = 200;

export function createPassageSearch<Caller>(parts: SearchParts<Caller>): PassageSearch<Caller> {
  return {
    async search(caller, question, signal) {
      const asked = await vectorOf(parts, caller, question, signal);
      const { words, vectors, mode, notice } = await rankings(parts.index, caller, question, asked);
      const ranked = mode === 'hybrid' ? fused(words, vectors) : mode === 'vector' ? vectors : words;
      const read = (best: readonly RankedPassage[]) =>
        readHits(parts.index, caller, best, { words, vectors });
      const { reranker, topK } = question;
      if (!reranker) return { data: await read(bestOf(ranked, question)), mode, notice };
      const hits = await read(ranked.slice(0, reranker.candidates));
      const reranked = await reranker.order(question.query, hits, textOf, signal);
      if (reranked.found) return { data: bestOf(reranked.found, question), mode, notice };
      // What the model's scores were to be held against says nothing about these.
      const data = await read(ranked.slice(0, topK));
      return { data, mode, notice: notice === null ? reranked.notice : `${notice} ${reranked.notice}` };
    },
  };
}

function bestOf<Found extends { readonly score: number }>(
  found: readonly Found[],
  { minScore = Number.NEGATIVE_INFINITY, topK }: Question,
): Found[] {
  return found.filter(({ score }) => score >= minScore).slice(0, topK);
}

/** As it was embedded. */
function textOf({ text, citation: { headings } }: PassageHit): string {
  return embeddedText({ headings, text });
}

interface Rankings {
  readonly words: readonly RankedPassage[];
  readonly vectors: readonly RankedPassage[];
  readonly mode: SearchMode;
  readonly notice: string | null;
}

async function rankings<Caller>(
  index: PassageIndex<Caller>,
  caller: Caller,
  question: Question,
  { vector, notice }: AskedVector,
): Promise<Rankings> {
  const byWords = () => index.byWords(caller, question, question.query, depth);
  if (!vector) return { words: await byWords(), vectors: [], mode: 'keyword', notice };
  const [words, vectors] = await Promise.all([
    question.mode === 'vector' ? [] : byWords(),
    index.byVector(caller, question, vector, depth),
  ]);
  if (vectors.length > 0) return { words, vectors, mode: question.mode, notice };
  const found = question.mode === 'vector' ? await byWords() : words;
  if (found.length === 0) return { words, vectors, mode: question.mode, notice };
  return { words: found, vectors, mode: 'keyword', notice: noneYet };
}

const noneYet =
  'Searched by words alone: the embedder of today has not embedded these documents yet; index the corpus anew.';

interface AskedVector {
  readonly vector: { readonly embedder: string; readonly vector: Float32Array } | null;
  readonly notice: string | null;
}

async function vectorOf<Caller>(
  { index, embedder, embeddingFailed }: SearchParts<Caller>,
  caller: Caller,
  question: Question,
  signal: AbortSignal,
): Promise<AskedVector> {
  const { query, mode } = question;
  if (mode === 'keyword') return { vector: null, notice: null };
  const off = await index.whyNoVectors();
  if (off !== null) return { vector: null, notice: `Searched by words alone: ${off}` };
  try {
    const atHand = await embedder(caller, question);
    if (!atHand.embedder) return { vector: null, notice: `Searched by words alone: ${atHand.reason}` };
    return { vector: await embedded(atHand.embedder, query, signal), notice: null };
  } catch (error) {
    signal.throwIfAborted();
    const { said, level } = embeddingFailure(error);
    if (level !== null) embeddingFailed(error, level);
    const why = said ?? 'the embedder failed; try again in a moment.';
    return { vector: null, notice: `Searched by words alone: ${why}` };
  }
}

async function embedded(embedder: Embedder, query: string, signal: AbortSignal) {
  const [vector] = await embedder.embed([query], signal);
  if (!vector) throw new Error('The embedder answered a text with no vector.');
  return { embedder: embedder.identity, vector };
}

/**
 * How much the first ranks count beside those behind them: the value that its authors found to do well everywhere, and
 * that nobody has to tune (Cormack, Clarke and Büttcher, 2009).
 */
const rankOffset = 60;

/** Reciprocal rank fusion: scores of words and of vectors cannot be compared, ranks can. Both count alike. */
function fused(...rankings: readonly (readonly RankedPassage[])[]): RankedPassage[] {
  const best = rankings.length / (rankOffset + 1);
  const scores = new Map<number, number>();
  for (const ranking of rankings)
    for (const [index, { number }] of ranking.entries())
      scores.set(number, (scores.get(number) ?? 0) + 1 / (rankOffset + index + 1) / best);
  return [...scores]
    .map(([number, score]) => ({ number, score }))
    .sort((left, right) => right.score - left.score || left.number - right.number);
}

async function readHits<Caller>(
  index: PassageIndex<Caller>,
  caller: Caller,
  best: readonly RankedPassage[],
  {
    words,
    vectors,
  }: { readonly words: readonly RankedPassage[]; readonly vectors: readonly RankedPassage[] },
): Promise<PassageHit[]> {
  const passages = await index.read(
    caller,
    best.map(({ number }) => number),
  );
  const byNumber = new Map(passages.map((passage) => [passage.number, passage]));
  const [keywordRanks, vectorRanks] = [ranksOf(words), ranksOf(vectors)];
  return best.flatMap(({ number, score }) => {
    const passage = byNumber.get(number);
    if (!passage) return [];
    const keyword_rank = keywordRanks.get(number) ?? null;
    const vector_rank = vectorRanks.get(number) ?? null;
    return [{ ...told(passage), score, keyword_rank, vector_rank }];
  });
}

function told(passage: StoredPassage): Omit<PassageHit, 'score' | 'keyword_rank' | 'vector_rank'> {
  const { id: chunk_id, corpus_id, document_id, title: document_title, text } = passage;
  const { start, end, page, line, headings } = passage;
  const citation = { start, end, page, line, headings: [...headings] };
  return { chunk_id, corpus_id, document_id, document_title, text, citation };
}

function ranksOf(ranking: readonly RankedPassage[]): ReadonlyMap<number, number> {
  return new Map(ranking.map(({ number }, index) => [number, index + 1]));
}
