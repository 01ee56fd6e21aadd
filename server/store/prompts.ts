/** Prompt requests: the agent asks a person something, and the first answer stands. */
import type { Knex } from 'knex';
import type { operations, PromptReply, PromptRequest } from '../contract/api.ts';
import type { Page } from './page.ts';
import type { StoreParts } from './parts.ts';
import { requireAnswers } from './prompt-answers.ts';
import { insertQuestion, listQuestions, lockQuestion, pendingQuestions } from './questions.ts';
import { notFound, type Reach } from './reach.ts';
import { nullableTimestamp } from './timestamps.ts';

/** `limit`, `cursor` and `status`. */
export type PromptQuery = Partial<NonNullable<operations['listPromptRequests']['parameters']['query']>>;

export interface Prompts {
  /** The newest first, those of the agents below among them. Throws `not_found` for a session out of reach. */
  list(reach: Reach, sessionId: string, query: PromptQuery): Promise<Page<PromptRequest>>;
  /** What the run and the agents below it ask now, the newest first. Throws `not_found` for a run out of reach. */
  pending(reach: Reach, runId: string): Promise<PromptRequest[]>;
  /**
   * Stores the answers, or that the person declines. Throws `not_found`, `already_answered` (also where the run has
   * ended), `request_expired`, or `invalid_request` where the answers do not match the questions.
   */
  answer(reach: Reach, sessionId: string, requestId: string, reply: PromptReply): Promise<PromptRequest>;
}

interface PromptRow {
  id: string;
  organization_id: string;
  session_id: string;
  run_id: string;
  request: string;
  status: PromptRequest['status'];
  answers: string | null;
  answered_by: string | null;
  created_at: number;
  expires_at: number;
  resolved_at: number | null;
}

export function promptRepository({ database, clock, cursors }: StoreParts): Prompts {
  return {
    list: (reach, sessionId, query) =>
      database.read(reach, async (sql) => {
        const { data, next_cursor } = await listQuestions<PromptRow>(sql, cursors, 'prompt_requests', {
          reach,
          sessionId,
          query,
        });
        return { data: data.map(toPrompt), next_cursor };
      }),
    pending: (reach, runId) =>
      database.read(reach, async (sql) =>
        (await pendingQuestions<PromptRow>(sql, reach, 'prompt_requests', runId)).map(toPrompt),
      ),
    answer: (reach, sessionId, requestId, reply) =>
      database.write(reach, (sql) =>
        answer(sql, reach, { sessionId, requestId, reply }, clock.now().getTime()),
      ),
  };
}

async function answer(
  sql: Knex.Transaction,
  reach: Reach,
  given: { readonly sessionId: string; readonly requestId: string; readonly reply: PromptReply },
  now: number,
): Promise<PromptRequest> {
  const { row } = await lockQuestion<PromptRow>(sql, reach, 'prompt_requests', given);
  const answers = 'answers' in given.reply ? given.reply.answers : null;
  if (answers) requireAnswers(toPrompt(row).questions, answers);
  const answered = {
    status: answers ? 'answered' : 'declined',
    answers: answers && JSON.stringify(answers),
    answered_by: reach.userId,
    resolved_at: now,
  } as const;
  await sql<PromptRow>('prompt_requests').where({ id: row.id }).update(answered);
  return toPrompt({ ...row, ...answered });
}

export async function insertPrompt(
  sql: Knex.Transaction,
  organizationId: string,
  request: PromptRequest,
): Promise<void> {
  await insertQuestion(sql, 'prompt_requests', organizationId, request);
}

/** For the process that waits for the answers. */
export async function readPrompt(sql: Knex, id: string): Promise<PromptRequest> {
  const row = await sql<PromptRow>('prompt_requests').where({ id }).first();
  if (!row) throw notFound('prompt request');
  return toPrompt(row);
}

/** Marks it expired unless an answer was first. */
export async function expirePrompt(sql: Knex.Transaction, id: string, now: number): Promise<PromptRequest> {
  await sql<PromptRow>('prompt_requests')
    .where({ id, status: 'pending' })
    .update({ status: 'expired', resolved_at: now });
  return readPrompt(sql, id);
}

/** What nobody answered before the run ended. */
export async function cancelPrompts(sql: Knex.Transaction, runId: string, now: number): Promise<void> {
  await sql<PromptRow>('prompt_requests')
    .where({ run_id: runId, status: 'pending' })
    .update({ status: 'cancelled', resolved_at: now });
}

function toPrompt(row: PromptRow): PromptRequest {
  const request: PromptRequest = JSON.parse(row.request);
  const answers: PromptRequest['answers'] = row.answers === null ? null : JSON.parse(row.answers);
  return { ...request, status: row.status, answers, resolved_at: nullableTimestamp(row.resolved_at) };
}
