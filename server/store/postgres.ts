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
  const settings = settingsOf(without('query_timeout', url), { ...limits, query_timeout: 0 });
  const pool = connect({ ...settings, pool: { min: 0, max: 1 } }, log);
  return databaseOf('postgresql', { reader: pool, writer: pool });
}

/** What each of the two pools may have, where nothing else is wished. */
const usualConnections = 10;

/**
 * As a role that has no rights but to the rows: the one that is named, or where none is the one that connects. The
 * database was migrated before.
 */
export function openPostgres(
  url: string,
  log: Log,
  role: string | null = serviceRole,
  connections = usualConnections,
): Database {
  const pool = (organizations: string) => servingPool(url, log, connections, become(role, organizations));
  const all = pool('*');
  return databaseOf('postgresql', { reader: all, writer: all, confined: { pool: pool(''), confine } });
}

function settingsOf(url: string, within = limits): Knex.Config {
  // A restore knows by this name that servers are at work.
  const connectionString = without('application_name', url);
  const connection = { connectionString, application_name: 'service', ...within, types: { getTypeParser } };
  return { client: 'pg', connection };
}

/** What the URL says would count for more than what stands beside it. */
function without(parameter: string, url: string): string {
  return url.replace(new RegExp(`(?<=[?&])${parameter}=[^&]*`, 'g'), '');
}

/** A connection as knex has it: with its number, and a mark where it may not be handed out again. */
interface PooledConnection extends pg.Client {
  readonly __knexUid: string;
  __knex__disposed?: unknown;
}

/** Connections that are ready for requests, as long as there is somebody at the other end. */
function servingPool(
  url: string,
  log: Log,
  max: number,
  makeReady: (connection: PooledConnection) => Promise<unknown>,
): Knex {
  const connections = new Map<string, PooledConnection>();
  const afterCreate = (connection: PooledConnection, done: (error: Error | null) => void): void => {
    connections.set(connection.__knexUid, connection);
    connection.once('end', () => connections.delete(connection.__knexUid));
    makeReady(connection).then(
      () => done(null),
      (error: Error) => {
        leave(connection);
        done(error);
      },
    );
  };
  const pool = connect({ ...settingsOf(url), pool: { min: 0, max, afterCreate } }, log);
  pool.on('query-error', (error: Error, { __knexUid }: Pick<PooledConnection, '__knexUid'>) => {
    const connection = connections.get(__knexUid);
    if (connection && isGone(error)) leave(connection);
  });
  return pool;
}

/**
 * Whether another server may have taken over from the one at the other end. Where that one went without a word, its
 * connections look sound for a quarter of an hour; where it came back, it only reads.
 */
function isGone(error: Error & { readonly code?: unknown }): boolean {
  return error.message.endsWith('Query read timeout') || error.code === '25006';
}

/** Closed at once where an answer is still awaited. */
function leave(connection: PooledConnection): void {
  connection.__knex__disposed = 'its server does not serve any more';
  void connection.end();
}

/** What the policies ask. The empty text stands for nobody, the star for all. */
function become(role: string | null, organizations: string) {
  const scope = `set service.organizations = '${organizations}'; set service.user_id = ''`;
  return (connection: pg.Client): Promise<unknown> =>
    connection.query(role === null ? scope : `set role ${role}; ${scope}`);
}

/** As `confine`, or back to all rows, for the rest of a transaction. */
export async function nameScope(sql: Knex.Transaction, scope: Scope): Promise<void> {
  await confine(sql, scope === 'installation' ? { userId: '', organizationIds: ['*'] } : scope);
}

/** Within a transaction in any scope: what others own goes with what the caller may change. */
export async function unconfined<T>(sql: Knex.Transaction, work: () => Promise<T>): Promise<T> {
  if (sql.client.config.client !== 'pg') return work();
  const { rows } = await sql.raw(
    `select current_setting('service.organizations', true) as ids, current_setting('service.user_id', true) as id`,
  );
  await nameScope(sql, 'installation');
  const done = await work();
  await confine(sql, { userId: rows[0].id ?? '', organizationIds: (rows[0].ids ?? '').split(',') });
  return done;
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
