/** What embedders made of passages: written beside them, and compared with that of a question. */
import type { Knex } from 'knex';
import { codeOf, nearCells, placeInCells } from './chunk-cells.ts';
import { insertRows } from './insert-rows.ts';
import { guard, inScope } from './migrations/0006-tenancy.ts';
import { createEmbeddingSpaces } from './migrations/0024-chunks.ts';

/** A passage by its number, with how near it is. */
export interface NearChunk {
  readonly number: number;
  /** Cosine similarity: 1 for the same direction. */
  readonly score: number;
}

/** What an embedder has made of a passage; null where it refuses the passage. */
interface EmbeddedRow {
  readonly number: number;
  readonly vector: Float32Array | null;
}

interface VectorRow extends EmbeddedRow {
  readonly vector: Float32Array;
}

interface OwnedCorpus {
  readonly number: number;
  readonly organization_id: string;
}

/** Writes what one embedder has made, in place of what it made before. */
export async function writeVectors(
  sql: Knex.Transaction,
  corpus: OwnedCorpus,
  embedder: string,
  embedded: readonly EmbeddedRow[],
): Promise<void> {
  if (embedded.length === 0 || !(await keepsVectors(sql))) return;
  await writeRefusals(sql, corpus, embedder, embedded);
  const rows = embedded.filter((row): row is VectorRow => row.vector !== null);
  const [first] = rows;
  if (!first) return;
  const space = await spaceOf(sql, embedder, first.vector.length);
  const numbers = rows.map(({ number }) => number);
  await sql('chunk_vectors').where({ space }).whereIn('number', numbers).delete();
  if (sql.client.config.client === 'pg') return insertHalves(sql, corpus, space, rows);
  const place = { corpus_number: corpus.number, space };
  await sql('chunk_codes').where({ space }).whereIn('number', numbers).delete();
  await insertRows(
    sql,
    'chunk_vectors',
    rows.map(({ number, vector }) => ({ ...place, number, vector: bytesOf(vector) })),
  );
  await placeInCells(sql, place, rows);
}

/** What one embedder has made of these passages, by their numbers. */
export async function readVectors(
  sql: Knex,
  identity: string,
  numbers: readonly number[],
): Promise<ReadonlyMap<number, Float32Array>> {
  if (numbers.length === 0 || !(await keepsVectors(sql))) return new Map();
  const rows: { number: number; vector: Buffer | string }[] = await sql('chunk_vectors')
    .join('embedding_spaces', 'embedding_spaces.number', 'chunk_vectors.space')
    .where('embedding_spaces.identity', identity)
    .whereIn('chunk_vectors.number', numbers)
    .select('chunk_vectors.number', 'chunk_vectors.vector');
  return new Map(rows.map(({ number, vector }) => [number, floatsOf(vector)]));
}

async function writeRefusals(
  sql: Knex.Transaction,
  { organization_id }: OwnedCorpus,
  identity: string,
  embedded: readonly EmbeddedRow[],
): Promise<void> {
  const numbers = embedded.map(({ number }) => number);
  await sql('refused_passages').where({ identity }).whereIn('number', numbers).delete();
  const refused = embedded.filter(({ vector }) => vector === null);
  await insertRows(
    sql,
    'refused_passages',
    refused.map(({ number }) => ({ number, identity, organization_id })),
  );
}

async function insertHalves(
  sql: Knex.Transaction,
  corpus: OwnedCorpus,
  space: number,
  rows: readonly VectorRow[],
): Promise<void> {
  await sql.raw(
    `insert into chunk_vectors (number, organization_id, corpus_number, space, vector)
     select number, ?, ?, ?, vector::halfvec from unnest(?::bigint[], ?::text[]) as given (number, vector)`,
    [
      corpus.organization_id,
      corpus.number,
      space,
      rows.map(({ number }) => number),
      rows.map(({ vector }) => textOf(vector)),
    ],
  );
}

/** A sentence for people, with what helps; null where they can be compared. */
export async function whyNoVectors(sql: Knex): Promise<string | null> {
  if (sql.client.config.client === 'pg')
    return (await keepsVectors(sql))
      ? null
      : 'The database has no extension `vector` (pgvector 0.8 or newer): install it there, and start the server again.';
  const [loaded] = await sql.raw(`select 1 from pragma_function_list where name = 'vec_distance_cosine'`);
  return loaded
    ? null
    : 'This system has no library that lets SQLite compare vectors: use PostgreSQL with pgvector.';
}

/** PostgreSQL keeps them where its server has the extension `vector`. */
export async function keepsVectors(sql: Knex): Promise<boolean> {
  if (sql.client.config.client === 'sqlite3') return true;
  const { rows } = await sql.raw(`select to_regclass('public.chunk_vectors') is not null as present`);
  return rows[0].present;
}

async function spaceOf(sql: Knex.Transaction, identity: string, dimensions: number): Promise<number> {
  await sql('embedding_spaces').insert({ identity, dimensions }).onConflict('identity').ignore();
  const row = await sql('embedding_spaces').where({ identity }).first('number', 'dimensions');
  if (row.dimensions !== dimensions)
    throw new Error(
      `${identity} made vectors of ${row.dimensions} numbers before, and now of ${dimensions}.`,
    );
  return row.number;
}

export interface VectorQuestion {
  readonly embedder: string;
  readonly vector: Float32Array;
  readonly limit: number;
}

export interface SearchedCorpus {
  readonly number: number;
  readonly corpus_id: string;
  readonly organization_id: string;
  readonly chunks: number;
  readonly words: number;
}

/** Leaves of a query, to which `chunks` is joined, the passages that may be found. */
export type Narrow = (query: Knex.QueryBuilder) => Knex.QueryBuilder;

/** From which numbers of passages on a search guesses. */
export interface VectorBounds {
  /** Up to so many, each vector is compared: exact, and as fast as anything that guesses. */
  readonly mostCompared: number;
  /** So many of the nearest are looked at before it is known which of them may be found. */
  readonly compared: number;
  /** SQLite compares the codes of about so many, those of the nearest cells. */
  readonly codes: number;
  /**
   * Of a corpus with more passages SQLite looks at more of the nearest, in proportion to the root of its size: the more
   * vectors lie around a question, the less their codes tell which of them are nearest.
   */
  readonly largeFrom: number;
}

/** A vector on SQLite is larger, and a look at the nearest codes costs less than a walk through a graph. */
const usualBounds = (sql: Knex): VectorBounds => ({
  mostCompared: sql.client.config.client === 'sqlite3' ? 2000 : 10_000,
  ...{ compared: 1000, codes: 16_000, largeFrom: 100_000 },
});

/** The nearest first. Within a transaction on PostgreSQL. */
export async function nearest(
  sql: Knex,
  corpora: readonly SearchedCorpus[],
  question: VectorQuestion,
  narrow: Narrow,
  bounds = usualBounds(sql),
): Promise<NearChunk[]> {
  if (!(await keepsVectors(sql))) return [];
  const space = await sql('embedding_spaces').where({ identity: question.embedder }).first('number');
  if (!space) return [];
  const search: VectorSearch = {
    sql,
    numbers: corpora.map(({ number }) => number),
    organizations: corpora.map(({ organization_id }) => organization_id),
    chunks: corpora.reduce((sum, { chunks }) => sum + chunks, 0),
    space: space.number,
    vector: question.vector,
    bounds,
  };
  const { compared } = bounds;
  // Nearly every passage may be found: it is cheaper to ask that of the nearest alone.
  const near = await nearestOf(search, Math.max(compared, question.limit));
  const found = await firstVisible(sql, near, question.limit, narrow);
  // A walk through the graph of everybody may have ended before it met all that are near.
  const sawAll = near.length < compared && search.chunks <= bounds.mostCompared;
  if (found.length === question.limit || sawAll) return found;
  return nearestOf(search, question.limit, narrow);
}

/** Mostly the first part has enough of them. */
async function firstVisible(
  sql: Knex,
  near: readonly NearChunk[],
  limit: number,
  narrow: Narrow,
): Promise<NearChunk[]> {
  const found: NearChunk[] = [];
  for (
    let at = 0, size = limit + 50;
    at < near.length && found.length < limit;
    at += size, size = near.length
  ) {
    const part = near.slice(at, at + size);
    const visible = await visibleOf(sql, part, narrow);
    found.push(...part.filter(({ number }) => visible.has(number)));
  }
  return found.slice(0, limit);
}

async function visibleOf(
  sql: Knex,
  near: readonly NearChunk[],
  narrow: Narrow,
): Promise<ReadonlySet<number>> {
  const numbers = near.map(({ number }) => number);
  return new Set(await narrow(sql('chunks').whereIn('chunks.number', numbers)).pluck('chunks.number'));
}

interface VectorSearch {
  readonly sql: Knex;
  readonly numbers: readonly number[];
  readonly organizations: readonly string[];
  readonly chunks: number;
  readonly space: number;
  readonly vector: Float32Array;
  readonly bounds: VectorBounds;
}

/** Among all, or among those that `narrow` leaves. */
async function nearestOf(search: VectorSearch, limit: number, narrow?: Narrow): Promise<NearChunk[]> {
  const isLarge = search.chunks > search.bounds.mostCompared;
  if (search.sql.client.config.client === 'sqlite3')
    return isLarge ? byCodes(search, limit, narrow) : byBytes(search, limit, narrow);
  if (!isLarge || narrow || !indexedDimensions.includes(search.vector.length))
    return byHalves(search, limit, narrow);
  const found = await byGraph(search, limit);
  // The graph is for the vectors of everybody: its walk may end before it has met any of these.
  return found.length < Math.min(limit, enough) ? byHalves(search, limit) : found;
}

const enough = 100;

function among(search: VectorSearch, table: string, narrow: Narrow | undefined): Knex.QueryBuilder {
  const { sql, numbers, space } = search;
  const query = sql(table).whereIn(`${table}.corpus_number`, numbers).where(`${table}.space`, space);
  return narrow ? narrow(query.join('chunks', 'chunks.number', `${table}.number`)) : query;
}

async function byBytes(search: VectorSearch, limit: number, narrow?: Narrow): Promise<NearChunk[]> {
  const { sql, vector } = search;
  return among(search, 'chunk_vectors', narrow)
    .select('chunk_vectors.number', sql.raw('1 - vec_distance_cosine(vector, ?) as score', [bytesOf(vector)]))
    .orderBy([{ column: 'score', order: 'desc' }, 'chunk_vectors.number'])
    .limit(limit);
}

/** Codes tell roughly what is near; the vectors themselves put that in its order. */
async function byCodes(search: VectorSearch, limit: number, narrow?: Narrow): Promise<NearChunk[]> {
  const { sql, vector, space, bounds, chunks } = search;
  const compared = Math.round(bounds.compared * Math.sqrt(Math.max(1, chunks / bounds.largeFrom)));
  const near = codesAmong(search, narrow)
    .select('chunk_codes.number')
    .orderByRaw('vec_distance_hamming(vec_bit(code), vec_bit(?))', [codeOf(vector)])
    .limit(Math.max(compared, limit));
  return sql('chunk_vectors')
    .whereIn('number', near)
    .where({ space })
    .select('number', sql.raw('1 - vec_distance_cosine(vector, ?) as score', [bytesOf(vector)]))
    .orderBy([{ column: 'score', order: 'desc' }, 'number'])
    .limit(limit);
}

/** Those of the nearest cells; of all cells where only a part may be found, which may lie in any of them. */
function codesAmong({ sql, numbers, space, vector, bounds }: VectorSearch, narrow: Narrow | undefined) {
  const most = narrow ? Number.MAX_SAFE_INTEGER : bounds.codes;
  const cells = nearCells(sql, { corpora: numbers, space }, vector, most);
  const query = sql('chunk_codes').whereIn('chunk_codes.cell', cells);
  return narrow ? narrow(query.join('chunks', 'chunks.number', 'chunk_codes.number')) : query;
}

async function byHalves(search: VectorSearch, limit: number, narrow?: Narrow): Promise<NearChunk[]> {
  const { sql, organizations, vector } = search;
  // Taken out in full before they are ordered: else the planner may walk the graph of everybody.
  const mine = among(search, 'chunk_vectors', narrow)
    .whereIn('chunk_vectors.organization_id', organizations)
    .select('chunk_vectors.number', 'vector');
  return sql
    .withMaterialized('mine', mine)
    .from('mine')
    .select('number', sql.raw('1 - (vector <=> ?::halfvec) as score', [textOf(vector)]))
    .orderBy([{ column: 'score', order: 'desc' }, 'number'])
    .limit(limit);
}

async function byGraph(search: VectorSearch, limit: number): Promise<NearChunk[]> {
  const { sql, organizations, vector } = search;
  const size = vector.length;
  const distance = sql.raw(`vector::halfvec(${size}) <=> ?::halfvec(${size})`, [textOf(vector)]);
  // The planner expects a handful of rows behind conditions that it has no figures for, and would sort all that there are.
  await sql.raw(
    `select set_config('hnsw.ef_search', ?, true), set_config('hnsw.iterative_scan', 'strict_order', true),
       set_config('enable_sort', 'off', true)`,
    [String(Math.min(1000, Math.max(100, limit)))],
  );
  return among(search, 'chunk_vectors', undefined)
    .whereIn('organization_id', organizations)
    .whereRaw(`vector_dims(vector) = ${size}`)
    .select('number', sql.raw('1 - (?) as score', [distance]))
    .orderBy(distance)
    .limit(limit);
}

/** What the common embedders make; vectors of other lengths are compared one by one. */
const indexedDimensions: readonly number[] = [256, 384, 512, 768, 1024, 1536, 3072];

/**
 * Prepares PostgreSQL for vectors where its server has the extension by now: looked for at each start, since it may be
 * installed at any time. What was taken in before has no vectors, whatever was recorded of it.
 */
export async function prepareVectors(sql: Knex.Transaction): Promise<void> {
  if (await keepsVectors(sql)) return;
  if (!(await hasExtension(sql))) return;
  await createEmbeddingSpaces(sql);
  await sql.schema.createTable('chunk_vectors', (table) => {
    table.bigInteger('number').notNullable().references('chunks.number').onDelete('cascade');
    table.integer('space').notNullable();
    table.text('organization_id').notNullable();
    table.bigInteger('corpus_number').notNullable();
    table.specificType('vector', 'halfvec').notNullable();
    table.primary(['number', 'space']);
    table.index(['corpus_number', 'space']);
  });
  for (const size of indexedDimensions)
    await sql.raw(
      `create index chunk_vectors_${size} on chunk_vectors
         using hnsw ((vector::halfvec(${size})) halfvec_cosine_ops) where vector_dims(vector) = ${size}`,
    );
  await guard(sql, 'chunk_vectors', inScope('organization_id'));
  await sql('corpora').whereNotNull('embedder_identity').update({ embedder_identity: null });
}

/** Made here where the role may; where not, the savepoint keeps the failure from the rest of the preparation. */
async function hasExtension(sql: Knex.Transaction): Promise<boolean> {
  const { rows } = await sql.raw(
    `select installed_version is not null as made, string_to_array(default_version, '.')::int[] >= '{0,8}' as fits
     from pg_available_extensions where name = 'vector'`,
  );
  if (!rows[0]?.fits) return false;
  if (rows[0].made) return true;
  return sql
    .transaction((savepoint) => savepoint.raw('create extension vector'))
    .then(
      () => true,
      () => false,
    );
}

function bytesOf(vector: Float32Array): Buffer {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
}

/** As the engine gives it: the bytes, which lie in a buffer of others, or the text. */
function floatsOf(stored: Buffer | string): Float32Array {
  if (typeof stored === 'string') return Float32Array.from(JSON.parse(stored));
  return new Float32Array(Uint8Array.from(stored).buffer);
}

function textOf(vector: Float32Array): string {
  return `[${vector.join(',')}]`;
}
