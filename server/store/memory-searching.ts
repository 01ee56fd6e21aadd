/** Searches memories by words, and joins with them what means the like. */
import type { Knex } from 'knex';
import type { MemoryHit, MemorySearch, MemorySearchResult } from '../contract/api.ts';
import { termsIn } from './chunk-terms.ts';
import { findMemories, markOfOwner, marksOfReach } from './memory-index.ts';
import type { MemoryOwner } from './memory-owners.ts';
import { type RankedMemory, ranked } from './memory-ranking.ts';
import { type MemoryRow, memoryParts, toMemory } from './memory-rows.ts';
import { fused, narrowed, type QueryMeaning, type SearchFilters, vectorSearch } from './memory-vectors.ts';
import type { Reach } from './reach.ts';

export type FoundMemories = Pick<MemorySearchResult, 'data' | 'mode'>;

/** Of more that share a word with a query, the newest are ranked. */
const mostRanked = 500;

/** Where a search looks: as the index knows it, and as parts each of which walks one index of the table. */
export interface MemoryPlace {
  readonly marks: readonly string[];
  readonly parts: (sql: Knex) => Knex.QueryBuilder[];
}

/** All that a caller reaches. */
export function placeOfReach(reach: Reach): MemoryPlace {
  return { marks: marksOfReach(reach), parts: (sql) => memoryParts(sql, reach) };
}

/** What some owners have. */
export function placeOfOwners(owners: readonly MemoryOwner[]): MemoryPlace {
  const parts = (sql: Knex) =>
    owners.map(({ owner_key }) => sql<MemoryRow>('memories').where({ owner_key }) as Knex.QueryBuilder);
  return { marks: owners.map(markOfOwner), parts };
}

export async function searchMemories(
  sql: Knex,
  place: MemoryPlace,
  search: MemorySearch,
  meaning: QueryMeaning | null,
  now: number,
): Promise<FoundMemories> {
  const { query, top_k = 10, ...filters } = search;
  const mostHits = meaning === null ? top_k : mostRanked;
  const byWords = await keywordSearch(sql, place.marks, { query, mostHits, filters }, now);
  if (meaning === null) return { data: byWords.map(toHit), mode: 'keyword' };
  const byMeaning = await vectorSearch(sql, place.parts(sql), filters, meaning, now);
  return { data: fused([byWords, byMeaning]).slice(0, top_k).map(toHit), mode: 'hybrid' };
}

function toHit({ row, score }: RankedMemory): MemoryHit {
  return { memory: toMemory(row), score };
}

/** What is searched for among the memories that some marks name. */
export interface KeywordQuery {
  readonly query: string;
  readonly mostHits: number;
  readonly filters?: SearchFilters;
}

async function keywordSearch(
  sql: Knex,
  marks: readonly string[],
  { query, mostHits, filters = {} }: KeywordQuery,
  now: number,
): Promise<RankedMemory[]> {
  const terms = [...termsIn(query).keys()].slice(0, mostTerms);
  // A query without a word asks for nothing.
  if (terms.length === 0 || marks.length === 0) return [];
  const whole = terms.map((word) => ({ word, prefix: false }));
  const rows = findMemories(sql, marks, whole, { all: false, now }).limit(mostRanked);
  narrowed(rows, filters);
  return ranked(await rows, terms).slice(0, mostHits);
}

/** Of a long prompt the first ones count; each costs a look into the index. */
const mostTerms = 32;
