/** The runs that wait in a session behind the one at work, with what they were asked. */
import type { Knex } from 'knex';
import type { QueuedPrompt } from '../contract/api.ts';
import type { MessageRow } from './messages.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import type { RunRow } from './runs.ts';
import { lockSession, requireSession } from './session-rows.ts';
import { timestamp } from './timestamps.ts';

export interface Queue {
  /** The oldest first; without those that were told to stop. Throws `not_found` for a session out of reach. */
  list(reach: Reach, sessionId: string, query: PageQuery): Promise<Page<QueuedPrompt>>;
  /**
   * The number of the first run that has not begun, also of one that was told to stop: what it was asked is not said yet,
   * nor is what stands behind it. Null where there is none. Throws `not_found`.
   */
  firstUnbegun(reach: Reach, sessionId: string): Promise<number | null>;
  /** Asks all that wait to stop; answers with their ids. Throws `not_found`. */
  clear(reach: Reach, sessionId: string): Promise<string[]>;
}

export function queueRepository({ database, cursors }: StoreParts): Queue {
  return {
    list: (reach, sessionId, query) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        const listing = {
          name: 'queue',
          reach,
          filters: { sessionId },
          columns: ['run_number'],
          direction: 'asc',
          parts: [waiting(sql, sessionId)],
        } as const;
        const { data, next_cursor } = await readPage<RunRow>(sql, cursors, listing, query);
        return { data: await withPrompts(sql, data), next_cursor };
      }),
    firstUnbegun: (reach, sessionId) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        return firstUnbegun(sql, sessionId);
      }),
    clear: (reach, sessionId) =>
      database.write(reach, async (sql) => {
        // Under its lock no run of the session begins or ends.
        await lockSession(sql, reach, sessionId);
        const ids: string[] = await waiting(sql, sessionId).pluck('id');
        await sql<RunRow>('runs').whereIn('id', ids).update({ interrupt_requested: 'requested' });
        return ids;
      }),
  };
}

/** As `Queue.firstUnbegun`. */
export async function firstUnbegun(sql: Knex, sessionId: string): Promise<number | null> {
  const first = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null, status: 'queued' })
    .orderBy('run_number')
    .first('run_number');
  return first?.run_number ?? null;
}

/** The first one too where none is at work: the process that would begin it may hang, or hand it over just now. */
function waiting(sql: Knex, sessionId: string): Knex.QueryBuilder {
  return sql('runs').where({
    session_id: sessionId,
    ended_at: null,
    status: 'queued',
    interrupt_requested: null,
  });
}

async function withPrompts(sql: Knex, runs: readonly RunRow[]): Promise<QueuedPrompt[]> {
  if (runs.length === 0) return [];
  // One that waits has said nothing yet: its only message is its prompt.
  const prompts = await sql<MessageRow>('messages')
    .whereIn(
      'run_id',
      runs.map(({ id }) => id),
    )
    .select('id', 'run_id', 'parts');
  return runs.flatMap((run) => {
    const prompt = prompts.find(({ run_id }) => run_id === run.id);
    return prompt ? [toQueuedPrompt(run, prompt)] : [];
  });
}

function toQueuedPrompt(run: RunRow, { id, parts }: Pick<MessageRow, 'id' | 'parts'>): QueuedPrompt {
  const said: { readonly type: string; readonly text?: string }[] = JSON.parse(parts);
  return {
    run_id: run.id,
    session_id: run.session_id,
    message_id: id,
    prompt: said
      .flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : []))
      .join('\n'),
    agent_slug: run.agent_slug,
    model: run.model,
    created_at: timestamp(run.created_at),
  };
}
