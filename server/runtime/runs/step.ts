/** One step of a run: the model is called, its answer is streamed, and stored before anything else happens. */
import { inSpan } from '../../tracing.ts';
import type { EventLog } from '../events/event-log.ts';
import { tellFailures } from '../extension-notices.ts';
import { tokensOf } from '../prompt/context-use.ts';
import { shownParts } from '../prompt/conversation.ts';
import { summarizeAfterRefusal } from '../prompt/summary.ts';
import { writeAnswer } from './answer.ts';
import { assistantMessage, countOf, type Draft } from './draft.ts';
import { callsOf, type Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { spend, spendingOf, usageUpdated } from './spending.ts';

/** Leaves the unfinished answer in `progress.draft` where the run was stopped, or the model failed. */
export async function takeStep(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const attributes = { 'run.id': scope.runId, 'run.step': progress.steps + 1 };
  await inSpan(scope.tracing, 'step', { attributes }, () =>
    scope.preparing(() => carryOut(scope, log, progress)),
  );
}

async function carryOut(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const tools = await scope.tools();
  await tellFailures(scope, log, progress.told);
  const ask = () => writeAnswer(scope, log, progress, tools);
  const draft = await ask().catch(async (error: unknown) => {
    await summarizeAfterRefusal(scope, log, progress, error);
    return ask();
  });
  if (scope.signal.aborted) return;
  await commitAnswer(scope, log, progress, draft);
  progress.draft = null;
}

async function commitAnswer(scope: RunScope, log: EventLog, progress: Progress, draft: Draft): Promise<void> {
  const stopReason = draft.finish?.stopReason ?? 'end_turn';
  const step = progress.steps + 1;
  const facts = await scope.model.facts();
  const spending = spendingOf(facts, countOf(draft));
  const { usage, cost } = spending;
  const counted = usage.input_tokens + usage.output_tokens;
  const answer = {
    role: 'assistant' as const,
    parts: shownParts(draft.parts),
    model: draft.model,
    ...(counted > 0 && { tokens: counted }),
  };
  const context = { used: tokensOf([...progress.conversation, answer]), window: facts.contextWindow };
  const finished = {
    type: 'step_finished',
    step,
    message_id: draft.messageId,
    stop_reason: stopReason,
    usage,
    cost,
  } as const;
  const told = [finished, usageUpdated(progress, spending, context)];
  await log.commit(
    told.map((data) => ({ name: 'runtime' as const, data })),
    (events) =>
      scope.transcript.commitStep({
        runId: scope.runId,
        sessionId: scope.sessionId,
        messages: [assistantMessage(draft, stopReason, spending)],
        ...spending,
        context,
        steps: 1,
        events,
      }),
  );
  progress.steps = step;
  progress.messageId = draft.messageId;
  progress.answer = draft.parts;
  progress.unreadable = draft.unreadable;
  spend(progress, spending);
  progress.stopReason = stopReason;
  progress.pending = callsOf(draft.parts);
  progress.toolUses.push(...progress.pending);
  progress.conversation.push(answer);
}
