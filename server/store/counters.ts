/** Counts what may happen so often within a time: in memory with SQLite and its one process, in PostgreSQL for all nodes together. */
import { hash } from 'node:crypto';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterPostgres,
  type RateLimiterRes,
} from 'rate-limiter-flexible';
import type { Database } from './database.ts';
import { sweepTable } from './sweeps.ts';

/** What is counted, and how many may be within how long a time. */
export interface CountLimit {
  /** Tells its keys from those of other limits. */
  readonly name: string;
  readonly most: number;
  readonly seconds: number;
  /**
   * For what is counted with every request and never taken back: each process counts for itself while the database does
   * not answer, and asks it no more for a key that has had too many.
   */
  readonly relaxed?: boolean;
}

export interface Count {
  /** Whether there were not too many. */
  readonly allowed: boolean;
  readonly remaining: number;
  /** Until all of it is there again. */
  readonly resetMs: number;
}

/** One limit. */
export interface Counter {
  /** Counts one more, also where it is one too many. */
  count(key: string): Promise<Count>;
  /** Whether one more may be, without counting. */
  look(key: string): Promise<Count>;
  /** Takes one back. */
  giveBack(key: string): Promise<void>;
  forget(key: string): Promise<void>;
}

export interface Counters {
  /** Those of the same limit count together. */
  counter(limit: CountLimit): Counter;
  /**
   * Whether what is done once in so long a time is to be done again. Kept beyond the process on SQLite, too; a clock that
   * was set back keeps nothing from being done.
   */
  isDue(name: string, now: Date, everyMs: number): Promise<boolean>;
  /** It was done at that moment. */
  noteDone(name: string, at: Date, everyMs: number): Promise<void>;
  /** Forgets counts that have expired; answers with how many there were. */
  prune(now: Date): Promise<number>;
}

const tableName = 'counts';

/**
 * `database` is the database itself: what was counted stays counted, also where the transaction of the request comes to
 * nothing.
 */
export function countersIn(database: Database): Counters {
  const known = new Map<string, Counter>();
  return {
    counter(limit) {
      const name = `${limit.name}-${limit.most}-${limit.seconds}`;
      const counter = known.get(name) ?? counterOf(limiterOf(database, name, limit));
      known.set(name, counter);
      return counter;
    },
    isDue: (name, now, everyMs) =>
      database.read('installation', async (sql) => {
        const from = now.getTime();
        const done = await sql(tableName)
          .where({ key: doneKey(name) })
          .where('expire', '>', from)
          .where('expire', '<=', from + everyMs)
          .first('key');
        return done === undefined;
      }),
    noteDone: (name, at, everyMs) =>
      database.write('installation', async (sql) => {
        const row = { key: doneKey(name), points: 1, expire: at.getTime() + everyMs };
        await sql(tableName).insert(row).onConflict('key').merge();
      }),
    prune: (now) => sweepTable(database, tableName, 'expire', now.getTime()),
  };
}

function limiterOf(
  database: Database,
  keyPrefix: string,
  { most, seconds, relaxed = false }: CountLimit,
): RateLimiterAbstract {
  const options = { keyPrefix, points: most, duration: seconds };
  if (database.dialect === 'sqlite') return new RateLimiterMemory(options);
  return new RateLimiterPostgres({
    ...options,
    storeClient: { query: (query: LibraryQuery) => ask(database, query) },
    storeType: 'client',
    tableName,
    tableCreated: true,
    clearExpiredByTimeout: false,
    ...(relaxed && { inMemoryBlockOnConsumed: most + 1, insuranceLimiter: new RateLimiterMemory(options) }),
  });
}

function counterOf(limiter: RateLimiterAbstract): Counter {
  return {
    count: (key) =>
      limiter.consume(hashedKey(key)).then(
        (left) => toCount(left, true),
        (refusal: unknown) => {
          if (refusal instanceof Error) throw refusal;
          // Where there were too many, the library rejects with what is left.
          return toCount(refusal as RateLimiterRes, false);
        },
      ),
    async look(key) {
      const left = await limiter.get(hashedKey(key));
      if (!left) return { allowed: true, remaining: limiter.points, resetMs: 0 };
      return toCount(left, left.consumedPoints < limiter.points);
    },
    async giveBack(key) {
      await limiter.reward(hashedKey(key));
    },
    async forget(key) {
      await limiter.delete(hashedKey(key));
    },
  };
}

function toCount({ remainingPoints, msBeforeNext }: RateLimiterRes, allowed: boolean): Count {
  return { allowed, remaining: remainingPoints, resetMs: Math.max(0, msBeforeNext) };
}

/** Like no key of a limit: those hold a colon. */
function doneKey(name: string): string {
  return `done-${name}`;
}

/** Addresses of people are no one's business in a table of counts, and a key has its limit. */
function hashedKey(key: string): string {
  return hash('sha256', key, 'base64url');
}

interface LibraryQuery {
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** Through the one door to the database; the library numbers its values, and knex names them. */
function ask(database: Database, { text, values }: LibraryQuery): Promise<unknown> {
  const named = Object.fromEntries(values.map((value, index) => [`value${index + 1}`, value]));
  const sentence = text.replace(/\$(\d+)/g, ':value$1');
  const looks = /^\s*select\b/i.test(text);
  return looks
    ? database.read('installation', async (sql) => sql.raw(sentence, named))
    : database.write('installation', async (sql) => sql.raw(sentence, named));
}
