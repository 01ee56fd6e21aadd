/** One step of a run: the model is called, its answer is streamed, and stored before anything else happens. */
import { addCosts } from './cost.ts';
import { assistantMessage, type Draft, newDraft, writeDraft } from './draft.ts';
import type { EventLog } from './event-log.ts';
import { tellFailures } from './extension-notices.ts';
import { noUsage } from './model.ts';
import { addUsage, callsOf, type Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';

/** Leaves the unfinished answer in `progress.draft` where the run was stopped, or the model failed. */
export async function takeStep(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const tools = await scope.tools();
  await tellFailures(scope, log, progress.told);
  const draft = newDraft();
  progress.draft = draft;
  await writeDraft(scope, log, progress.conversation, tools, draft);
  if (scope.signal.aborted) return;
  await commitAnswer(scope, log, progress, draft);
  progress.draft = null;
}

async function commitAnswer(scope: RunScope, log: EventLog, progress: Progress, draft: Draft): Promise<void> {
  const { stopReason, usage } = draft.finish ?? { stopReason: 'end_turn' as const, usage: noUsage };
  const step = progress.steps + 1;
  const finished = {
    type: 'step_finished',
    step,
    message_id: draft.messageId,
    stop_reason: stopReason,
    usage,
    cost: null,
  } as const;
  await log.commit([{ name: 'runtime', data: finished }], (events) =>
    scope.transcript.commitStep({
      runId: scope.runId,
      sessionId: scope.sessionId,
      messages: [assistantMessage(scope, draft, stopReason)],
      usage,
      cost: null,
      steps: 1,
      events,
    }),
  );
  progress.steps = step;
  progress.messageId = draft.messageId;
  progress.answer = draft.parts;
  progress.usage = addUsage(progress.usage, usage);
  progress.cost = addCosts(progress.cost, null);
  progress.stopReason = stopReason;
  progress.pending = callsOf(draft.parts);
  progress.toolUses.push(...progress.pending);
  progress.conversation.push({ role: 'assistant', parts: draft.parts });
}
