/** The one door to the database, whichever engine it is: reads, transactions, and errors that callers understand. */
import knex, { type Knex } from 'knex';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { crowded, problemOf } from './database-errors.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import type { Reach } from './reach.ts';
import type { Unchanged } from './unchanged.ts';

export type Dialect = 'sqlite' | 'postgresql';

/**
 * Whose rows a query may meet at all: those of the organizations of a caller, or every row, for what belongs to nobody
 * yet and for the server's own work. PostgreSQL holds queries to it, whatever they ask for; SQLite cannot.
 */
export type Scope = Pick<Reach, 'userId' | 'organizationIds'> | 'installation';

export interface Database {
  readonly dialect: Dialect;
  /** Queries that change nothing. */
  read<T>(scope: Scope, work: (sql: Knex) => Promise<T>): Promise<T>;
  /**
   * One transaction: all of it happens, or nothing. Inside, only the given connection may be used. Throws
   * `database_unavailable` where too many wait already, as does `read`.
   */
  write<T>(scope: Scope, work: (sql: Knex.Transaction) => Promise<T>): Promise<T>;
  /**
   * As `write`, for what a run at work has to store: as many as there may be runs wait, and none is refused. A deadlock
   * ends no run: the work, which may change nothing but the database, is done again. `unremembered` is called where
   * something was written, and nothing that `remembered` is asked for.
   */
  writeOfRun<T>(work: (sql: Knex.Transaction, unremembered: () => void) => Promise<T>): Promise<T>;
  /** Within a transaction of `write`: where the work fails, nothing of it is left, and the rest is as it was. */
  part<T>(sql: Knex.Transaction, work: (sql: Knex.Transaction) => Promise<T>): Promise<T>;
  /** As `writeOfRun`, for what only counts what was used. It is not done again. */
  writeCounts<T>(work: (sql: Knex.Transaction, unremembered: () => void) => Promise<T>): Promise<T>;
  /** As `writeCounts`, where one statement counts everything: a transaction by itself. */
  count(statement: (sql: Knex) => Promise<unknown>): Promise<void>;
  /** The same as long as nobody has written anything that is remembered; null where that cannot be told. */
  version(): number | null;
  /** Reads and transactions that are under way or wait for a connection. */
  load(): DatabaseLoad;
  /** Has a queue seen in which work gathers before it is written. */
  gathers(queue: GatheringQueue, waiting: () => number): void;
  gathered(): Readonly<Record<GatheringQueue, number>>;
  /** Begins nothing any more, and ends once all that is under way has ended. */
  close(): Promise<void>;
}

export type GatheringQueue = 'events' | 'modelCalls';

export interface DatabaseLoad {
  readonly reads: number;
  readonly writes: number;
}

/** How many may be under way or wait before another is refused: what a busy machine works off in some seconds. */
export const databaseLimits: DatabaseLoad = { reads: 5000, writes: 1000 };

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

/** The pools of one database; they may be the same. */
export interface Pools {
  readonly reader: Knex;
  readonly writer: Knex;
  /** Where the engine holds queries to a scope: its connections see nothing until they are told for whom they ask. */
  readonly confined?: {
    readonly pool: Knex;
    confine(sql: Knex.Transaction, scope: Exclude<Scope, 'installation'>): Promise<void>;
  };
  /** Where it can be told whether anything has changed. */
  readonly unchanged?: Unchanged;
  /** Tries again what another process keeps from writing; where the engine itself waits, nothing has to. */
  readonly onceFree?: (write: () => Promise<unknown>) => Promise<unknown>;
}

export function databaseOf(dialect: Dialect, pools: Pools): Database {
  const { reader, writer, confined, unchanged, onceFree = (write) => write() } = pools;
  const inScope = <T>(scope: Exclude<Scope, 'installation'>, work: (sql: Knex.Transaction) => Promise<T>) =>
    inTransaction(confined?.pool ?? writer, async (sql) => {
      await confined?.confine(sql, scope);
      return work(sql);
    });
  const reads = counted(databaseLimits.reads);
  const writes = counted(databaseLimits.writes);
  const gathering = new Map<GatheringQueue, () => number>();
  const inQueue = (queue: GatheringQueue) => gathering.get(queue)?.() ?? 0;
  return {
    dialect,
    read: (scope, work) =>
      reads.bounded(() => (confined && scope !== 'installation' ? inScope(scope, work) : work(reader))),
    write: (scope, work) =>
      writes.bounded(() => (scope === 'installation' ? inTransaction(writer, work) : inScope(scope, work))),
    writeOfRun: (work) =>
      writes.unbounded(() => despiteDeadlocks(() => inRunsTransaction(writer, unchanged, work))),
    part: inPart,
    writeCounts: (work) => writes.unbounded(() => inRunsTransaction(writer, unchanged, work)),
    count: (statement) =>
      writes.unbounded(() => counting(unchanged, () => onceFree(() => statement(writer)))),
    version: () => unchanged?.version() ?? null,
    load: () => ({ reads: reads.count(), writes: writes.count() }),
    gathers: (queue, waiting) => void gathering.set(queue, waiting),
    gathered: () => ({ events: inQueue('events'), modelCalls: inQueue('modelCalls') }),
    close: async () => {
      await Promise.all([reads.close(), writes.close()]);
      const others = new Set([reader, ...(confined ? [confined.pool] : [])]);
      others.delete(writer);
      await Promise.all([...others].map((pool) => pool.destroy()));
      // Of two connections to SQLite that close at once, neither is the last, and the log of writes stays beside the file.
      await writer.destroy();
    },
  };
}

function counted(limit: number) {
  let count = 0;
  let closing = false;
  const ended = Promise.withResolvers<void>();
  const endIfIdle = () => {
    if (closing && count === 0) ended.resolve();
  };
  const unbounded = async <T>(work: () => Promise<T>): Promise<T> => {
    // Who asks a pool that is being destroyed for a connection gets none, and keeps the process for as long as it waits.
    if (closing) throw new Problem('database_unavailable', 'The database is closed: the server is stopping.');
    count += 1;
    try {
      return await translated(work);
    } finally {
      count -= 1;
      endIfIdle();
    }
  };
  return {
    unbounded,
    bounded: async <T>(work: () => Promise<T>): Promise<T> => {
      if (count < limit) return await unbounded(work);
      throw crowded(`The bound is ${limit}.`);
    },
    count: () => count,
    close(): Promise<void> {
      closing = true;
      endIfIdle();
      return ended.promise;
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

/** Of a part that fails its own error counts: what takes it back may fail as well, on a connection that is gone. */
async function inPart<T>(whole: Knex.Transaction, work: (sql: Knex.Transaction) => Promise<T>): Promise<T> {
  let failure: { readonly error: unknown } | undefined;
  try {
    return await whole.transaction(async (sql) => {
      try {
        return await work(sql);
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
  } catch (error) {
    throw failure ? failure.error : error;
  }
}

/** Told of from when it has the lock to when its commit is over. */
async function inRunsTransaction<T>(
  pool: Knex,
  unchanged: Unchanged | undefined,
  work: (sql: Knex.Transaction, unremembered: () => void) => Promise<T>,
): Promise<T> {
  let announced: number | null = null;
  let committed = false;
  try {
    const result = await inTransaction(pool, async (sql) => {
      let wrote = false;
      unchanged?.begin();
      const done = await work(sql, () => {
        wrote = true;
      });
      if (wrote && unchanged) announced = unchanged.announce();
      return done;
    });
    committed = true;
    return result;
  } finally {
    unchanged?.end(announced, committed);
  }
}

/**
 * From before it has the lock: a commit of another process that comes in between makes the number of commits one more
 * than it should be, and is found by that.
 */
async function counting(unchanged: Unchanged | undefined, write: () => Promise<unknown>): Promise<void> {
  if (!unchanged) return void (await write());
  unchanged.begin();
  const announced = unchanged.announce();
  let committed = false;
  try {
    await write();
    committed = true;
  } finally {
    unchanged.end(announced, committed);
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
