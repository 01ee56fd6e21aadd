/** PostgreSQL through knex and `pg`: time limits on everything, and numbers that arrive as numbers. */
import pg from 'pg';
import type { Log } from '../log.ts';
import { connect, type Database, databaseOf } from './database.ts';

const limits = {
  connectionTimeoutMillis: 5000,
  statement_timeout: 30_000,
  query_timeout: 35_000,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 60_000,
  keepAlive: true,
};

export function openPostgres(url: string, log: Log): Database {
  const settings = {
    client: 'pg',
    connection: { connectionString: url, application_name: 'service', ...limits, types: { getTypeParser } },
    pool: { min: 0, max: 10 },
  };
  const pool = connect(settings, log);
  return databaseOf('postgresql', pool, pool);
}

/** Counts, sums and times in milliseconds are far below 2^53, and SQLite gives numbers too. */
const asNumber = new Set<number>([pg.types.builtins.INT8, pg.types.builtins.NUMERIC]);

function getTypeParser(oid: number) {
  return asNumber.has(oid) ? Number : pg.types.getTypeParser(oid);
}
