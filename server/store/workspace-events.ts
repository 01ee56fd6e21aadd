/** What happens in a workspace, numbered in the order in which it was committed, whichever process wrote it. */
import type { Knex } from 'knex';
import type { WorkspaceEvent } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { Database } from './database.ts';
import { insertRows } from './insert-rows.ts';
import { LastWrites } from './last-writes.ts';
import type { StoreParts } from './parts.ts';
import { timestamp } from './timestamps.ts';

/** Something to tell; what a run told is read from the run's own events. */
export interface Told {
  readonly type: WorkspaceEvent['event']['type'];
  readonly runId?: string;
  /** Its number among the events of the run, where it stands. */
  readonly runEventId?: number;
  readonly event?: WorkspaceEvent['event'];
}

export interface NumberedWorkspaceEvent {
  readonly seq: number;
  readonly data: WorkspaceEvent;
}

/** Which events are wanted. */
export interface WorkspaceEventFilter {
  readonly types?: readonly string[] | undefined;
  readonly sessionId?: string | undefined;
}

/** Where the events of a workspace begin and end. */
export interface StreamBounds {
  /** The newest. */
  readonly last: number;
  /** Up to this one they are no longer kept. */
  readonly pruned: number;
}

/** Whether the caller may reach the workspace has been asked before. Both throw `not_found` once it is deleted. */
export interface WorkspaceEvents {
  bounds(workspaceId: string): Promise<StreamBounds>;
  /** Up to `limit` events behind `after`; `through` is how far was looked. */
  read(
    workspaceId: string,
    after: number,
    filter: WorkspaceEventFilter,
    limit: number,
  ): Promise<{ readonly events: readonly NumberedWorkspaceEvent[]; readonly through: number }>;
}

interface EventRow {
  workspace_id: string;
  seq: number;
  session_id: string;
  run_id: string | null;
  run_event_id: number | null;
  type: Told['type'];
  data: string | null;
  created_at: number;
}

interface StreamRow {
  workspace_id: string;
  organization_id: string;
  last_event_id: number;
  pruned_event_id: number;
}

export function workspaceEventRepository({ database }: StoreParts): WorkspaceEvents {
  return {
    bounds: (workspaceId) => database.read('installation', (sql) => boundsOf(sql, workspaceId)),
    read: (workspaceId, after, filter, limit) =>
      database.read('installation', async (sql) => {
        // Asked first: all up to it is committed by then, and what comes later is read the next time.
        const { last } = await boundsOf(sql, workspaceId);
        if (last <= after) return { events: [], through: after };
        const rows = await eventsUpTo(sql, workspaceId, after, last, filter).limit(limit);
        const through = rows.length < limit ? last : (rows.at(-1)?.seq ?? last);
        return { events: rows.flatMap(toEvent), through };
      }),
  };
}

/** One in which nothing has happened yet has none of its own. */
async function boundsOf(sql: Knex, workspaceId: string): Promise<StreamBounds> {
  const row: { last_event_id: number | null; pruned_event_id: number | null } | undefined = await sql(
    'workspaces',
  )
    .leftJoin('workspace_streams', 'workspace_streams.workspace_id', 'workspaces.id')
    .where('workspaces.id', workspaceId)
    .first('last_event_id', 'pruned_event_id');
  if (!row) throw new Problem('not_found', 'The workspace was deleted.');
  return { last: row.last_event_id ?? 0, pruned: row.pruned_event_id ?? 0 };
}

type ReadRow = EventRow & { readonly run_data: string | null };

function eventsUpTo(
  sql: Knex,
  workspaceId: string,
  after: number,
  last: number,
  { types, sessionId }: WorkspaceEventFilter,
) {
  const query = sql('workspace_events as told')
    .leftJoin('run_events', (join) =>
      join.on('run_events.run_id', 'told.run_id').andOn('run_events.seq', 'told.run_event_id'),
    )
    .where('told.seq', '>', after)
    .where('told.seq', '<=', last)
    .orderBy('told.seq');
  if (types) query.whereIn('told.type', [...types]);
  if (sessionId === undefined) query.where('told.workspace_id', workspaceId);
  // Not as a plain column: the index of the workspace would be walked, however little the session tells.
  else query.where('told.session_id', sessionId).whereRaw("told.workspace_id || '' = ?", [workspaceId]);
  return query.select<ReadRow[]>('told.*', 'run_events.data as run_data');
}

/** The column is never null, for the sake of its index. */
const noSession = '';

/** Of a run that was deleted with its session nothing is told any more. */
function toEvent(row: ReadRow): NumberedWorkspaceEvent[] {
  const { seq, workspace_id, session_id, run_id, run_event_id } = row;
  const event = row.data ?? row.run_data;
  if (event === null) return [];
  const place = {
    workspace_id,
    session_id: session_id === noSession ? null : session_id,
    run_id,
    run_event_id,
  };
  return [{ seq, data: { ...place, created_at: timestamp(row.created_at), event: JSON.parse(event) } }];
}

/** A workspace, and the session in it that is told of. */
interface ToldPlace {
  readonly workspaceId: string;
  readonly sessionId: string | null;
}

/** Some events of one place, or one event of some workspaces. */
type Telling =
  | (ToldPlace & { readonly told: readonly Told[]; readonly now: number })
  | { readonly places: Knex.QueryBuilder; readonly event: Told; readonly now: number };

/** Whoever tells waits for others who tell the same workspace, and holds nothing then that these could wait for. */
const tellings = new LastWrites<Telling>();

/** The same database, whose transactions tell what they have to tell before they end. */
export function tellsWorkspaces(database: Database): Database {
  return tellings.over(database, writeTold);
}

/** Adds to the events of a workspace, at the end of the transaction. One that is gone by then is told nothing. */
export function tellWorkspace(
  sql: Knex.Transaction,
  { workspaceId, sessionId }: ToldPlace,
  told: readonly Told[],
  now: number,
): void {
  if (told.length > 0) tellings.add(sql, { workspaceId, sessionId, told, now });
}

/** Tells all workspaces of an organization, or the one that is named, something that is about no session. */
export async function tellWorkspaces(
  sql: Knex.Transaction,
  { organizationId, workspaceId }: { readonly organizationId: string; readonly workspaceId: string | null },
  told: Told,
  now: number,
): Promise<void> {
  const all = sql('workspaces').where({ organization_id: organizationId }).orderBy('id');
  const rows: { id: string }[] =
    workspaceId === null ? await all.limit(mostTold).select('id') : [{ id: workspaceId }];
  for (const { id } of rows) tellWorkspace(sql, { sessionId: null, workspaceId: id }, [told], now);
}

/** An organization with more workspaces than that is told in the oldest of them. */
const mostTold = 500;

/** The same in each of some workspaces: the query says which. */
export function tellEach(sql: Knex.Transaction, places: Knex.QueryBuilder, event: Told, now: number): void {
  tellings.add(sql, { places, event, now });
}

/**
 * The row of the last number stays locked until the transaction ends, so that the numbers are committed in their order.
 * The rows of several workspaces are locked in the order of their ids: two who tell many do not wait for each other.
 */
async function writeTold(sql: Knex.Transaction, all: readonly Telling[]): Promise<void> {
  const ofOne = all.flatMap((telling) => ('places' in telling ? [] : [telling]));
  const workspaces = Map.groupBy(ofOne, ({ workspaceId }) => workspaceId);
  for (const id of [...workspaces.keys()].toSorted()) {
    const events = (workspaces.get(id) ?? []).flatMap(({ told, ...place }) =>
      told.map((event) => ({ ...place, event })),
    );
    if (sql.client.config.client === 'pg') await tellAtOnce(sql, id, events);
    else await tellOne(sql, id, events);
  }
  for (const telling of all) {
    if (!('places' in telling)) continue;
    const { places, event, now } = telling;
    const streams = await takeNumbers(sql, places.orderBy('id').select('id', 'organization_id'), 1);
    const rows = streams.map((stream) =>
      rowOf(stream, Number(stream.last_event_id), { sessionId: null, event, now }),
    );
    await insertRows(sql, 'workspace_events', rows);
  }
}

type ToldInPlace = Parameters<typeof rowOf>[2];

async function tellOne(
  sql: Knex.Transaction,
  workspaceId: string,
  events: readonly ToldInPlace[],
): Promise<void> {
  const [stream] = await takeNumbers(sql, placeOf(sql, workspaceId), events.length);
  if (!stream) return;
  const before = stream.last_event_id - events.length;
  const rows = events.map((told, index) => rowOf(stream, before + index + 1, told));
  await insertRows(sql, 'workspace_events', rows);
}

const toldColumns =
  'session_id text, run_id text, run_event_id bigint, type text, data text, created_at bigint';

/** The same in one statement, where the database is another machine: every change of a run tells something. */
async function tellAtOnce(
  sql: Knex.Transaction,
  workspaceId: string,
  events: readonly ToldInPlace[],
): Promise<void> {
  const nowhere = { workspace_id: '', organization_id: '' };
  const told = events.map((event, index) => rowOf(nowhere, index + 1, event));
  await sql.raw(
    `with stream as (${takingNumbers})
     insert into workspace_events
       (workspace_id, organization_id, seq, session_id, run_id, run_event_id, type, data, created_at)
     select stream.workspace_id, stream.organization_id, stream.last_event_id - ? + told.seq,
       session_id, run_id, run_event_id, type, data, created_at
     from stream, json_to_recordset(?::json) as told (seq bigint, ${toldColumns})`,
    [events.length, placeOf(sql, workspaceId), events.length, JSON.stringify(told)],
  );
}

function placeOf(sql: Knex.Transaction, id: string) {
  return sql('workspaces').where({ id }).select('id', 'organization_id');
}

function rowOf(
  { workspace_id, organization_id }: Pick<StreamRow, 'workspace_id' | 'organization_id'>,
  seq: number,
  told: { readonly sessionId: string | null; readonly event: Told; readonly now: number },
) {
  const { type, runId, runEventId, event } = told.event;
  return {
    ...{ workspace_id, organization_id, seq, type },
    session_id: told.sessionId ?? noSession,
    run_id: runId ?? null,
    run_event_id: runEventId ?? null,
    data: event ? JSON.stringify(event) : null,
    created_at: told.now,
  };
}

const takingNumbers = `
  insert into workspace_streams (workspace_id, organization_id, last_event_id, pruned_event_id)
  select id, organization_id, cast(? as bigint), 0 from (?) as place where true
  on conflict (workspace_id)
  do update set last_event_id = workspace_streams.last_event_id + excluded.last_event_id
  returning workspace_id, organization_id, last_event_id`;

async function takeNumbers(
  sql: Knex.Transaction,
  place: Knex.QueryBuilder,
  count: number,
): Promise<readonly StreamRow[]> {
  const answer: StreamRow[] | { rows: StreamRow[] } = await sql.raw(takingNumbers, [count, place]);
  // One engine answers with rows, the other with an object around them.
  return Array.isArray(answer) ? answer : answer.rows;
}

/** Forgets what was told before. Answers with how many events were looked at: fewer than `most` are the last. */
export async function pruneWorkspaceEvents(
  sql: Knex.Transaction,
  before: number,
  most: number,
): Promise<number> {
  const old = await sql<EventRow>('workspace_events')
    .where('created_at', '<', before)
    .orderBy('created_at')
    .limit(most)
    .select('workspace_id', 'seq');
  const workspaces = Map.groupBy(old, (event) => event.workspace_id);
  // In the order in which whoever tells several locks them.
  for (const workspace_id of [...workspaces.keys()].toSorted()) {
    const newest = Math.max(...(workspaces.get(workspace_id) ?? []).map(({ seq }) => seq));
    await sql<StreamRow>('workspace_streams')
      .where({ workspace_id })
      .where('pruned_event_id', '<', newest)
      .update({ pruned_event_id: newest });
    await sql('workspace_events').where({ workspace_id }).where('seq', '<=', newest).delete();
  }
  return old.length;
}
