/** The one door to the database, whichever engine it is: reads, transactions, and errors that callers understand. */
import knex, { type Knex } from 'knex';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { problemOf } from './database-errors.ts';

export type Dialect = 'sqlite' | 'postgresql';

export interface Database {
  readonly dialect: Dialect;
  /** Queries that change nothing. */
  read<T>(work: (sql: Knex) => Promise<T>): Promise<T>;
  /** One transaction: all of it happens, or nothing. Inside, only the given connection may be used. */
  write<T>(work: (sql: Knex.Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** How long a query waits for a free connection before the caller is told. */
const acquireTimeoutMs = 10_000;

/** A pool of connections whose failures never quote bound values: they may be secrets. */
export function connect(settings: Knex.Config, log: Log): Knex {
  const pool = knex({
    acquireConnectionTimeout: acquireTimeoutMs,
    ...settings,
    log: { warn: told(log), error: told(log), deprecate: told(log), debug: () => undefined },
    compileSqlOnError: false,
    useNullAsDefault: true,
  });
  pool.on('query', ({ bindings }: { readonly bindings?: readonly unknown[] }) =>
    refuseBrokenText(bindings ?? []),
  );
  return pool;
}

/** What knex has to say of its connections; whoever waits for one is told by an error too. */
function told(log: Log): (message: unknown) => void {
  return (message) => log.warn({ database: String(message) }, 'the database gave trouble');
}

/** Reads go through `reader`, transactions through `writer`; both may be the same pool. */
export function databaseOf(dialect: Dialect, reader: Knex, writer: Knex): Database {
  return {
    dialect,
    read: (work) => translated(() => work(reader)),
    write: (work) => translated(() => inTransaction(writer, work)),
    close: async () => {
      await Promise.all(reader === writer ? [writer.destroy()] : [reader.destroy(), writer.destroy()]);
    },
  };
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw problemOf(error);
  }
}

async function inTransaction<T>(pool: Knex, work: (sql: Knex.Transaction) => Promise<T>): Promise<T> {
  let connection: Disposable | undefined;
  let failure: { readonly error: unknown } | undefined;
  try {
    return await pool.transaction(async (sql) => {
      connection = await sql.client.acquireConnection();
      try {
        return await work(sql);
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
  } catch (error) {
    // COMMIT or ROLLBACK has failed itself: its connection may not go back to the pool with a transaction open.
    if (connection && error !== failure?.error)
      connection.__knex__disposed = 'a transaction that did not end';
    throw failure ? failure.error : error;
  }
}

/** Knex drops a connection with this mark instead of handing it out again. */
interface Disposable {
  __knex__disposed?: unknown;
}

/** One engine refuses NUL and the other cuts text there; half a surrogate pair would come back as another character. */
function refuseBrokenText(bindings: readonly unknown[]): void {
  for (const value of bindings) {
    if (typeof value === 'string' && (value.includes('\0') || !value.isWellFormed()))
      throw new Problem(
        'invalid_encoding',
        'Text may hold neither NUL nor half a surrogate pair; remove it.',
      );
  }
}
