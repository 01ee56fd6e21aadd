/** SQLite through knex: write-ahead log, foreign keys, one connection that writes and a few that read. */
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import { commitCounter } from './commit-counter.ts';
import { connect, type Database, databaseOf } from './database.ts';
import { type Connection as KeptConnection, keepStatements } from './kept-statements.ts';
import { Unchanged } from './unchanged.ts';
import { loadVectors } from './vector-extension.ts';

const pragmas = `
  pragma busy_timeout = 5000;
  pragma journal_mode = wal;
  pragma synchronous = normal;
  pragma foreign_keys = on;
  pragma trusted_schema = off;
  pragma journal_size_limit = 67108864;
`;

/** Readers do not wait for the writer in the write-ahead log, so the queue of writes delays no read. */
const readers = 4;

/** Opens the file, and makes it readable for its owner alone if it is new. */
export function openSqlite(file: string, log: Log): Database {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  closeSync(openSync(file, 'a', 0o600));
  const writer = pool({ filename: file, setUp: `${pragmas} pragma busy_timeout = 0;`, max: 1 }, log);
  const onceFree = lockQueue();
  lockAtBegin(writer, onceFree);
  const reader = pool({ filename: file, setUp: `${pragmas} pragma query_only = on;`, max: readers }, log);
  const commits = commitCounter(file);
  const database = databaseOf('sqlite', { reader, writer, unchanged: new Unchanged(commits), onceFree });
  return {
    ...database,
    close: async () => {
      await database.close();
      commits.close();
    },
  };
}

/** The file is always there: whoever waits, waits for others in this process, of whom there are at most so many. */
const queueTimeoutMs = 30_000;

interface Connection extends KeptConnection {
  exec(sql: string, done: (error: Error | null) => void): void;
  loadExtension(path: string, done: (error: Error | null) => void): void;
}

function pool(
  { filename, setUp, max }: { readonly filename: string; readonly setUp: string; readonly max: number },
  log: Log,
): Knex {
  const afterCreate = (
    connection: Connection,
    done: (error: Error | null, connection: Connection) => void,
  ): void => {
    const exec = promisify(connection.exec.bind(connection));
    // Of processes that turn to the write-ahead log at once, SQLite refuses all but one, however long they would wait.
    const ready = async () => {
      await whileBusy(() => exec(setUp));
      await loadVectors(connection, log);
    };
    ready().then(
      () => {
        keepStatements(connection);
        done(null, connection);
      },
      (error: Error) => done(error, connection),
    );
  };
  return connect(
    {
      client: 'sqlite3',
      connection: { filename },
      pool: { min: 1, max, afterCreate },
      acquireConnectionTimeout: queueTimeoutMs,
    },
    log,
  );
}

/** What knex starts a transaction with. */
interface Transaction {
  readonly trxClient: { query(connection: unknown, sql: string): Promise<unknown> };
  begin(connection: unknown): Promise<unknown>;
}

/**
 * A transaction takes the write lock when it begins. With the plain BEGIN of knex, one that first reads and then
 * writes fails at once, without waiting, when another process has written in between.
 */
function lockAtBegin(writer: Knex, onceFree: OnceFree): void {
  // The type of `client` in knex is `any`: this names the one method that is used.
  const client = writer.client as { transaction: (...given: unknown[]) => Transaction };
  const transaction = client.transaction.bind(client);
  client.transaction = (...given) =>
    Object.assign(transaction(...given), {
      begin(this: Transaction, connection: unknown) {
        return onceFree(() => this.trxClient.query(connection, 'BEGIN IMMEDIATE;'));
      },
    });
}

const lockTimeoutMs = 5000;
const lockRetryMs = 5;

/**
 * Writers come one after the other: once one has waited in vain, those behind it would wait as long each, the last of
 * twenty for minutes. For a while they only look whether the lock is free by now.
 */
const refusedTimeoutMs = 100;

/** Does what needs the lock of the writer, once it is free. */
type OnceFree = (action: () => Promise<unknown>) => Promise<unknown>;

function lockQueue(): OnceFree {
  let refusedAt = Number.NEGATIVE_INFINITY;
  return async (action) => {
    const isLocked = performance.now() - refusedAt < lockTimeoutMs;
    try {
      const done = await whileBusy(action, isLocked ? refusedTimeoutMs : lockTimeoutMs);
      refusedAt = Number.NEGATIVE_INFINITY;
      return done;
    } catch (error) {
      if (!isLocked) refusedAt = performance.now();
      throw error;
    }
  };
}

/** SQLite itself would wait within a thread, of which Node has four for everything: whoever is to end the wait may need it. */
async function whileBusy(action: () => Promise<unknown>, timeoutMs = lockTimeoutMs): Promise<unknown> {
  for (const deadline = performance.now() + timeoutMs; ; ) {
    try {
      return await action();
    } catch (error) {
      const busy = error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY';
      if (!busy || performance.now() > deadline) throw error;
      await setTimeout(lockRetryMs);
    }
  }
}
