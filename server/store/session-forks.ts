/** Branching off from a session: a new one with copies of what was said in it. */
import type { Knex } from 'knex';
import { givenAnew } from '../given-anew.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { endOfResults } from './bound-messages.ts';
import { countedIn } from './counted-context.ts';
import { insertRows } from './insert-rows.ts';
import { bringsFiles, refuseKept } from './kept-quota.ts';
import { copyFiles } from './message-files.ts';
import { findMessage, type MessageRow, toMessage } from './messages.ts';
import type { Reach } from './reach.ts';
import type { RunRow } from './runs.ts';
import { indexMessages, indexTitle } from './search-index.ts';
import {
  replaceTags,
  type SessionRow,
  type TaggedSession,
  tellNewSession,
  toTaggedSession,
} from './session-rows.ts';

export async function forkSession(
  sql: Knex.Transaction,
  origin: SessionRow,
  reach: Reach,
  { at_message_id, title }: { readonly at_message_id?: string; readonly title?: string },
  now: number,
): Promise<TaggedSession> {
  const copied = await copiedRows(sql, origin.id, at_message_id);
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
    summary_message_id: ids.get(copied.findLast(({ summary }) => summary)?.id ?? '') ?? null,
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

/**
 * The history up to the named message, calls with their results. An answer whose tools are still at work does not come along;
 * nor do prompts that still wait, unless they are named: they will be answered where they wait.
 */
async function copiedRows(
  sql: Knex,
  sessionId: string,
  messageId: string | undefined,
): Promise<readonly MessageRow[]> {
  const rows = await sql<MessageRow>('messages')
    .where({ session_id: sessionId, reverted: false })
    .orderBy(['run_number', 'position']);
  const [first, waiting] = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null })
    .orderBy('run_number')
    .limit(2)
    .select('id', 'run_number');
  const end =
    messageId === undefined
      ? rows.filter(({ run_number }) => !waiting || run_number < waiting.run_number).length
      : await endOf(sql, sessionId, rows, messageId);
  return rows.slice(0, end).filter((row, place) => row.run_id !== first?.id || isWhole(row, rows[place + 1]));
}

/** Behind the message and the results of its calls. */
async function endOf(
  sql: Knex,
  sessionId: string,
  rows: readonly MessageRow[],
  messageId: string,
): Promise<number> {
  await findMessage(sql, sessionId, messageId);
  const place = rows.findIndex(({ id }) => id === messageId);
  if (place >= 0) return rows[place]?.role === 'user' ? place + 1 : endOfResults(rows, place + 1);
  throw new Problem('invalid_request', 'The message is reverted.', {
    errors: [
      { in: 'body', pointer: '/at_message_id', message: 'A message of the history.', code: 'message' },
    ],
  });
}

function isWhole(row: MessageRow, next: MessageRow | undefined): boolean {
  if (row.role !== 'assistant' || next?.role === 'tool') return true;
  return toMessage(row).parts.every(({ type }) => type !== 'tool_use');
}
