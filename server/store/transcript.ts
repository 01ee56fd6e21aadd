/** What the runtime stores of its runs: each call is one transaction, refused to a process that has lost the run. */
import type { Knex } from 'knex';
import type {
  ContextUse,
  InterruptReason,
  Message,
  PermissionMode,
  PermissionRequest,
  Plan,
  PromptRequest,
  RunError,
  RunStatus,
  SessionStatus,
  StopReason,
  Usage,
} from '../contract/api.ts';
import { Problem } from '../problem.ts';
import {
  countAgents,
  findStartedAgent,
  insertAgentSession,
  type NewAgentSession,
  personsRun,
  readSpending,
  requestStop,
  type StartedAgent,
  stopAgentsOf,
} from './agent-sessions.ts';
import { addCost, noCost } from './costs.ts';
import { insertChange, type NewFileChange, packChange } from './file-changes.ts';
import { type Grant, readGrants } from './grants.ts';
import { leases, type RenewedLease, type RunRequest, type SeenLease, type TakenRun } from './leases.ts';
import { excludeMessages, insertMessages, type NewMessage, readMessages } from './messages.ts';

import type { StoreParts } from './parts.ts';
import {
  addGrants,
  cancelPermissions,
  expirePermission,
  insertPermission,
  readPermission,
} from './permissions.ts';
import { type Approval, approvePlan, endPlan, readPlan, type WrittenPlan, writePlan } from './plans.ts';
import { cancelPrompts, expirePrompt, insertPrompt, readPrompt } from './prompts.ts';
import { notFound } from './reach.ts';
import { insertEvents, type NumberedEvent, readEvents } from './run-events.ts';
import type { RunRow } from './runs.ts';
import { readSeenFiles, rememberFiles, type SeenFile } from './seen-files.ts';
import { addUsage, type SessionRow, saveSession, toUsage } from './session-rows.ts';
import { type Told, tellWorkspace } from './workspace-events.ts';

interface NewRun {
  readonly id: string;
  readonly sessionId: string;
  readonly userId: string;
  readonly trigger: 'api' | 'messages' | 'agent';
  readonly agentSlug: string;
  readonly model: string;
  readonly permissionMode: PermissionMode;
  readonly onUnanswered: 'wait' | 'deny';
  /** The last one is the prompt; those before it a client has brought along. */
  readonly messages: readonly NewMessage[];
  readonly owner: string;
  readonly queueLimit: number;
  readonly workspacePlace: string | null;
  readonly provisionalTitle: string | null;
  readonly request?: RunRequest | null;
  readonly events: readonly NumberedEvent[];
  readonly approval?: Approval;
  /** Makes the session, which is that of an agent. */
  readonly agent?: NewAgentSession;
}

interface RunOfSession {
  readonly runId: string;
  readonly sessionId: string;
}

interface RunPlace {
  readonly sessionId: string;
  readonly turn: number;
}

interface StepCommit extends RunOfSession {
  readonly messages: readonly NewMessage[];
  readonly usage: Usage;
  /** Dollars; null where the model's price is not known; nothing if absent. */
  readonly cost?: Message['cost'];
  readonly context?: ContextUse;
  readonly steps: 0 | 1;
  readonly seenFiles?: readonly SeenFile[];
  readonly events: readonly NumberedEvent[];
}

interface Resumption extends RunOfSession {
  readonly messages: readonly NewMessage[];
  readonly events: readonly NumberedEvent[];
}

interface RunEnd extends RunOfSession {
  readonly status: 'completed' | 'failed' | 'interrupted';
  readonly stopReason: StopReason;
  readonly interruptReason: InterruptReason | null;
  readonly error: RunError | null;
  readonly messages: readonly NewMessage[];
  /** Of the unfinished step: added, as that of any step. */
  readonly usage: Usage;
  readonly cost?: Message['cost'];
  /** Messages that no model is to be shown again. */
  readonly excluded?: readonly string[];
  readonly events: readonly NumberedEvent[];
}

/**
 * Fits what the runtime asks of a transcript. Writes to a run are for the process that began it or took it over: when
 * another has taken it since, they throw an error named `LeaseLost` and change nothing. This object stands for one
 * process, so each process, and each runtime in a test, opens a store of its own.
 */
export interface Transcript {
  /** Throws `queue_full`. */
  beginRun(run: NewRun): Promise<{ readonly turn: number }>;
  /** With a run named, only what was said up to its end: prompts of later runs may wait in the session already. */
  readMessages(sessionId: string, throughRunId?: string): Promise<Message[]>;
  changeStatus(
    run: RunOfSession,
    status: 'running' | 'waiting_permission' | 'waiting_prompt',
    events: readonly NumberedEvent[],
  ): Promise<void>;
  appendEvents(runId: string, events: readonly NumberedEvent[]): Promise<void>;
  commitStep(step: StepCommit): Promise<void>;
  /** Counts the resumption, and stores what its old process left unfinished. */
  resumeRun(resumption: Resumption): Promise<void>;
  /** Whether a run that was queued earlier in the same session has not ended. */
  hasEarlierRun(place: RunPlace): Promise<boolean>;
  readSeenFiles(sessionId: string): Promise<readonly SeenFile[]>;
  openPermission(request: PermissionRequest, events: readonly NumberedEvent[]): Promise<void>;
  openPrompt(request: PromptRequest, events: readonly NumberedEvent[]): Promise<void>;
  readPermission(
    requestId: string,
  ): Promise<{ readonly request: PermissionRequest; readonly message: string | null }>;
  readPrompt(requestId: string): Promise<PromptRequest>;
  expirePermission(requestId: string): Promise<PermissionRequest>;
  expirePrompt(requestId: string): Promise<PromptRequest>;
  readGrants(sessionId: string): Promise<readonly Grant[]>;
  /** Remembers these patterns for the tool and action of a request, as far as its answer reaches. */
  addGrants(requestId: string, patterns: readonly string[]): Promise<void>;
  recordChange(change: NewFileChange): Promise<void>;
  /** Gives the session another title, unless it has been given one meanwhile. */
  replaceTitle(sessionId: string, present: string, title: string): Promise<void>;
  /** Adds what was used for the session outside of its runs. */
  addUsage(sessionId: string, usage: Usage, cost: Message['cost']): Promise<void>;
  findAgent(parentRunId: string, call: string): Promise<StartedAgent | null>;
  countAgents(rootRunId: string): Promise<number>;
  /** What the run of a person and all agents that began with it have used so far; the cost is of what has a price. */
  readSpending(rootRunId: string): Promise<{ readonly usage: Usage; readonly cost: number }>;
  finishAgent(
    run: RunOfSession,
    used: { readonly usage: Usage; readonly cost: Message['cost'] },
    events: readonly NumberedEvent[],
  ): Promise<void>;
  stopRun(runId: string, reason: InterruptReason): Promise<void>;
  writePlan(run: RunOfSession, plan: WrittenPlan): Promise<Plan>;
  readPlan(sessionId: string): Promise<Plan | null>;
  endRun(end: RunEnd): Promise<void>;
  readEvents(runId: string, after: number, limit: number): Promise<readonly NumberedEvent[]>;
  renewLeases(owner: string, runIds: readonly string[]): Promise<readonly RenewedLease[]>;
  readInterrupt(runId: string): Promise<InterruptReason | null>;
  readLeases(): Promise<readonly SeenLease[]>;
  takeRun(seen: SeenLease, owner: string): Promise<TakenRun | null>;
}

export function transcriptOf({ database, clock }: StoreParts): Transcript {
  const now = (): number => clock.now().getTime();
  const held = leases(database);
  const change = (
    { runId, sessionId }: RunOfSession,
    work: (sql: Knex.Transaction, session: SessionRow, run: RunRow) => Promise<RunChange>,
  ): Promise<void> =>
    database.write(async (sql) => {
      // The session first, as everywhere: two transactions then never wait for each other.
      const session = await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first();
      const run = await held.lock(sql, runId);
      if (session) await applyChange(sql, session, run, await work(sql, session, run), now());
    });
  return {
    beginRun: async (run) => {
      const { turn } = await database.write((sql) => insertRun(sql, run, now()));
      held.hold(run.id, run.owner);
      return { turn };
    },
    readMessages: (sessionId, throughRunId) =>
      database.read((sql) => readMessages(sql, sessionId, throughRunId)),
    changeStatus: (run, status, events) => change(run, async () => ({ status, events })),
    appendEvents: (runId, events) =>
      database.write(async (sql) => {
        const run = await held.lock(sql, runId);
        const last_event_id = await insertEvents(sql, run, events, now());
        await sql<RunRow>('runs').where({ id: runId }).update({ last_event_id });
      }),
    commitStep: (step) =>
      change(step, async (sql) => {
        await rememberFiles(sql, step.sessionId, step.seenFiles ?? []);
        return { ...step, committed: true };
      }),
    resumeRun: (resumption) =>
      change(resumption, async (_sql, _session, { resumptions }) => ({
        ...resumption,
        resumptions: resumptions + 1,
      })),
    hasEarlierRun: (place) => database.read((sql) => hasEarlierRun(sql, place)),
    readSeenFiles: (sessionId) => database.read((sql) => readSeenFiles(sql, sessionId)),
    openPermission: (request, events) =>
      change(ownerOf(request), async (sql, { organization_id }) => {
        await insertPermission(sql, organization_id, request);
        return { status: 'waiting_permission', events };
      }),
    openPrompt: (request, events) =>
      change(ownerOf(request), async (sql, { organization_id }) => {
        await insertPrompt(sql, organization_id, request);
        return { status: 'waiting_prompt', events };
      }),
    readPermission: (requestId) => database.read((sql) => readPermission(sql, requestId)),
    readPrompt: (requestId) => database.read((sql) => readPrompt(sql, requestId)),
    expirePermission: (requestId) => database.write((sql) => expirePermission(sql, requestId, now())),
    expirePrompt: (requestId) => database.write((sql) => expirePrompt(sql, requestId, now())),
    readGrants: (sessionId) => database.read((sql) => readGrants(sql, sessionId)),
    addGrants: (requestId, patterns) => database.write((sql) => addGrants(sql, requestId, patterns, now())),
    recordChange: async (given) => {
      const packed = await packChange(given);
      await change(given, async (sql, session, run) => {
        await insertChange(sql, await personsRun(sql, session, run), given, packed, now());
        return { events: [] };
      });
    },
    replaceTitle: (sessionId, present, title) =>
      database.write(async (sql) => {
        const row = await sql<SessionRow>('sessions')
          .where({ id: sessionId, title: present })
          .forUpdate()
          .first();
        if (row) await saveSession(sql, row, { title }, now());
      }),
    addUsage: (sessionId, usage, cost) =>
      database.write(async (sql) => {
        const row = await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first();
        if (row) await saveSession(sql, row, { ...addUsage(row, usage), ...addCost(row, cost) }, now());
      }),
    findAgent: (parentRunId, call) => database.read((sql) => findStartedAgent(sql, parentRunId, call)),
    countAgents: (rootRunId) => database.read((sql) => countAgents(sql, rootRunId)),
    readSpending: (rootRunId) => database.read((sql) => readSpending(sql, rootRunId)),
    finishAgent: (run, ofAgent, events) => change(run, async () => ({ events, ofAgent })),
    stopRun: (runId, reason) => database.write((sql) => requestStop(sql, runId, reason)),
    writePlan: ({ runId, sessionId }, plan) =>
      database.write(async (sql) => {
        await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first('id');
        return writePlan(sql, await held.lock(sql, runId), plan, now());
      }),
    readPlan: (sessionId) => database.read((sql) => readPlan(sql, sessionId)),
    endRun: async (end) => {
      await change(end, async (sql, _session, run) => {
        await cancelPermissions(sql, end.runId, now());
        await cancelPrompts(sql, end.runId, now());
        await excludeMessages(sql, end.sessionId, end.excluded ?? []);
        await endPlan(sql, end, now());
        await stopAgentsOf(sql, end.runId);
        return { ...end, events: behind(run, end.events), end };
      });
      held.release(end.runId);
    },
    readEvents: (runId, after, limit) => database.read((sql) => readEvents(sql, runId, after, limit)),
    renewLeases: (owner, runIds) => held.renew(owner, runIds),
    readInterrupt: (runId) =>
      database.read(async (sql) => {
        const row = await sql<RunRow>('runs').where({ id: runId }).first('interrupt_requested');
        return row?.interrupt_requested ?? null;
      }),
    readLeases: () => held.list(),
    takeRun: (seen, owner) => held.take(seen, owner),
  };
}

async function hasEarlierRun(sql: Knex, { sessionId, turn }: RunPlace): Promise<boolean> {
  const earlier = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null })
    .where('turn', '<', turn)
    .first('id');
  return earlier !== undefined;
}

/**
 * The last event is always a new one, since a run ends only once. A process that never had the answer to its write before
 * counts from before it; taken for that write's repetition, the end would be told to nobody.
 */
function behind({ last_event_id }: RunRow, events: readonly NumberedEvent[]): NumberedEvent[] {
  return events.map((event, index) => ({ ...event, seq: Math.max(event.seq, last_event_id + 1 + index) }));
}

/** What may happen to a run in one transaction. */
interface RunChange {
  readonly events: readonly NumberedEvent[];
  readonly status?: RunStatus;
  readonly messages?: readonly NewMessage[];
  readonly usage?: Usage;
  readonly cost?: Message['cost'];
  readonly context?: ContextUse;
  /** Counts for the session, and not for the run. */
  readonly ofAgent?: { readonly usage: Usage; readonly cost: Message['cost'] };
  readonly steps?: number;
  /** Whether all that was begun is now stored, up to the last of the events. */
  readonly committed?: boolean;
  readonly resumptions?: number;
  readonly end?: RunEnd;
}

const noUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

async function applyChange(
  sql: Knex.Transaction,
  session: SessionRow,
  run: RunRow,
  change: RunChange,
  now: number,
): Promise<void> {
  const { events, status = run.status, messages = [], usage = noUsage, cost = 0, steps = 0, end } = change;
  const written = messages.map((message) => ({ ...message, run_id: run.id }));
  await insertMessages(sql, { ...run }, written, now);
  const last_event_id = await insertEvents(sql, run, events, now);
  if (end)
    await tellWorkspace(
      sql,
      { sessionId: session.id, workspaceId: session.workspace_id },
      [toldEnd(end)],
      now,
    );
  await sql<RunRow>('runs')
    .where({ id: run.id })
    .update({
      ...addUsage(run, usage),
      ...addCost(run, cost),
      ...(end && endColumns(end, now)),
      status,
      steps: run.steps + steps,
      resumptions: change.resumptions ?? run.resumptions,
      committed_event_id: change.committed ? last_event_id : run.committed_event_id,
      started_at: run.started_at ?? (status === 'running' ? now : null),
      last_event_id,
    });
  await followRun(sql, session, change, now);
}

function toldEnd({ runId, sessionId, status, stopReason, interruptReason, error }: RunEnd): Told {
  const event = {
    type: 'run_ended',
    run_id: runId,
    session_id: sessionId,
    ...{ status, stop_reason: stopReason, interrupt_reason: interruptReason, error },
  } as const;
  return { type: event.type, runId, event };
}

function endColumns({ stopReason, interruptReason, error }: RunEnd, now: number) {
  return {
    stop_reason: stopReason,
    interrupt_reason: interruptReason,
    error: error && JSON.stringify(error),
    ended_at: now,
  };
}

/** The session shows what its runs do and have used; it is only touched where that changes something a caller sees. */
async function followRun(
  sql: Knex.Transaction,
  session: SessionRow,
  { messages = [], usage = noUsage, cost = 0, context, ofAgent = { usage: noUsage, cost: 0 } }: RunChange,
  now: number,
): Promise<void> {
  const { status, message_count, context_used, context_window, summary_message_id } = session;
  const changes = {
    status: await sessionStatus(sql, session.id),
    message_count: message_count + messages.length,
    ...addUsage(session, addUsage(usage, ofAgent.usage)),
    ...addCost({ ...session, ...addCost(session, cost) }, ofAgent.cost),
    context_used: context ? context.used : context_used,
    context_window: context ? context.window : context_window,
    summary_message_id: messages.findLast(({ summary }) => summary)?.id ?? summary_message_id,
  };
  const shown = { status, message_count, ...toUsage(session), ...addCost(session, 0) };
  const before = { ...shown, context_used, context_window, summary_message_id };
  if (JSON.stringify(changes) === JSON.stringify(before)) return;
  await saveSession(sql, session, changes, now);
}

async function sessionStatus(sql: Knex.Transaction, sessionId: string): Promise<SessionStatus> {
  const active = await sql<RunRow>('runs').where({ session_id: sessionId, ended_at: null }).pluck('status');
  if (active.some((status) => status.startsWith('waiting'))) return 'waiting';
  return active.length > 0 ? 'running' : 'idle';
}

async function insertRun(sql: Knex.Transaction, given: NewRun, now: number): Promise<RunRow> {
  if (given.agent) await insertAgentSession(sql, { ...given, id: given.sessionId, agent: given.agent }, now);
  const session = await sql<SessionRow>('sessions').where({ id: given.sessionId }).forUpdate().first();
  if (!session) throw notFound('session');
  await refuseLongQueue(sql, given);
  const run = runRow(session, given, now);
  await sql('runs').insert(run);
  if (given.approval) await approvePlan(sql, run, given.approval, now);
  const prompt = given.messages.at(-1);
  const messages = given.messages.map((message) => ({
    ...message,
    run_id: message === prompt ? run.id : null,
  }));
  await insertMessages(sql, run, messages, now);
  const last_event_id = await insertEvents(sql, run, given.events, now);
  await sql<RunRow>('runs').where({ id: run.id }).update({ last_event_id });
  const changes = {
    turn: run.turn,
    status: await sessionStatus(sql, session.id),
    message_count: session.message_count + messages.length,
  };
  await saveSession(sql, session, changes, now);
  return run;
}

/** Counted under the lock of the session, so that a hundred queries at once do not all find the last place. */
async function refuseLongQueue(sql: Knex.Transaction, { sessionId, queueLimit }: NewRun): Promise<void> {
  const counted = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null })
    .count({ count: '*' })
    .first();
  // One of them is at work; the others wait.
  if (Number(counted?.count ?? 0) <= queueLimit) return;
  throw new Problem(
    'queue_full',
    `${queueLimit} runs wait in this session, as many as may; try again when some have ended, or interrupt them.`,
  );
}

function runRow(session: SessionRow, run: NewRun, now: number): RunRow {
  return {
    id: run.id,
    organization_id: session.organization_id,
    session_id: session.id,
    user_id: run.userId,
    turn: session.turn + 1,
    status: 'queued',
    trigger: run.trigger,
    agent_slug: run.agentSlug,
    model: run.model,
    permission_mode: run.permissionMode,
    on_unanswered: run.onUnanswered,
    steps: 0,
    ...noUsage,
    ...noCost,
    stop_reason: null,
    interrupt_reason: null,
    interrupt_requested: null,
    error: null,
    last_event_id: 0,
    pruned_event_id: 0,
    lease_owner: run.owner,
    lease_renewals: 0,
    committed_event_id: 0,
    resumptions: 0,
    workspace_place: run.workspacePlace,
    provisional_title: run.provisionalTitle,
    request: run.request ? JSON.stringify(run.request) : null,
    created_at: now,
    started_at: null,
    ended_at: null,
  };
}

function ownerOf(request: { readonly run_id: string; readonly session_id: string }): RunOfSession {
  return { runId: request.run_id, sessionId: request.session_id };
}
