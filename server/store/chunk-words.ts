/** Ranks passages by the words of a question (BM25), alike on both engines: they find candidates, we weigh them. */
import type { Knex } from 'knex';
import { indexedWord } from './chunk-index.ts';
import { countIn, termsIn } from './chunk-terms.ts';
import type { Narrow, SearchedCorpus } from './chunk-vectors.ts';

/** A passage by its number, with what its words weigh. */
export interface WeighedChunk {
  readonly number: number;
  readonly score: number;
}

export interface WordQuestion {
  readonly text: string;
  readonly limit: number;
  /** How many passages are weighed at most. */
  readonly budget: number;
}

/** The heaviest first. */
export async function rankByWords(
  sql: Knex,
  corpora: readonly SearchedCorpus[],
  { text, limit, budget }: WordQuestion,
  narrow: Narrow,
): Promise<WeighedChunk[]> {
  const scale = scaleOf(corpora);
  const terms = await weighTerms(sql, corpora, scale, text);
  if (terms.length === 0) return [];
  const search = { sql, corpora, budget, narrow };
  const candidates = await candidatesOf(search, terms);
  return candidates
    .map((candidate) => ({ number: candidate.number, score: weightOf(candidate, terms, scale) }))
    .sort((left, right) => right.score - left.score || left.number - right.number)
    .slice(0, limit);
}

/** How many passages there are, and how long they are on average. */
interface Scale {
  readonly chunks: number;
  readonly averageLength: number;
}

function scaleOf(corpora: readonly SearchedCorpus[]): Scale {
  const chunks = corpora.reduce((sum, corpus) => sum + corpus.chunks, 0);
  const words = corpora.reduce((sum, corpus) => sum + corpus.words, 0);
  return { chunks, averageLength: words / Math.max(1, chunks) };
}

interface WeighedTerm {
  readonly term: string;
  /** In how many passages it stands. */
  readonly chunks: number;
  readonly weight: number;
}

/** A question has a few words; of a whole page that somebody asks by, those that say most. */
const mostTerms = 32;
const longestQuestion = 8000;

/** The rarest first; those that stand nowhere are left out. A word that is asked twice counts twice. */
async function weighTerms(
  sql: Knex,
  corpora: readonly SearchedCorpus[],
  scale: Scale,
  text: string,
): Promise<WeighedTerm[]> {
  const asked = termsIn(text.slice(0, longestQuestion));
  const rows: { term: string; chunks: number }[] = await sql('corpus_terms')
    .whereIn(
      'corpus_number',
      corpora.map(({ number }) => number),
    )
    .whereIn('term', [...asked.keys()])
    .groupBy('term')
    .select('term')
    .sum({ chunks: 'chunks' });
  const weighed = rows.map(({ term, chunks }) => {
    const rarity = Math.log(1 + (scale.chunks - Number(chunks) + 0.5) / (Number(chunks) + 0.5));
    return { term, chunks: Number(chunks), weight: (asked.get(term) ?? 0) * rarity };
  });
  return weighed
    .sort((left, right) => right.weight - left.weight || compare(left.term, right.term))
    .slice(0, mostTerms)
    .sort((left, right) => left.chunks - right.chunks || compare(left.term, right.term));
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

interface Candidate {
  readonly number: number;
  readonly terms: string;
  readonly length: number;
}

/** The usual values: how soon a repeated word counts no more, and how much a long passage has to say it more often. */
const saturation = 1.2;
const lengthShare = 0.75;

function weightOf(candidate: Candidate, terms: readonly WeighedTerm[], { averageLength }: Scale): number {
  const length = 1 - lengthShare + (lengthShare * candidate.length) / averageLength;
  return terms.reduce((sum, { term, weight }) => {
    const count = countIn(candidate.terms, term);
    return sum + (weight * count * (saturation + 1)) / (count + saturation * length);
  }, 0);
}

interface CandidateSearch {
  readonly sql: Knex;
  readonly corpora: readonly SearchedCorpus[];
  readonly budget: number;
  readonly narrow: Narrow;
}

/** With fewer than these from rare words, those that hold several common ones are looked for, too. */
const enough = 200;

/**
 * The passages that may weigh most: all that hold one of the rare words. What holds none of them weighs little, and in
 * a large corpus there would be no end of it. Where every word is common, those that hold as many of them as can be.
 */
async function candidatesOf(search: CandidateSearch, terms: readonly WeighedTerm[]): Promise<Candidate[]> {
  const rare: string[] = [];
  let reached = 0;
  for (const { term, chunks } of terms) {
    if (reached + chunks > search.budget) break;
    rare.push(term);
    reached += chunks;
  }
  const found = new Map<number, Candidate>();
  const collect = async (words: readonly string[], sign: '&' | '|'): Promise<void> => {
    for (const row of await matching(search, words, sign)) found.set(row.number, row);
  };
  if (rare.length > 0) await collect(rare, '|');
  // What holds a rare one is there by now.
  const common = terms.slice(rare.length).map(({ term }) => term);
  for (let count = common.length; count > 0 && found.size < enough; count = Math.floor(count / 2))
    await collect(common.slice(0, count), '&');
  return [...found.values()];
}

async function matching(
  { sql, corpora, budget, narrow }: CandidateSearch,
  words: readonly string[],
  sign: '&' | '|',
): Promise<Candidate[]> {
  const read = (passages: Knex.QueryBuilder): Promise<Candidate[]> =>
    narrow(passages)
      .select(['chunks.number', 'chunks.terms', 'chunks.length'])
      .orderBy('chunks.number')
      .limit(budget);
  if (sql.client.config.client === 'sqlite3') {
    const passages = sql('chunk_words')
      .join('chunks', 'chunks.number', 'chunk_words.rowid')
      .whereRaw('chunk_words match ?', [expressionOf(corpora, words, sign, fts)]);
    return read(passages);
  }
  const expression = expressionOf(corpora, words, sign, tsquery);
  for (let most: number | null = budget; ; most = most < mostFound ? most * 10 : null) {
    const rows = await read(foundInPostgres(sql, corpora, expression, most));
    if (most === null || rows.length >= Math.min(enough, budget)) return rows;
    if ((await countInPostgres(sql, expression, most)) < most) return rows;
  }
}

/** Where so many passages are not enough, all are looked up. */
const mostFound = 200_000;

/**
 * A common word stands in a large part of the corpus: more than are weighed are not looked up at first. Where too few of
 * them are left, as the rest is hidden or of documents that do not count, ten times as many are.
 */
function foundInPostgres(
  sql: Knex,
  corpora: readonly SearchedCorpus[],
  expression: string,
  most: number | null,
) {
  const found = sql
    .from(sql.raw('chunk_words_with(?::tsquery, ?)', [expression, most]))
    .whereIn(
      'organization_id',
      corpora.map(({ organization_id }) => organization_id),
    )
    .select('number');
  // Found in full before it is joined: else the planner may begin with all passages of the corpus.
  return sql.withMaterialized('found', found).from('found').join('chunks', 'chunks.number', 'found.number');
}

async function countInPostgres(sql: Knex, expression: string, most: number): Promise<number> {
  const [found] = await sql
    .from(sql.raw('chunk_words_with(?::tsquery, ?)', [expression, most]))
    .count<{ count: string }[]>({ count: '*' });
  return Number(found?.count ?? 0);
}

interface Spelling {
  readonly quote: string;
  readonly '&': string;
  readonly '|': string;
}

const fts: Spelling = { quote: '"', '&': ' AND ', '|': ' OR ' };
const tsquery: Spelling = { quote: "'", '&': ' & ', '|': ' | ' };

/** Of each corpus its own words. */
function expressionOf(
  corpora: readonly SearchedCorpus[],
  words: readonly string[],
  sign: '&' | '|',
  spelling: Spelling,
): string {
  const { quote } = spelling;
  const ofCorpus = ({ number }: SearchedCorpus) =>
    `(${words.map((word) => quote + indexedWord(number, word) + quote).join(spelling[sign])})`;
  return corpora.map(ofCorpus).join(spelling['|']);
}
