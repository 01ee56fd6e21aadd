/** A run at work: calls the model, carries out its tool calls, stores each step before the next, and ends in one way only. */
import type {
  InterruptReason,
  MessagePart,
  QueryResponse,
  RunError,
  StopReason,
  ToolResult,
  ToolUse,
  Usage,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { interruptedResult, todosOf, toModelMessages } from './conversation.ts';
import { assistantMessage, type Draft, newDraft, unfinishedMessages, writeDraft } from './draft.ts';
import type { EventLog } from './event-log.ts';
import { ModelFailure, type ModelMessage, noUsage } from './model.ts';
import type { RunScope } from './run-scope.ts';
import { callTool, type RunMemory } from './tool-call.ts';
import type { NewMessage } from './transcript.ts';

/** What a run has gathered so far. */
interface Progress {
  readonly toolUses: ToolUse[];
  readonly toolResults: ToolResult[];
  usage: Usage;
  /** The id of the newest message. */
  messageId: string;
  /** The newest answer of the model. */
  answer: readonly MessagePart[];
}

/** Carries the run to its end. Rejects only when the store does, or when another process has taken the run over. */
export async function executeRun(scope: RunScope, log: EventLog, promptMessageId: string): Promise<void> {
  const progress: Progress = {
    toolUses: [],
    toolResults: [],
    usage: noUsage,
    messageId: promptMessageId,
    answer: [],
  };
  const draft: { current: Draft | null } = { current: null };
  try {
    if (scope.signal.aborted) return await end(scope, log, progress, null, 'interrupted');
    await begin(scope, log);
    const stored = await scope.transcript.readMessages(scope.sessionId, scope.runId);
    const memory: RunMemory = { todos: todosOf(stored) };
    const stopReason = await takeSteps(scope, log, toModelMessages(stored), progress, memory, draft);
    await end(scope, log, progress, draft.current, scope.signal.aborted ? 'interrupted' : stopReason);
  } catch (error) {
    if (error instanceof Error && error.name === 'LeaseLost') throw error;
    await fail(scope, log, progress, draft.current, error);
  }
}

async function begin(scope: RunScope, log: EventLog): Promise<void> {
  const started = {
    type: 'run_started',
    run_id: scope.runId,
    session_id: scope.sessionId,
    model: scope.model.name,
    agent_slug: scope.profile.slug,
  } as const;
  await log.commit([{ name: 'runtime', data: started }], (events) =>
    scope.transcript.changeStatus(scope, 'running', events),
  );
}

async function takeSteps(
  scope: RunScope,
  log: EventLog,
  messages: ModelMessage[],
  progress: Progress,
  memory: RunMemory,
  draft: { current: Draft | null },
): Promise<StopReason> {
  for (let step = 1; step <= scope.stepLimit; step += 1) {
    const tools = await scope.tools();
    draft.current = newDraft();
    await writeDraft(scope, log, messages, tools, draft.current);
    if (scope.signal.aborted) return 'interrupted';
    const { parts } = draft.current;
    const stopReason = await commitAnswer(scope, log, progress, draft.current, step);
    draft.current = null;
    messages.push({ role: 'assistant', parts });
    const calls = parts.filter((part) => part.type === 'tool_use');
    if (calls.length === 0) return stopReason;
    messages.push({ role: 'tool', parts: await callTools(scope, log, progress, memory, calls) });
    if (scope.signal.aborted) return 'interrupted';
  }
  return 'step_limit';
}

async function commitAnswer(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  draft: Draft,
  step: number,
): Promise<StopReason> {
  const { stopReason, usage } = draft.finish ?? { stopReason: 'end_turn' as const, usage: noUsage };
  progress.messageId = draft.messageId;
  progress.answer = draft.parts;
  progress.usage = add(progress.usage, usage);
  progress.toolUses.push(...draft.parts.filter((part) => part.type === 'tool_use'));
  const finished = {
    type: 'step_finished',
    step,
    message_id: draft.messageId,
    stop_reason: stopReason,
    usage,
  } as const;
  await log.commit([{ name: 'runtime', data: finished }], (events) =>
    scope.transcript.commitStep({
      ...ids(scope),
      messages: [assistantMessage(scope, draft, stopReason)],
      usage,
      steps: 1,
      events,
    }),
  );
  return stopReason;
}

async function callTools(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  memory: RunMemory,
  calls: readonly ToolUse[],
): Promise<ToolResult[]> {
  const results: ToolResult[] = [];
  for (const call of calls) {
    const result = scope.signal.aborted
      ? interruptedResult(call.id, call.name)
      : await callTool(scope, log, memory, call);
    results.push(result);
  }
  progress.toolResults.push(...results);
  progress.messageId = newId('message');
  const message: NewMessage = {
    id: progress.messageId,
    role: 'tool',
    parts: results,
    model: null,
    stop_reason: null,
    usage: null,
  };
  await log.commit([], (events) =>
    scope.transcript.commitStep({ ...ids(scope), messages: [message], usage: noUsage, steps: 0, events }),
  );
  return results;
}

/** Ends a run that completed, or that somebody stopped. */
async function end(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  draft: Draft | null,
  stopReason: StopReason,
): Promise<void> {
  const interruptReason = stopReason === 'interrupted' ? interruptReasonOf(scope.signal) : null;
  const unfinished = interruptReason ? unfinishedMessages(scope, draft, 'interrupted') : [];
  const response: QueryResponse = {
    id: unfinished.at(-1)?.id ?? progress.messageId,
    run_id: scope.runId,
    session_id: scope.sessionId,
    model: scope.model.name,
    status: interruptReason ? 'interrupted' : 'completed',
    content: contentOf(unfinished.at(-1)?.parts ?? progress.answer),
    usage: progress.usage,
    stop_reason: stopReason,
    interrupt_reason: interruptReason,
    tool_uses: progress.toolUses,
    tool_results: progress.toolResults,
    rag_results: [],
  };
  await log.commit([{ name: 'done', data: response }], (events) =>
    scope.transcript.endRun({
      ...ids(scope),
      status: response.status,
      stopReason,
      interruptReason,
      error: null,
      messages: unfinished,
      usage: noUsage,
      events,
    }),
  );
}

async function fail(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  draft: Draft | null,
  cause: unknown,
): Promise<void> {
  if (scope.signal.aborted) return end(scope, log, progress, draft, 'interrupted');
  const error = runError(cause);
  scope.log.error({ err: cause, run_id: scope.runId, code: error.code }, 'a run failed');
  await log.commit([{ name: 'error', data: { error: `${error.code}: ${error.message}` } }], (events) =>
    scope.transcript.endRun({
      ...ids(scope),
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error,
      messages: unfinishedMessages(scope, draft, 'error'),
      usage: noUsage,
      events,
    }),
  );
}

/** Only what was meant for callers reaches them; the rest is a fault of ours, whose text stays in the log. */
function runError(cause: unknown): RunError {
  if (cause instanceof ModelFailure || cause instanceof Problem)
    return { code: cause.code, message: cause.message };
  return { code: 'internal_error', message: 'A fault of the server ended this run; try again.' };
}

function contentOf(parts: readonly MessagePart[]): QueryResponse['content'] {
  return parts.filter((part) => part.type === 'text' || part.type === 'reasoning');
}

function interruptReasonOf(signal: AbortSignal): InterruptReason {
  // The runtime aborts with the reason as it stands in the contract.
  return (signal.reason as { readonly reason?: InterruptReason } | undefined)?.reason ?? 'requested';
}

function ids({ runId, sessionId }: RunScope) {
  return { runId, sessionId };
}

function add(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
  };
}
