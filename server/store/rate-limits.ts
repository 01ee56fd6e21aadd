/** Counts how often somebody calls: in memory with SQLite and its one process, in PostgreSQL for all nodes together. */
import { RateLimiterMemory, RateLimiterPostgres, type RateLimiterRes } from 'rate-limiter-flexible';
import type { Database } from './database.ts';
import type { StoreParts } from './parts.ts';

/** So many requests in so many seconds. */
export interface RatePolicy {
  /** Tells its keys from those of other policies. */
  readonly name: string;
  readonly requests: number;
  readonly seconds: number;
}

/** What is left after one request was counted. */
export interface RateCount {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Until all of it is there again. */
  readonly resetMs: number;
}

export interface RateLimits {
  /** Counts a request. While the database does not answer, each process counts for itself. */
  take(policy: RatePolicy, key: string): Promise<RateCount>;
  /** Forgets what has expired. Answers with how many there were. */
  prune(before: Date): Promise<number>;
}

const tableName = 'rate_limits';

export function rateLimits({ database }: StoreParts): RateLimits {
  const limiters = new Map<string, Limiter>();
  const limiterOf = (policy: RatePolicy): Limiter => {
    const name = `${policy.name}-${policy.requests}-${policy.seconds}`;
    const limiter = limiters.get(name) ?? createLimiter(database, name, policy);
    limiters.set(name, limiter);
    return limiter;
  };
  return {
    take: (policy, key) =>
      limiterOf(policy)
        .consume(key)
        .then(
          (left) => toCount(left, true),
          (refusal: unknown) => {
            if (refusal instanceof Error) throw refusal;
            // Where there were too many, the library rejects with what is left.
            return toCount(refusal as RateLimiterRes, false);
          },
        ),
    prune: (before) =>
      database.write('installation', (sql) => sql(tableName).where('expire', '<', before.getTime()).delete()),
  };
}

type Limiter = Pick<RateLimiterMemory, 'consume'>;

function createLimiter(database: Database, keyPrefix: string, { requests, seconds }: RatePolicy): Limiter {
  const options = { keyPrefix, points: requests, duration: seconds };
  if (database.dialect === 'sqlite') return new RateLimiterMemory(options);
  return new RateLimiterPostgres({
    ...options,
    storeClient: { query: (query: LibraryQuery) => ask(database, query) },
    storeType: 'client',
    tableName,
    tableCreated: true,
    clearExpiredByTimeout: false,
    // Who has called too often needs no more questions to the database until they may again.
    inMemoryBlockOnConsumed: requests + 1,
    insuranceLimiter: new RateLimiterMemory(options),
  });
}

interface LibraryQuery {
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** Through the one door to the database; the library numbers its values, and knex names them. */
function ask(database: Database, { text, values }: LibraryQuery): Promise<unknown> {
  const named = Object.fromEntries(values.map((value, index) => [`value${index + 1}`, value]));
  return database.write('installation', async (sql) => sql.raw(text.replace(/\$(\d+)/g, ':value$1'), named));
}

function toCount({ remainingPoints, msBeforeNext }: RateLimiterRes, allowed: boolean): RateCount {
  return { allowed, remaining: remainingPoints, resetMs: Math.max(0, msBeforeNext) };
}
