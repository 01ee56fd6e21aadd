/** The tool calls of one answer: carried out, and their results stored together, in the order in which they were asked for. */
import type { ToolResult } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import type { EventLog } from '../events/event-log.ts';
import { noUsage } from '../models/model.ts';
import { interruptedResult } from '../prompt/conversation.ts';
import type { Progress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { prepareCall, refuseUnreadable } from './tool-call.ts';

/** How many calls that change nothing are at work at once. */
const mostBeside = 8;

export async function callTools(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const results = await resultsOf(scope, log, progress);
  const id = newId('message');
  await log.commit([], (events) =>
    scope.transcript.commitStep({
      runId: scope.runId,
      sessionId: scope.sessionId,
      messages: [{ id, role: 'tool', parts: results, model: null, stop_reason: null, usage: null }],
      usage: noUsage,
      steps: 0,
      seenFiles: scope.files.news(),
      events,
    }),
  );
  progress.messageId = id;
  progress.stopReason = null;
  progress.pending = [];
  // A provider may give the same ids again.
  progress.records = new Map();
  progress.toolResults.push(...results);
  progress.conversation.push({ role: 'tool', parts: results });
}

/**
 * One call is decided after the other, so that people are asked in order. What only reads then runs beside other calls
 * that only read; everything else waits for what was asked for before it, and holds back what comes behind it.
 */
async function resultsOf(scope: RunScope, log: EventLog, progress: Progress): Promise<ToolResult[]> {
  const tools = await scope.tools();
  const readers = new Set(
    tools.filter(({ onlyReads, runsBeside }) => onlyReads || runsBeside).map(({ name }) => name),
  );
  await refuseUnreadable(scope, log, progress);
  const results: Promise<ToolResult>[] = [];
  for (const call of progress.pending) {
    const reads = readers.has(call.name);
    if (!reads || results.length % mostBeside === 0) await Promise.all(results);
    const run = scope.signal.aborted ? null : await prepareCall(scope, log, progress, call, tools);
    const result = run ? run() : Promise.resolve(interruptedResult(call.id, call.name));
    results.push(result);
    if (!reads) await result;
    // Awaited below; until then another call may fail before it.
    else result.catch(() => undefined);
  }
  return Promise.all(results);
}
