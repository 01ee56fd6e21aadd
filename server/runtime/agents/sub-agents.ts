/** Has another agent do an errand for a run: starts it once, bridges what it asks people, and brings back its answer. */
import type { InterruptReason, MessagePart, RuntimeEvent, StopReason, Usage } from '../../contract/api.ts';
import { newId } from '../../ids.ts';
import { Problem } from '../../problem.ts';
import type { EventLog } from '../events/event-log.ts';
import { followEvents } from '../events/event-stream.ts';
import type { GivenPassages } from '../given-passages.ts';
import type { Query } from '../query.ts';
import { statusWith } from '../runs/open-questions.ts';
import type { RunScope } from '../runs/run-scope.ts';
import { isStoreAway } from '../runs/store-failure.ts';
import { failure, success } from '../tools/define-tool.ts';
import type { ToolOutput } from '../tools/tool.ts';
import type { NumberedEvent, StartedAgent } from '../transcript.ts';

/** What an agent is asked to do. */
export interface Errand {
  /** In a few words, for people. */
  readonly description: string;
  readonly prompt: string;
  readonly agentSlug: string;
}

/** Which call of a run it is. */
export interface AgentCall {
  readonly toolCallId: string;
  /** Unlike the id of the call, which a provider may give again, the only one of the run. */
  readonly key: string;
  /** Output for people. */
  readonly progress: (text: string) => void;
}

/** How it went. */
interface Ending {
  readonly status: 'completed' | 'failed' | 'interrupted';
  readonly output: ToolOutput;
}

interface Outcome extends Ending {
  readonly usage: Usage;
  readonly cost: number | null;
}

/** An agent that is to stop gets this long; its parent's end has the last word. */
const stopWithinMs = 5000;
/** As much of an answer as a model is given. */
const answerLimit = 50_000;

export async function runSubAgent(
  scope: RunScope,
  log: EventLog,
  call: AgentCall,
  errand: Errand,
): Promise<ToolOutput> {
  try {
    const known = await scope.transcript.findAgent(scope.runId, call.key);
    const agent = known ?? (await startAgent(scope, call, errand));
    return await toEnd(scope, log, call, errand, agent, known !== null);
  } catch (error) {
    // What the errand names is not there, or there is no room: the model can do something else.
    if (error instanceof Problem && !isStoreAway(error) && !scope.signal.aborted)
      return failure(error.message);
    throw error;
  }
}

async function toEnd(
  scope: RunScope,
  log: EventLog,
  call: AgentCall,
  { description }: Errand,
  agent: StartedAgent,
  wasKnown: boolean,
): Promise<ToolOutput> {
  const { told, tools } = wasKnown ? await toldOf(scope, call, agent) : { told: new Set<string>(), tools: 0 };
  if (!told.has('agent_started'))
    await tell(log, { type: 'agent_started', ...namesOf(call, agent), description });
  const outcome = await follow(scope, log, without(call, tools), agent, told);
  const { status, usage, cost, output } = outcome;
  if (!told.has('agent_finished'))
    await tell(log, { type: 'agent_finished', ...namesOf(call, agent), status, usage, cost });
  return output;
}

/** The agent is followed from its first event: of its tools, so many have been told of. */
function without(call: AgentCall, tools: number): AgentCall {
  let left = tools;
  return {
    ...call,
    progress(text) {
      if (left > 0) left -= 1;
      else call.progress(text);
    },
  };
}

async function startAgent(scope: RunScope, call: AgentCall, errand: Errand): Promise<StartedAgent> {
  const { agents } = scope;
  return agents.inTurn(async () => {
    const limit = await agents.limit();
    if ((await scope.transcript.countAgents(agents.rootRunId)) >= limit)
      throw new Problem('invalid_request', `A run may start ${limit} agents at most; do the rest yourself.`);
    await agents.start(await queryOf(scope, call, errand));
    const started = await scope.transcript.findAgent(scope.runId, call.key);
    if (!started) throw new Error('The agent was started and is not there.');
    return started;
  });
}

async function queryOf(scope: RunScope, call: AgentCall, errand: Errand): Promise<Query> {
  const { agents } = scope;
  const { providerSettingId } = agents;
  return {
    session: {
      id: newId('session'),
      workspaceId: agents.workspaceId,
      agentSlug: errand.agentSlug,
      model: null,
      systemPrompt: scope.systemPrompt,
      permissionRules: await scope.rules(),
    },
    userId: agents.userId,
    trigger: 'agent',
    messages: [{ role: 'user', parts: [{ type: 'text', text: errand.prompt }] }],
    agentSlug: errand.agentSlug,
    model: (await agents.modelOf(errand.agentSlug)) ?? scope.model.name,
    permissionMode: scope.permissionMode,
    onUnanswered: scope.onUnanswered,
    ...((agents.asked || agents.key || agents.job || providerSettingId || scope.corpus) && {
      request: {
        ...{ limits: agents.asked, summary: null, key: agents.key ?? null, providerSettingId },
        ...(agents.job && { job: agents.job }),
        ...(scope.corpus && { corpus: inherited(scope.corpus) }),
      },
    }),
    agent: {
      parentSessionId: scope.sessionId,
      parentRunId: scope.runId,
      call: call.key,
      rootRunId: agents.rootRunId,
      depth: agents.depth + 1,
      toolLimits: agents.toolLimits,
      title: errand.description,
    },
  };
}

/** What the person has given is there for errands, too; the passages fit the prompt of the person. */
function inherited({ corpusId }: GivenPassages): GivenPassages {
  return { corpusId, isInherited: true, passages: [], notice: null };
}

/** To the agent's end, or to the end of this run, which is its end too. */
async function follow(
  scope: RunScope,
  log: EventLog,
  call: AgentCall,
  agent: StartedAgent,
  told: ReadonlySet<string>,
): Promise<Outcome> {
  const asked = new Map<string, Question>();
  const watch = async (signal: AbortSignal, live: boolean): Promise<Ending | null> => {
    const options = { after: 0, follow: true, signal };
    for await (const event of followEvents(agent.runId, options, scope.transcript, scope.hub)) {
      if (live && event.name === 'runtime') await bridge(scope, log, call, event.data, told, asked);
      const ending = await endingOf(scope, agent, event);
      if (ending) return ending;
    }
    return null;
  };
  const ending = (await watch(scope.signal, true)) ?? (await stop(scope, agent, watch));
  if (!scope.signal.aborted) await settle(scope, log, asked, told);
  // Of what has broken off no event of a step tells.
  return { ...ending, ...(await scope.transcript.readUsed(agent.runId)) };
}

async function stop(
  scope: RunScope,
  agent: StartedAgent,
  watch: (signal: AbortSignal, live: boolean) => Promise<Ending | null>,
): Promise<Ending> {
  const reason = reasonOf(scope.signal);
  // Whoever goes on with this run finds the agent as it is by then.
  if (reason === 'lease_lost') throw scope.signal.reason;
  await scope.transcript.stopRun(agent.runId, reason);
  scope.agents.wake(agent.runId);
  const stopped = await watch(AbortSignal.timeout(stopWithinMs), false);
  return stopped ?? { status: 'interrupted', output: failure('Interrupted.') };
}

/** What a person has to see in the stream of the run that they follow. */
const settlements = [
  'permission_resolved',
  'permission_expired',
  'prompt_resolved',
  'prompt_expired',
] as const;
type Question = Extract<RuntimeEvent, { type: 'permission_requested' | 'prompt_requested' }>;
const bridged: ReadonlySet<RuntimeEvent['type']> = new Set([
  'permission_requested',
  'prompt_requested',
  ...settlements,
]);

async function bridge(
  scope: RunScope,
  log: EventLog,
  call: AgentCall,
  event: RuntimeEvent,
  told: ReadonlySet<string>,
  asked: Map<string, Question>,
): Promise<void> {
  if (event.type === 'tool_started') call.progress(`${event.tool_name}\n`);
  if (!bridged.has(event.type)) return;
  const key = keyOf(event);
  const { open } = scope.agents;
  if ('request' in event) {
    open.set(
      event.request.id,
      event.type === 'permission_requested' ? 'waiting_permission' : 'waiting_prompt',
    );
    asked.set(event.request.id, event);
  }
  // A decision that nobody was asked for is nothing to the person.
  else if (!('request_id' in event) || event.request_id === null) return;
  else {
    open.delete(event.request_id);
    asked.delete(event.request_id);
  }
  if (told.has(key) && !('request' in event && isStillOpen(event.request.id, told))) return;
  await tellWithStatus(scope, log, told.has(key) ? [] : [event]);
}

/** Several agents may wait at once, and the run itself: it goes on when nobody is asked any more. */
async function tellWithStatus(scope: RunScope, log: EventLog, told: readonly RuntimeEvent[]): Promise<void> {
  const status = statusWith(scope.agents.open);
  await log.commit(
    told.map((data) => ({ name: 'runtime' as const, data })),
    (events) => scope.transcript.changeStatus(scope, status, events),
  );
}

/** What an agent that was stopped has asked went with it, without a word. */
async function settle(
  scope: RunScope,
  log: EventLog,
  asked: ReadonlyMap<string, Question>,
  told: ReadonlySet<string>,
): Promise<void> {
  if (asked.size === 0) return;
  for (const id of asked.keys()) scope.agents.open.delete(id);
  const left = [...asked.values()].filter(({ request }) => isStillOpen(request.id, told));
  await tellWithStatus(scope, log, left.map(expired));
}

function expired({ type, request: { id, tool_call_id } }: Question): RuntimeEvent {
  const about = { request_id: id, tool_call_id };
  return type === 'permission_requested'
    ? { type: 'permission_expired', ...about }
    : { type: 'prompt_expired', ...about };
}

/** Of what was told before the process died: a run that is resumed waits for it anew. */
function isStillOpen(requestId: string, told: ReadonlySet<string>): boolean {
  return !settlements.some((type) => told.has(`${type} ${requestId}`));
}

function keyOf(event: RuntimeEvent): string {
  if ('request' in event) return `${event.type} ${event.request.id}`;
  return 'request_id' in event ? `${event.type} ${event.request_id}` : event.type;
}

/** What this run has told of the agent before its process died, and of how many of its tools. */
async function toldOf(
  scope: RunScope,
  { toolCallId }: AgentCall,
  agent: StartedAgent,
): Promise<{ readonly told: ReadonlySet<string>; readonly tools: number }> {
  const told = new Set<string>();
  let tools = 0;
  for (let after = 0; ; ) {
    const events = await scope.transcript.readEvents(scope.runId, after, 1000);
    for (const { name, data } of events) {
      if (name !== 'runtime') continue;
      // What came before the agent was of an earlier call with the same id.
      if (data.type === 'tool_progress')
        tools += Number(data.tool_call_id === toolCallId && told.has('agent_started'));
      else if (!('run_id' in data && 'tool_call_id' in data)) told.add(keyOf(data));
      else if (data.tool_call_id === toolCallId && data.run_id === agent.runId) told.add(data.type);
    }
    const last = events.at(-1);
    if (!last) return { told, tools };
    after = last.seq;
  }
}

async function endingOf(
  { transcript }: RunScope,
  agent: StartedAgent,
  event: NumberedEvent,
): Promise<Ending | null> {
  if (event.name === 'done') return endedWith(event.data.status, event.data.stop_reason, event.data.content);
  if (event.name !== 'error') return null;
  // The error may stand for events that are no longer kept: how the run went its row tells longer than they do.
  const outcome = await transcript.readOutcome(agent.runId);
  if (outcome === null || outcome === 'deleted') return failedWith(event.data.error);
  const { status, stopReason, error } = outcome;
  if (status === 'failed') return failedWith(error ? `${error.code}: ${error.message}` : event.data.error);
  return endedWith(status, stopReason, await lastAnswer(transcript, agent));
}

function failedWith(error: string): Ending {
  return { status: 'failed', output: failure(`The agent failed: ${error}`) };
}

function endedWith(
  status: 'completed' | 'interrupted',
  stopReason: StopReason,
  content: readonly MessagePart[],
): Ending {
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const said = clip(text);
  if (status === 'interrupted')
    return { status, output: failure(['The agent was interrupted.', said].filter(Boolean).join('\n\n')) };
  if (stopReason !== 'end_turn' && stopReason !== 'stop_sequence')
    return { status, output: success(`[The agent stopped early: ${stopReason}.]\n\n${said}`) };
  return { status, output: success(said || 'The agent is done and said nothing.') };
}

async function lastAnswer(
  transcript: RunScope['transcript'],
  { sessionId, runId }: StartedAgent,
): Promise<readonly MessagePart[]> {
  const messages = await transcript.readMessages(sessionId, runId);
  return messages.findLast(({ run_id, role }) => run_id === runId && role === 'assistant')?.parts ?? [];
}

function clip(text: string): string {
  if (text.length <= answerLimit) return text;
  return `${text.slice(0, answerLimit).toWellFormed()}\n[The rest, ${text.length - answerLimit} characters, is left out.]`;
}

function namesOf({ toolCallId }: AgentCall, { sessionId, runId, agentSlug }: StartedAgent) {
  return { tool_call_id: toolCallId, session_id: sessionId, run_id: runId, agent_slug: agentSlug };
}

async function tell(log: EventLog, data: RuntimeEvent): Promise<void> {
  await log.push({ name: 'runtime', data });
}

function reasonOf(signal: AbortSignal): InterruptReason {
  // The runtime aborts with the reason as it stands in the contract.
  return (signal.reason as { readonly reason?: InterruptReason } | undefined)?.reason ?? 'requested';
}
