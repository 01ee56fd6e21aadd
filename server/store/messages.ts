/** The messages of a session, in their order: run by run, each prompt with its answer. */
import type { Knex } from 'knex';
import type { Message, operations, Session } from '../contract/api.ts';
import { toDollars, toNanodollars } from './costs.ts';
import { etagOfContent } from './etag.ts';
import { insertRows } from './insert-rows.ts';
import { putAside } from './message-files.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { indexMessages } from './search-index.ts';
import { requireSession } from './session-rows.ts';
import { timestamp } from './timestamps.ts';

/** What may be asked of the list; nothing asks for all, the oldest first. */
export type MessageQuery = Partial<NonNullable<operations['listMessages']['parameters']['query']>>;

export interface Messages {
  /**
   * With a run's number given, only what stands before it. Throws `not_found` for a session out of reach, and for a message
   * to begin behind that is not in it.
   */
  list(
    reach: Reach,
    sessionId: string,
    query: MessageQuery & { readonly beforeRun?: number },
  ): Promise<Page<Message>>;
  /** Also one that was gone back on. Throws `not_found`. */
  find(reach: Reach, sessionId: string, messageId: string): Promise<TaggedMessage>;
}

export interface TaggedMessage {
  readonly message: Message;
  readonly etag: string;
}

/** A message before it has its place, its session and its time. */
export type NewMessage = Pick<Message, 'id' | 'role' | 'parts' | 'model' | 'stop_reason' | 'usage'> &
  Partial<Pick<Message, 'cost' | 'summary' | 'excluded'>>;

export interface MessageRow {
  id: string;
  organization_id: string;
  session_id: string;
  run_id: string | null;
  run_number: number;
  position: number;
  role: Message['role'];
  parts: string;
  model: string | null;
  stop_reason: Message['stop_reason'];
  usage: string | null;
  reverted: boolean;
  feedback: string | null;
  cost_nanodollars: number | null;
  summary: boolean;
  excluded: boolean;
  created_at: number;
}

export function messageRepository({ database, cursors }: StoreParts): Messages {
  return {
    list: (reach, sessionId, query) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const { role, reverted = false, after_message_id, beforeRun, sort } = query;
        const part = sql('messages').where({ session_id: sessionId, reverted, ...(role && { role }) });
        if (after_message_id !== undefined) {
          const { run_number, position } = await findMessage(sql, sessionId, after_message_id);
          part.whereRaw('(run_number, position) > (?, ?)', [run_number, position]);
        }
        if (beforeRun !== undefined) part.where('run_number', '<', beforeRun);
        const listing = {
          name: 'messages',
          reach,
          filters: { sessionId, role, reverted, after_message_id, beforeRun },
          columns: ['run_number', 'position'],
          direction: sort === '-created_at' ? 'desc' : 'asc',
          parts: [part],
        } as const;
        const { data, next_cursor } = await readPage<MessageRow>(sql, cursors, listing, query);
        return { data: data.map(toMessage), next_cursor };
      }),
    find: (reach, sessionId, messageId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        return toTaggedMessage(await findMessage(sql, sessionId, messageId));
      }),
  };
}

/** Whether the session is within reach has been asked before. Throws `not_found`. */
export async function findMessage(sql: Knex, sessionId: string, messageId: string): Promise<MessageRow> {
  const row = await sql<MessageRow>('messages').where({ id: messageId, session_id: sessionId }).first();
  if (!row) throw notFound('message');
  return row;
}

/**
 * What of a session a model may have to be shown, but for what was gone back on; up to and with the given run, where one is
 * named: later prompts may wait already. What the newest summary stands for is left out, from the last run before it that
 * a model answered in: what that called for may be given behind the summary.
 */
export async function readMessages(sql: Knex, sessionId: string, throughRunId?: string): Promise<Message[]> {
  const summaryRun = messagesThrough(sql, sessionId, throughRunId)
    .where('id', sql('sessions').where({ id: sessionId }).select('summary_message_id'))
    .where({ excluded: false })
    .select('run_number');
  const answeredRun = messagesThrough(sql, sessionId, throughRunId)
    .where({ role: 'assistant', summary: false, excluded: false })
    .where('run_number', '<', summaryRun)
    .orderBy('run_number', 'desc')
    .limit(1)
    .select('run_number');
  const rows = await messagesThrough(sql, sessionId, throughRunId)
    .where('run_number', '>=', sql.raw('coalesce((?), 0)', [answeredRun]))
    .orderBy(['run_number', 'position'])
    .select('*');
  return rows.map(toMessage);
}

/** The newest messages in which a tool of the name was called, or gave something, in their order. */
export async function readCalls(
  sql: Knex,
  sessionId: string,
  { tool, limit }: { readonly tool: string; readonly limit: number },
  throughRunId?: string,
): Promise<Message[]> {
  const rows = await messagesThrough(sql, sessionId, throughRunId)
    // Within a text it would stand with escaped quotes.
    .whereLike('parts', `%"name":${JSON.stringify(tool)}%`)
    .orderBy([
      { column: 'run_number', order: 'desc' },
      { column: 'position', order: 'desc' },
    ])
    .limit(limit)
    .select('*');
  return rows.reverse().map(toMessage);
}

function messagesThrough(
  sql: Knex,
  sessionId: string,
  throughRunId: string | undefined,
): Knex.QueryBuilder<MessageRow, MessageRow[]> {
  const query = sql<MessageRow>('messages').where({ session_id: sessionId, reverted: false });
  if (throughRunId === undefined) return query;
  const through = sql('runs').where({ id: throughRunId, session_id: sessionId }).select('run_number');
  return query.where('run_number', '<=', through);
}

/** What a session holds at one moment. */
export interface SessionContent {
  readonly status: Session['status'];
  /** The number of its newest run; 0 where it has had none. */
  readonly newestRun: number;
  readonly messages: readonly Message[];
}

/** One statement: between two, another run could begin or end. Throws `not_found`. */
export async function readContent(sql: Knex, id: string): Promise<SessionContent> {
  const rows: (MessageRow & Pick<SessionContent, 'status' | 'newestRun'>)[] = await sql('sessions')
    .leftJoin('messages', (join) =>
      join.on('messages.session_id', 'sessions.id').andOnVal('messages.reverted', false),
    )
    .where('sessions.id', id)
    .orderBy(['messages.run_number', 'messages.position'])
    .select('messages.*', { status: 'sessions.status', newestRun: 'sessions.run_number' });
  const [first] = rows;
  if (!first) throw notFound('session');
  const { status, newestRun } = first;
  // A session without messages comes with an empty one.
  return { status, newestRun, messages: first.id === null ? [] : rows.map(toMessage) };
}

/** Where messages go: after those that the run already has. */
export interface MessagePlace {
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly session_id: string;
  readonly run_number: number;
}

type PlacedMessage = NewMessage & { readonly run_id: string | null; readonly created_at?: number };

/** Stores messages, behind the position `after` where that is known. `run_id` is null for those that a client brought along. */
export async function insertMessages(
  sql: Knex.Transaction,
  place: MessagePlace,
  messages: readonly PlacedMessage[],
  now: number,
  after?: number,
): Promise<void> {
  if (messages.length === 0) return;
  const { session_id, organization_id, workspace_id } = place;
  const last = after ?? (await lastPosition(sql, place));
  const stored = await putAside(sql, { organization_id, session_id }, messages);
  const begin = last + 1;
  const rows = stored.map((message, index) => newRow(place, message, begin + index, now));
  await insertRows(sql, 'messages', rows);
  await indexMessages(
    sql,
    messages.map(({ id, parts }) => ({ id, organization_id, workspace_id, session_id, parts })),
  );
}

/**
 * Makes room for so many messages before one of the session: the place of a run in which they go, and the position behind
 * which. It is that of an earlier run where they stand before what came along with a copy or an import.
 */
export async function makeRoomBefore(
  sql: Knex.Transaction,
  sessionId: string,
  messageId: string,
  count: number,
): Promise<{ readonly run_number: number; readonly after: number }> {
  const { session_id, run_number, position } = await findMessage(sql, sessionId, messageId);
  const later = await sql<MessageRow>('messages')
    .where({ session_id, run_number })
    .where('position', '>=', position)
    .orderBy('position', 'desc')
    .select('id', 'position');
  // One after the other, the last one first: no two may be at one place in between.
  for (const row of later)
    await sql<MessageRow>('messages')
      .where({ id: row.id })
      .update({ position: row.position + count });
  return { run_number, after: position - 1 };
}

async function lastPosition(
  sql: Knex.Transaction,
  { session_id, run_number }: MessagePlace,
): Promise<number> {
  const last = await sql<MessageRow>('messages')
    .where({ session_id, run_number })
    .orderBy('position', 'desc')
    .first('position');
  return last?.position ?? 0;
}

/** The row of a message whose files are put aside. */
export function newRow(
  { organization_id, session_id, run_number }: MessagePlace,
  { id, run_id, role, parts, model, stop_reason, usage, cost, summary, excluded, created_at }: PlacedMessage,
  position: number,
  now: number,
): MessageRow {
  return {
    ...{ id, organization_id, session_id, run_id, run_number, position, role, model, stop_reason },
    parts: JSON.stringify(parts),
    usage: usage && JSON.stringify(usage),
    cost_nanodollars: toNanodollars(cost ?? null),
    summary: summary ?? false,
    excluded: excluded ?? false,
    ...{ reverted: false, feedback: null },
    created_at: created_at ?? now,
  };
}

/** Marks messages that no model is to be shown again. */
export async function excludeMessages(
  sql: Knex.Transaction,
  sessionId: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  await sql<MessageRow>('messages')
    .where({ session_id: sessionId })
    .whereIn('id', [...ids])
    .update({ excluded: true });
}

/** The same for those that a client brought along with the run. */
export async function excludeBrought(
  sql: Knex.Transaction,
  { session_id, run_number }: { readonly session_id: string; readonly run_number: number },
): Promise<void> {
  await sql<MessageRow>('messages')
    .where({ session_id, run_number, run_id: null })
    .update({ excluded: true });
}

/** Many things change a message: what its runs store, going back, feedback. So the ETag is made of what is seen. */
export function toTaggedMessage(row: MessageRow): TaggedMessage {
  const message = toMessage(row);
  return { message, etag: etagOfContent(message) };
}

export function toMessage(row: MessageRow): Message {
  return {
    id: row.id,
    session_id: row.session_id,
    run_id: row.run_id,
    role: row.role,
    parts: JSON.parse(row.parts),
    model: row.model,
    stop_reason: row.stop_reason,
    usage: row.usage === null ? null : JSON.parse(row.usage),
    feedback: row.feedback === null ? null : JSON.parse(row.feedback),
    reverted: Boolean(row.reverted),
    cost: row.cost_nanodollars === null ? null : toDollars(row.cost_nanodollars),
    summary: Boolean(row.summary),
    excluded: Boolean(row.excluded),
    created_at: timestamp(row.created_at),
  };
}
