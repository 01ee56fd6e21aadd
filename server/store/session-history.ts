/** Going back in a session, branching off from it, and changing single messages of it. */
import type { Knex } from 'knex';
import type { MessagePart, MessageUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { boundTo } from './bound-messages.ts';
import { countedIn } from './counted-context.ts';
import { requireTag } from './etag.ts';
import { type ChangedFile, changedFiles, pathsChangedBetween, placesOfChanges } from './file-changes.ts';
import { forgetFiles } from './message-files.ts';
import {
  findMessage,
  insertMessages,
  type MessageRow,
  type TaggedMessage,
  toTaggedMessage,
} from './messages.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { type IndexingParts, indexNoted } from './search-backlog.ts';
import { forgetMessages } from './search-index.ts';
import { forkSession } from './session-forks.ts';
import {
  lockSession,
  requireSession,
  type SessionRow,
  saveSession,
  type TaggedSession,
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
  /** Those of the files that somebody else has changed between two of the session's changes. */
  readonly changedBetween: ReadonlySet<string>;
  /** Where the workspace was when they were changed; null where its folder was not named. */
  readonly changedIn: readonly (string | null)[];
  /** The number of the newest run when this was planned: a later run makes the plan void. */
  readonly runNumber: number;
}

export interface SessionHistory {
  /** Throws `not_found`, `message_conflict` for a message that is no prompt, `session_busy`. */
  planRevert(reach: Reach, sessionId: string, messageId: string): Promise<RevertPlan>;
  /**
   * Takes the message and what came after it out of the history. `putBack` is called within the transaction, so that it
   * may wait for nobody who waits for the database; when it rejects, nothing has happened. `files` says whether files are
   * put back. Throws `session_busy` where the plan is void.
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

export function sessionHistory({ database, clock, log }: StoreParts & IndexingParts): SessionHistory {
  const now = (): number => clock.now().getTime();
  return {
    planRevert: (reach, sessionId, messageId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const message = await requirePrompt(sql, sessionId, messageId);
        // The number comes first: a run that begins in between makes the session busy, or its number another one.
        const session = await sql<SessionRow>('sessions').where({ id: sessionId }).first();
        await requireIdle(sql, sessionId);
        const counted = await since(sql, message).count({ count: '*' });
        return {
          sessionId,
          workspaceId: session?.workspace_id ?? '',
          messageId,
          messages: Number(counted[0]?.count ?? 0),
          files: await changedFiles(sql, sessionId, { fromRunNumber: message.run_number }),
          changedBetween: await pathsChangedBetween(sql, sessionId, message.run_number),
          changedIn: await placesOfChanges(sql, sessionId, message.run_number),
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
    fork: async (reach, sessionId, options) => {
      const fork = await database.write('installation', async (sql) =>
        forkSession(sql, await lockSession(sql, reach, sessionId), reach, options, now()),
      );
      await indexNoted({ database, log }, fork.session.id);
      return fork;
    },
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
        const ids = await idsBoundTo(sql, row);
        await deleteAll(sql, sessionId, ids);
        await shorten(sql, session, row.reverted ? 0 : ids.length, now());
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
      parts: reworded(JSON.parse(row.parts), text),
    },
    ...{ model: null, stop_reason: null, usage: null },
  };
  const { organization_id, workspace_id, id: session_id } = session;
  await insertMessages(sql, { organization_id, workspace_id, session_id, run_number }, [message], now);
  await saveSession(sql, shorter, { run_number, message_count: shorter.message_count + 1 }, now);
  return findMessage(sql, session.id, message.id);
}

/** With what it shows: the words alone were put otherwise. */
function reworded(parts: readonly MessagePart[], text: string): MessagePart[] {
  const place = parts.findIndex(({ type }) => type === 'text');
  const shown = (some: readonly MessagePart[]) => some.filter(({ type }) => type === 'file');
  const before = place === -1 ? parts : parts.slice(0, place);
  return [...shown(before), { type: 'text', text }, ...shown(parts.slice(before.length))];
}

/** Databases bound how many values one statement may carry. */
const atOnce = 500;

async function idsBoundTo(sql: Knex, { id, session_id, reverted }: MessageRow): Promise<string[]> {
  const history = await sql<MessageRow>('messages')
    .where({ session_id, reverted })
    .orderBy(['run_number', 'position'])
    .select('id', 'role', 'summary');
  const row = history.find((one) => one.id === id);
  return row ? boundTo(row, history).map((one) => one.id) : [];
}

async function deleteAll(sql: Knex.Transaction, sessionId: string, ids: readonly string[]): Promise<void> {
  await forgetMessages(sql, ids);
  const parts: MessagePart[] = [];
  for (let start = 0; start < ids.length; start += atOnce) {
    const some = sql<MessageRow>('messages').whereIn('id', ids.slice(start, start + atOnce));
    for (const row of await some.clone().select('parts')) parts.push(...JSON.parse(row.parts));
    await some.delete();
  }
  await forgetFiles(sql, sessionId, parts);
}

function meanwhile(): Problem {
  return new Problem(
    'session_busy',
    'A run has taken place in the session meanwhile; look at it again first.',
  );
}
