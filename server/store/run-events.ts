/** The numbered events of runs, as they are replayed. */
import type { Knex } from 'knex';
import type { QueryResponse, ResponseChunk, RuntimeEvent, StreamError } from '../contract/api.ts';
import { insertRows } from './insert-rows.ts';
import { type Told, tellWorkspace } from './workspace-events.ts';

/** An event with its place in the run: 1, 2, 3 … */
export type NumberedEvent = { readonly seq: number } & (
  | { readonly name: 'message'; readonly data: ResponseChunk }
  | { readonly name: 'runtime'; readonly data: RuntimeEvent }
  | { readonly name: 'done'; readonly data: QueryResponse }
  | { readonly name: 'error'; readonly data: StreamError }
);

interface EventRow {
  organization_id: string;
  run_id: string;
  seq: number;
  name: NumberedEvent['name'];
  data: string;
}

interface RunOfEvents {
  readonly id: string;
  readonly organization_id: string;
  readonly session_id: string;
  readonly last_event_id: number;
}

/** Stores what is newer than `lastEventId`: a write whose answer was lost may be tried again. Answers with the newest number. */
export async function insertEvents(
  sql: Knex.Transaction,
  run: RunOfEvents,
  events: readonly NumberedEvent[],
  now: number,
): Promise<number> {
  const rows = events
    .filter(({ seq }) => seq > run.last_event_id)
    .map(({ seq, name, data }) => ({
      organization_id: run.organization_id,
      run_id: run.id,
      seq,
      name,
      data: JSON.stringify(data),
    }));
  await insertRows(sql, 'run_events', rows);
  const told = events.filter(({ seq }) => seq > run.last_event_id).flatMap((event) => toldOf(run.id, event));
  await tellWorkspace(sql, { sessionId: run.session_id }, told, now);
  return Math.max(run.last_event_id, ...rows.map(({ seq }) => seq));
}

/** How much of them is read at once, unless a single event is longer. */
const mostCharacters = 256 * 1024;

/** Up to `limit` events after the given number, in order; fewer where they are long, but one where there is one. */
export async function readEvents(
  sql: Knex,
  runId: string,
  after: number,
  limit: number,
): Promise<NumberedEvent[]> {
  const next = sql<EventRow>('run_events')
    .where({ run_id: runId })
    .where('seq', '>', after)
    .orderBy('seq')
    .limit(limit)
    .select('seq', 'name', 'data', sql.raw('sum(length(data)) over (order by seq) as characters'));
  const rows = await sql
    .from(next.as('next'))
    .where('characters', '<=', mostCharacters)
    .orWhere('seq', after + 1)
    .orderBy('seq')
    .select<Pick<EventRow, 'seq' | 'name' | 'data'>[]>('seq', 'name', 'data');
  // Rows hold what `insertEvents` was given.
  return rows.map(({ seq, name, data }) => ({ seq, name, data: JSON.parse(data) }) as NumberedEvent);
}

/** All but what is for those who watch the run itself: text as it is written, and the output of tools at work. */
function toldOf(runId: string, event: NumberedEvent): Told[] {
  if (event.name !== 'runtime' || event.data.type === 'tool_progress') return [];
  return [{ type: event.data.type, runId, runEventId: event.seq }];
}
