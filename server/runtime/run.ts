/** A run at work: step after step, each stored before the next, to an end that comes once. */
import type { StopReason } from '../contract/api.ts';
import { todosOf, toModelMessages } from './conversation.ts';
import type { EventLog } from './event-log.ts';
import { callsOf, newProgress, type Progress } from './progress.ts';
import { endRun, failRun } from './run-end.ts';
import type { RunScope } from './run-scope.ts';
import { takeStep } from './step.ts';
import { callTools } from './tool-calls.ts';

/** Carries the run to its end. Rejects only when the store does, or when another process has taken the run over. */
export async function executeRun(scope: RunScope, log: EventLog, promptMessageId: string): Promise<void> {
  const progress = newProgress(promptMessageId);
  try {
    if (scope.signal.aborted) return await endRun(scope, log, progress, 'interrupted');
    await begin(scope, log, progress);
    const stopReason = await takeSteps(scope, log, progress);
    await endRun(scope, log, progress, scope.signal.aborted ? 'interrupted' : stopReason);
  } catch (error) {
    if (error instanceof Error && error.name === 'LeaseLost') throw error;
    if (scope.signal.aborted) await endRun(scope, log, progress, 'interrupted');
    else await failRun(scope, log, progress, error);
  }
}

async function begin(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
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
  const stored = await scope.transcript.readMessages(scope.sessionId, scope.runId);
  progress.memory.todos = todosOf(stored);
  progress.conversation = toModelMessages(stored);
}

/** A model call and what it asks for, until it asks for nothing more or a limit is met. */
async function takeSteps(scope: RunScope, log: EventLog, progress: Progress): Promise<StopReason> {
  for (;;) {
    if (scope.signal.aborted) return 'interrupted';
    const limit = beforeStep(scope, progress);
    if (limit) return limit;
    const stopReason = await takeStep(scope, log, progress);
    if (scope.signal.aborted) return 'interrupted';
    const calls = callsOf(progress.answer);
    if (calls.length === 0) return stopReason;
    await callTools(scope, log, progress, calls);
  }
}

/** Why the run may not call the model once more; null where it may. */
function beforeStep({ stepLimit }: RunScope, { steps }: Progress): StopReason | null {
  return steps < stepLimit ? null : 'step_limit';
}
