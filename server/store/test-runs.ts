/** Runs, messages and questions for the tests of the store. */
import type { Message, PermissionRequest, PromptRequest, Question, ResponseChunk } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Occurrence } from './begin-job-run.ts';
import type { RunEnd } from './change-run.ts';
import type { NumberedEvent } from './run-events.ts';
import type { Reach, Store } from './store.ts';

export const noUsage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

export function message(role: Message['role'], text: string, id = newId('message')) {
  return { id, role, parts: [{ type: 'text' as const, text }], model: null, stop_reason: null, usage: null };
}

export function chunk(seq: number, text: string): NumberedEvent {
  const data: ResponseChunk = { type: 'text_delta', message_id: 'msg', text };
  return { seq, name: 'message', data };
}

/** A run of a new session, or of the given one. */
export async function beginRun(
  store: Store,
  reach: Reach,
  options: {
    readonly sessionId?: string;
    readonly owner?: string;
    readonly queueLimit?: number;
    readonly prompt?: string;
    readonly parts?: Message['parts'];
    readonly role?: Message['role'];
    readonly trigger?: 'api' | 'messages' | 'agent';
    readonly apiKeyId?: string;
    readonly occurrence?: Occurrence;
  } = {},
): Promise<{ readonly runId: string; readonly sessionId: string; readonly userId: string }> {
  const sessionId = options.sessionId ?? (await store.sessions.create(reach, {})).session.id;
  const runId = newId('run');
  await store.transcript.beginRun({
    id: runId,
    sessionId,
    userId: reach.userId,
    trigger: options.trigger ?? 'api',
    apiKeyId: options.apiKeyId,
    agentSlug: 'coder',
    model: 'demo:demo-1',
    permissionMode: 'ask',
    onUnanswered: 'wait',
    messages: [
      {
        ...message(options.role ?? 'user', options.prompt ?? 'Say hello.'),
        ...(options.parts && { parts: options.parts }),
      },
    ],
    owner: options.owner ?? 'this process',
    queueLimit: options.queueLimit ?? 100,
    workspacePlace: '/workspaces/a',
    provisionalTitle: null,
    ...(options.occurrence && { occurrence: options.occurrence }),
    events: [{ seq: 1, name: 'runtime', data: { type: 'run_queued', run_id: runId, session_id: sessionId } }],
  });
  return { runId, sessionId, userId: reach.userId };
}

/** The id of a new key of theirs. */
export async function newKey(store: Store, reach: Reach): Promise<string> {
  const key = { name: 'k', scopes: ['query'], hash: newId('request'), prefix: 'sk-12345678' } as const;
  return (await store.apiKeys.create(reach, key)).apiKey.id;
}

export async function endRun(
  store: Store,
  run: { readonly runId: string; readonly sessionId: string },
  seq = 2,
  unfinished: Pick<RunEnd, 'usage' | 'cost'> = { usage: noUsage },
): Promise<void> {
  await store.transcript.endRun({
    ...run,
    ...unfinished,
    status: 'interrupted',
    stopReason: 'interrupted',
    interruptReason: 'requested',
    error: null,
    messages: [],
    events: [chunk(seq, 'end')],
  });
}

interface Asked {
  readonly runId: string;
  readonly sessionId: string;
  readonly createdAt: Date;
  readonly expiresAt?: Date;
}

function askedIn({ runId, sessionId, createdAt, expiresAt }: Asked) {
  return {
    session_id: sessionId,
    run_id: runId,
    tool_call_id: 'call_1',
    status: 'pending',
    created_at: createdAt.toISOString(),
    expires_at: (expiresAt ?? new Date(createdAt.getTime() + 60_000)).toISOString(),
    resolved_at: null,
  } as const;
}

export function permissionRequest(asked: Asked): PermissionRequest {
  const id = newId('permissionRequest');
  return {
    ...askedIn(asked),
    id,
    tool_name: 'write',
    action: 'write',
    description: 'Write to a file.',
    path: 'notes\0.txt',
    params: { file_path: 'notes.txt', nothing: null },
    diff: '-a\n+b\ud800',
    grants: ['notes/**'],
    options: ['allow_once', 'allow_session', 'allow_workspace', 'deny'],
    decision: null,
    updated_input: null,
    reply_path: `/api/v1/sessions/${asked.sessionId}/permissions/${id}/reply`,
    reply_schema: 'PermissionReply',
  };
}

export function promptRequest(asked: Asked, questions: Question[]): PromptRequest {
  const id = newId('promptRequest');
  return {
    ...askedIn(asked),
    id,
    questions,
    answers: null,
    reply_path: `/api/v1/sessions/${asked.sessionId}/prompts/${id}/reply`,
    reply_schema: 'PromptReply',
  };
}

/** Takes the run over as a process does that has seen its lease run out; null where it may not. */
export async function takeRun(store: Store, runId: string, owner: string) {
  const seen = (await store.transcript.readLeases()).find((lease) => lease.runId === runId);
  return seen ? store.transcript.takeRun(seen, owner) : null;
}
