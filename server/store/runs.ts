/** Runs as callers see them: found, listed, asked to stop, and their events forgotten when they are old. */
import type { Knex } from 'knex';
import type { InterruptReason, operations, Run, RunStatus } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { type CostColumns, toCost } from './costs.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, partsWithin, type Reach, requireRole, within } from './reach.ts';
import { requireSession, toUsage } from './session-rows.ts';
import { sweep } from './sweeps.ts';
import { nullableTimestamp, timestamp } from './timestamps.ts';
import { pruneWorkspaceEvents } from './workspace-events.ts';

/** `limit`, `cursor` and the filters of the contract. */
export type RunQuery = Partial<NonNullable<operations['listRuns']['parameters']['query']>>;

export interface FoundRun {
  readonly run: Run;
  /** The oldest event that is still kept; one more than the newest where none is. */
  readonly firstEventId: number;
}

export interface Runs {
  find(reach: Reach, id: string): Promise<FoundRun | null>;
  /** The newest first. */
  list(reach: Reach, query: RunQuery): Promise<Page<Run>>;
  /** The runs of a session that have not ended, the oldest first. Throws `not_found` for a session out of reach. */
  activeOf(reach: Reach, sessionId: string): Promise<Run[]>;
  /**
   * The run of a session that is at work, or else the last that has ended: what waits is in the queue. Throws `not_found`
   * for a session out of reach.
   */
  current(reach: Reach, sessionId: string): Promise<Run | null>;
  /** Asks a run to stop, on whichever node it works; the first reason stands. Throws `not_found` or `run_ended`. */
  requestInterrupt(reach: Reach, id: string, reason: InterruptReason): Promise<Run>;
  /** Deletes the events of runs that ended before, for every tenant. Answers with how many events there were. */
  pruneEvents(before: Date): Promise<number>;
}

export interface RunRow extends CostColumns {
  id: string;
  organization_id: string;
  workspace_id: string;
  session_id: string;
  user_id: string;
  /** The key that asked; null where a login did. */
  api_key_id: string | null;
  run_number: number;
  status: RunStatus;
  trigger: Run['trigger'];
  agent_slug: string;
  model: string;
  permission_mode: Run['permission_mode'];
  on_unanswered: 'wait' | 'deny';
  steps: number;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
  stop_reason: Run['stop_reason'];
  interrupt_reason: Run['interrupt_reason'];
  interrupt_requested: InterruptReason | null;
  error: string | null;
  last_event_id: number;
  pruned_event_id: number;
  lease_owner: string;
  lease_renewals: number;
  committed_event_id: number;
  resumptions: number;
  workspace_place: string | null;
  provisional_title: string | null;
  request: string | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
}

/** How many events one transaction deletes, so that others need not wait long: one run may have very many. */
const mostPruned = 5000;
/** And of how many runs. */
const mostRuns = 1000;

export function runRepository({ database, cursors }: StoreParts): Runs {
  return {
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await within(sql<RunRow>('runs').where({ id }), reach).first();
        if (row) requireRole(reach, row);
        return row ? { run: toRun(row), firstEventId: row.pruned_event_id + 1 } : null;
      }),
    list: (reach, query) =>
      database.read(reach, async (sql) => {
        const { session_id, status, trigger } = query;
        const filters = {
          ...(session_id !== undefined && { session_id }),
          ...(status !== undefined && { status }),
          ...(trigger !== undefined && { trigger }),
        };
        const listing = {
          name: 'runs',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts: partsWithin(reach, (place) => sql('runs').where({ ...place, ...filters })),
        } as const;
        const { data, next_cursor } = await readPage<RunRow>(sql, cursors, listing, query);
        return { data: data.map(toRun), next_cursor };
      }),
    activeOf: (reach, sessionId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const rows = await sql<RunRow>('runs')
          .where({ session_id: sessionId, ended_at: null })
          .orderBy('run_number');
        return rows.map(toRun);
      }),
    current: (reach, sessionId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const runs = () => sql<RunRow>('runs').where({ session_id: sessionId });
        const row =
          (await runs()
            .where({ ended_at: null })
            .whereNot({ status: 'queued' })
            .orderBy('run_number')
            .first()) ?? (await runs().whereNotNull('ended_at').orderBy('run_number', 'desc').first());
        return row ? toRun(row) : null;
      }),
    requestInterrupt: (reach, id, reason) =>
      database.write(reach, async (sql) => {
        const row = await within(sql<RunRow>('runs').where({ id }), reach).forUpdate().first();
        if (!row) throw notFound('run');
        requireRole(reach, row);
        if (row.ended_at !== null) throw new Problem('run_ended', `The run has ended: it is ${row.status}.`);
        await sql<RunRow>('runs')
          .where({ id })
          .update({ interrupt_requested: row.interrupt_requested ?? reason });
        return toRun(row);
      }),
    pruneEvents: async (before) => {
      // What a workspace tells of a run stands among its events, and is forgotten before them.
      await sweep(database, (sql, most) => pruneWorkspaceEvents(sql, before.getTime(), most));
      return sweep(database, (sql, most) => pruneSome(sql, before.getTime(), most), mostPruned);
    },
  };
}

/** Answers with how many events there were; the last of the runs may keep some, the newest of its own. */
async function pruneSome(sql: Knex.Transaction, before: number, most: number): Promise<number> {
  const runs: Pick<RunRow, 'id' | 'pruned_event_id' | 'last_event_id'>[] = await sql<RunRow>('runs')
    .where('ended_at', '<', before)
    .whereRaw('pruned_event_id < last_event_id')
    .orderBy('ended_at')
    .limit(mostRuns)
    .select('id', 'pruned_event_id', 'last_event_id');
  const whole: string[] = [];
  let count = 0;
  for (const { id, pruned_event_id, last_event_id } of runs) {
    const events = last_event_id - pruned_event_id;
    if (count + events > most) {
      const newest = pruned_event_id + most - count;
      await sql('run_events').where({ run_id: id }).where('seq', '<=', newest).delete();
      await sql<RunRow>('runs').where({ id }).update({ pruned_event_id: newest });
      count = most;
      break;
    }
    whole.push(id);
    count += events;
  }
  await sql('run_events').whereIn('run_id', whole).delete();
  await sql('runs')
    .whereIn('id', whole)
    .update({ pruned_event_id: sql.ref('last_event_id') });
  // Of very short runs there are more.
  return runs.length === mostRuns ? most : count;
}

function toRun(row: RunRow): Run {
  return {
    id: row.id,
    session_id: row.session_id,
    status: row.status,
    trigger: row.trigger,
    agent_slug: row.agent_slug,
    model: row.model,
    permission_mode: row.permission_mode,
    steps: row.steps,
    resumptions: row.resumptions,
    usage: toUsage(row),
    cost: toCost(row),
    stop_reason: row.stop_reason,
    interrupt_reason: row.interrupt_reason,
    error: row.error === null ? null : JSON.parse(row.error),
    last_event_id: row.last_event_id,
    created_at: timestamp(row.created_at),
    started_at: nullableTimestamp(row.started_at),
    ended_at: nullableTimestamp(row.ended_at),
  };
}
