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
  /** Counts so many calls with the transaction that meters their beginning; answers with their ids. */
  insert(sql: Knex.Transaction, spender: Spender, count: number): Promise<readonly string[]>;
  /** Keeps it from expiring, once that transaction has come to its end. */
  hold(id: string): void;
  /** Keeps it no more; false where it was not kept. It is counted until its row is deleted. */
  letGo(id: string): boolean;
  delete(sql: Knex.Transaction, ids: readonly string[]): Promise<void>;
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

  function letGo(id: string): boolean {
    const held = own.delete(id);
    if (own.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
    return held;
  }

  return {
    async insert(sql, { organizationId, workspaceId, userId, apiKeyId }, count) {
      const rows = Array.from({ length: count }, () => ({
        id: randomUUID(),
        organization_id: organizationId,
        workspace_id: workspaceId,
        user_id: userId,
        api_key_id: apiKeyId,
        expires_at: expiry(),
      }));
      await sql<CallRow>('calls_at_work').insert(rows);
      return rows.map(({ id }) => id);
    },
    hold(id) {
      own.add(id);
      timer ??= setInterval(renew, renewalMs).unref();
    },
    letGo,
    async delete(sql, ids) {
      await sql<CallRow>('calls_at_work').whereIn('id', ids).delete();
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
