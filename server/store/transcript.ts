/** What the runtime stores of its runs: each call is one transaction, refused to a process that has lost the run. */
import type { Knex } from 'knex';
import type {
  ContextUse,
  InterruptReason,
  Message,
  PermissionRequest,
  Plan,
  PlanStepStatus,
  PromptRequest,
  Usage,
} from '../contract/api.ts';
import {
  addUsedAbove,
  countAgents,
  findStartedAgent,
  holdSessionsAbove,
  type NewAgentSession,
  personsRun,
  readSpending,
  readUsed,
  requestStop,
  type StartedAgent,
  stopAgentsOf,
} from './agent-sessions.ts';
import { createAppendQueue } from './append-queue.ts';
import { insertRun, type NewRun } from './begin-run.ts';
import { besideRun } from './beside-run.ts';
import {
  applyChange,
  behind,
  type RunChange,
  type RunEnd,
  type RunOfSession,
  refuseStopped,
  spenderOf,
} from './change-run.ts';
import { addCost } from './costs.ts';
import { insertChange, type NewFileChange, packChange } from './file-changes.ts';
import { type Grant, readGrants } from './grants.ts';
import { endJobRun } from './job-run-ends.ts';
import { commitBeginning, noteRun } from './kept-requests.ts';
import { leases, type RenewedLease, type SeenLease, type TakenRun } from './leases.ts';
import { readFiles } from './message-files.ts';
import {
  excludeBrought,
  excludeMessages,
  type NewMessage,
  readCalls,
  readContent,
  readMessages,
  type SessionContent,
} from './messages.ts';
import { meter, type Spender } from './meter.ts';
import type { SpentByCall } from './metered-calls.ts';
import type { StoreParts } from './parts.ts';
import {
  addGrants,
  cancelPermissions,
  expirePermission,
  insertPermission,
  readPermission,
} from './permissions.ts';
import type { WrittenPlan } from './plan-rows.ts';
import { cancelPrompts, expirePrompt, insertPrompt, readPrompt } from './prompts.ts';
import { type QuotaWarning, quotaStateAtWork, sentenceOf } from './quota-check.ts';
import { type NumberedEvent, readEvents } from './run-events.ts';
import { carriesOutPlan, endPlan, markStep, readPlan, writePlan } from './run-plans.ts';
import type { RunRow } from './runs.ts';
import { readSeenFiles, rememberFiles, type SeenFile } from './seen-files.ts';
import { addUsage, type SessionRow, saveSession } from './session-rows.ts';
import { runsInForce } from './stop-runs.ts';

interface RunPlace {
  readonly sessionId: string;
  readonly runNumber: number;
}

interface StepCommit extends RunOfSession {
  readonly messages: readonly NewMessage[];
  /** The message that they stand before. */
  readonly before?: string;
  readonly usage: Usage;
  /** Dollars; null where the model's price is not known; nothing if absent. */
  readonly cost?: Message['cost'];
  readonly model?: string;
  readonly context?: ContextUse;
  readonly steps: 0 | 1;
  readonly seenFiles?: readonly SeenFile[];
  readonly events: readonly NumberedEvent[];
}

interface Resumption extends RunOfSession {
  readonly messages: readonly NewMessage[];
  readonly usage: Usage;
  readonly cost?: Message['cost'];
  readonly model?: string;
  readonly events: readonly NumberedEvent[];
}

type RunOutcome = Pick<RunEnd, 'status' | 'stopReason' | 'error'>;

/** What quotas have to say to a run at work. */
interface RunQuotas {
  /** Why it may not go on, in a sentence; null where it may. */
  readonly exceeded: string | null;
  readonly warnings: readonly QuotaWarning[];
}

/**
 * Fits what the runtime asks of a transcript. Writes to a run are for the process that began it or took it over: when
 * another has taken it since, they throw an error named `LeaseLost` and change nothing. This object stands for one
 * process, so each process, and each runtime in a test, opens a store of its own.
 */
export interface Transcript {
  /** Throws `queue_full` or `quota_exceeded`; for an agent `LeaseLost` where its starter is no longer at work here. */
  beginRun(run: NewRun): Promise<{
    readonly runNumber: number;
    readonly begun: boolean;
    readonly notices: readonly string[];
  }>;
  /** What quotas have to say to a run at work. */
  readQuotas(runId: string): Promise<RunQuotas>;
  /** What a session holds, and which of its runs is the newest: once another has come, it may hold more. */
  readContent(sessionId: string): Promise<SessionContent>;
  /**
   * What the newest summary stands for is left out. With a run named, only what was said up to its end: prompts of later
   * runs may wait in the session already.
   */
  readMessages(sessionId: string, throughRunId?: string): Promise<Message[]>;
  /** Files in base64 by their SHA-256, the newest mention first; null for what is not shown besides those before it, or gone. */
  readFiles(sessionId: string, sha256s: readonly string[]): Promise<(string | null)[]>;
  /** The newest messages with calls of a tool or what they gave, what was summed up among them. */
  readCalls(
    sessionId: string,
    calls: { readonly tool: string; readonly limit: number },
    throughRunId?: string,
  ): Promise<Message[]>;
  /** Throws an error named `RunStopped`, and changes nothing, where the run was asked to stop before it began. */
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
  /** Adds what was used for the session beside its runs; it counts for whoever asked the run. */
  addUsage(run: RunOfSession, spent: SpentByCall, of?: 'run'): Promise<void>;
  findAgent(parentRunId: string, call: string): Promise<StartedAgent | null>;
  /** What the run of an agent has used so far, with its own agents. */
  readUsed(runId: string): Promise<{ readonly usage: Usage; readonly cost: Message['cost'] }>;
  countAgents(rootRunId: string): Promise<number>;
  /** What the run of a person and all agents that began with it have used so far; the cost is of what has a price. */
  readSpending(rootRunId: string): Promise<{ readonly usage: Usage; readonly cost: number }>;
  stopRun(runId: string, reason: InterruptReason): Promise<void>;
  writePlan(run: RunOfSession, plan: WrittenPlan): Promise<Plan>;
  readPlan(sessionId: string): Promise<Plan | null>;
  carriesOutPlan(runId: string): Promise<boolean>;
  /** Null where the plan that the run carries out has no such step. */
  markStep(runId: string, id: string, status: PlanStepStatus): Promise<Plan | null>;
  endRun(end: RunEnd): Promise<void>;
  readEvents(runId: string, after: number, limit: number): Promise<readonly NumberedEvent[]>;
  renewLeases(owner: string, runIds: readonly string[]): Promise<readonly RenewedLease[]>;
  readInterrupt(runId: string): Promise<InterruptReason | null>;
  /** How the run has ended; null while it has not, `deleted` where it is gone with its session. */
  readOutcome(runId: string): Promise<RunOutcome | 'deleted' | null>;
  /** Those of the runs, ended or not, that are still there and whose people may run agents where they are. */
  readInForce(runIds: readonly string[]): Promise<readonly string[]>;
  readLeases(): Promise<readonly SeenLease[]>;
  takeRun(seen: SeenLease, owner: string): Promise<TakenRun | null>;
  /** From now on nothing is written to the run here, as if another process had it. */
  letGo(runId: string): void;
  /** Lets any process take over those of the runs that are still this owner's. Answers with those that have to stay. */
  handOver(owner: string, runIds: readonly string[]): Promise<readonly string[]>;
}

export function transcriptOf({ database, clock }: StoreParts): Transcript {
  const now = (): number => clock.now().getTime();
  const held = leases(database);
  // For whom the runs at work here use what they use: it never changes, and is asked for at each step.
  const spenders = new Map<string, Spender>();
  const appends = createAppendQueue(database, held, now);
  const change = (
    { runId, sessionId }: RunOfSession,
    work: (
      sql: Knex.Transaction,
      session: SessionRow,
      run: RunRow,
      above: readonly SessionRow[],
    ) => Promise<RunChange>,
    holding: 'session' | 'sessions above' = 'session',
  ): Promise<void> =>
    database.writeOfRun(async (sql, unremembered) => {
      const above = holding === 'sessions above' ? await holdSessionsAbove(sql, sessionId) : [];
      // The session first, as everywhere: two transactions then never wait for each other.
      const session = await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first();
      const run = await held.lock(sql, runId);
      if (!session) return;
      await applyChange(sql, session, run, await work(sql, session, run, above), now());
      unremembered();
    });
  /** An agent that is begun for a run that has ended, or that another process has by now, would work for nobody. */
  const holdStarter = async (sql: Knex.Transaction, agent: NewAgentSession): Promise<void> => {
    await sql<SessionRow>('sessions').where({ id: agent.parentSessionId }).forUpdate().first('id');
    await held.lock(sql, agent.parentRunId);
  };
  return {
    beginRun: async (run) => {
      const begun = await database.write('installation', async (sql) => {
        await noteRun(sql, run.id);
        if (run.agent) await holdStarter(sql, run.agent);
        return insertRun(sql, run, now());
      });
      await commitBeginning();
      held.hold(run.id, run.owner);
      spenders.set(run.id, spenderOf(begun.run));
      return {
        runNumber: begun.run.run_number,
        begun: begun.begins,
        notices: begun.warnings.map(({ message }) => message),
      };
    },
    readQuotas: (runId) =>
      database.read('installation', async (sql) => {
        const run = spenders.has(runId) ? undefined : await sql<RunRow>('runs').where({ id: runId }).first();
        const spender = run ? spenderOf(run) : spenders.get(runId);
        if (!spender) return { exceeded: null, warnings: [] };
        // One that has ended is asked about once, for the title of its session.
        if (run?.ended_at === null) spenders.set(runId, spender);
        const { exceeded, warnings } = await quotaStateAtWork(sql, spender, now());
        return { exceeded: exceeded && sentenceOf(exceeded, exceeded.hard ?? 0), warnings };
      }),
    readContent: (sessionId) => database.read('installation', (sql) => readContent(sql, sessionId)),
    readMessages: (sessionId, throughRunId) =>
      database.read('installation', (sql) => readMessages(sql, sessionId, throughRunId)),
    readFiles: (sessionId, sha256s) =>
      database.read('installation', (sql) => readFiles(sql, sessionId, sha256s)),
    readCalls: (sessionId, calls, throughRunId) =>
      database.read('installation', (sql) => readCalls(sql, sessionId, calls, throughRunId)),
    changeStatus: (run, status, events) =>
      change(run, async (_sql, _session, row) => {
        refuseStopped(row);
        return { status, events };
      }),
    appendEvents: (runId, events) => appends.append(runId, events),
    commitStep: (step) =>
      change(step, async (sql, session) => {
        await rememberFiles(sql, session, step.seenFiles ?? []);
        return { ...step, committed: true };
      }),
    resumeRun: (resumption) =>
      change(resumption, async (_sql, _session, { resumptions }) => ({
        ...resumption,
        resumptions: resumptions + 1,
      })),
    hasEarlierRun: (place) => database.read('installation', (sql) => hasEarlierRun(sql, place)),
    readSeenFiles: (sessionId) => database.read('installation', (sql) => readSeenFiles(sql, sessionId)),
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
    readPermission: (requestId) => database.read('installation', (sql) => readPermission(sql, requestId)),
    readPrompt: (requestId) => database.read('installation', (sql) => readPrompt(sql, requestId)),
    expirePermission: (requestId) =>
      database.write('installation', (sql) => expirePermission(sql, requestId, now())),
    expirePrompt: (requestId) => database.write('installation', (sql) => expirePrompt(sql, requestId, now())),
    readGrants: (sessionId) => database.read('installation', (sql) => readGrants(sql, sessionId)),
    addGrants: (requestId, patterns) =>
      database.write('installation', (sql) => addGrants(sql, requestId, patterns, now())),
    recordChange: async (given) => {
      const packed = await packChange(given);
      await change(
        given,
        async (sql, session, run) => {
          await insertChange(sql, await personsRun(sql, session, run), given, packed, now());
          return { events: [] };
        },
        // Where an agent has made it, the session of the person keeps what the file held.
        'sessions above',
      );
    },
    replaceTitle: (sessionId, present, title) =>
      database.write('installation', async (sql) => {
        const row = await sql<SessionRow>('sessions')
          .where({ id: sessionId, title: present })
          .forUpdate()
          .first();
        if (row) await saveSession(sql, row, { title }, now());
      }),
    addUsage: ({ runId, sessionId }, spent, of) =>
      database.write('installation', async (sql) => {
        const { usage, cost } = spent;
        const row = await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first();
        if (!row) return;
        await saveSession(sql, row, { ...addUsage(row, usage), ...addCost(row, cost) }, now());
        const run = await sql<RunRow>('runs').where({ id: runId }).forUpdate().first();
        if (!run) return;
        if (of === 'run')
          await sql<RunRow>('runs')
            .where({ id: runId })
            .update({ ...addUsage(run, usage), ...addCost(run, cost) });
        await meter(sql, spenderOf(run), { requests: 0, ...spent }, now());
      }),
    findAgent: (parentRunId, call) =>
      database.read('installation', (sql) => findStartedAgent(sql, parentRunId, call)),
    readUsed: (runId) => database.read('installation', (sql) => readUsed(sql, runId)),
    countAgents: (rootRunId) => database.read('installation', (sql) => countAgents(sql, rootRunId)),
    readSpending: (rootRunId) => database.read('installation', (sql) => readSpending(sql, rootRunId)),
    stopRun: (runId, reason) => database.write('installation', (sql) => requestStop(sql, runId, reason)),
    writePlan: ({ runId, sessionId }, plan) =>
      database.write('installation', async (sql) => {
        await sql<SessionRow>('sessions').where({ id: sessionId }).forUpdate().first('id');
        return writePlan(sql, await held.lock(sql, runId), plan, now());
      }),
    markStep: (runId, id, status) =>
      database.write('installation', async (sql) => {
        await held.lock(sql, runId);
        return markStep(sql, runId, { id, status }, now());
      }),
    readPlan: (sessionId) => database.read('installation', (sql) => readPlan(sql, sessionId)),
    carriesOutPlan: (runId) => database.read('installation', (sql) => carriesOutPlan(sql, runId)),
    endRun: async (end) => {
      await change(
        end,
        async (sql, _session, run, above) => {
          const beside = await besideRun(sql, end.runId);
          if (beside.permissions) await cancelPermissions(sql, end.runId, now());
          if (beside.prompts) await cancelPrompts(sql, end.runId, now());
          await excludeMessages(sql, end.sessionId, end.excluded ?? []);
          if (end.excludesBrought) await excludeBrought(sql, run);
          if (beside.plans) await endPlan(sql, end, now());
          if (beside.jobs) await endJobRun(sql, run, end, now());
          await stopAgentsOf(sql, end.runId);
          await addUsedAbove(sql, above, run, end, now());
          return { ...end, events: behind(run, end.events), end };
        },
        'sessions above',
      );
      held.release(end.runId);
      spenders.delete(end.runId);
    },
    readEvents: (runId, after, limit) =>
      database.read('installation', (sql) => readEvents(sql, runId, after, limit)),
    renewLeases: (owner, runIds) => held.renew(owner, runIds),
    readInterrupt: (runId) =>
      database.read('installation', async (sql) => {
        const row = await sql<RunRow>('runs').where({ id: runId }).first('interrupt_requested');
        // One that was deleted with its workspace is nobody's any more.
        return row ? row.interrupt_requested : 'lease_lost';
      }),
    readOutcome: (runId) =>
      database.read('installation', async (sql) => {
        const row = await sql<RunRow>('runs').where({ id: runId }).first('status', 'stop_reason', 'error');
        return row ? outcomeOf(row) : 'deleted';
      }),
    readInForce: (runIds) => database.read('installation', (sql) => runsInForce(sql, runIds)),
    readLeases: () => held.list(),
    takeRun: (seen, owner) => held.take(seen, owner),
    letGo(runId) {
      spenders.delete(runId);
      held.release(runId);
    },
    handOver: (owner, runIds) => held.handOver(owner, runIds),
  };
}

function outcomeOf({ status, stop_reason, error }: Pick<RunRow, 'status' | 'stop_reason' | 'error'>) {
  if (status !== 'completed' && status !== 'failed' && status !== 'interrupted') return null;
  // The reason is stored with the status of an end.
  const stopReason = stop_reason as RunEnd['stopReason'];
  return { status, stopReason, error: error === null ? null : JSON.parse(error) };
}

async function hasEarlierRun(sql: Knex, { sessionId, runNumber }: RunPlace): Promise<boolean> {
  const earlier = await sql<RunRow>('runs')
    .where({ session_id: sessionId, ended_at: null })
    .where('run_number', '<', runNumber)
    .first('id');
  return earlier !== undefined;
}

function ownerOf(request: { readonly run_id: string; readonly session_id: string }): RunOfSession {
  return { runId: request.run_id, sessionId: request.session_id };
}
