/** What permission requests and prompt requests have in common: they are listed, and answered once. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import type { Cursors } from './cursor.ts';
import { type Page, readPage } from './page.ts';
import { notFound, type Reach } from './reach.ts';
import { lockSession, requireSession, type SessionRow } from './session-rows.ts';

export interface QuestionRow {
  id: string;
  session_id: string;
  readonly status: 'pending' | 'answered' | 'declined' | 'expired' | 'cancelled';
  readonly expires_at: number;
}

type QuestionTable = 'permission_requests' | 'prompt_requests';

/** `limit`, `cursor` and `status` of the contract. */
interface QuestionQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly status?: string | undefined;
}

/** The newest first. Throws `not_found` for a session out of reach. */
export async function listQuestions<Row extends QuestionRow>(
  sql: Knex,
  cursors: Cursors,
  table: QuestionTable,
  {
    reach,
    sessionId,
    query,
  }: { readonly reach: Reach; readonly sessionId: string; readonly query: QuestionQuery },
): Promise<Page<Row>> {
  await requireSession(sql, reach, sessionId);
  const { status } = query;
  const listing = {
    name: table,
    reach,
    filters: { sessionId, status },
    columns: ['created_at', 'id'],
    direction: 'desc',
    parts: [sql(table).where({ session_id: sessionId, ...(status && { status }) })],
  } as const;
  return readPage<Row>(sql, cursors, listing, query);
}

/** The question, held against other answers. Throws `not_found`, `already_answered` or `request_expired`. */
export async function lockQuestion<Row extends QuestionRow>(
  sql: Knex.Transaction,
  reach: Reach,
  table: QuestionTable,
  given: { readonly sessionId: string; readonly requestId: string },
  now: number,
): Promise<{ readonly session: SessionRow; readonly row: Row }> {
  const session = await lockSession(sql, reach, given.sessionId);
  const row = await sql(table).where({ id: given.requestId, session_id: session.id }).forUpdate().first();
  if (!row) throw notFound(table === 'permission_requests' ? 'permission request' : 'prompt request');
  requirePending(row, now);
  return { session, row };
}

/** Throws `already_answered` or `request_expired`. A time that has passed counts also where nobody has marked it yet. */
function requirePending({ status, expires_at }: QuestionRow, now: number): void {
  if (status === 'cancelled')
    throw new Problem('already_answered', 'The run has ended, so there is nothing left to answer.');
  if (status === 'expired' || (status === 'pending' && expires_at <= now))
    throw new Problem('request_expired', 'The time to answer has passed; the run goes on without an answer.');
  if (status !== 'pending')
    throw new Problem('already_answered', 'The request was already answered; the first answer stands.');
}
