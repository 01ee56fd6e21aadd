/** Branching off from a session: a new one with copies of what was said in it. */
import type { Knex } from 'knex';
import { givenAnew } from '../given-anew.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { endOfResults } from './bound-messages.ts';
import { countedIn } from './counted-context.ts';
import { refuseKept } from './kept-quota.ts';
import { copyFiles } from './message-files.ts';
import { findMessage, type MessageRow, toMessage } from './messages.ts';
import { firstUnbegun } from './queue.ts';
import type { Reach } from './reach.ts';
import type { RunRow } from './runs.ts';
import { indexOrNote } from './search-backlog.ts';
import { indexTitle } from './search-index.ts';
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
  await copyMessages(sql, copied, ids, id);
  if (await copyFiles(sql, origin.id, id)) {
    const { organization_id: organizationId, workspace_id: workspaceId } = row;
    const spender = { organizationId, workspaceId, userId: reach.userId, apiKeyId: null };
    await refuseKept(sql, spender, { sessionId: id, before: 0 }, now);
  }
  await indexOrNote(sql, row);
  return toTaggedSession(row);
}

/** What is asked of a message to copy it; what was said in it stays in the database. */
const askedColumns = [
  'id',
  'run_id',
  'run_number',
  'role',
  'stop_reason',
  'usage',
  'summary',
  'excluded',
] as const;
type CopiedRow = Pick<MessageRow, (typeof askedColumns)[number]>;

/** What one statement copies: none is to take long. */
const copiedAtOnce = 5000;

async function copyMessages(
  sql: Knex.Transaction,
  copied: readonly CopiedRow[],
  ids: ReadonlyMap<string, string>,
  sessionId: string,
): Promise<void> {
  // Copies belong to no run, by which models would know what they are not to be shown.
  const anew = givenAnew(copied);
  const each = sql.client.config.client === 'pg' ? 'json_array_elements(cast(? as json))' : 'json_each(?)';
  const kept =
    'run_number, position, role, parts, model, stop_reason, usage, cost_nanodollars, summary, created_at';
  for (let start = 0; start < copied.length; start += copiedAtOnce) {
    const some = copied
      .slice(start, start + copiedAtOnce)
      .map((row) => [row.id, ids.get(row.id), Boolean(row.excluded) || anew.has(row)]);
    await sql.raw(
      `insert into messages (id, organization_id, session_id, excluded, ${kept})
         select copied.value ->> 1, organization_id, ?, cast(copied.value ->> 2 as boolean), ${kept}
         from ${each} as copied join messages on messages.id = (copied.value ->> 0)`,
      [sessionId, JSON.stringify(some)],
    );
  }
}

/**
 * The history up to the named message, calls with their results. An answer whose tools are still at work does not come along;
 * nor do prompts that still wait, unless they are named: they will be answered where they wait.
 */
async function copiedRows(
  sql: Knex,
  sessionId: string,
  messageId: string | undefined,
): Promise<readonly CopiedRow[]> {
  const rows: CopiedRow[] = await sql('messages')
    .where({ session_id: sessionId, reverted: false })
    .orderBy(['run_number', 'position'])
    .select(...askedColumns);
  const unbegun = (await firstUnbegun(sql, sessionId)) ?? Number.POSITIVE_INFINITY;
  const end =
    messageId === undefined
      ? rows.filter(({ run_number }) => run_number < unbegun).length
      : await endOf(sql, sessionId, rows, messageId);
  const atWork = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null })
    .whereNot({ status: 'queued' })
    .first('id');
  const calling = await callingIn(sql, atWork);
  return rows.slice(0, end).filter((row, place) => !calling.has(row.id) || rows[place + 1]?.role === 'tool');
}

/** Behind the message and the results of its calls. */
async function endOf(
  sql: Knex,
  sessionId: string,
  rows: readonly CopiedRow[],
  messageId: string,
): Promise<number> {
  await findMessage(sql, sessionId, messageId);
  const place = rows.findIndex(({ id }) => id === messageId);
  if (place >= 0) return rows[place]?.role === 'user' ? place + 1 : endOfResults(rows, place + 1);
  throw new Problem('message_conflict', 'The message is reverted; name a message of the history.');
}

/** The answers of a run at work that call tools. */
async function callingIn(sql: Knex, run: Pick<RunRow, 'id'> | undefined): Promise<ReadonlySet<string>> {
  if (!run) return new Set();
  const answers = await sql<MessageRow>('messages').where({ run_id: run.id, role: 'assistant' });
  const calling = answers.filter((row) => toMessage(row).parts.some(({ type }) => type === 'tool_use'));
  return new Set(calling.map(({ id }) => id));
}
