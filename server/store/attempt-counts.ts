/** Counts attempts within a time: in memory with SQLite and its one process, in PostgreSQL for all nodes together. */
import { createHash } from 'node:crypto';
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterPostgres } from 'rate-limiter-flexible';
import type { Database } from './database.ts';
import type { StoreParts } from './parts.ts';

/** What is counted, and how many may be within how long a time. */
export interface AttemptLimit {
  /** Tells its keys from those of other limits. */
  readonly name: string;
  readonly most: number;
  readonly seconds: number;
}

/** One limit. Whatever waits answers with milliseconds; null is: go on. */
export interface AttemptCounter {
  /** Counts one more attempt, also where it is one too many. */
  count(key: string): Promise<number | null>;
  /** The same, without counting. */
  look(key: string): Promise<number | null>;
  /** Takes one attempt back. */
  giveBack(key: string): Promise<void>;
  forget(key: string): Promise<void>;
}

export interface AttemptCounts {
  counter(limit: AttemptLimit): AttemptCounter;
  /** Forgets counts that have expired; answers with how many there were. */
  prune(now: Date): Promise<number>;
}

const tableName = 'attempt_counts';

export function attemptCounts({ database }: StoreParts): AttemptCounts {
  return {
    counter: (limit) => counterOf(limiterOf(database, limit)),
    prune: (now) =>
      database.write('installation', (sql) => sql(tableName).where('expire', '<', now.getTime()).delete()),
  };
}

function limiterOf(database: Database, { name, most, seconds }: AttemptLimit): RateLimiterAbstract {
  const options = { keyPrefix: name, points: most, duration: seconds };
  if (database.dialect === 'sqlite') return new RateLimiterMemory(options);
  return new RateLimiterPostgres({
    ...options,
    storeClient: { query: (query: PgQuery) => run(database, query) },
    storeType: 'client',
    tableName,
    tableCreated: true,
    clearExpiredByTimeout: false,
  });
}

function counterOf(limiter: RateLimiterAbstract): AttemptCounter {
  return {
    count: (key) => limiter.consume(hashedKey(key)).then(() => null, waitOrFault),
    async look(key) {
      const state = await limiter.get(hashedKey(key));
      return state && state.consumedPoints >= limiter.points ? state.msBeforeNext : null;
    },
    async giveBack(key) {
      await limiter.reward(hashedKey(key));
    },
    async forget(key) {
      await limiter.delete(hashedKey(key));
    },
  };
}

/** Addresses of people are no one's business in a table of counts, and a key has its limit. */
function hashedKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

/** The library rejects with its count where there were too many, and with an error where the database failed. */
function waitOrFault(refusal: unknown): number {
  if (refusal instanceof Error) throw refusal;
  // Anything else that it rejects with is a RateLimiterRes.
  return (refusal as { readonly msBeforeNext: number }).msBeforeNext;
}

interface PgQuery {
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** The numbered places of `pg` as those of knex, so that errors and load are told as everywhere. */
async function run(database: Database, { text, values }: PgQuery): Promise<unknown> {
  const bindings: (string | number | null)[] = [];
  const sentence = text.replace(/\$(\d+)/g, (_, place: string) => {
    bindings.push(values[Number(place) - 1] ?? null);
    return '?';
  });
  const change = !/^\s*select\b/i.test(text);
  return change
    ? database.write('installation', async (sql) => sql.raw(sentence, bindings))
    : database.read('installation', async (sql) => sql.raw(sentence, bindings));
}
