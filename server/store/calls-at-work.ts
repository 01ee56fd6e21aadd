/** Model calls at work that belong to no run, as quotas of what is at work at a time count them. */
import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import type { Spender } from './meter.ts';
import type { StoreParts } from './parts.ts';

interface CallRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  user_id: string;
  api_key_id: string | null;
  expires_at: number;
}

export interface CallsAtWork {
  /** Counts a call with the transaction that meters its beginning; answers with its id. */
  insert(sql: Knex.Transaction, spender: Spender): Promise<string>;
  /** Keeps it from expiring, once that transaction has come to its end. */
  hold(id: string): void;
  /** Counts it no more; also where it has ended before. */
  end(id: string): Promise<void>;
  /** Forgets those of processes that have died; answers with how many there were. */
  prune(now: Date): Promise<number>;
}

/** A call whose process has died counts no longer than this. */
const callLeaseMs = 60_000;
/** Several times within that, so that one which comes late loses nothing. */
const renewalMs = callLeaseMs / 4;

/** A process keeps alive what it has begun, all of it in one statement, for as long as it has any. */
export function callsAtWork({ database, clock }: Pick<StoreParts, 'database' | 'clock'>): CallsAtWork {
  const own = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const expiry = () => clock.now().getTime() + callLeaseMs;

  function renew(): void {
    const renewal = database.writeOfRun((sql) =>
      sql<CallRow>('calls_at_work')
        .whereIn('id', [...own])
        .update({ expires_at: expiry() }),
    );
    // Whatever kept the database from it, the next one comes before anything has expired.
    renewal.catch(() => undefined);
  }

  function forget(id: string): void {
    own.delete(id);
    if (own.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    async insert(sql, { organizationId, workspaceId, userId, apiKeyId }) {
      const id = randomUUID();
      await sql<CallRow>('calls_at_work').insert({
        id,
        organization_id: organizationId,
        workspace_id: workspaceId,
        user_id: userId,
        api_key_id: apiKeyId,
        expires_at: expiry(),
      });
      return id;
    },
    hold(id) {
      own.add(id);
      timer ??= setInterval(renew, renewalMs).unref();
    },
    async end(id) {
      if (!own.has(id)) return;
      forget(id);
      await database.writeOfRun((sql) => sql<CallRow>('calls_at_work').where({ id }).delete());
    },
    prune: (now) =>
      database.write('installation', (sql) =>
        sql<CallRow>('calls_at_work').where('expires_at', '<=', now.getTime()).delete(),
      ),
  };
}

/** Those of the living, and of a process that has died for a moment. */
export function countedCalls(sql: Knex, now: number): Knex.QueryBuilder {
  return sql<CallRow>('calls_at_work').where('expires_at', '>', now);
}
