/** The tool calls of one answer: carried out, and their results stored together, in the order in which they were asked for. */
import type { ToolResult, ToolUse } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { interruptedResult } from './conversation.ts';
import type { EventLog } from './event-log.ts';
import { noUsage } from './model.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { callTool } from './tool-call.ts';

export async function callTools(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  calls: readonly ToolUse[],
): Promise<void> {
  const results: ToolResult[] = [];
  for (const call of calls) {
    const result = scope.signal.aborted
      ? interruptedResult(call.id, call.name)
      : await callTool(scope, log, progress.memory, call);
    results.push(result);
  }
  const id = newId('message');
  await log.commit([], (events) =>
    scope.transcript.commitStep({
      runId: scope.runId,
      sessionId: scope.sessionId,
      messages: [{ id, role: 'tool', parts: results, model: null, stop_reason: null, usage: null }],
      usage: noUsage,
      steps: 0,
      events,
    }),
  );
  progress.messageId = id;
  progress.toolResults.push(...results);
  progress.conversation.push({ role: 'tool', parts: results });
}
