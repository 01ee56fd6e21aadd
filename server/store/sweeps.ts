/** Deletes what is old a little at a time, so that nobody waits for long; of several processes one is at it. */
import type { Knex } from 'knex';
import type { Database } from './database.ts';

/** How many rows one transaction deletes, and how many transactions one sweep is; the rest is for the next. */
export const sweepLimits = { rows: 1000, transactions: 1000 };

/** The number that nodes lock on while one of them deletes: any constant of our own. */
const lockNumber = 7_318_349_394_478;

/**
 * Repeats `batch`, each time in a transaction of its own, until it has found fewer rows than `most`. Answers with how
 * many there were; none where another node is at it.
 */
export async function sweep(
  database: Database,
  batch: (sql: Knex.Transaction, most: number) => Promise<number>,
  most = sweepLimits.rows,
): Promise<number> {
  let count = 0;
  for (let turn = 0; turn < sweepLimits.transactions; turn += 1) {
    const found = await database.write('installation', async (sql) =>
      (await takesTurn(sql, database)) ? batch(sql, most) : 0,
    );
    count += found;
    if (found < most) break;
  }
  return count;
}

/** Deletes the rows whose `column` is below `before`, the oldest first. */
export function sweepTable(
  database: Database,
  table: string,
  column: string,
  before: number,
): Promise<number> {
  return sweep(database, (sql, most) => deleteBelow(sql, { table, column, before, most }));
}

interface Deletion {
  readonly table: string;
  readonly column: string;
  readonly before: number;
  readonly most: number;
}

/** Where a row lies is found without a key, whatever the key of the table is. */
async function deleteBelow(
  sql: Knex.Transaction,
  { table, column, before, most }: Deletion,
): Promise<number> {
  const isPostgres = sql.client.config.client === 'pg';
  const place = isPostgres ? 'ctid' : 'rowid';
  const oldest = sql(table).where(column, '<', before).orderBy(column).limit(most).select(sql.raw(place));
  // The planner of PostgreSQL takes an array for places to go to, and a subquery for a table to join.
  const places = isPostgres ? sql.raw('ctid = any(array(?))', [oldest]) : sql.raw('rowid in (?)', [oldest]);
  return sql(table).where(places).delete();
}

/** The lock ends with the transaction: a node that dies in the middle of it is in nobody's way. */
async function takesTurn(sql: Knex.Transaction, { dialect }: Database): Promise<boolean> {
  if (dialect === 'sqlite') return true;
  const { rows } = await sql.raw('select pg_try_advisory_xact_lock(?) as free', [lockNumber]);
  return rows[0].free === true;
}
