/** Requests with an Idempotency-Key: what the first one wrote is kept together with what it was answered. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import type { Database } from './database.ts';
import { isDuplicate } from './database-errors.ts';
import { HeldTransaction, heldTransaction, outsideHeld, whenCommitted } from './held-transaction.ts';
import type { StoreParts } from './parts.ts';
import { sweepTable } from './sweeps.ts';

export interface KeptRequest {
  readonly principalId: string;
  readonly userId: string;
  readonly key: string;
  readonly fingerprint: string;
}

/** What became of a request. */
export interface RequestOutcome {
  readonly fingerprint: string;
  readonly runId: string | null;
  /** As it was given to be kept; null where nothing was answered yet, or the answer cannot be kept. */
  readonly reply: string | null;
}

export interface KeptRequests {
  find(request: Pick<KeptRequest, 'principalId' | 'key'>): Promise<RequestOutcome | null>;
  /**
   * All that `work` writes in one transaction with what it was answered; for a run, all up to its beginning, and for
   * others all up to `commitWith`. Null where another process has kept a request with this key meanwhile: then nothing was
   * written. Throws `idempotency_key_in_use` where another is about to.
   */
  once<T>(
    request: KeptRequest,
    work: () => Promise<T>,
    keep: (answer: T) => string | null,
  ): Promise<T | null>;
  /**
   * Commits what `once` has written so far, before something that takes long: else nobody could write meanwhile. It is
   * kept with this answer, which stands until `once` has its own, or for good where the process dies before. Outside of
   * `once` it does nothing.
   */
  commitWith(request: KeptRequest, reply: string): Promise<void>;
  /**
   * Whether the caller holds a connection until `once` commits: then it may wait for no work of others, who may wait for
   * one, and begin none for them, who would see what is not committed.
   */
  holds(): boolean;
  /**
   * Does what takes long before anything of the request is written: what it stores for others, or spends, is stored at
   * once, and nobody's writing waits for it. Once `holds`, it could wait for its own caller.
   */
  apart<T>(work: () => Promise<T>): Promise<T>;
  /** Calls once that is committed, or at once outside of `once`: for what others do with it. */
  whenCommitted(work: () => void): void;
  /** Keeps an answer that belongs to nothing that was written. The first one stands. */
  add(request: KeptRequest, reply: string): Promise<void>;
  prune(before: Date): Promise<number>;
}

interface KeptRequestRow {
  principal_id: string;
  idempotency_key: string;
  user_id: string;
  fingerprint: string;
  run_id: string | null;
  reply: string | null;
  created_at: number;
}

/** The transaction of a request that is to begin a run knows its request. */
const requests = new WeakMap<HeldTransaction, KeptRequest>();

/** `direct` is the database itself: a held transaction is not within another. */
export function keptRequestRepository({ database, clock }: StoreParts, direct: Database): KeptRequests {
  const now = () => clock.now().getTime();
  return {
    find: ({ principalId, key }) =>
      database.read('installation', async (sql) => {
        const row = await sql<KeptRequestRow>('kept_requests').where(placeOf({ principalId, key })).first();
        return row ? { fingerprint: row.fingerprint, runId: row.run_id, reply: row.reply } : null;
      }),
    async once(request, work, keep) {
      let taken = false;
      const held = new HeldTransaction(direct, async (sql) => {
        taken = !(await claim(sql, direct, request, now()));
        // Whoever is in the middle of something must not mistake it for a fault of its own.
        if (taken) throw new Error('another process has answered this request');
      });
      requests.set(held, request);
      try {
        const answer = await held.run(work);
        const reply = keep(answer);
        if (!held.over) await held.commit((sql) => setReply(sql, request, reply));
        // What was written has been committed before: with the beginning of a run, or before a mail.
        else if (reply !== null) await database.write('installation', (sql) => setReply(sql, request, reply));
        return answer;
      } catch (error) {
        await held.abandon(error);
        if (taken) return null;
        throw error;
      }
    },
    async commitWith(request, reply) {
      await heldTransaction()?.commit((sql) => setReply(sql, request, reply));
    },
    holds: () => heldTransaction()?.begun ?? false,
    apart: outsideHeld,
    whenCommitted,
    add: (request, reply) =>
      database.write('installation', async (sql) => {
        await sql('kept_requests')
          .insert({ ...rowOf(request, now()), reply })
          .onConflict(['principal_id', 'idempotency_key'])
          .ignore();
      }),
    prune: (before) => sweepTable(database, 'kept_requests', 'created_at', before.getTime()),
  };
}

/** Notes the run in the request that begins it, in the transaction of both; a run of no request is none of this. */
export async function noteRun(sql: Knex.Transaction, runId: string): Promise<void> {
  const held = heldTransaction();
  const request = held && requests.get(held);
  if (request) await sql('kept_requests').where(placeOf(request)).update({ run_id: runId });
}

/** The request with an Idempotency-Key that the caller is at work for: its kept answer shows what it makes. */
export function requestAtWork(): Pick<KeptRequest, 'principalId' | 'key'> | null {
  const held = heldTransaction();
  return (held && requests.get(held)) ?? null;
}

/** The run is at work from here on, and writes for itself. */
export async function commitBeginning(): Promise<void> {
  await heldTransaction()?.commit();
}

/** False where the key was taken before. */
async function claim(
  sql: Knex.Transaction,
  { dialect }: Database,
  request: KeptRequest,
  now: number,
): Promise<boolean> {
  // On SQLite whoever comes second has waited for the first by now.
  if (dialect === 'postgresql') await refuseWhileHeld(sql, request);
  try {
    await sql('kept_requests').insert(rowOf(request, now));
    return true;
  } catch (error) {
    if (isDuplicate(error)) return false;
    throw error;
  }
}

async function refuseWhileHeld(sql: Knex.Transaction, { principalId, key }: KeptRequest): Promise<void> {
  const { rows } = await sql.raw('select pg_try_advisory_xact_lock(hashtextextended(?, 14)) as free', [
    `${principalId} ${key}`,
  ]);
  if (!rows[0].free)
    throw new Problem(
      'idempotency_key_in_use',
      'The first request with this Idempotency-Key is being answered by another server; ask again in a moment.',
    );
}

async function setReply(sql: Knex.Transaction, request: KeptRequest, reply: string | null): Promise<void> {
  await sql('kept_requests').where(placeOf(request)).update({ reply });
}

function rowOf({ principalId, key, userId, fingerprint }: KeptRequest, now: number): KeptRequestRow {
  return {
    ...placeOf({ principalId, key }),
    user_id: userId,
    fingerprint,
    run_id: null,
    reply: null,
    created_at: now,
  };
}

function placeOf({ principalId, key }: Pick<KeptRequest, 'principalId' | 'key'>) {
  return { principal_id: principalId, idempotency_key: key };
}
