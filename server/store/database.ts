/** The one door to the database, whichever engine it is: reads, transactions, and errors that callers understand. */
import knex, { type Knex } from 'knex';
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
export function connect(settings: Knex.Config): Knex {
  const pool = knex({
    ...settings,
    acquireConnectionTimeout: acquireTimeoutMs,
    compileSqlOnError: false,
    useNullAsDefault: true,
  });
  pool.on('query', ({ bindings }: { readonly bindings?: readonly unknown[] }) =>
    refuseBrokenText(bindings ?? []),
  );
  return pool;
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
  let finished = false;
  let connection: Disposable | undefined;
  try {
    return await pool.transaction(async (sql) => {
      connection = await sql.client.acquireConnection();
      const result = await work(sql);
      finished = true;
      return result;
    });
  } catch (error) {
    // A failed COMMIT may leave the transaction open on a connection that goes back to the pool.
    if (finished && connection) connection.__knex__disposed = error;
    throw error;
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
