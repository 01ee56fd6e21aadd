/** Keyset pages: a page costs the same wherever it stands, and what is added meanwhile shifts nothing. */
import type { Knex } from 'knex';
import type { Cursors, Position } from './cursor.ts';
import type { Reach } from './reach.ts';

export interface Page<T> {
  data: T[];
  next_cursor: string | null;
}

/** What a caller asks of a list. */
export interface PageQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/** A list: its order, what its cursors are bound to, and the query of one part of it. */
export interface Listing {
  readonly name: string;
  readonly reach: Reach;
  readonly filters: object;
  /** Columns that together are unique, selected under their own names; the last one is the tie-breaker. */
  readonly columns: readonly string[];
  readonly direction: 'asc' | 'desc';
  /** One query for each part, each in the order of one index; without order and limit. */
  readonly parts: readonly Knex.QueryBuilder[];
}

const defaultLimit = 20;
const highestLimit = 100;

/** One page of rows, and the cursor of the next. */
export async function readPage<Row extends object>(
  sql: Knex,
  cursors: Cursors,
  listing: Listing,
  { limit = defaultLimit, cursor }: PageQuery,
): Promise<Page<Row>> {
  const size = Math.min(Math.max(Math.trunc(limit), 1), highestLimit);
  const binding = [listing.name, listing.reach.userId, listing.filters, listing.columns, listing.direction];
  const after = cursor === undefined ? null : cursors.decode(binding, cursor);
  if (listing.parts.length === 0) return { data: [], next_cursor: null };
  // The query is built from the table whose rows are of this type.
  const rows = (await merged(sql, listing, after, size + 1)) as Row[];
  const data = rows.slice(0, size);
  const last = data.at(-1);
  const more = rows.length > size && last !== undefined;
  return { data, next_cursor: more ? cursors.encode(binding, positionOf(last, listing.columns)) : null };
}

function merged(sql: Knex, listing: Listing, after: Position | null, limit: number): Knex.QueryBuilder {
  const parts = listing.parts.map((part) =>
    ordered(continued(part, listing, after), listing.columns, listing.direction).limit(limit),
  );
  const [first, ...others] = parts;
  if (first && others.length === 0) return first;
  // Each part is cut before they are joined, so that no part is read in full.
  const whole = sql.unionAll(parts.map((part) => sql.select('*').from(part.as('part'))));
  return ordered(sql.select('*').from(whole.as('whole')), listing.columns.map(bare), listing.direction).limit(
    limit,
  );
}

function continued(query: Knex.QueryBuilder, listing: Listing, after: Position | null): Knex.QueryBuilder {
  if (!after) return query;
  const names = listing.columns.map(() => '??').join(', ');
  const values = listing.columns.map(() => '?').join(', ');
  const sign = listing.direction === 'asc' ? '>' : '<';
  return query.whereRaw(`(${names}) ${sign} (${values})`, [...listing.columns, ...after]);
}

function ordered(
  query: Knex.QueryBuilder,
  columns: readonly string[],
  direction: 'asc' | 'desc',
): Knex.QueryBuilder {
  return query.orderBy(columns.map((column) => ({ column, order: direction })));
}

function positionOf(row: object, columns: readonly string[]): Position {
  // Rows have the columns that their list is ordered by.
  return columns.map((column) => (row as Record<string, number | string>)[bare(column)] ?? '');
}

/** The name of a column without that of its table. */
function bare(column: string): string {
  return column.slice(column.indexOf('.') + 1);
}
