/** Threads of the Messages surface: each is a session, and goes on from its newest answer alone. */
import type { Knex } from 'knex';
import type { StoreParts } from './parts.ts';
import { type Reach, requireRole, within } from './reach.ts';
import { lockSession, type SessionRow } from './session-rows.ts';

/** What a thread keeps besides its conversation: it is said once, when the thread begins. */
export interface ThreadTerms {
  /** Instructions, those that came later among them. */
  readonly system: string;
  /** As the client described them. */
  readonly tools: readonly unknown[];
  /** Blocks that added tools, or took them away. */
  readonly toolChanges: readonly unknown[];
}

/** A thread that goes on; or why it does not. */
export type TakenThread =
  | (ThreadTerms & { readonly sessionId: string })
  | 'unknown'
  | 'continued'
  | 'in_flight';

/** The answer that is written, and the one that it follows. */
export interface ThreadStep {
  readonly messageId: string;
  readonly previousMessageId: string | null;
}

export interface MessageThreads {
  /** Makes a thread of a new session, whose first answer bears the id. Throws `not_found`. */
  begin(reach: Reach, sessionId: string, messageId: string, terms: ThreadTerms): Promise<void>;
  /**
   * Takes the thread up for one answer: whoever else comes with the same id is too late. What was asked before in vain is
   * no part of the conversation any more.
   */
  take(
    reach: Reach,
    step: { readonly messageId: string; readonly previousMessageId: string },
  ): Promise<TakenThread>;
  /** The client has the answer. With it count the instructions and tools that came with its question; null where none did. */
  keep(reach: Reach, sessionId: string, messageId: string, terms: ThreadTerms | null): Promise<void>;
  /** Where there will be no such answer: the thread goes on from the one before. */
  putBack(reach: Reach, sessionId: string, step: ThreadStep): Promise<void>;
}

interface ThreadRow {
  session_id: string;
  organization_id: string;
  message_id: string;
  previous_message_id: string | null;
  system: string;
  tools: string;
  tool_changes: string;
  /** The number of the newest run when the answer began; null once its client has it. */
  answered_behind: number | null;
}

export function messageThreadRepository({ database }: StoreParts): MessageThreads {
  return {
    begin: (reach, session_id, message_id, terms) =>
      database.write(reach, async (sql) => {
        const { organization_id } = await lockSession(sql, reach, session_id);
        const row = {
          session_id,
          organization_id,
          message_id,
          previous_message_id: null,
          answered_behind: null,
        };
        await sql<ThreadRow>('message_threads').insert({ ...row, ...columnsOf(terms) });
      }),
    take: (reach, { messageId, previousMessageId }) =>
      database.write(reach, async (sql) => {
        const found = await sql<ThreadRow>('message_threads')
          .where({ message_id: previousMessageId })
          .orWhere({ previous_message_id: previousMessageId })
          .first('session_id');
        if (!found) return 'unknown';
        const { session_id } = found;
        const session = await within(sql<SessionRow>('sessions').where({ id: session_id }), reach)
          .forUpdate()
          .first();
        if (!session) return 'unknown';
        requireRole(reach, session);
        const row = await sql<ThreadRow>('message_threads').where({ session_id }).first();
        if (session.status !== 'idle') return 'in_flight';
        if (row?.message_id !== previousMessageId) return 'continued';
        await excludeVainRuns(sql, session_id, row.answered_behind);
        await sql<ThreadRow>('message_threads').where({ session_id }).update({
          message_id: messageId,
          previous_message_id: previousMessageId,
          answered_behind: session.run_number,
        });
        return { sessionId: session_id, ...termsOf(row) };
      }),
    keep: (reach, session_id, message_id, terms) =>
      database.write(reach, async (sql) => {
        await sql<ThreadRow>('message_threads')
          .where({ session_id, message_id })
          .update({ answered_behind: null, ...(terms && columnsOf(terms)) });
      }),
    putBack: (reach, session_id, { messageId, previousMessageId }) =>
      database.write(reach, async (sql) => {
        if (previousMessageId === null) return;
        await sql<ThreadRow>('message_threads')
          .where({ session_id, message_id: messageId })
          .update({ message_id: previousMessageId, previous_message_id: null });
      }),
  };
}

/**
 * Their client was told that they failed, or left before it had the answer, and asks again. One that a hook has ended has
 * given a whole answer.
 */
async function excludeVainRuns(
  sql: Knex.Transaction,
  sessionId: string,
  answeredBehind: number | null,
): Promise<void> {
  const vain = sql('runs')
    .where({ session_id: sessionId, trigger: 'messages' })
    .where((which) => {
      which
        .where({ status: 'failed' })
        .orWhere((stopped) =>
          stopped.where({ status: 'interrupted' }).whereRaw(`coalesce(interrupt_reason, '') <> 'hook'`),
        );
      if (answeredBehind !== null) which.orWhere('run_number', '>', answeredBehind);
    })
    .select('id');
  await sql('messages').where({ session_id: sessionId }).whereIn('run_id', vain).update({ excluded: true });
}

function columnsOf({ system, tools, toolChanges }: ThreadTerms) {
  return { system, tools: JSON.stringify(tools), tool_changes: JSON.stringify(toolChanges) };
}

function termsOf({ system, tools, tool_changes }: ThreadRow): ThreadTerms {
  return { system, tools: JSON.parse(tools), toolChanges: JSON.parse(tool_changes) };
}
