/** Puts a question to a person and waits: for the answer from any surface and any node, for its expiry, or for the run's end. */
import { isAbsolute, relative, resolve } from 'node:path';
import type { PermissionRequest, PromptRequest, RuntimeEvent } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import type { EventLog } from '../events/event-log.ts';
import type { PermissionNeed, PromptOutcome, Question } from '../tools/tool.ts';
import type { NumberedEvent } from '../transcript.ts';
import type { StoredQuestion } from './call-record.ts';
import type { CallStart } from './call-start.ts';
import { statusWith } from './open-questions.ts';
import type { RunScope } from './run-scope.ts';
import { isStoreAway } from './store-failure.ts';

/** The call that a question is about. */
interface Call {
  readonly id: string;
  readonly name: string;
}

/** How a permission request ended, and what the person added to a refusal. */
export interface PermissionOutcome {
  readonly question: StoredQuestion<PermissionRequest>;
  /** As it stands now; without a decision where nobody answered in time. */
  readonly request: PermissionRequest;
  readonly message: string | null;
}

/**
 * Asks whether a tool call may run; `stored` is the question that a dead process has asked already. Null when the run is
 * stopped. How it ended is not told yet.
 */
export async function askPermission(
  scope: RunScope,
  start: CallStart,
  call: Call,
  need: PermissionNeed,
  grants: readonly string[],
  stored: StoredQuestion<PermissionRequest> | null,
): Promise<PermissionOutcome | null> {
  const question = stored ?? (await openPermission(scope, start, call, need, grants));
  const { id, expires_at } = question.request;
  if (stored && !stored.told) await start.tellWith([], waitAgain(scope, id, 'waiting_permission'));
  const answer = await waitFor(scope, Date.parse(expires_at), async () => {
    const current = await scope.transcript.readPermission(id);
    return current.request.status === 'pending' ? null : current;
  });
  if (scope.signal.aborted) return null;
  if (answer) return { question, ...answer };
  const request = await scope.transcript.expirePermission(id);
  // An answer may have come at the last moment.
  if (request.status === 'answered') return { question, ...(await scope.transcript.readPermission(id)) };
  return { question, request, message: null };
}

async function openPermission(
  scope: RunScope,
  start: CallStart,
  call: Call,
  need: PermissionNeed,
  grants: readonly string[],
): Promise<StoredQuestion<PermissionRequest>> {
  const request = permissionRequest(scope, call, need, grants);
  const event = { name: 'runtime', data: { type: 'permission_requested', request } } as const;
  scope.agents.open.set(request.id, 'waiting_permission');
  // In one commit: a call that was begun without a question counts as one that may have run.
  await start.tellWith([event], (events) => scope.transcript.openPermission(request, events));
  return { request, told: false };
}

/** Stores how a permission request ended; null, like a request without a decision, means that nobody answered in time. */
export async function tellPermission(
  scope: RunScope,
  log: EventLog,
  call: Call,
  question: StoredQuestion<PermissionRequest>,
  ended: PermissionRequest | null,
): Promise<void> {
  const about = { request_id: question.request.id, tool_call_id: call.id };
  const { decision = null, updated_input = null } = ended ?? {};
  const resolution =
    decision === null
      ? ({ type: 'permission_expired', ...about } as const)
      : ({
          type: 'permission_resolved',
          ...about,
          decision,
          ...(updated_input && { updated_input }),
        } as const);
  await tellEnd(scope, log, question.request.id, resolution);
  question.told = true;
}

/** The run goes on only where no other question is open. */
async function tellEnd(scope: RunScope, log: EventLog, id: string, end: RuntimeEvent): Promise<void> {
  scope.agents.open.delete(id);
  const status = statusWith(scope.agents.open);
  await log.commit([{ name: 'runtime', data: end }], (events) =>
    scope.transcript.changeStatus(scope, status, events),
  );
}

/** Agents that were asked for before it may have ended their waiting since the process died that has asked. */
function waitAgain(scope: RunScope, id: string, status: 'waiting_permission' | 'waiting_prompt') {
  scope.agents.open.set(id, status);
  return (events: readonly NumberedEvent[]) => scope.transcript.changeStatus(scope, status, events);
}

interface AskedPrompt {
  readonly questions: readonly Question[];
  /** Aborts when nobody waits for an answer any more. */
  readonly withdrawn?: AbortSignal | undefined;
  /** Those that a dead process has asked already. */
  readonly stored: StoredQuestion<PromptRequest> | null;
}

/** Asks a person the agent's questions. */
export async function askPrompt(
  scope: RunScope,
  log: EventLog,
  toolCallId: string,
  { questions, withdrawn, stored }: AskedPrompt,
): Promise<PromptOutcome> {
  if (scope.onUnanswered === 'deny') return { status: 'unasked' };
  const question = stored ?? (await openPrompt(scope, log, toolCallId, questions));
  const { request } = question;
  if (stored && !stored.told) await log.commit([], waitAgain(scope, request.id, 'waiting_prompt'));
  const look = async () => {
    const current = await scope.transcript.readPrompt(request.id);
    return current.status === 'pending' ? null : current;
  };
  const answer = await waitFor(scope, Date.parse(request.expires_at), look, withdrawn);
  if (scope.signal.aborted) return { status: 'cancelled' };
  const current = answer ?? (await scope.transcript.expirePrompt(request.id));
  if (!question.told) await tellPrompt(scope, log, toolCallId, question, current);
  if (current.status === 'answered') return { status: 'answered', answers: current.answers ?? [] };
  return { status: current.status === 'declined' ? 'declined' : 'expired' };
}

/** Ends a prompt that a dead process has opened and nobody waits for any more. An answer that it has counts as given. */
export async function withdrawPrompt(
  scope: RunScope,
  log: EventLog,
  toolCallId: string,
  question: StoredQuestion<PromptRequest>,
): Promise<void> {
  const current = await scope.transcript.expirePrompt(question.request.id);
  await tellPrompt(scope, log, toolCallId, question, current);
}

async function tellPrompt(
  scope: RunScope,
  log: EventLog,
  toolCallId: string,
  question: StoredQuestion<PromptRequest>,
  current: PromptRequest,
): Promise<void> {
  await tellEnd(scope, log, current.id, promptEnd(current, toolCallId));
  question.told = true;
}

async function openPrompt(
  scope: RunScope,
  log: EventLog,
  toolCallId: string,
  questions: readonly Question[],
): Promise<StoredQuestion<PromptRequest>> {
  const request = promptRequest(scope, toolCallId, questions);
  const event = { name: 'runtime', data: { type: 'prompt_requested', request } } as const;
  scope.agents.open.set(request.id, 'waiting_prompt');
  await log.commit([event], (events) => scope.transcript.openPrompt(request, events));
  return { request, told: false };
}

function promptEnd({ id, status }: PromptRequest, toolCallId: string) {
  if (status === 'answered' || status === 'declined')
    return { type: 'prompt_resolved', request_id: id, tool_call_id: toolCallId, status } as const;
  return { type: 'prompt_expired', request_id: id, tool_call_id: toolCallId } as const;
}

/** Looks each time the run is woken; null when the time is over, the run is stopped, or nobody waits any more. */
async function waitFor<T>(
  scope: RunScope,
  until: number,
  look: () => Promise<T | null>,
  withdrawn?: AbortSignal,
): Promise<T | null> {
  const signal = withdrawn ? AbortSignal.any([scope.signal, withdrawn]) : scope.signal;
  while (!signal.aborted) {
    const ticket = scope.hub.ticket(scope.runId);
    try {
      const found = await look().catch(unlessStoreFails);
      if (found) return found;
      if (scope.clock.now().getTime() >= until) return null;
      await ticket.wait(signal);
    } finally {
      ticket.drop();
    }
  }
  return null;
}

/** An answer is not lost where it could not be read just now. */
function unlessStoreFails(error: unknown): null {
  if (isStoreAway(error)) return null;
  throw error;
}

function permissionRequest(
  scope: RunScope,
  call: Call,
  need: PermissionNeed,
  grants: readonly string[],
): PermissionRequest {
  const id = newId('permissionRequest');
  return {
    ...times(scope),
    id,
    session_id: scope.sessionId,
    run_id: scope.runId,
    tool_call_id: call.id,
    tool_name: call.name,
    action: need.action,
    description: need.description,
    path: withinWorkspace(need.path, scope.workspacePath),
    params: need.params,
    diff: need.diff ?? null,
    grants: [...grants],
    options:
      grants.length > 0 ? ['allow_once', 'allow_session', 'allow_workspace', 'deny'] : ['allow_once', 'deny'],
    status: 'pending',
    decision: null,
    updated_input: null,
    reply_path: `/api/v1/sessions/${scope.sessionId}/permissions/${id}/reply`,
    reply_schema: 'PermissionReply',
  };
}

function promptRequest(scope: RunScope, toolCallId: string, questions: readonly Question[]): PromptRequest {
  const id = newId('promptRequest');
  return {
    ...times(scope),
    id,
    session_id: scope.sessionId,
    run_id: scope.runId,
    tool_call_id: toolCallId,
    questions: questions.map((question) => ({ ...question })) as PromptRequest['questions'], // the tool has checked them
    status: 'pending',
    answers: null,
    reply_path: `/api/v1/sessions/${scope.sessionId}/prompts/${id}/reply`,
    reply_schema: 'PromptReply',
  };
}

function times(scope: RunScope) {
  const now = scope.clock.now();
  return {
    created_at: now.toISOString(),
    expires_at: new Date(now.getTime() + scope.answerWithinMs).toISOString(),
    resolved_at: null,
  };
}

/** Where the server keeps workspaces is nobody's business: what lies inside one is named from its root. */
function withinWorkspace(path: string, workspacePath: string): string {
  const way = relative(workspacePath, resolve(workspacePath, path));
  return way === '..' || way.startsWith('../') || isAbsolute(way) ? path : way || '.';
}
