/** Counts of what is stored, for one caller or for the whole installation. */
import type { Knex } from 'knex';
import type { MetricsSnapshot, RunStatus } from '../contract/api.ts';
import type { StoreParts } from './parts.ts';
import { type Reach, within } from './reach.ts';
import { toUsage } from './session-rows.ts';

/** All that the database knows of the snapshot; open streams are known elsewhere. */
export type StoredMetrics = Omit<MetricsSnapshot, 'open_streams'>;

export interface StoreMetrics {
  /** Over the caller's organizations; `'installation'` is for operators. */
  snapshot(over: Reach | 'installation'): Promise<StoredMetrics>;
}

export function metricsRepository({ database }: StoreParts): StoreMetrics {
  return {
    snapshot: (over) =>
      database.read(over, async (sql) => {
        const scope = over === 'installation' ? 'installation' : 'organizations';
        const sessions = await countSessions(sql, over);
        const runs = await countRuns(sql, over);
        return { scope, sessions: sessions.count, runs, usage: toUsage(sessions) };
      }),
  };
}

interface SessionTotals {
  count: number;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
}

const noSessions: SessionTotals = { count: 0, input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

/** What agents used counts already for the sessions whose agents started them. */
async function countSessions(sql: Knex, over: Reach | 'installation'): Promise<SessionTotals> {
  const rows: SessionTotals[] = await counted(sql('sessions').whereNull('parent_run_id'), over).select(
    sql.raw(`count(*) as count, coalesce(sum(input_tokens), 0) as input_tokens,
      coalesce(sum(output_tokens), 0) as output_tokens,
      coalesce(sum(cached_input_tokens), 0) as cached_input_tokens`),
  );
  return rows[0] ?? noSessions;
}

async function countRuns(sql: Knex, over: Reach | 'installation'): Promise<StoredMetrics['runs']> {
  const rows: { status: RunStatus; count: number }[] = await counted(sql('runs'), over)
    .groupBy('status')
    .select('status', sql.raw('count(*) as count'));
  const none = {
    queued: 0,
    running: 0,
    waiting_permission: 0,
    waiting_prompt: 0,
    completed: 0,
    failed: 0,
    interrupted: 0,
  };
  return Object.assign(none, Object.fromEntries(rows.map(({ status, count }) => [status, count])));
}

function counted(query: Knex.QueryBuilder, over: Reach | 'installation'): Knex.QueryBuilder {
  return over === 'installation' ? query : within(query, over);
}
