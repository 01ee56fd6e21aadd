/** Much that comes into a session at once: it is written where searches look afterwards, in parts that hold nobody up. */
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import type { Database } from './database.ts';
import { heldTransaction, whenCommitted } from './held-transaction.ts';
import { type MessageRow, toMessage } from './messages.ts';
import {
  charactersIn,
  documentsOf,
  type IndexedDocument,
  indexMessages,
  insertDocuments,
} from './search-index.ts';

interface BacklogRow {
  session_id: string;
  organization_id: string;
  workspace_id: string;
  after_run_number: number;
  after_position: number;
  last_run_number: number;
  last_position: number;
}

/** What is written in the transaction that brings it; as much is one part of the rest. */
const atOnce = { messages: 1000, characters: 300_000 };

export interface IndexingParts {
  readonly database: Database;
  readonly log: Log;
}

interface CopiedSession {
  readonly id: string;
  readonly organization_id: string;
  readonly workspace_id: string;
}

/** Writes the messages of a new session where searches look, or notes that it is to be done: then call `indexNoted`. */
export async function indexOrNote(
  sql: Knex.Transaction,
  { id: session_id, organization_id, workspace_id }: CopiedSession,
): Promise<void> {
  const said = sql<MessageRow>('messages').where({ session_id });
  const size = sql.raw('count(*) as messages, sum(length(parts)) as characters');
  const [sum]: { messages: number; characters: number | null }[] = await said.clone().select(size);
  const place = { session_id, organization_id, workspace_id };
  if (Number(sum?.messages) <= atOnce.messages && Number(sum?.characters) <= atOnce.characters)
    return indexMessages(
      sql,
      (await said).map((row) => ({ ...place, id: row.id, parts: toMessage(row).parts })),
    );
  const last = await said.orderBy(orderDown).first('run_number', 'position');
  await sql<BacklogRow>('search_backlog').insert({
    ...place,
    ...{ after_run_number: -1, after_position: -1 },
    ...{ last_run_number: last?.run_number ?? 0, last_position: last?.position ?? 0 },
  });
}

const orderDown = [
  { column: 'run_number', order: 'desc' as const },
  { column: 'position', order: 'desc' as const },
];

/**
 * Writes what was noted for a session, before the caller is answered or, within a held transaction, once that is committed.
 * Never rejects: the session is there, and the hourly sweep does what is left.
 */
export async function indexNoted(parts: IndexingParts, sessionId: string): Promise<void> {
  if (heldTransaction()) whenCommitted(() => void indexIfPossible(parts, sessionId));
  else await indexIfPossible(parts, sessionId);
}

/** What processes that died have left. Answers with the number of sessions that are whole now. */
export async function indexAllNoted(parts: IndexingParts): Promise<number> {
  const ids: string[] = await parts.database.read('installation', (sql) =>
    sql('search_backlog').pluck('session_id'),
  );
  let count = 0;
  for (const id of ids) if (await indexIfPossible(parts, id)) count += 1;
  return count;
}

/** Whether a session is whole now. Never rejects: one does not keep another from being found. */
async function indexIfPossible({ database, log }: IndexingParts, sessionId: string): Promise<boolean> {
  try {
    await indexRest(database, sessionId);
    return true;
  } catch (error) {
    log.warn({ err: error, session_id: sessionId }, 'a session is not whole where searches look yet');
    return false;
  }
}

async function indexRest(database: Database, sessionId: string): Promise<void> {
  for (;;) {
    const part = await database.read('installation', (sql) => readPart(sql, sessionId));
    if (!part) return;
    await database.write('installation', (sql) => writePart(sql, part));
  }
}

interface Part {
  readonly backlog: BacklogRow;
  readonly documents: readonly IndexedDocument[];
  /** The last message of it; null where nothing is left. */
  readonly end: MessageRow | null;
}

/** Words are cut here, where nobody is locked out. Null where nothing is noted. */
async function readPart(sql: Knex, session_id: string): Promise<Part | null> {
  const backlog = await sql<BacklogRow>('search_backlog').where({ session_id }).first();
  if (!backlog) return null;
  const { organization_id, workspace_id } = backlog;
  const documents: IndexedDocument[] = [];
  let [messages, characters] = [0, 0];
  for await (const row of rowsOf(sql, backlog)) {
    const { id, parts } = toMessage(row);
    const found = documentsOf({ id, organization_id, workspace_id, session_id, parts });
    documents.push(...found);
    messages += 1;
    characters += charactersIn(found);
    if (messages >= atOnce.messages || characters >= atOnce.characters)
      return { backlog, documents, end: row };
  }
  return { backlog, documents, end: null };
}

/** Few at a time: one message may be as large as a thousand others, and has no more words for that. */
async function* rowsOf(sql: Knex, backlog: BacklogRow): AsyncGenerator<MessageRow> {
  const { session_id, last_run_number, last_position } = backlog;
  for (let after = [backlog.after_run_number, backlog.after_position]; ; ) {
    const rows = await sql<MessageRow>('messages')
      .where({ session_id, reverted: false })
      .whereRaw('(run_number, position) > (?, ?)', after)
      .whereRaw('(run_number, position) <= (?, ?)', [last_run_number, last_position])
      .orderBy(['run_number', 'position'])
      .limit(rowsAtOnce);
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < rowsAtOnce) return;
    after = [last.run_number, last.position];
  }
}

const rowsAtOnce = 100;

/** Nothing where another process has written it meanwhile. */
async function writePart(sql: Knex.Transaction, { backlog, documents, end }: Part): Promise<void> {
  const { session_id, after_run_number, after_position } = backlog;
  // Who reverts or deletes messages locks their session, too: what is out of the history is not to be found.
  await sql('sessions').where({ id: session_id }).forUpdate().first('id');
  const noted = sql<BacklogRow>('search_backlog').where({ session_id, after_run_number, after_position });
  if (!(await noted.clone().first('session_id'))) return;
  const ids = new Set(documents.map(({ document }) => document.message_id));
  const kept: string[] = await sql('messages')
    .where({ session_id, reverted: false })
    .whereIn('id', [...ids])
    .pluck('id');
  const present = new Set<string | null>(kept);
  await insertDocuments(
    sql,
    documents.filter(({ document }) => present.has(document.message_id)),
  );
  if (end) await noted.update({ after_run_number: end.run_number, after_position: end.position });
  else await noted.delete();
}
