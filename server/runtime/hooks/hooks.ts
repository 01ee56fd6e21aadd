/** The hooks of the settings: asked about every tool call before anything else decides about it. */
import type { RuntimeEvent, ToolUse } from '../../contract/api.ts';
import type { EventLog } from '../events/event-log.ts';
import type { RunScope } from '../runs/run-scope.ts';
import { type HookEnd, runHook } from './hooks-command.ts';
import { hooksFor, type MetHook } from './hooks-matching.ts';
import { clip, compose, noOpinion, type Opinion } from './hooks-opinion.ts';

export { checkHooks } from './hooks-matching.ts';

/** What the hooks together say about a call. */
export interface HookVerdict extends Opinion {
  /** The call with the input that it is to run with. */
  readonly call: ToolUse;
}

interface AskedHook extends MetHook {
  readonly end: HookEnd;
}

/** Asks all hooks that the call meets at once, and tells people what they should know of the answers. */
export async function askHooks(scope: RunScope, log: EventLog, call: ToolUse): Promise<HookVerdict> {
  const met = hooksFor(await scope.settings(), call.name);
  const asked = await Promise.all(met.map((one) => ask(scope, one, call)));
  // What a hook would have said does not count any more.
  if (scope.signal.aborted) return { ...noOpinion, call };
  for (const one of asked) await tell(scope, log, call, one);
  const opinion = compose(asked.map(opinionOf));
  const changed = Object.keys(opinion.updatedInput);
  await announce(log, call, opinion, changed);
  if (changed.length > 0)
    await notice(log, `A hook changed the input of the tool ${call.name}: ${changed.join(', ')}.`);
  return { ...opinion, call: { ...call, input: { ...call.input, ...opinion.updatedInput } } };
}

/** Only where they had something to say: silence is the rule. */
async function announce(
  log: EventLog,
  call: ToolUse,
  opinion: Opinion,
  changed: readonly string[],
): Promise<void> {
  const { decision, halt, reason, context } = opinion;
  if (decision === null && !halt && changed.length === 0 && !context) return;
  const told = halt ? 'halt' : decision === 'ask' || decision === null ? 'none' : decision;
  const data = {
    type: 'hook_decided' as const,
    tool_call_id: call.id,
    tool_name: call.name,
    decision: told,
    reason,
    changed_keys: [...changed],
  } satisfies RuntimeEvent;
  await log.push({ name: 'runtime', data });
}

/** Stops the run, and tells people why. Stored first: whoever takes the run over after a crash must not go on with it. */
export async function haltRun(scope: RunScope, log: EventLog, { reason }: Opinion): Promise<void> {
  await scope.transcript.stopRun(scope.runId, 'hook');
  await notice(log, `A hook stopped the run${reason ? `: ${reason}` : '.'}`);
  scope.interrupt('hook');
}

async function ask(scope: RunScope, met: MetHook, call: ToolUse): Promise<AskedHook> {
  const end: HookEnd =
    met.broken === null
      ? await runHook(scope, met.hook, call)
      : { kind: 'failed', why: `its matcher ${met.broken}`, said: '' };
  return { ...met, end };
}

/** A hook that could not do its work denies, unless the settings say otherwise: a guard that fails must not open the door. */
function opinionOf({ end, hook, name }: AskedHook): Opinion {
  if (end.kind === 'opinion') return end.opinion;
  if (end.kind === 'unclear' || hook.on_error === 'allow') return noOpinion;
  return { ...noOpinion, decision: 'deny', reason: `The hook ${name} failed: ${end.why}.` };
}

async function tell(scope: RunScope, log: EventLog, call: ToolUse, asked: AskedHook): Promise<void> {
  const { end, name } = asked;
  // Never the input: it may hold anything, and the log is read by others than the person.
  const { decision, halt } = opinionOf(asked);
  scope.log.debug(
    { run_id: scope.runId, tool_name: call.name, hook: name, end: end.kind, decision, halt },
    'a hook was asked',
  );
  if (end.kind === 'opinion') return;
  const outcome = decision === 'deny' ? 'The call is denied.' : 'The call goes on as if there were no hook.';
  await notice(log, `The hook ${named(scope, asked)} gave no answer: ${end.why}. ${outcome}`);
}

/** Where many people share the runtime, the operator's commands and what they print are not for all to see. */
function named(scope: RunScope, { name, hook, end }: AskedHook): string {
  if (scope.hookSandbox()) return name;
  const said = end.kind === 'opinion' || !end.said ? '' : `, which said ${quoted(end.said)},`;
  return `${name} (${quoted(hook.command)})${said}`;
}

function quoted(text: string): string {
  return JSON.stringify(clip(text, 200));
}

async function notice(log: EventLog, message: string): Promise<void> {
  await log.push({ name: 'runtime', data: { type: 'notice_given', message: clip(message, 5000) } });
}
