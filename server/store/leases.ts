/** Which process works on a run: the token that is compared in each transaction, so that a fenced process cannot write. */
import type { Knex } from 'knex';
import type { InterruptReason } from '../contract/api.ts';
import type { Database } from './database.ts';
import type { RunRow } from './runs.ts';

/** Which process works on a run, and until when the others leave it alone. */
export interface Lease {
  readonly owner: string;
  readonly expiresAt: Date;
}

/** A run whose process has died. */
export interface TakenRun {
  readonly runId: string;
  readonly sessionId: string;
  readonly model: string;
  readonly lastEventId: number;
}

export interface RenewedLease {
  readonly runId: string;
  readonly interrupt: InterruptReason | null;
}

export interface Leases {
  /** Remembers the token under which this process works on a run. */
  hold(runId: string, owner: string): void;
  release(runId: string): void;
  /** The run, locked, if this process still holds it; else an error named `LeaseLost`. */
  lock(sql: Knex.Transaction, runId: string): Promise<RunRow>;
  /** Keeps the leases that are still this owner's; the others are left out of the answer. */
  renew(lease: Lease, runIds: readonly string[]): Promise<RenewedLease[]>;
  /** Takes over runs whose lease has run out, each by one process only. */
  takeAbandoned(now: Date, lease: Lease): Promise<TakenRun[]>;
}

/** The most runs that are taken over at once; the rest waits for the next look. */
const mostTaken = 500;

export function leases(database: Database): Leases {
  const owners = new Map<string, string>();
  return {
    hold: (runId, owner) => {
      owners.set(runId, owner);
    },
    release: (runId) => {
      owners.delete(runId);
    },
    lock: async (sql, runId) => {
      const owner = owners.get(runId);
      const run = await sql<RunRow>('runs').where({ id: runId, ended_at: null }).forUpdate().first();
      if (owner !== undefined && run?.lease_owner === owner) return run;
      owners.delete(runId);
      throw leaseLost(runId);
    },
    renew: ({ owner, expiresAt }, runIds) =>
      database.write(async (sql) => {
        const mine = (): Knex.QueryBuilder<RunRow, RunRow[]> =>
          sql<RunRow>('runs').whereIn('id', runIds).where({ lease_owner: owner, ended_at: null });
        await mine().update({ lease_expires_at: expiresAt.getTime() });
        const rows = await mine();
        return rows.map((row) => ({ runId: row.id, interrupt: row.interrupt_requested }));
      }),
    takeAbandoned: async (now, lease) => {
      const taken: TakenRun[] = [];
      for (const run of await abandonedRuns(database, now)) {
        if (!(await takeOver(database, run, lease))) continue;
        owners.set(run.id, lease.owner);
        taken.push({
          runId: run.id,
          sessionId: run.session_id,
          model: run.model,
          lastEventId: run.last_event_id,
        });
      }
      return taken;
    },
  };
}

function abandonedRuns(database: Database, now: Date): Promise<RunRow[]> {
  return database.read(async (sql) =>
    sql<RunRow>('runs')
      .whereNull('ended_at')
      .where('lease_expires_at', '<', now.getTime())
      .orderBy('lease_expires_at')
      .limit(mostTaken)
      .select('*'),
  );
}

/** Whether this process is the one that got it: the row must still be as it was read. */
async function takeOver(database: Database, run: RunRow, { owner, expiresAt }: Lease): Promise<boolean> {
  const { id, lease_owner, lease_expires_at, last_event_id } = run;
  const changed = await database.write((sql) =>
    sql<RunRow>('runs')
      .where({ id, lease_owner, lease_expires_at, last_event_id, ended_at: null })
      .update({ lease_owner: owner, lease_expires_at: expiresAt.getTime() }),
  );
  return changed === 1;
}

function leaseLost(runId: string): Error {
  return Object.assign(new Error(`The run ${runId} is worked on by another process, or has ended.`), {
    name: 'LeaseLost',
  });
}
