/** Memories by their meaning: the vectors that an embedder made of them, compared one by one, and joined with the words. */
import type { Knex } from 'knex';
import type { MemorySearch } from '../contract/api.ts';
import type { RankedMemory } from './memory-ranking.ts';
import { type MemoryRow, unexpired } from './memory-rows.ts';

/** What an embedder made of a query. */
export interface QueryMeaning {
  readonly embedder: string;
  readonly vector: Float32Array;
}

/** What is to be embedded, and of which version it is. */
export type MemoryText = Pick<MemoryRow, 'id' | 'revision' | 'content'>;

export type MemoryVector = Pick<MemoryRow, 'id' | 'revision'> & { readonly vector: Float32Array };

export type SearchFilters = Omit<MemorySearch, 'query' | 'top_k'>;

/** The newest of each part are compared: what one person reads is no collection that would need an index of vectors. */
const mostCompared = 1000;
/** What is less alike has nothing to do with the query; without a bound everything would be found by it. */
const leastLikeness = 0.3;
/** The usual constant of reciprocal rank fusion: how soon lower places lose their weight. */
const fusionConstant = 60;

export function narrowed<Query extends Knex.QueryBuilder>(query: Query, filters: SearchFilters): Query {
  const { scopes, kinds, ...columns } = filters;
  const named = Object.entries(columns).filter(([, value]) => value !== undefined);
  for (const [name, value] of named) query.where(`memories.${name}`, value);
  if (scopes) query.whereIn('memories.scope', scopes);
  if (kinds) query.whereIn('memories.kind', kinds);
  return query;
}

type ComparedRow = MemoryRow & { readonly vector: Buffer };

export async function vectorSearch(
  sql: Knex,
  parts: readonly Knex.QueryBuilder[],
  filters: SearchFilters,
  { embedder, vector }: QueryMeaning,
  now: number,
): Promise<RankedMemory[]> {
  const rows: ComparedRow[] = [];
  for (const part of parts)
    rows.push(
      ...(await narrowed(unexpired(part, now), filters)
        .join(vectorsOf(sql, embedder), (made) =>
          made.on('made.memory_id', 'memories.id').on('made.of_revision', 'memories.revision'),
        )
        .orderBy(['memories.created_at', 'memories.id'].map((column) => ({ column, order: 'desc' })))
        .limit(mostCompared)
        .select('memories.*', 'made.vector')),
    );
  return rows
    .map(({ vector: stored, ...row }) => ({ row, score: likeness(vector, floatsOf(stored)) }))
    .filter(({ score }) => score >= leastLikeness)
    .sort((a, b) => b.score - a.score || (a.row.id < b.row.id ? 1 : -1));
}

/** Without the columns that memories have too. */
function vectorsOf(sql: Knex, embedder: string): Knex.QueryBuilder {
  const columns = ['memory_id', 'revision as of_revision', 'vector'];
  return sql('memory_vectors').where({ embedder }).select(columns).as('made');
}

/** Both are of length 1. */
function likeness(one: Float32Array, other: Float32Array): number {
  return one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
}

function floatsOf(stored: Buffer): Float32Array {
  // A copy begins where floats may begin.
  return new Float32Array(Uint8Array.from(stored).buffer);
}

/** Reciprocal rank fusion: places are compared, since the scores of words and of vectors cannot be. */
export function fused(rankings: readonly (readonly RankedMemory[])[]): RankedMemory[] {
  const scores = new Map<string, RankedMemory>();
  for (const ranking of rankings)
    for (const [place, { row }] of ranking.entries()) {
      const score = (scores.get(row.id)?.score ?? 0) + 1 / (fusionConstant + place + 1);
      scores.set(row.id, { row, score });
    }
  return [...scores.values()].sort((a, b) => b.score - a.score || (a.row.id < b.row.id ? 1 : -1));
}

/** Of each part the newest first. */
export async function memoriesWithoutVector(
  sql: Knex,
  parts: readonly Knex.QueryBuilder[],
  embedder: string,
  most: number,
  now: number,
): Promise<MemoryText[]> {
  const rows: MemoryText[] = [];
  for (const part of parts) {
    if (rows.length >= most) break;
    const made = sql('memory_vectors')
      .whereRaw('memory_vectors.memory_id = memories.id and memory_vectors.revision = memories.revision')
      .where('memory_vectors.embedder', embedder);
    const those = unexpired(part, now).whereNotExists(made);
    rows.push(
      ...(await those
        .orderBy(['memories.created_at', 'memories.id'].map((column) => ({ column, order: 'desc' })))
        .limit(most - rows.length)
        .select('memories.id', 'memories.revision', 'memories.content')),
    );
  }
  return rows;
}

/** What was deleted meanwhile needs none. */
export async function keepVectors(
  sql: Knex.Transaction,
  embedder: string,
  vectors: readonly MemoryVector[],
): Promise<void> {
  for (const { id, revision, vector } of vectors) {
    const row = await sql<MemoryRow>('memories').where({ id }).forShare().first('organization_id');
    if (!row) continue;
    const { organization_id } = row;
    const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
    await sql('memory_vectors')
      .insert({ organization_id, memory_id: id, revision, embedder, vector: bytes })
      .onConflict('memory_id')
      .merge();
  }
}
