/** Permission requests: a tool call waits for a person, and the first answer stands. */
import type { Knex } from 'knex';
import type { operations, PermissionReply, PermissionRequest } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { insertGrants } from './grants.ts';
import type { Page } from './page.ts';
import type { StoreParts } from './parts.ts';
import { insertQuestion, listQuestions, lockQuestion, pendingQuestions } from './questions.ts';
import { notFound, type Reach } from './reach.ts';
import type { SessionRow } from './session-rows.ts';
import { nullableTimestamp } from './timestamps.ts';

/** `limit`, `cursor` and `status`. */
export type PermissionQuery = Partial<
  NonNullable<operations['listPermissionRequests']['parameters']['query']>
>;

export interface Permissions {
  /** The newest first, those of the agents below among them. Throws `not_found` for a session out of reach. */
  list(reach: Reach, sessionId: string, query: PermissionQuery): Promise<Page<PermissionRequest>>;
  /** What the run and the agents below it ask now, the newest first. Throws `not_found` for a run out of reach. */
  pending(reach: Reach, runId: string): Promise<PermissionRequest[]>;
  /**
   * Stores the decision, and with `allow_session` or `allow_workspace` a grant, unless the input is changed: then the run
   * says what is granted. Throws `not_found`, `already_answered` (also where the run has ended), `request_expired`, or
   * `invalid_request` for what is no option and for a refusal that changes the input.
   */
  answer(
    reach: Reach,
    sessionId: string,
    requestId: string,
    reply: PermissionReply,
  ): Promise<PermissionRequest>;
}

interface PermissionRow {
  id: string;
  organization_id: string;
  session_id: string;
  run_id: string;
  request: string;
  status: PermissionRequest['status'];
  decision: PermissionRequest['decision'];
  message: string | null;
  updated_input: string | null;
  answered_by: string | null;
  created_at: number;
  expires_at: number;
  resolved_at: number | null;
}

export function permissionRepository({ database, clock, cursors }: StoreParts): Permissions {
  return {
    list: (reach, sessionId, query) =>
      database.read(reach, async (sql) => {
        const { data, next_cursor } = await listQuestions<PermissionRow>(
          sql,
          cursors,
          'permission_requests',
          { reach, sessionId, query },
        );
        return { data: data.map(toPermission), next_cursor };
      }),
    pending: (reach, runId) =>
      database.read(reach, async (sql) =>
        (await pendingQuestions<PermissionRow>(sql, reach, 'permission_requests', runId)).map(toPermission),
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
  given: { readonly sessionId: string; readonly requestId: string; readonly reply: PermissionReply },
  now: number,
): Promise<PermissionRequest> {
  const { decision, message, updated_input } = given.reply;
  const { session, row } = await lockQuestion<PermissionRow>(sql, reach, 'permission_requests', given);
  const request = toPermission(row);
  requireOption(request, decision);
  if (decision === 'deny' && updated_input) throw changeOfNothing();
  const answered = {
    status: 'answered',
    decision,
    message: message ?? null,
    updated_input: updated_input ? JSON.stringify(updated_input) : null,
    answered_by: reach.userId,
    resolved_at: now,
  } as const;
  await sql<PermissionRow>('permission_requests').where({ id: row.id }).update(answered);
  if (lasts(decision) && !updated_input) {
    const forWorkspace = decision === 'allow_workspace';
    const { userId: by, origin } = reach;
    await insertGrants(sql, session, request, { forWorkspace, by, at: now, origin });
  }
  return toPermission({ ...row, ...answered });
}

function lasts(decision: PermissionRequest['decision']): boolean {
  return decision === 'allow_session' || decision === 'allow_workspace';
}

function changeOfNothing(): Problem {
  const message = 'Only with a decision that allows the call.';
  return new Problem('invalid_request', `A call that is denied has no input to change. ${message}`, {
    errors: [{ in: 'body', pointer: '/updated_input', message, code: 'dependency' }],
  });
}

/** What the answer to a request is to remember, where only the run could tell. */
export async function addGrants(
  sql: Knex.Transaction,
  id: string,
  grants: readonly string[],
  now: number,
): Promise<void> {
  const row = await sql<PermissionRow>('permission_requests').where({ id }).first();
  if (!row) throw notFound('permission request');
  if (!lasts(row.decision) || row.answered_by === null) return;
  const session = await sql<SessionRow>('sessions').where({ id: row.session_id }).first();
  if (!session) throw notFound('session');
  const request = { ...toPermission(row), grants: [...grants] };
  const forWorkspace = row.decision === 'allow_workspace';
  await insertGrants(sql, session, request, { forWorkspace, by: row.answered_by, at: now });
}

function requireOption({ options }: PermissionRequest, decision: PermissionReply['decision']): void {
  if (options.includes(decision)) return;
  const message = `One of ${options.join(', ')}.`;
  throw new Problem('invalid_request', `This request does not offer ${decision}. Answer with: ${message}`, {
    errors: [{ in: 'body', pointer: '/decision', message, code: 'enum' }],
  });
}

export async function insertPermission(
  sql: Knex.Transaction,
  organizationId: string,
  request: PermissionRequest,
): Promise<void> {
  await insertQuestion(sql, 'permission_requests', organizationId, request);
}

/** For the process that waits for the answer. */
export async function readPermission(
  sql: Knex,
  id: string,
): Promise<{ request: PermissionRequest; message: string | null }> {
  const row = await sql<PermissionRow>('permission_requests').where({ id }).first();
  if (!row) throw notFound('permission request');
  return { request: toPermission(row), message: row.message };
}

/** Marks it expired unless an answer was first. */
export async function expirePermission(
  sql: Knex.Transaction,
  id: string,
  now: number,
): Promise<PermissionRequest> {
  await sql<PermissionRow>('permission_requests')
    .where({ id, status: 'pending' })
    .update({ status: 'expired', resolved_at: now });
  return (await readPermission(sql, id)).request;
}

/** What nobody answered before the run ended. */
export async function cancelPermissions(sql: Knex.Transaction, runId: string, now: number): Promise<void> {
  await sql<PermissionRow>('permission_requests')
    .where({ run_id: runId, status: 'pending' })
    .update({ status: 'cancelled', resolved_at: now });
}

function toPermission(row: PermissionRow): PermissionRequest {
  const request: PermissionRequest = JSON.parse(row.request);
  const { status, decision } = row;
  // Those stored before there were patterns name none, and remember nothing.
  const grants = request.grants ?? [];
  return {
    ...request,
    grants,
    status,
    decision,
    updated_input: row.updated_input === null ? null : JSON.parse(row.updated_input),
    resolved_at: nullableTimestamp(row.resolved_at),
  };
}
