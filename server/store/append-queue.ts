/** Stores the events of runs as they come: where one connection writes for all, those of many runs in one transaction. */
import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { type Leases, leaseLost } from './leases.ts';
import { insertEventsOfRuns, type NumberedEvent } from './run-events.ts';
import type { RunRow } from './runs.ts';

/** How long events of many runs gather: a tenth of what a person can see. */
const gatherMs = 10;
/** Runs whose events go into one transaction; each waits for the others. */
const mostTogether = 200;

interface Append {
  readonly runId: string;
  readonly events: readonly NumberedEvent[];
  readonly stored: () => void;
  readonly failed: (error: unknown) => void;
}

export interface AppendQueue {
  /** Resolves when they are stored. Throws `LeaseLost`. */
  append(runId: string, events: readonly NumberedEvent[]): Promise<void>;
  /** How many runs wait for their events to be stored: each once, as a log stores one batch after the other. */
  waiting(): number;
}

export function createAppendQueue(database: Database, leases: Leases, now: () => number): AppendQueue {
  const waiting: Append[] = [];
  database.gathers('events', () => waiting.length);
  let busy = false;

  const storeAll = async (): Promise<void> => {
    busy = true;
    try {
      while (waiting.length > 0) {
        const together = waiting.splice(0, mostTogether);
        await storeTogether(database, leases, together, now());
        // One run alone is not held up; where there are several, each transaction serves as many as it can.
        if (together.length > 1) await new Promise((resolve) => setTimeout(resolve, gatherMs));
      }
    } finally {
      busy = false;
    }
  };

  return {
    append(runId, events) {
      const { promise, resolve: stored, reject: failed } = Promise.withResolvers<void>();
      const append = { runId, events, stored, failed };
      // There each run has a connection to itself, and two transactions that lock several runs could wait for each other.
      if (database.dialect === 'postgresql') void storeTogether(database, leases, [append], now());
      else {
        waiting.push(append);
        if (!busy) void storeAll();
      }
      return promise;
    },
    waiting: () => waiting.length,
  };
}

/** Never rejects: each is told how it went. */
async function storeTogether(
  database: Database,
  leases: Leases,
  appends: readonly Append[],
  now: number,
): Promise<void> {
  try {
    const lost = await database.writeOfRun((sql, unremembered) =>
      insert(sql, leases, appends, now, unremembered),
    );
    for (const append of appends)
      if (lost.has(append.runId)) append.failed(leaseLost(append.runId));
      else append.stored();
  } catch (error) {
    if (appends.length === 1) return appends[0]?.failed(error);
    // What cannot be stored of one run is no matter of the others.
    for (const append of appends) await storeTogether(database, leases, [append], now);
  }
}

/** Answers with the runs that this process has lost. */
async function insert(
  sql: Knex.Transaction,
  leases: Leases,
  appends: readonly Append[],
  now: number,
  unremembered: () => void,
): Promise<ReadonlySet<string>> {
  const ids = appends.map(({ runId }) => runId);
  const held = new Map((await leases.lockHeld(sql, ids)).map((run) => [run.id, run]));
  const stored = appends.flatMap(({ runId, events }) => {
    const run = held.get(runId);
    return run ? [{ run, events }] : [];
  });
  if (held.size > 0) unremembered();
  await insertEventsOfRuns(sql, stored, now);
  await sql<RunRow>('runs')
    .whereIn('id', [...held.keys()])
    .update({
      last_event_id: sql.raw('(select max(seq) from run_events where run_events.run_id = runs.id)'),
    });
  return new Set(ids.filter((id) => !held.has(id)));
}
