/** Queues a run in its session, with its prompt. */
import type { Knex } from 'knex';
import type { PermissionMode, RunStatus } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { insertAgentSession, type NewAgentSession } from './agent-sessions.ts';
import { holdJobRun, type Occurrence, startJobRun } from './begin-job-run.ts';
import { noUsage, openRuns, spenderOf, statusWith } from './change-run.ts';
import { noCost } from './costs.ts';
import { holdRunner } from './hold-runner.ts';
import { bringsFiles, refuseKept } from './kept-quota.ts';
import type { RunRequest } from './leases.ts';
import { insertMessages, type NewMessage } from './messages.ts';
import { meter } from './meter.ts';
import { insertNewSession, type NewSession } from './new-session.ts';
import { type QuotaWarning, quotaStateAtWork, quotaStateWithin, refuseExceeded } from './quota-check.ts';
import { notFound } from './reach.ts';
import { insertEvents, type NumberedEvent } from './run-events.ts';
import { type Approval, approvePlan, beginPlan } from './run-plans.ts';
import type { RunRow } from './runs.ts';
import { type SessionRow, saveSession } from './session-rows.ts';

export interface NewRun {
  readonly id: string;
  readonly sessionId: string;
  readonly userId: string;
  /** The key that asked; absent where a login did. An agent's run counts for whoever asked the run that started it. */
  readonly apiKeyId?: string | undefined;
  readonly trigger: 'api' | 'messages' | 'agent' | 'schedule';
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
  /** The run of a job that it is begun for; makes the session where it says so. */
  readonly occurrence?: Occurrence;
  /** Makes the session, which is of nobody else. */
  readonly newSession?: NewSession;
  /** The newest run that the session may have. */
  readonly afterRun?: number;
  /** Told where nothing is before it in its session: it begins at once then. */
  readonly beginning?: readonly NumberedEvent[];
}

/** A run that was stored, and what quotas have to say to it. */
export interface BegunRun {
  readonly run: RunRow;
  readonly begins: boolean;
  readonly warnings: readonly QuotaWarning[];
}

export async function insertRun(sql: Knex.Transaction, given: NewRun, now: number): Promise<BegunRun> {
  if (given.agent) await insertAgentSession(sql, { ...given, id: given.sessionId, agent: given.agent }, now);
  const { occurrence } = given;
  const jobRun = occurrence && (await holdJobRun(sql, { sessionId: given.sessionId, occurrence }, now));
  const session = await sessionOf(sql, given, now);
  refuseMoved(session, given);
  const open = given.newSession ? [] : await openRuns(sql, session.id);
  refuseLongQueue(open, given);
  const begins = open.length === 0 && given.beginning !== undefined;
  const events = begins ? [...given.events, ...(given.beginning ?? [])] : given.events;
  const run = {
    ...runRow(session, given, await askingKey(sql, given), now),
    ...(begins && { status: 'running' as const, started_at: now }),
  };
  const last_event_id = Math.max(0, ...events.map(({ seq }) => seq));
  await sql('runs').insert({ ...run, last_event_id });
  if (given.approval) await approvePlan(sql, run, given.approval, now);
  if (given.approval && begins) await beginPlan(sql, run.id, now);
  if (jobRun) await startJobRun(sql, run, jobRun, now);
  const prompt = given.messages.at(-1);
  const messages = given.messages.map((message) => ({
    ...message,
    run_id: message === prompt ? run.id : null,
  }));
  await insertMessages(sql, run, messages, now, given.newSession && 0);
  await insertEvents(sql, run, events, now);
  const changes = {
    run_number: run.run_number,
    status: statusWith([...open, run.status]),
    message_count: session.message_count + messages.length,
  };
  await saveSession(sql, session, changes, now);
  const place = { sessionId: session.id, before: Number(session.kept_bytes ?? 0) };
  // What was used is counted before quotas are held, as everywhere.
  const counted = await countRequest(sql, run, now);
  const kept = bringsFiles(messages) ? await refuseKept(sql, spenderOf(run), place, now) : [];
  return { run, begins, warnings: [...kept, ...counted] };
}

/** Held, as is the right of whoever begins something in it. */
async function sessionOf(sql: Knex.Transaction, given: NewRun, now: number): Promise<SessionRow> {
  const { newSession } = given;
  if (newSession) {
    await holdRunner(sql, beginnerOf(newSession, given), now);
    return insertNewSession(sql, newSession, given, now);
  }
  const session = await sql<SessionRow>('sessions').where({ id: given.sessionId }).forUpdate().first();
  if (!session) throw notFound('session');
  const place = { organizationId: session.organization_id, workspaceId: session.workspace_id };
  await holdRunner(sql, beginnerOf(place, given), now);
  return session;
}

/** An agent goes on with the run that started it, whatever becomes of the key of that one. */
function beginnerOf(
  { organizationId, workspaceId }: Pick<NewSession, 'organizationId' | 'workspaceId'>,
  { userId, apiKeyId, agent }: NewRun,
) {
  return { organizationId, workspaceId, userId, apiKeyId: agent ? null : (apiKeyId ?? null) };
}

async function askingKey(sql: Knex.Transaction, { agent, apiKeyId }: NewRun): Promise<string | null> {
  if (!agent) return apiKeyId ?? null;
  const parent = await sql<RunRow>('runs').where({ id: agent.parentRunId }).first('api_key_id');
  return parent?.api_key_id ?? null;
}

/** What an agent does belongs to the request that a person made. Throws `quota_exceeded`. */
async function countRequest(
  sql: Knex.Transaction,
  run: RunRow,
  now: number,
): Promise<readonly QuotaWarning[]> {
  const spender = spenderOf(run);
  if (run.trigger === 'agent') return refuseExceeded(await quotaStateAtWork(sql, spender, now), now);
  await meter(sql, spender, { requests: 1, model: run.model, usage: noUsage, cost: 0 }, now);
  return refuseExceeded(await quotaStateWithin(sql, spender, now), now);
}

/** Who has read its messages has decided by them whether what is asked belongs there. */
function refuseMoved({ id, run_number }: SessionRow, { afterRun }: NewRun): void {
  if (afterRun === undefined || afterRun === run_number) return;
  throw Object.assign(new Error(`Another run has come in the session ${id}.`), { name: 'SessionMoved' });
}

/** Counted under the lock of the session, so that a hundred queries at once do not all find the last place. */
function refuseLongQueue(open: readonly RunStatus[], { queueLimit }: NewRun): void {
  // One of them is at work; the others wait.
  if (open.length <= queueLimit) return;
  throw new Problem(
    'queue_full',
    `This session already has ${queueLimit} waiting runs, the maximum; try again when some have ended, or interrupt them.`,
  );
}

function runRow(session: SessionRow, run: NewRun, apiKeyId: string | null, now: number): RunRow {
  return {
    id: run.id,
    organization_id: session.organization_id,
    workspace_id: session.workspace_id,
    session_id: session.id,
    user_id: run.userId,
    api_key_id: apiKeyId,
    run_number: session.run_number + 1,
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
