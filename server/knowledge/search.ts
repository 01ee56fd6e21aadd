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

/** Some of the corpora of a search, by whose embedder they are searched; no corpus stands in two of them. */
export type EmbeddedCorpora = { readonly corpusIds: readonly string[]; readonly atHand: EmbedderAtHand };

export type SearchParts<Caller> = {
  readonly index: PassageIndex<Caller>;
  /** What has made the vectors there, or what makes them now; at least one. */
  embedders(caller: Caller, place: SearchPlace): Promise<readonly EmbeddedCorpora[]>;
  /** Is told why an embedder has failed, which the caller is not, and how loud that is. */
  embeddingFailed(error: unknown, level: 'warn' | 'error'): void;
};

/** The passages of each ranking that are looked at: the second half of a page of 100 hits still has two ranks. */
const depth = 200;

export function createPassageSearch<Caller>(parts: SearchParts<Caller>): PassageSearch<Caller> {
  return {
    async search(caller, question, signal) {
      const asked = await vectorsOf(parts, caller, question, signal);
      const { words, vectors, mode, isAsked, notice } = await rankings(parts.index, caller, question, asked);
      const ranked = mode === 'hybrid' ? fused(words, vectors) : mode === 'vector' ? vectors : words;
      const read = (best: readonly RankedPassage[]) =>
        readHits(parts.index, caller, best, { words, vectors });
      const { reranker, topK } = question;
      // What scores of another kind were to be held against says nothing about these.
      if (!reranker)
        return { data: await read(isAsked ? bestOf(ranked, question) : ranked.slice(0, topK)), mode, notice };
      const hits = await read(ranked.slice(0, reranker.candidates));
      const reranked = await reranker.order(question.query, hits, textOf, signal);
      if (reranked.found) return { data: bestOf(reranked.found, question), mode, notice };
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
  /** Whether scores are of the kind that was asked for. */
  readonly isAsked: boolean;
  readonly notice: string | null;
}

async function rankings<Caller>(
  index: PassageIndex<Caller>,
  caller: Caller,
  question: Question,
  { vectors: asked, notice }: AskedVectors,
): Promise<Rankings> {
  const { mode } = question;
  const byWords = () => index.byWords(caller, question, question.query, depth);
  const alone = (words: readonly RankedPassage[], why: string | null): Rankings => ({
    ...{ words, vectors: [], mode: 'keyword', isAsked: mode === 'keyword', notice: why },
  });
  if (asked.length === 0) return alone(await byWords(), notice);
  const [words, ...byVector] = await Promise.all([
    mode === 'vector' ? [] : byWords(),
    ...asked.map(({ corpusIds, ...vector }) =>
      index.byVector(caller, { ...question, corpusIds }, vector, depth),
    ),
  ]);
  const [vectors = [], ...others] = byVector.filter((ranking) => ranking.length > 0);
  if (vectors.length > 0) {
    const isAsked = mode === 'hybrid' || others.length === 0;
    const told = isAsked ? notice : [notice, byRank].filter((said) => said !== null).join(' ');
    return { words, vectors: inTurn(vectors, ...others), mode, isAsked, notice: told };
  }
  const found = mode === 'vector' ? await byWords() : words;
  if (found.length === 0) return { words, vectors, mode, isAsked: true, notice };
  return alone(found, notice ?? noneYet);
}

/** Cosines of different embedders cannot be compared, ranks can: the first of each, then the second of each, and so on. */
function inTurn(only: readonly RankedPassage[], ...others: readonly (readonly RankedPassage[])[]) {
  if (others.length === 0) return only;
  return [only, ...others]
    .flatMap((ranking) => ranking.map(({ number }, index) => ({ number, score: ofRank(index) / ofRank(0) })))
    .sort((left, right) => right.score - left.score);
}

const noneYet =
  'Searched by words alone: the embedder of today has not embedded these documents yet; index the corpus anew.';

const byRank =
  'Ranked by places instead of cosines: these corpora have vectors of several embedders, which cannot be compared.';

/** The question as one embedder has it, and where that is compared. */
interface AskedVector {
  readonly corpusIds: readonly string[];
  readonly embedder: string;
  readonly vector: Float32Array;
}

interface AskedVectors {
  readonly vectors: readonly AskedVector[];
  readonly notice: string | null;
}

async function vectorsOf<Caller>(
  { index, embedders, embeddingFailed }: SearchParts<Caller>,
  caller: Caller,
  question: Question,
  signal: AbortSignal,
): Promise<AskedVectors> {
  const { query, mode } = question;
  if (mode === 'keyword') return { vectors: [], notice: null };
  const off = await index.whyNoVectors();
  const byWordsAlone = (why: string): AskedVectors => ({
    vectors: [],
    notice: `Searched by words alone: ${why}`,
  });
  if (off !== null) return byWordsAlone(off);
  const whyNot = (error: unknown): string => {
    signal.throwIfAborted();
    const { said, level } = embeddingFailure(error);
    if (level !== null) embeddingFailed(error, level);
    return said ?? 'the embedder failed; try again in a moment.';
  };
  const asked = async ({ corpusIds, atHand }: EmbeddedCorpora): Promise<AskedVector | string> => {
    if (!atHand.embedder) return atHand.reason;
    return { corpusIds, ...(await embedded(atHand.embedder, query, signal)) };
  };
  try {
    const groups = await embedders(caller, question);
    const answers = await Promise.all(groups.map((group) => asked(group).catch(whyNot)));
    const vectors = answers.filter((answer) => typeof answer !== 'string');
    const [why = null] = answers.filter((answer) => typeof answer === 'string');
    if (vectors.length === 0 && why !== null) return byWordsAlone(why);
    return { vectors, notice: why && `Some of these corpora are not searched by meaning: ${why}` };
  } catch (error) {
    return byWordsAlone(whyNot(error));
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

/** What a rank counts; the best has the index 0. */
function ofRank(index: number): number {
  return 1 / (rankOffset + index + 1);
}

/** Reciprocal rank fusion: scores of words and of vectors cannot be compared, ranks can. Both count alike. */
function fused(...rankings: readonly (readonly RankedPassage[])[]): RankedPassage[] {
  const best = rankings.length * ofRank(0);
  const scores = new Map<number, number>();
  for (const ranking of rankings)
    for (const [index, { number }] of ranking.entries())
      scores.set(number, (scores.get(number) ?? 0) + ofRank(index) / best);
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
