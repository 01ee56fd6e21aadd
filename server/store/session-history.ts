/** Going back in a session, branching off from it, and changing single messages of it. */
import type { Knex } from 'knex';
import type { MessageUpdate, Usage } from '../contract/api.ts';
import { givenAnew } from '../given-anew.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { requireTag } from './etag.ts';
import { type ChangedFile, changedFiles } from './file-changes.ts';
import { insertRows } from './insert-rows.ts';
import { bringsFiles, refuseKept } from './kept-quota.ts';
import { copyFiles } from './message-files.ts';
import {
  findMessage,
  insertMessages,
  type MessageRow,
  type TaggedMessage,
  toMessage,
  toTaggedMessage,
} from './messages.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { forgetMessages, indexMessages, indexTitle } from './search-index.ts';
import {
  lockSession,
  replaceTags,
  requireSession,
  type SessionRow,
  saveSession,
  type TaggedSession,
  tellNewSession,
  toTaggedSession,
} from './session-rows.ts';
import { requireIdle } from './sessions.ts';

/** What going back to a message would mean. */
export interface RevertPlan {
  readonly sessionId: string;
  readonly workspaceId: string;
  readonly messageId: string;
  /** How many messages would leave the history. */
  readonly messages: number;
  /** The files that were changed since. */
  readonly files: readonly ChangedFile[];
  /** The number of the newest run when this was planned: a later run makes the plan void. */
  readonly runNumber: number;
}

export interface SessionHistory {
  /** Throws `not_found`, `message_conflict` for a message that is no prompt, `session_busy`. */
  planRevert(reach: Reach, sessionId: string, messageId: string): Promise<RevertPlan>;
  /**
   * Takes the message and what came after it out of the history. `putBack` is called within the transaction, and names
   * whether files were put back; when it rejects, nothing has happened. Throws `session_busy` where the plan is void.
   */
  revert(reach: Reach, plan: RevertPlan, files: boolean, putBack: () => Promise<void>): Promise<void>;
  /** Whether the message is out of the history; one that is on its way out is waited for. Throws `not_found`. */
  isReverted(reach: Reach, sessionId: string, messageId: string): Promise<boolean>;
  /** A new session with copies of the messages up to and with the named one, or of all. Throws `not_found` or `message_conflict`. */
  fork(
    reach: Reach,
    sessionId: string,
    options: { readonly at_message_id?: string; readonly title?: string },
  ): Promise<TaggedSession>;
  /** Throws `not_found`, `precondition_failed`; `session_busy` and `message_conflict` where the text is to change. */
  updateMessage(
    reach: Reach,
    sessionId: string,
    messageId: string,
    patch: MessageUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedMessage>;
  /** With the messages that mean nothing without it. Throws `not_found`, `precondition_failed` or `session_busy`. */
  deleteMessage(
    reach: Reach,
    sessionId: string,
    messageId: string,
    ifMatch?: string | undefined,
  ): Promise<void>;
}

export function sessionHistory({ database, clock }: StoreParts): SessionHistory {
  const now = (): number => clock.now().getTime();
  return {
    planRevert: (reach, sessionId, messageId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const message = await requirePrompt(sql, sessionId, messageId);
        await requireIdle(sql, sessionId);
        const session = await sql<SessionRow>('sessions').where({ id: sessionId }).first();
        const counted = await since(sql, message).count({ count: '*' });
        return {
          sessionId,
          workspaceId: session?.workspace_id ?? '',
          messageId,
          messages: Number(counted[0]?.count ?? 0),
          files: await changedFiles(sql, sessionId, { fromRunNumber: message.run_number }),
          runNumber: session?.run_number ?? 0,
        };
      }),
    revert: (reach, { sessionId, messageId, runNumber }, files, putBack) =>
      database.write(reach, async (sql) => {
        const session = await lockSession(sql, reach, sessionId);
        await requireIdle(sql, sessionId);
        const message = await requirePrompt(sql, sessionId, messageId);
        if (session.run_number !== runNumber) throw meanwhile();
        await goBack(sql, session, message, now());
        if (files)
          await sql('file_changes')
            .where({ session_id: sessionId, reverted: false })
            .where('run_number', '>=', message.run_number)
            .update({ reverted: true });
        // Last, so that little is left that could fail once files have changed.
        await putBack();
      }),
    isReverted: (reach, sessionId, messageId) =>
      // The lock waits for a transaction whose caller has heard no answer, and which is still under way.
      database.write(reach, async (sql) => {
        await lockSession(sql, reach, sessionId);
        return Boolean((await findMessage(sql, sessionId, messageId)).reverted);
      }),
    // Quotas may hold beyond the organization: it is asked in the name of the server, with ownership in each query.
    fork: (reach, sessionId, options) =>
      database.write('installation', async (sql) =>
        forkSession(sql, await lockSession(sql, reach, sessionId), reach, options, now()),
      ),
    updateMessage: (reach, sessionId, messageId, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const session = await lockSession(sql, reach, sessionId);
        const row = await findMessage(sql, sessionId, messageId);
        requireTag(ifMatch, toTaggedMessage(row).etag);
        const edited = patch.text === undefined ? row : await editText(sql, session, row, patch.text, now());
        if (patch.feedback === undefined) return toTaggedMessage(edited);
        const feedback = patch.feedback && JSON.stringify(patch.feedback);
        await sql<MessageRow>('messages').where({ id: edited.id }).update({ feedback });
        return toTaggedMessage({ ...edited, feedback });
      }),
    deleteMessage: (reach, sessionId, messageId, ifMatch) =>
      database.write(reach, async (sql) => {
        const session = await lockSession(sql, reach, sessionId);
        const row = await findMessage(sql, sessionId, messageId);
        requireTag(ifMatch, toTaggedMessage(row).etag);
        await requireIdle(sql, sessionId);
        const rows = await sql<MessageRow>('messages')
          .where({ session_id: sessionId, run_number: row.run_number, reverted: row.reverted })
          .orderBy('position');
        const gone = boundTo(row, rows);
        await forgetMessages(
          sql,
          gone.map(({ id }) => id),
        );
        await sql('messages')
          .whereIn(
            'id',
            gone.map(({ id }) => id),
          )
          .delete();
        await shorten(sql, session, row.reverted ? 0 : gone.length, now());
      }),
  };
}

/** A prompt of the history as it stands. */
async function requirePrompt(sql: Knex, sessionId: string, messageId: string): Promise<MessageRow> {
  const message = await findMessage(sql, sessionId, messageId);
  const fault =
    message.role !== 'user'
      ? 'Only what a person said can be gone back to: name a message whose role is user.'
      : message.reverted
        ? 'The message is already reverted.'
        : null;
  if (fault === null) return message;
  throw new Problem('message_conflict', fault);
}

/** The message and all that came after it. */
function since(sql: Knex, { session_id, run_number, position }: MessageRow): Knex.QueryBuilder {
  return sql('messages')
    .where({ session_id, reverted: false })
    .whereRaw('(run_number, position) >= (?, ?)', [run_number, position]);
}

async function goBack(
  sql: Knex.Transaction,
  session: SessionRow,
  message: MessageRow,
  now: number,
): Promise<SessionRow> {
  const ids: string[] = await since(sql, message).pluck('id');
  await forgetMessages(sql, ids);
  await since(sql, message).update({ reverted: true });
  return shorten(sql, session, ids.length, now);
}

/** The session after messages have left its history. */
async function shorten(
  sql: Knex.Transaction,
  session: SessionRow,
  messages: number,
  now: number,
): Promise<SessionRow> {
  const summary = await sql<MessageRow>('messages')
    .where({ session_id: session.id, reverted: false, summary: true })
    .orderBy([
      { column: 'run_number', order: 'desc' },
      { column: 'position', order: 'desc' },
    ])
    .first('id');
  const answers = await sql<MessageRow>('messages')
    .where({ session_id: session.id, reverted: false, role: 'assistant' })
    .orderBy([
      { column: 'run_number', order: 'desc' },
      { column: 'position', order: 'desc' },
    ])
    .limit(newestAnswers)
    .select('usage', 'summary', 'stop_reason');
  const changes = {
    message_count: session.message_count - messages,
    summary_message_id: summary?.id ?? null,
    context_used: countedIn(answers),
  };
  return saveSession(sql, session, changes, now, messages > 0 ? ['message_count'] : []);
}

/** Behind so many that broke off uncounted, nobody looks for one that was counted. */
const newestAnswers = 20;

/** What the next call reads, as its provider has counted it with the newest answer; the newest come first. */
function countedIn(answers: readonly Pick<MessageRow, 'usage' | 'summary' | 'stop_reason'>[]): number {
  for (const { usage, summary, stop_reason } of answers) {
    // What was used by an answer that broke off is estimated.
    if (stop_reason === 'interrupted' || stop_reason === 'error') continue;
    const counted: Usage | null = JSON.parse(usage ?? 'null');
    const { input_tokens, output_tokens } = counted ?? { input_tokens: 0, output_tokens: 0 };
    // Of a summary only what was written is read from now on.
    const tokens = summary ? output_tokens : input_tokens + output_tokens;
    if (tokens > 0) return tokens;
  }
  return 0;
}

/** The old text leaves the history with all that answered it; the new one stands in its place. */
async function editText(
  sql: Knex.Transaction,
  session: SessionRow,
  row: MessageRow,
  text: string,
  now: number,
): Promise<MessageRow> {
  await requireIdle(sql, session.id);
  await requirePrompt(sql, session.id, row.id);
  const shorter = await goBack(sql, session, row, now);
  const run_number = session.run_number + 1;
  const message = {
    ...{
      id: newId('message'),
      run_id: null,
      role: 'user' as const,
      parts: [{ type: 'text' as const, text }],
    },
    ...{ model: null, stop_reason: null, usage: null },
  };
  const { organization_id, workspace_id, id: session_id } = session;
  await insertMessages(sql, { organization_id, workspace_id, session_id, run_number }, [message], now);
  await saveSession(sql, shorter, { run_number, message_count: shorter.message_count + 1 }, now);
  return findMessage(sql, session.id, message.id);
}

/** A prompt with its answers; an answer with the results of its calls, and those with it. */
function boundTo(row: MessageRow, ofRun: readonly MessageRow[]): MessageRow[] {
  const place = ofRun.findIndex(({ id }) => id === row.id);
  if (row.role === 'user') {
    const next = ofRun.findIndex(({ role }, index) => index > place && role === 'user');
    return ofRun.slice(place, next === -1 ? undefined : next);
  }
  const before = ofRun[place - 1];
  const after = ofRun[place + 1];
  if (row.role === 'tool') return before?.role === 'assistant' ? [before, row] : [row];
  return after?.role === 'tool' ? [row, after] : [row];
}

async function forkSession(
  sql: Knex.Transaction,
  origin: SessionRow,
  reach: Reach,
  { at_message_id, title }: { readonly at_message_id?: string; readonly title?: string },
  now: number,
): Promise<TaggedSession> {
  const rows = await sql<MessageRow>('messages')
    .where({ session_id: origin.id, reverted: false })
    .orderBy(['run_number', 'position']);
  const copied = wholeSteps(rows, await endOf(sql, origin.id, rows, at_message_id));
  const id = newId('session');
  const ids = new Map(copied.map((row) => [row.id, newId('message')]));
  const row: SessionRow = {
    ...origin,
    id,
    user_id: reach.userId,
    parent_id: origin.id,
    // Also what an agent did for another goes on as the session of the person who forks it.
    ...{ parent_run_id: null, parent_call: null, root_run_id: null, agent_depth: 0, tool_limits: '[]' },
    title: title ?? origin.title,
    status: 'idle',
    ...{ archived: false, pinned: false, revision: 1, created_at: now, updated_at: now },
    ...{ input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, cost_nanodollars: 0, unpriced: false },
    context_used: countedIn(copied.filter(({ role }) => role === 'assistant').toReversed()),
    summary_message_id: ids.get(origin.summary_message_id ?? '') ?? null,
    message_count: copied.length,
  };
  // Kept for the origin alone, as are the changes of files.
  await sql('sessions').insert({ ...row, kept_bytes: 0 });
  await replaceTags(sql, row);
  await indexTitle(sql, row);
  tellNewSession(sql, row, now);
  // Copies belong to no run, by which models would know what they are not to be shown.
  const anew = givenAnew(copied);
  const copies = copied.map((message) => ({
    ...message,
    excluded: message.excluded || anew.has(message),
    ...{ id: ids.get(message.id) ?? newId('message'), session_id: id, run_id: null, feedback: null },
  }));
  await insertRows(sql, 'messages', copies);
  const { organization_id } = row;
  const parts = copies.flatMap((copy) => toMessage(copy).parts);
  await copyFiles(sql, origin.id, { organization_id, session_id: id }, parts);
  const { workspace_id } = row;
  const spender = {
    organizationId: organization_id,
    workspaceId: workspace_id,
    userId: reach.userId,
    apiKeyId: null,
  };
  if (bringsFiles([{ parts }])) await refuseKept(sql, spender, { sessionId: id, before: 0 }, now);
  await indexMessages(
    sql,
    copies.map((copy) => ({ ...copy, workspace_id, parts: toMessage(copy).parts })),
  );
  return toTaggedSession(row);
}

async function endOf(
  sql: Knex,
  sessionId: string,
  rows: readonly MessageRow[],
  messageId: string | undefined,
): Promise<number> {
  if (messageId === undefined) return rows.length;
  await findMessage(sql, sessionId, messageId);
  const place = rows.findIndex(({ id }) => id === messageId);
  if (place >= 0) return place + 1;
  throw new Problem('invalid_request', 'The message is reverted.', {
    errors: [
      { in: 'body', pointer: '/at_message_id', message: 'A message of the history.', code: 'message' },
    ],
  });
}

/** Calls with their results: those of the last answer come along, and an answer whose tools are still at work does not. */
function wholeSteps(rows: readonly MessageRow[], end: number): readonly MessageRow[] {
  const last = rows[end - 1];
  if (last?.role !== 'assistant' || !toMessage(last).parts.some(({ type }) => type === 'tool_use'))
    return rows.slice(0, end);
  return rows[end]?.role === 'tool' ? rows.slice(0, end + 1) : rows.slice(0, end - 1);
}

function meanwhile(): Problem {
  return new Problem(
    'session_busy',
    'A run has taken place in the session meanwhile; look at it again first.',
  );
}
