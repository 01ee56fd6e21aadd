/** PostgreSQL through knex and `pg`: time limits on everything, numbers that arrive as numbers, and row-level security. */
import type { Knex } from 'knex';
import pg from 'pg';
import type { Log } from '../log.ts';
import { connect, type Database, databaseOf, type Scope } from './database.ts';
import { serviceRole } from './postgres-roles.ts';

const limits = {
  connectionTimeoutMillis: 5000,
  statement_timeout: 30_000,
  query_timeout: 35_000,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 60_000,
  keepAlive: true,
};

/** With the rights of the one who connects: for migrations, of which no statement is given up for the time it takes. */
export function openAsOwner(url: string, log: Log): Database {
  // What the URL says would count for more than what stands beside it.
  const unlimited = url.replace(/(?<=[?&])query_timeout=[^&]*/g, '');
  const settings = settingsOf(unlimited, { ...limits, query_timeout: 0 });
  const pool = connect({ ...settings, pool: { min: 0, max: 1 } }, log);
  return databaseOf('postgresql', { reader: pool, writer: pool });
}

/**
 * As a role that has no rights but to the rows: the one that is named, or where none is the one that connects. The
 * database was migrated before.
 */
export function openPostgres(url: string, log: Log, role: string | null = serviceRole): Database {
  const pool = (organizations: string) =>
    connect({ ...settingsOf(url), pool: { min: 0, max: 10, afterCreate: become(role, organizations) } }, log);
  const all = pool('*');
  return databaseOf('postgresql', { reader: all, writer: all, confined: { pool: pool(''), confine } });
}

function settingsOf(connectionString: string, within = limits): Knex.Config {
  const connection = { connectionString, application_name: 'service', ...within, types: { getTypeParser } };
  return { client: 'pg', connection };
}

/** What the policies ask. The empty text stands for nobody, the star for all. */
function become(role: string | null, organizations: string) {
  const scope = `set service.organizations = '${organizations}'; set service.user_id = ''`;
  return (connection: pg.Client, done: (error: Error | null, connection: pg.Client) => void): void => {
    connection.query(role === null ? scope : `set role ${role}; ${scope}`).then(
      () => done(null, connection),
      (error: Error) => done(error, connection),
    );
  };
}

/** As `confine`, or back to all rows, for the rest of a transaction. */
export async function nameScope(sql: Knex.Transaction, scope: Scope): Promise<void> {
  await confine(sql, scope === 'installation' ? { userId: '', organizationIds: ['*'] } : scope);
}

async function confine(sql: Knex.Transaction, scope: Exclude<Scope, 'installation'>): Promise<void> {
  const { userId, organizationIds } = scope;
  await sql.raw(
    `select set_config('service.organizations', ?, true), set_config('service.user_id', ?, true)`,
    [organizationIds.join(','), userId],
  );
}

/** Counts, sums and times in milliseconds are far below 2^53, and SQLite gives numbers too. */
const asNumber = new Set<number>([pg.types.builtins.INT8, pg.types.builtins.NUMERIC]);

function getTypeParser(oid: number) {
  return asNumber.has(oid) ? Number : pg.types.getTypeParser(oid);
}
