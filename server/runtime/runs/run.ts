/** A run at work: step after step, each stored before the next, to an end that comes once. */
import type { InterruptReason, StopReason } from '../../contract/api.ts';
import { Problem } from '../../problem.ts';
import { errorType, inSpan, type Span } from '../../tracing.ts';
import type { EventLog } from '../events/event-log.ts';
import { isSummary, toModelMessages } from '../prompt/conversation.ts';
import { todosWith } from '../prompt/session-todos.ts';
import { summarize } from '../prompt/summary.ts';
import type { RunEvent, TakenRun } from '../transcript.ts';
import { estimateReading } from './answer.ts';
import { beforeStep } from './before-step.ts';
import { readProgress } from './continuation.ts';
import { unfinishedAnswer } from './draft.ts';
import { newProgress, type Progress } from './progress.ts';
import { completeRun, failRun, interruptRun, withdrawRun } from './run-end.ts';
import type { RunScope } from './run-scope.ts';
import { spend } from './spending.ts';
import { takeStep } from './step.ts';
import { isStoreAway } from './store-failure.ts';
import { callTools } from './tool-calls.ts';

/** Where a run begins: at its prompt, or where a process that died or stopped has left it. */
export type RunStart =
  | { readonly promptMessageId: string; readonly begun: boolean }
  | { readonly taken: TakenRun };

/** Carries the run to its end. Rejects only when the store does, or when another process has taken the run over. */
export async function executeRun(scope: RunScope, log: EventLog, start: RunStart): Promise<void> {
  const { profile, runId, sessionId, tracing } = scope;
  const attributes = {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': profile.slug,
    'gen_ai.conversation.id': sessionId,
    'run.id': runId,
  };
  await inSpan(tracing, `invoke_agent ${profile.slug}`, { attributes }, (span) =>
    bringToEnd(scope, log, start, span),
  );
}

async function bringToEnd(scope: RunScope, log: EventLog, start: RunStart, span: Span): Promise<void> {
  let progress = newProgress('promptMessageId' in start ? start.promptMessageId : '');
  let begun = hasBegun(start);
  try {
    if ('taken' in start) progress = await readProgress(scope.transcript, start.taken);
    if (progress.askedModel !== undefined) scope.models.resumeWith(progress.askedModel);
    if (scope.signal.aborted) return await stopRun(scope, log, progress, begun);
    await scope.files.load(scope.transcript, scope.sessionId);
    if ('taken' in start) await readAgain(scope, progress);
    if ('taken' in start && begun) await resume(scope, log, progress, start.taken);
    else await begin(scope, log, progress, begun);
    begun = true;
    const stopReason = await takeSteps(scope, log, progress);
    if (scope.signal.aborted) await stopRun(scope, log, progress);
    else await completeRun(scope, log, progress, stopReason);
  } catch (error) {
    if (error instanceof Error && error.name === 'LeaseLost') throw error;
    if (scope.signal.aborted) return await stopRun(scope, log, progress, begun);
    const stopped = reasonStopped(error);
    if (stopped) return await withdrawRun(scope, log, progress, stopped);
    span.fail(errorType(error));
    // However short it is: a longer absence of the store ends no run either.
    if (isStoreAway(error)) throw error;
    await failRun(scope, log, progress, error);
  } finally {
    span.set(outcomeOf(scope, progress));
  }
}

function outcomeOf({ signal, model }: RunScope, { steps, usage }: Progress) {
  return {
    'gen_ai.request.model': model.name,
    'gen_ai.usage.input_tokens': usage.input_tokens,
    'gen_ai.usage.output_tokens': usage.output_tokens,
    'run.steps': steps,
    ...(signal.aborted && { 'run.interrupt_reason': reasonOf(signal) }),
  };
}

/** What is told when a run begins. */
export function beginningOf(scope: RunScope): readonly RunEvent[] {
  const started = {
    type: 'run_started',
    run_id: scope.runId,
    session_id: scope.sessionId,
    model: scope.model.name,
    agent_slug: scope.profile.slug,
  } as const;
  const notice = scope.corpus?.notice ?? null;
  const told = notice === null ? [] : [{ type: 'notice_given' as const, message: notice }];
  return [started, ...told].map((data) => ({ name: 'runtime' as const, data }));
}

async function begin(scope: RunScope, log: EventLog, progress: Progress, begun: boolean): Promise<void> {
  if (!begun)
    await log.commit(beginningOf(scope), (events) => scope.transcript.changeStatus(scope, 'running', events));
  const { transcript, sessionId, runId } = scope;
  const stored = await transcript.readMessages(sessionId, runId);
  progress.memory.todos = await todosWith(stored, transcript, sessionId, runId);
  progress.conversation = toModelMessages(stored, runId);
}

/** From here on the text that a client received of the former process is stored, and the model is asked anew. */
async function resume(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  { resumptions, handedOver }: TakenRun,
): Promise<void> {
  const resumed = {
    type: 'run_resumed',
    run_id: scope.runId,
    session_id: scope.sessionId,
    step: progress.steps,
    reason: handedOver ? 'shutdown' : 'lease_lost',
    resumptions: resumptions + 1,
  } as const;
  if (progress.draft) progress.draft.reads = await estimateReading(scope, progress);
  const unfinished = await unfinishedAnswer(progress.draft, scope.model, 'interrupted');
  await log.commit([{ name: 'runtime', data: resumed }], (events) =>
    scope.transcript.resumeRun({ runId: scope.runId, sessionId: scope.sessionId, ...unfinished, events }),
  );
  spend(progress, unfinished);
  progress.draft = null;
}

/** What the former process let it read: of a skill that was changed meanwhile nobody else may. */
async function readAgain(
  { callerTools, extensions, keptReadable }: RunScope,
  { toolResults, records }: Progress,
): Promise<void> {
  const pending = [...records.values()].flatMap(({ result }) => result ?? []);
  const own = [...toolResults, ...pending].filter(
    ({ name }) => !callerTools.some((tool) => tool.name === name),
  );
  for (const extension of extensions)
    for (const folder of (await extension.readableByResults?.(own)) ?? []) keptReadable.add(folder);
}

/** A model call and what it asks for, until it asks for nothing more or a limit is met. */
async function takeSteps(scope: RunScope, log: EventLog, progress: Progress): Promise<StopReason> {
  if (scope.summary) return await sumUp(scope, log, progress);
  for (;;) {
    if (scope.signal.aborted) return 'interrupted';
    if (progress.pending.length > 0) {
      const { stopReason } = progress;
      const isRefused = stopReason === 'refusal';
      // A client must not take for a whole call what the end of the answer has cut off.
      if (await carryOut(scope, log, progress))
        return isRefused || stopReason === 'max_tokens' ? stopReason : 'tool_use';
      if (isRefused) return stopReason;
    } else if (progress.stopReason !== null) return progress.stopReason;
    else {
      const limit = await beforeStep(scope, log, progress);
      if (limit) return limit;
      if (scope.signal.aborted) return 'interrupted';
      await takeStep(scope, log, progress);
    }
  }
}

/** Carries out the calls of our own tools; whether there are others, which the caller has to carry out. */
async function carryOut(scope: RunScope, log: EventLog, progress: Progress): Promise<boolean> {
  const callers = new Set(scope.callerTools.map(({ name }) => name));
  const own = progress.pending.filter(({ name }) => !callers.has(name));
  const areOthers = own.length < progress.pending.length;
  progress.pending = own;
  if (own.length > 0) await callTools(scope, log, progress);
  return areOthers;
}

/**
 * The process that died may have stored the summary already. Where nothing was said behind the newest one, that is the
 * answer: a model that is asked to sum up nothing invents something. Throws Problem `session_empty`.
 */
async function sumUp(scope: RunScope, log: EventLog, progress: Progress): Promise<StopReason> {
  const { sessionId, runId, summary: asked } = scope;
  const wishes = asked?.wishes ?? null;
  const stored = await scope.transcript.readMessages(sessionId, runId);
  const newest = stored.findLast(({ summary }) => summary);
  const isAllOfIt = wishes === null && progress.conversation.every(isSummary);
  if (newest && (newest.run_id === runId || isAllOfIt))
    [progress.messageId, progress.answer] = [newest.id, newest.parts];
  else if (progress.conversation.length === 0)
    throw new Problem('session_empty', 'Nothing was said in the session that a model may be shown.');
  else await summarize(scope, log, progress, wishes);
  return 'end_turn';
}

function hasBegun(start: RunStart): boolean {
  return 'taken' in start ? start.taken.status !== 'queued' : start.begun;
}

async function stopRun(scope: RunScope, log: EventLog, progress: Progress, begun = true): Promise<void> {
  const reason = reasonOf(scope.signal);
  // Whoever has the run now goes on with it: nothing of it is to be written here.
  if (reason === 'lease_lost') throw leaseLost(scope.runId);
  await (begun ? interruptRun : withdrawRun)(scope, log, progress, reason);
}

/** As the store says it that has heard of it before this process. */
function reasonStopped(error: unknown): InterruptReason | null {
  if (!(error instanceof Error) || error.name !== 'RunStopped') return null;
  return (error as Error & { readonly reason?: InterruptReason }).reason ?? 'requested'; // as the port has it
}

function reasonOf(signal: AbortSignal): InterruptReason {
  // The runtime aborts with the reason as it stands in the contract.
  return (signal.reason as { readonly reason?: InterruptReason } | undefined)?.reason ?? 'requested';
}

function leaseLost(runId: string): Error {
  return Object.assign(new Error(`The run ${runId} is no longer this process's.`), { name: 'LeaseLost' });
}
