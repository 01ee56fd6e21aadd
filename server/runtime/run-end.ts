/** How a run ends: in one way only, with what was streamed of an unfinished answer stored before it is told. */
import type { InterruptReason, MessagePart, QueryResponse, RunError, StopReason } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { unfinishedMessages } from './draft.ts';
import type { EventLog } from './event-log.ts';
import { ModelFailure, noUsage } from './model.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';

/** Ends a run that completed, or that somebody stopped. */
export async function endRun(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  stopReason: StopReason,
): Promise<void> {
  const interruptReason = stopReason === 'interrupted' ? interruptReasonOf(scope.signal) : null;
  const unfinished = interruptReason ? unfinishedMessages(scope, progress.draft, 'interrupted') : [];
  const response: QueryResponse = {
    id: unfinished.at(-1)?.id ?? progress.messageId,
    run_id: scope.runId,
    session_id: scope.sessionId,
    model: scope.model.name,
    status: interruptReason ? 'interrupted' : 'completed',
    content: contentOf(unfinished.at(-1)?.parts ?? progress.answer),
    usage: progress.usage,
    cost: progress.cost,
    stop_reason: stopReason,
    interrupt_reason: interruptReason,
    tool_uses: progress.toolUses,
    tool_results: progress.toolResults,
    rag_results: [],
  };
  await log.commit([{ name: 'done', data: response }], (events) =>
    scope.transcript.endRun({
      runId: scope.runId,
      sessionId: scope.sessionId,
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

/** Ends a run that could not go on. */
export async function failRun(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  cause: unknown,
): Promise<void> {
  const error = runError(cause);
  scope.log.error({ err: cause, run_id: scope.runId, code: error.code }, 'a run failed');
  await log.commit([{ name: 'error', data: { error: `${error.code}: ${error.message}` } }], (events) =>
    scope.transcript.endRun({
      runId: scope.runId,
      sessionId: scope.sessionId,
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error,
      messages: unfinishedMessages(scope, progress.draft, 'error'),
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
