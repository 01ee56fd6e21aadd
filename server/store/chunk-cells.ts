/** Where SQLite keeps the codes of vectors: near ones together in cells, so that a search looks into a few of them. */
import type { Knex } from 'knex';
import { insertRows } from './insert-rows.ts';

export interface PlacedVector {
  readonly number: number;
  readonly vector: Float32Array;
}

/** Vectors of one embedder in one corpus: nothing else is in their cells. */
export interface CellPlace {
  readonly corpus_number: number;
  readonly space: number;
}

interface Cell {
  readonly number: number;
  readonly centre: Float32Array;
}

/** A cell that has more is split: reading it is the dearest step of a write. */
const mostCodes = 512;

/** Writes the codes of vectors that are stored, and have none yet. */
export async function placeInCells(
  sql: Knex.Transaction,
  place: CellPlace,
  rows: readonly PlacedVector[],
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  await sql('chunk_cells')
    .where({ ...place, codes: 0 })
    .delete();
  const cells = await cellsOf(sql, place);
  if (cells.length === 0) cells.push(await newCell(sql, place, unit(first.vector), 0));
  const { space } = place;
  const codes = rows.map(({ number, vector }) => {
    const direction = unit(vector);
    return { cell: nearestCell(cells, direction).number, number, space, code: codeOf(direction) };
  });
  await insertRows(sql, 'chunk_codes', codes);
  for (const cell of new Set(codes.map((code) => code.cell))) await splitWhileFull(sql, place, cell);
}

/** Which of its numbers are above zero. */
export function codeOf(vector: Float32Array): Buffer {
  const code = Buffer.alloc(Math.ceil(vector.length / 8));
  for (const [index, value] of vector.entries())
    if (value > 0) code[index >> 3] = (code[index >> 3] ?? 0) | (1 << (index & 7));
  return code;
}

/** The cells nearest to a question, which together hold as many codes as are to be compared, and hardly more. */
export function nearCells(
  sql: Knex,
  { corpora, space }: { readonly corpora: readonly number[]; readonly space: number },
  vector: Float32Array,
  codes: number,
): Knex.QueryBuilder {
  const distances = sql('chunk_cells')
    .whereIn('corpus_number', corpora)
    .where({ space })
    .select('number', 'codes', sql.raw('vec_distance_l2(centre, ?) as distance', [bytesOf(unit(vector))]));
  const nearer = sql.raw('sum(codes) over (order by distance, number) - codes as nearer');
  const counted = sql.from(distances.as('distances')).select('number', nearer);
  return sql.from(counted.as('counted')).where('nearer', '<', codes).select('number');
}

async function cellsOf(sql: Knex, place: CellPlace): Promise<Cell[]> {
  const rows: { number: number; centre: Buffer }[] = await sql('chunk_cells')
    .where({ ...place })
    .orderBy('number')
    .select('number', 'centre');
  return rows.map(({ number, centre }) => ({ number, centre: floatsOf(centre) }));
}

async function newCell(sql: Knex, place: CellPlace, centre: Float32Array, codes: number): Promise<Cell> {
  const [row] = await sql('chunk_cells')
    .insert({ ...place, codes, centre: bytesOf(centre) })
    .returning('number');
  return { number: row.number, centre };
}

function nearestCell(cells: readonly Cell[], direction: Float32Array): Cell {
  let best: { readonly cell: Cell; readonly likeness: number } | undefined;
  for (const cell of cells) {
    const likeness = dot(cell.centre, direction);
    if (!best || likeness > best.likeness) best = { cell, likeness };
  }
  if (!best) throw new Error('There is no cell to put a vector into.');
  return best.cell;
}

async function splitWhileFull(sql: Knex.Transaction, place: CellPlace, number: number): Promise<void> {
  const { codes } = await sql('chunk_cells').where({ number }).first('codes');
  if (codes <= mostCodes) return;
  const other = await split(sql, place, number);
  await splitWhileFull(sql, place, number);
  await splitWhileFull(sql, place, other);
}

/** Answers with the cell that has come into being. */
async function split(sql: Knex.Transaction, place: CellPlace, number: number): Promise<number> {
  const rows: { number: number; vector: Buffer }[] = await sql('chunk_codes')
    .join('chunk_vectors', (vectors) =>
      vectors.on('chunk_vectors.number', 'chunk_codes.number').on('chunk_vectors.space', 'chunk_codes.space'),
    )
    .where('chunk_codes.cell', number)
    .select('chunk_codes.number', 'chunk_vectors.vector');
  const directions = rows.map((row) => ({ number: row.number, vector: unit(floatsOf(row.vector)) }));
  const [kept, moved] = halvesOf(directions);
  const other = await newCell(sql, place, centreOf(moved), moved.length);
  const numbers = moved.map((row) => row.number);
  await sql('chunk_codes').where({ cell: number }).whereIn('number', numbers).update({ cell: other.number });
  await sql('chunk_cells')
    .where({ number })
    .update({ codes: kept.length, centre: bytesOf(centreOf(kept)) });
  return other.number;
}

/** How often two centres are moved into the middle of what is nearer to them: they hardly move any more then. */
const rounds = 6;

/** Two parts whose vectors are near to each other; none is smaller than a quarter, even where all vectors are the same. */
function halvesOf(rows: readonly PlacedVector[]): [PlacedVector[], PlacedVector[]] {
  let one = farthestFrom(rows, centreOf(rows));
  let other = farthestFrom(rows, one);
  for (let round = 0; ; round += 1) {
    const leaning = rows
      .map((row) => ({ row, lean: dot(row.vector, one) - dot(row.vector, other) }))
      .sort((left, right) => right.lean - left.lean);
    const natural = leaning.filter(({ lean }) => lean > 0).length;
    const quarter = rows.length >> 2;
    const at = Math.min(Math.max(natural, quarter), rows.length - quarter);
    const halves = [leaning.slice(0, at), leaning.slice(at)].map((half) => half.map(({ row }) => row));
    const [first = [], second = []] = halves;
    if (round === rounds) return [first, second];
    one = centreOf(first);
    other = centreOf(second);
  }
}

function farthestFrom(rows: readonly PlacedVector[], from: Float32Array): Float32Array {
  let farthest = from;
  let least = Number.POSITIVE_INFINITY;
  for (const { vector } of rows) {
    const likeness = dot(vector, from);
    if (likeness >= least) continue;
    least = likeness;
    farthest = vector;
  }
  return farthest;
}

function centreOf(rows: readonly PlacedVector[]): Float32Array {
  const sum = new Float32Array(rows[0]?.vector.length ?? 0);
  for (const { vector } of rows)
    for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) + (vector[index] ?? 0);
  return unit(sum);
}

/** Directions alone are compared: an embedder may make vectors of any length. */
function unit(vector: Float32Array): Float32Array {
  const length = Math.sqrt(dot(vector, vector));
  return length === 0 ? vector : vector.map((value) => value / length);
}

function dot(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < one.length; index += 1) sum += (one[index] ?? 0) * (other[index] ?? 0);
  return sum;
}

function bytesOf(vector: Float32Array): Buffer {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
}

function floatsOf(stored: Buffer): Float32Array {
  // A copy begins where floats may begin.
  return new Float32Array(Uint8Array.from(stored).buffer);
}
