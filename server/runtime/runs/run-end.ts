/** How a run ends: in one way only, with what was streamed of an unfinished answer stored before it is told. */
import type {
  InterruptReason,
  MessagePart,
  QueryResponse,
  RunError,
  StopReason,
} from '../../contract/api.ts';
import { Problem, problems } from '../../problem.ts';
import type { EventLog } from '../events/event-log.ts';
import { type Model, ModelFailure } from '../models/model.ts';
import type { RunEnd } from '../transcript.ts';
import { unfinishedAnswer } from './draft.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { spend } from './spending.ts';

/** As much of a run as is needed to end it, also where the rest could not be opened. */
export type EndingRun = Pick<RunScope, 'runId' | 'sessionId' | 'transcript' | 'log' | 'corpus'> & {
  readonly model: Pick<Model, 'name'> & Partial<Pick<Model, 'facts'>>;
  readonly models?: Pick<RunScope['models'], 'replaced'>;
};

/** Ends a run that was stopped, with the reason. */
export async function interruptRun(
  scope: EndingRun,
  log: EventLog,
  progress: Progress,
  reason: InterruptReason,
): Promise<void> {
  await end(scope, log, progress, 'interrupted', reason);
}

/** Ends a run that was stopped before it began. Its prompt was taken back: no model is to come upon it later. */
export async function withdrawRun(
  scope: EndingRun,
  log: EventLog,
  progress: Progress,
  reason: InterruptReason,
): Promise<void> {
  const { excluded } = await unansweredMessages(scope);
  await end(scope, log, progress, 'interrupted', reason, excluded);
}

/** Ends a run that came to its end by itself. */
export async function completeRun(
  scope: EndingRun,
  log: EventLog,
  progress: Progress,
  stopReason: StopReason,
): Promise<void> {
  await end(scope, log, progress, stopReason, null);
}

async function end(
  scope: EndingRun,
  log: EventLog,
  progress: Progress,
  stopReason: StopReason,
  interruptReason: InterruptReason | null,
  excluded: readonly string[] = [],
): Promise<void> {
  const draft = interruptReason ? progress.draft : null;
  const { messages: unfinished, ...spending } = await unfinishedAnswer(draft, scope.model, 'interrupted');
  spend(progress, spending);
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
    rag_results: [...(scope.corpus?.passages ?? [])],
  };
  await log.end([{ name: 'done', data: response }], (events) =>
    scope.transcript.endRun({
      runId: scope.runId,
      sessionId: scope.sessionId,
      status: response.status,
      stopReason,
      interruptReason,
      error: null,
      messages: unfinished,
      ...spending,
      excluded,
      events,
    }),
  );
}

/** Ends a run that could not go on. */
export async function failRun(
  scope: EndingRun,
  log: EventLog,
  progress: Progress,
  cause: unknown,
): Promise<void> {
  const error = runError(cause);
  const { excluded, excludesBrought } = await refusedMessages(scope, cause);
  const { messages, ...spending } = await unfinishedAnswer(progress.draft, scope.model, 'error');
  // What its caller asked for in vain is no fault of this server.
  const level = cause instanceof Problem && problems[cause.code].status < 500 ? 'info' : 'error';
  scope.log[level]({ err: cause, run_id: scope.runId, code: error.code }, 'a run failed');
  await log.end([{ name: 'error', data: { error: `${error.code}: ${error.message}` } }], (events) =>
    scope.transcript.endRun({
      runId: scope.runId,
      sessionId: scope.sessionId,
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error,
      // The beginning of an answer goes with its prompt.
      messages: messages.map((message) => ({ ...message, excluded: excluded.length > 0 })),
      ...spending,
      ...{ excluded, excludesBrought },
      events,
    }),
  );
}

/**
 * What the provider will not take, neither now nor later: the prompt with the history that came along, or what a tool gave.
 * In the next conversation it would be refused with all that is said then.
 */
async function refusedMessages(
  scope: EndingRun,
  cause: unknown,
): Promise<Required<Pick<RunEnd, 'excluded' | 'excludesBrought'>>> {
  const none = { excluded: [], excludesBrought: false };
  if (!(cause instanceof ModelFailure) || (cause.remedy !== 'reword' && cause.remedy !== 'shorten'))
    return none;
  // A fallback may take less than the model that the next run asks.
  if (scope.models?.replaced) return none;
  const { excluded, hasAnswer } = await unansweredMessages(scope);
  // What it has answered once, the provider takes.
  return { excluded, excludesBrought: !hasAnswer };
}

/** What the run has said that no answer came of, and whether one came of what it had said before. */
async function unansweredMessages({ runId, sessionId, transcript }: EndingRun) {
  const stored = await transcript.readMessages(sessionId, runId);
  const answered = stored.findLastIndex(
    ({ role, run_id, stop_reason }) =>
      // The beginning of an answer that was then asked for again is none.
      role === 'assistant' && !(run_id === runId && stop_reason === 'interrupted'),
  );
  const excluded = stored.slice(answered + 1).flatMap(({ id, run_id }) => (run_id === runId ? [id] : []));
  return { excluded, hasAnswer: stored[answered]?.run_id === runId };
}

/** Only what was meant for callers reaches them; the rest is a fault of ours, whose text stays in the log. */
function runError(cause: unknown): RunError {
  if (cause instanceof ModelFailure) {
    const seconds = Math.ceil((cause.retryAfterMs ?? 0) / 1000);
    return { code: cause.code, message: cause.message, ...(seconds > 0 && { retry_after_seconds: seconds }) };
  }
  if (cause instanceof Problem) return { code: cause.code, message: cause.message };
  return { code: 'internal_error', message: 'An internal error ended this run; try again.' };
}

function contentOf(parts: readonly MessagePart[]): QueryResponse['content'] {
  return parts.filter((part) => part.type === 'text' || part.type === 'reasoning');
}
