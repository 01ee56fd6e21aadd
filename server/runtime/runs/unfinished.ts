/** Stores what was streamed of an answer that the model is then asked for anew. */
import type { EventLog } from '../events/event-log.ts';
import type { RunEvent } from '../transcript.ts';
import { unfinishedAnswer } from './draft.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { spend } from './spending.ts';

/**
 * Nobody may have seen text that is nowhere, and it is paid for; the new answer is another message. `model` is the one
 * that was asked, `told` what people are told of it.
 */
export async function keepUnfinished(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  model: RunScope['model'],
  told: readonly RunEvent[],
): Promise<void> {
  const { draft } = progress;
  progress.draft = null;
  const { messages, ...spending } = await unfinishedAnswer(draft, model, 'interrupted');
  if (messages.length === 0 && spending.usage.input_tokens + spending.usage.output_tokens === 0) {
    for (const event of told) await log.push(event);
    return;
  }
  await log.commit(told, (events) =>
    scope.transcript.commitStep({
      runId: scope.runId,
      sessionId: scope.sessionId,
      messages,
      ...spending,
      steps: 0,
      events,
    }),
  );
  spend(progress, spending);
}
