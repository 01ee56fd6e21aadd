/** Carries out one tool call of a model: asks the hooks, checks it, has it decided, runs it, and tells what it gave. */
import type { ToolResult, ToolUse } from '../../contract/api.ts';
import { storableText } from '../../storable.ts';
import { inSpan } from '../../tracing.ts';
import { runSubAgent } from '../agents/sub-agents.ts';
import type { EventLog } from '../events/event-log.ts';
import { recordChange } from '../files/file-history.ts';
import { askHooks, type HookVerdict, haltRun } from '../hooks/hooks.ts';
import { hiddenFrom, noteOfChange, permit, unlessDenied } from '../permissions/call-permission.ts';
import { interruptedResult } from '../prompt/conversation.ts';
import { type Tool, type ToolContext, ToolInputError, type ToolOutput } from '../tools/tool.ts';
import { type CallRecord, mayHaveRun } from './call-record.ts';
import { type CallStart, callStart } from './call-start.ts';
import { noteAfterChange, noticeRead } from './file-notices.ts';
import type { Progress } from './progress.ts';
import { askPrompt, tellPermission, withdrawPrompt } from './questions.ts';
import type { RunScope } from './run-scope.ts';
import { spend } from './spending.ts';
import { isStoreAway } from './store-failure.ts';

/** Does the work of a call that was decided. */
export type CallWork = () => Promise<ToolResult>;

/**
 * Decides about a call, and answers with its work. Neither throws for what a model or a tool did wrong: that is a result
 * the model can act on. Rejects when the store does.
 */
export async function prepareCall(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  asked: ToolUse,
  tools: readonly Tool[],
): Promise<CallWork> {
  const record = progress.records.get(asked.id);
  if (record?.result) return async () => record.result ?? interruptedResult(asked.id, asked.name);
  const vain = reasonNotMade(progress, asked);
  if (vain) {
    await callStart(scope, log, asked, record !== undefined).tell();
    return () => finish(log, toResult(asked, vain));
  }
  if (record && mayHaveRun(record) && !mayBeRepeated(tools, asked)) {
    await withdrawPrompts(scope, log, asked, record);
    return () => finish(log, interruptedResult(asked.id, asked.name));
  }
  const verdict = await askHooks(scope, log, asked);
  // From here on only the call as the hooks left it: people must see and allow what runs, not what was asked for.
  const { call } = verdict;
  const start = callStart(scope, log, call, record !== undefined);
  if (verdict.halt) await haltRun(scope, log, verdict);
  const work = await workOf(scope, log, progress, verdict, tools, start);
  // Stored before anything happens: whoever finds no such event knows that nothing did.
  await start.tell();
  await withdraw(scope, log, call, record);
  return async () => {
    // Of a call that another process has begun, nobody knows.
    if (scope.signal.aborted && !verdict.halt && !record) return finish(log, toResult(call, notMade));
    const output = withNotes(await traced(scope, call, tools, work), verdict);
    await withdrawPrompts(scope, log, call, record);
    const unclear = scope.signal.aborted && !verdict.halt;
    return finish(log, unclear ? interruptedResult(call.id, call.name) : toResult(call, output));
  };
}

/**
 * Refuses calls whose arguments are no JSON before any other call of their answer: this process alone has heard that, and an
 * earlier call may wait for a person until another one goes on with the run.
 */
export async function refuseUnreadable(scope: RunScope, log: EventLog, progress: Progress): Promise<void> {
  const { pending, records, unreadable: broken } = progress;
  for (const call of pending) {
    const vain = broken?.has(call.id) ? reasonNotMade(progress, call) : null;
    if (!vain || records.has(call.id) || scope.signal.aborted) continue;
    await callStart(scope, log, call, false).tell();
    const result = await finish(log, toResult(call, vain));
    records.set(call.id, { result, permission: null, prompts: [] });
  }
}

/** Null where the call is what the model meant. */
function reasonNotMade(progress: Progress, asked: ToolUse): ToolOutput | null {
  // Whoever filters an answer lets nothing of it count.
  if (progress.stopReason === 'refusal') return refusedAnswer;
  if (!isCutOff(progress, asked)) return null;
  return progress.stopReason === 'max_tokens' ? cutOff : unreadable;
}

/**
 * Whether the answer ended within the arguments of this call: what there is of them is not what the model meant, and is read
 * as none. One whose arguments are complete is carried out, although the answer had to end behind it.
 */
function isCutOff({ stopReason, answer, unreadable: broken }: Progress, { id, input }: ToolUse): boolean {
  // Some servers cut an answer and do not say so.
  if (broken?.has(id)) return true;
  const last = answer.at(-1);
  const isLast = last?.type === 'tool_use' && last.id === id;
  return stopReason === 'max_tokens' && isLast && Object.keys(input).length === 0;
}

const refusedAnswer = refusal('The call was not made: the answer that asked for it was refused.');

const cutOff = refusal(
  'The call was not made: the answer reached its largest size within the arguments. Call again with less at once, ' +
    'for example by writing a long file in parts.',
);

const unreadable = refusal(
  'The call was not made: its arguments are no JSON that can be read. Call again, with all of them.',
);

async function finish(log: EventLog, result: ToolResult): Promise<ToolResult> {
  await log.push({
    name: 'runtime',
    data: {
      type: 'tool_finished',
      tool_call_id: result.tool_use_id,
      tool_name: result.name,
      content: result.content,
      is_error: result.is_error,
    },
  });
  return result;
}

function mayBeRepeated(tools: readonly Tool[], { name }: ToolUse): boolean {
  return tools.find((tool) => tool.name === name)?.idempotent ?? false;
}

async function workOf(
  scope: RunScope,
  log: EventLog,
  progress: Progress,
  verdict: HookVerdict,
  tools: readonly Tool[],
  start: CallStart,
): Promise<() => Promise<ToolOutput>> {
  const { call, reason } = verdict;
  const refused = (content: string) => async () => refusal(content);
  if (verdict.halt) return refused(`A hook stopped the run before this call. ${reason}`.trim());
  if (scope.signal.aborted) return refused('Interrupted.');
  if (verdict.decision === 'deny')
    return refused(`Permission denied. A hook denied it: ${reason || 'it gave no reason.'}`);
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool)
    return refused(`There is no tool ${call.name}; there are: ${tools.map(({ name }) => name).join(', ')}.`);
  const prepare = ({ input }: ToolUse) =>
    attempt(scope, call, () => tool.prepare(input, toolContext(scope, log, progress, call)));
  const prepared = await prepare(call);
  if ('content' in prepared) {
    const objection = await unlessDenied(scope, call, prepared);
    return async () => objection;
  }
  const hookAllows = verdict.decision === 'allow';
  const record = progress.records.get(call.id);
  // Outside of any attempt: what the store refuses is no fault of the tool, and ends the run.
  const permitted = await permit(scope, log, { call, prepared, hookAllows, record, start, prepare });
  const { prepared: work } = permitted;
  return async () => {
    const output = 'content' in work ? work : await attempt(scope, call, () => work.run());
    return noted(output, [noteOfChange(permitted)]);
  };
}

/** From here on, when nobody has to be asked any more. A name that no tool has is whatever the model wrote. */
async function traced(
  { tracing, runId }: RunScope,
  call: ToolUse,
  tools: readonly Tool[],
  work: () => Promise<ToolOutput>,
): Promise<ToolOutput> {
  const name = tools.some((tool) => tool.name === call.name) ? call.name : '_OTHER';
  const attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': name,
    'gen_ai.tool.call.id': call.id,
    'run.id': runId,
  };
  return inSpan(tracing, `execute_tool ${name}`, { attributes }, async (span) => {
    const output = await work();
    if (output.is_error) span.fail('tool_error');
    return output;
  });
}

/** A question that a dead process had asked, and that nobody needs to answer any more. */
async function withdraw(
  scope: RunScope,
  log: EventLog,
  call: ToolUse,
  record: CallRecord | undefined,
): Promise<void> {
  const question = record?.permission;
  if (!question || question.told || scope.signal.aborted) return;
  await scope.transcript.expirePermission(question.request.id);
  await tellPermission(scope, log, call, question, null);
}

/** The same of what its tool had asked, and has not asked again. */
async function withdrawPrompts(
  scope: RunScope,
  log: EventLog,
  call: ToolUse,
  record: CallRecord | undefined,
): Promise<void> {
  for (const question of record?.prompts ?? [])
    if (!question.told && !scope.signal.aborted) await withdrawPrompt(scope, log, call.id, question);
}

/** What hooks have to say to the model, marked as theirs. */
function withNotes(output: ToolOutput, { updatedInput, context }: HookVerdict): ToolOutput {
  const changed = Object.keys(updatedInput).join(', ');
  return noted(output, [
    changed && `[A hook changed the input of this call: ${changed}.]`,
    context && `[A hook adds:]\n${context}`,
  ]);
}

function noted(output: ToolOutput, notes: readonly string[]): ToolOutput {
  return { ...output, content: [output.content, ...notes.filter(Boolean)].join('\n\n') };
}

/** Turns what goes wrong in a tool into a result. */
async function attempt<Outcome>(
  scope: RunScope,
  call: ToolUse,
  work: () => Promise<Outcome>,
): Promise<Outcome | ToolOutput> {
  try {
    return await work();
  } catch (error) {
    // Another process works on the run by now: this one must not go on to the next call.
    if (error instanceof Error && error.name === 'LeaseLost') throw error;
    // Whoever goes on with the run finds its questions and its agents as they are by then.
    if (isStoreAway(error)) throw error;
    if (error instanceof ToolInputError) return refusal(error.message);
    if (scope.signal.aborted) return refusal('Interrupted.');
    scope.log.error({ err: error, run_id: scope.runId, tool_name: call.name }, 'a tool failed');
    return refusal(`The tool ${call.name} failed; the fault is the server's, not the input's.`);
  }
}

function readableFolders({ extensions, extensionPlace, keptReadable }: RunScope): readonly string[] {
  const now = extensions.flatMap((extension) => extension.readableFolders?.(extensionPlace()) ?? []);
  return [...new Set([...now, ...keptReadable])];
}

/** By itself: a tool may keep it, and would keep all of the run with it. */
function progressOf(log: EventLog, { id, name }: ToolUse): (text: string) => void {
  return (text) => {
    const data = {
      type: 'tool_progress',
      tool_call_id: id,
      tool_name: name,
      text: storableText(text),
    } as const;
    // What cannot be stored now fails the run at its next commit; a command's output must not end the process.
    log.push({ name: 'runtime', data }).catch(() => undefined);
  };
}

function toolContext(scope: RunScope, log: EventLog, gathered: Progress, call: ToolUse): ToolContext {
  const { memory, records, steps } = gathered;
  const prompts = [...(records.get(call.id)?.prompts ?? [])];
  const progress = progressOf(log, call);
  return {
    workspacePath: scope.workspacePath,
    sessionId: scope.sessionId,
    runId: scope.runId,
    toolCallId: call.id,
    readableFolders: readableFolders(scope),
    keepReadable: (folder) => void scope.keptReadable.add(folder),
    hidden: () => hiddenFrom(scope, call.name),
    signal: scope.signal,
    files: scope.files,
    progress,
    recordChange: (change) => recordChange(scope, call.id, change),
    noticeRead: (path) => noticeRead(scope, path),
    noteAfterChange: (path) => noteAfterChange(scope, path),
    spent: async (spending) => {
      await scope.transcript.addUsage(scope, spending, 'run');
      spend(gathered, spending);
    },
    ask: (questions, withdrawn) =>
      askPrompt(scope, log, call.id, { questions, withdrawn, stored: prompts.shift() ?? null }),
    agents: {
      run: (errand) =>
        runSubAgent(scope, log, { toolCallId: call.id, key: `${steps} ${call.id}`, progress }, errand),
    },
    plans: {
      write: async (written) => {
        const plan = await scope.transcript.writePlan(scope, written);
        await log.push({ name: 'runtime', data: { type: 'plan_updated', tool_call_id: call.id, plan } });
        return plan;
      },
      mark: async (step, status) => {
        const plan = await scope.transcript.markStep(scope.runId, step, status);
        if (plan)
          await log.push({ name: 'runtime', data: { type: 'plan_updated', tool_call_id: call.id, plan } });
        return plan;
      },
    },
    ...(scope.memories && { memories: scope.memories }),
    todos: {
      get: () => memory.todos,
      set: async (todos) => {
        memory.todos = todos;
        await log.push({
          name: 'runtime',
          data: { type: 'todos_updated', todos: todos.map((todo) => ({ ...todo })) },
        });
      },
    },
  };
}

const notMade = refusal('The call was not made: the run was interrupted before.');

function refusal(content: string): ToolOutput {
  return { content, is_error: true };
}

function toResult({ id, name }: ToolUse, { content, is_error }: ToolOutput): ToolResult {
  return { type: 'tool_result', tool_use_id: id, name, content: storableText(content), is_error };
}
