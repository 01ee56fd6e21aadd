/** What permission requests and prompt requests have in common: they are asked, listed where a person looks, and answered once. */
import type { Knex } from 'knex';
import type { PermissionRequest, PromptRequest } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { agentSessionsBelow, personsRun, personsSession } from './agent-sessions.ts';
import type { Cursors } from './cursor.ts';
import { type Page, readPage } from './page.ts';
import { notFound, type Reach, within } from './reach.ts';
import type { RunRow } from './runs.ts';
import { lockSession, requireSession, type SessionRow } from './session-rows.ts';

export interface QuestionRow {
  id: string;
  session_id: string;
  readonly status: 'pending' | 'answered' | 'declined' | 'expired' | 'cancelled';
}

/** As many as a page has at the most. */
const mostPending = 100;

type QuestionTable = 'permission_requests' | 'prompt_requests';

/** `limit`, `cursor` and `status` of the contract. */
interface QuestionQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
  readonly status?: string | undefined;
}

/** A question of a session, as it is stored when it is asked. */
export async function insertQuestion(
  sql: Knex.Transaction,
  table: QuestionTable,
  organizationId: string,
  request: PermissionRequest | PromptRequest,
): Promise<void> {
  const { session_id, run_id } = request;
  const session = await sql<SessionRow>('sessions').where({ id: session_id }).first();
  const run = await sql<RunRow>('runs').where({ id: run_id }).first();
  if (!session || !run) throw new Error(`The run ${run_id} is gone, and asks all the same.`);
  await sql(table).insert({
    id: request.id,
    organization_id: organizationId,
    session_id,
    run_id,
    root_session_id: await personsSession(sql, session_id),
    root_run_id: (await personsRun(sql, session, run)).id,
    request: JSON.stringify(request),
    status: 'pending',
    created_at: Date.parse(request.created_at),
    expires_at: Date.parse(request.expires_at),
  });
}

/** Narrows questions to those of the session and of the agents below it. */
async function askedIn(
  sql: Knex,
  sessionId: string,
): Promise<(questions: Knex.QueryBuilder) => Knex.QueryBuilder> {
  const isPersons = (await personsSession(sql, sessionId)) === sessionId;
  if (isPersons) return (questions) => questions.where({ root_session_id: sessionId });
  const below = await agentSessionsBelow(sql, sessionId);
  return (questions) =>
    below.length === 0
      ? questions.where({ session_id: sessionId })
      : questions.whereIn('session_id', [sessionId, ...below]);
}

/** What the run and the agents below it ask now, the newest first. Throws `not_found` for a run out of reach. */
export async function pendingQuestions<Row extends QuestionRow>(
  sql: Knex,
  reach: Reach,
  table: QuestionTable,
  runId: string,
): Promise<Row[]> {
  const run = await within(sql<RunRow>('runs').where({ id: runId }), reach).first();
  const session = run && (await sql<SessionRow>('sessions').where({ id: run.session_id }).first());
  if (!session) throw notFound('run');
  const root = await personsRun(sql, session, run);
  const pending = sql(table).where({ root_run_id: root.id, status: 'pending' });
  const newest = pending.orderBy(['created_at', 'id'].map((column) => ({ column, order: 'desc' })));
  if (root.id === run.id) return newest.limit(mostPending);
  const sessions = [session.id, ...(await agentSessionsBelow(sql, session.id))];
  return newest.whereIn('session_id', sessions).limit(mostPending);
}

/** The newest first, those of the agents below among them. Throws `not_found` for a session out of reach. */
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
  const asked = await askedIn(sql, sessionId);
  const listing = {
    name: table,
    reach,
    filters: { sessionId, status },
    columns: ['created_at', 'id'],
    direction: 'desc',
    parts: [asked(sql(table).where({ ...(status && { status }) }))],
  } as const;
  return readPage<Row>(sql, cursors, listing, query);
}

/** The question, held against other answers. Throws `not_found`, `already_answered` or `request_expired`. */
export async function lockQuestion<Row extends QuestionRow>(
  sql: Knex.Transaction,
  reach: Reach,
  table: QuestionTable,
  given: { readonly sessionId: string; readonly requestId: string },
): Promise<{ readonly session: SessionRow; readonly row: Row }> {
  const session = await lockSession(sql, reach, given.sessionId);
  const row = await sql(table)
    .where({ id: given.requestId })
    // What an agent asks is listed at the session that a person sees, and may be answered there.
    .where((question) => question.where({ session_id: session.id }).orWhere({ root_session_id: session.id }))
    .forUpdate()
    .first();
  if (!row) throw notFound(table === 'permission_requests' ? 'permission request' : 'prompt request');
  requirePending(row);
  return { session, row };
}

/**
 * Throws `already_answered` or `request_expired`. Whether the time has passed is up to the process that has the run: the
 * clock of another may be ahead of the one by which it was asked.
 */
function requirePending({ status }: QuestionRow): void {
  if (status === 'cancelled')
    throw new Problem('already_answered', 'The run has ended, so there is nothing left to answer.');
  if (status === 'expired')
    throw new Problem('request_expired', 'The time to answer has passed; the run goes on without an answer.');
  if (status !== 'pending')
    throw new Problem('already_answered', 'The request was already answered; the first answer stands.');
}
