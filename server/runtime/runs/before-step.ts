/** What is looked at before the model is called once more: the limits of the run, quotas, whether it turns in circles, its window. */
import type { StopReason } from '../../contract/api.ts';
import type { EventLog } from '../events/event-log.ts';
import { isSummarizingInVain, summarizeWhenFull } from '../prompt/summary.ts';
import { repeatedTool } from './loop-guard.ts';
import type { Progress } from './progress.ts';
import { metLimit } from './run-limits.ts';
import type { RunScope } from './run-scope.ts';
import type { Spending } from './spending.ts';

/** Why the run may not call the model once more, which is then said to the person; null where it may. */
export async function beforeStep(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
): Promise<StopReason | null> {
  await warnOfUnknownCost(scope, log, progress);
  const stop = stopBefore(scope, progress, await spentOf(scope, progress));
  const exceeded = stop?.message ?? (await heedQuotas(scope, log, progress));
  if (exceeded === null) {
    await summarizeWhenFull(scope, log, progress);
    return null;
  }
  await log.push({ name: 'runtime', data: { type: 'notice_given', message: exceeded } });
  return stop?.stopReason ?? 'quota_exceeded';
}

/** Tells of soft limits, each once. Answers with why the run may not go on, or null. */
async function heedQuotas(scope: RunScope, log: EventLog, progress: Progress): Promise<string | null> {
  const { exceeded, warnings } = await scope.transcript.readQuotas(scope.runId);
  for (const { about, message } of warnings) {
    if (progress.told.has(about)) continue;
    progress.told.add(about);
    await log.push({ name: 'runtime', data: { type: 'notice_given', message } });
  }
  return exceeded;
}

function stopBefore(
  { limits }: RunScope,
  progress: Progress,
  spent: Spending,
): { readonly stopReason: StopReason; readonly message: string } | null {
  const tool = repeatedTool(progress.conversation);
  if (tool !== null)
    return {
      stopReason: 'loop_detected',
      message: `The run was ended: the model called ${tool} in the same way, with the same result, again and again.`,
    };
  if (isSummarizingInVain(progress))
    return {
      stopReason: 'loop_detected',
      message:
        'The run was ended: each step fills the window of the model again, however often it is summed up.',
    };
  return metLimit(limits, { steps: progress.steps, ...spent });
}

/** A run and the agents that began with it share what may be spent, so that nobody gets more by starting some. */
async function spentOf(
  { limits, transcript, agents }: RunScope,
  { usage, cost }: Progress,
): Promise<Spending> {
  if (!Number.isFinite(limits.maxTokens) && !Number.isFinite(limits.maxCost)) return { usage, cost };
  return transcript.readSpending(agents.rootRunId);
}

/** Told once, as soon as it is known: a fallback or a tool may be the first whose price nobody knows. */
async function warnOfUnknownCost({ limits }: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const about = 'unknown cost';
  if (progress.cost !== null || !Number.isFinite(limits.maxCost) || progress.told.has(about)) return;
  progress.told.add(about);
  const message =
    `The price of a part of what this run has used is not known, and does not count towards its limit of ` +
    `$${limits.maxCost}. The settings may give a model its price: cost_per_1m_in, cost_per_1m_out.`;
  await log.push({ name: 'runtime', data: { type: 'notice_given', message } });
}
