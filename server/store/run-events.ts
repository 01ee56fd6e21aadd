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
  readonly workspace_id: string;
  readonly session_id: string;
  readonly last_event_id: number;
}

interface EventsOfRun {
  readonly run: RunOfEvents;
  readonly events: readonly NumberedEvent[];
}

/** Stores what is newer than `lastEventId`: a write whose answer was lost may be tried again. Answers with the newest number. */
export async function insertEvents(
  sql: Knex.Transaction,
  run: RunOfEvents,
  events: readonly NumberedEvent[],
  now: number,
): Promise<number> {
  await insertEventsOfRuns(sql, [{ run, events }], now);
  return Math.max(run.last_event_id, ...events.map(({ seq }) => seq));
}

export async function insertEventsOfRuns(
  sql: Knex.Transaction,
  given: readonly EventsOfRun[],
  now: number,
): Promise<void> {
  const news = given.map(({ run, events }) => ({
    run,
    events: events.filter(({ seq }) => seq > run.last_event_id),
  }));
  await insertRows(
    sql,
    'run_events',
    news.flatMap(({ run, events }) => events.map((event) => rowOf(run, event))),
  );
  for (const { run, events } of news) {
    const told = events.flatMap((event) => toldOf(run.id, event));
    tellWorkspace(sql, { workspaceId: run.workspace_id, sessionId: run.session_id }, told, now);
  }
}

function rowOf({ id, organization_id }: RunOfEvents, { seq, name, data }: NumberedEvent): EventRow {
  return { organization_id, run_id: id, seq, name, data: JSON.stringify(data) };
}

/** How much of them is read at once, unless a single event is longer: so much a reader holds that takes nothing. */
const mostCharacters = 64 * 1024;

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
