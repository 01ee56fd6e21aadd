/** Rows of jobs and of their runs, how they become what callers see, and what the workspace is told of them. */
import type { Knex } from 'knex';
import type { Job, JobRun, JobRunAttempt, WorkspaceEvent } from '../contract/api.ts';
import { etagOf } from './etag.ts';
import { roleRequired } from './person-reach.ts';
import { notFound, type Reach, requireRole, roleIn, within } from './reach.ts';
import { nullableTimestamp, timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

export interface JobRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  user_id: string;
  /** The key that it was made with; null where a login did. */
  api_key_id: string | null;
  name: string;
  prompt: string;
  cron: string | null;
  interval_s: number | null;
  run_at: number | null;
  timezone: string;
  anchor_at: number;
  agent_slug: string;
  model: string | null;
  session_mode: Job['session_mode'];
  session_id: string | null;
  /** Whether a run has made that session; the database begins with no. */
  made_session?: boolean;
  permission_mode: Job['permission_mode'];
  permission_rules: string;
  overlap_policy: Job['overlap_policy'];
  misfire_policy: Job['misfire_policy'];
  jitter_s: number;
  timeout_s: number;
  max_retries: number;
  ends_at: number | null;
  max_runs: number | null;
  status: Job['status'];
  pause_reason: Job['pause_reason'];
  runs_begun: number;
  next_at: number | null;
  next_due_at: number | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface JobRunRow {
  id: string;
  organization_id: string;
  job_id: string;
  occurrence: number;
  trigger: JobRun['trigger'];
  status: JobRun['status'];
  reason: JobRun['reason'];
  error: string | null;
  missed: number;
  attempts: number;
  earlier_attempts: string;
  session_id: string | null;
  run_id: string | null;
  due_at: number;
  worker: string | null;
  claims: number;
  renewals: number;
  deaths: number;
  deadline_at: number | null;
  stop_wanted: 'timed_out' | 'requested' | 'replaced' | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
}

/** A job as it is stored. Its next times follow from its row, and from the moment. */
export interface StoredJob {
  readonly job: Omit<Job, 'next_runs'>;
  readonly row: JobRow;
  readonly etag: string;
}

export function findJob(sql: Knex, reach: Reach, id: string) {
  return within(sql<JobRow>('scheduled_jobs').where({ id }), reach).first();
}

/** The caller has the role that the operation needs. Throws `not_found` or `role_required`. */
export async function requireJob(sql: Knex, reach: Reach, id: string): Promise<JobRow> {
  const row = await findJob(sql, reach, id);
  if (!row) throw notFound('job');
  requireRole(reach, row);
  return row;
}

/**
 * The same, held against other writers. A job acts with its owner's rights, so that its owner alone says what it does;
 * to stop it is for admins as well.
 */
export async function lockJob(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  toStop = false,
): Promise<JobRow> {
  const row = await within(sql<JobRow>('scheduled_jobs').where({ id }), reach).forUpdate().first();
  if (!row) throw notFound('job');
  requireRole(reach, row);
  requireOwner(reach, row, toStop);
  return row;
}

function requireOwner(reach: Reach, row: JobRow, toStop: boolean): void {
  if (row.user_id === reach.userId) return;
  const role = roleIn(reach, row);
  if (toStop && (role === 'admin' || role === 'owner')) return;
  const who = toStop ? 'its owner and admins of the workspace' : 'its owner, with whose rights it runs,';
  throw roleRequired(`Of this job only ${who} may ask that.`);
}

export async function storedJob(sql: Knex, row: JobRow): Promise<StoredJob> {
  const last = await sql<JobRunRow>('job_runs')
    .where({ job_id: row.id })
    .orderBy('occurrence', 'desc')
    .first();
  return { job: toJob(row, last ? toJobRun(last) : null), row, etag: etagOf(row) };
}

function toJob(row: JobRow, lastRun: JobRun | null): StoredJob['job'] {
  return {
    id: row.id,
    organization_id: row.organization_id,
    workspace_id: row.workspace_id,
    owner_id: row.user_id,
    name: row.name,
    prompt: row.prompt,
    cron: row.cron,
    interval_s: row.interval_s,
    run_at: nullableTimestamp(row.run_at),
    timezone: row.timezone,
    agent_slug: row.agent_slug,
    model: row.model,
    session_mode: row.session_mode,
    session_id: row.session_id,
    permission_mode: row.permission_mode,
    permission_rules: JSON.parse(row.permission_rules),
    overlap_policy: row.overlap_policy,
    misfire_policy: row.misfire_policy,
    jitter_s: row.jitter_s,
    timeout_s: row.timeout_s,
    max_retries: row.max_retries,
    ends_at: nullableTimestamp(row.ends_at),
    max_runs: row.max_runs,
    status: row.status,
    pause_reason: row.pause_reason,
    runs_begun: row.runs_begun,
    last_run: lastRun,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

export function toJobRun(row: JobRunRow): JobRun {
  return {
    id: row.id,
    job_id: row.job_id,
    occurrence: timestamp(row.occurrence),
    trigger: row.trigger,
    status: row.status,
    reason: row.reason,
    error: row.error === null ? null : JSON.parse(row.error),
    missed: row.missed,
    attempts: row.attempts,
    earlier_attempts: attemptsOf(row),
    session_id: row.session_id,
    run_id: row.run_id,
    due_at: timestamp(row.due_at),
    created_at: timestamp(row.created_at),
    started_at: nullableTimestamp(row.started_at),
    ended_at: nullableTimestamp(row.ended_at),
  };
}

export function attemptsOf({ earlier_attempts }: JobRunRow): JobRunAttempt[] {
  return JSON.parse(earlier_attempts);
}

type EventOf<Type extends string> = Extract<WorkspaceEvent['event'], { readonly type: Type }>;

export function tellJob(
  sql: Knex.Transaction,
  { id, workspace_id, status, pause_reason }: JobRow,
  change: EventOf<'job_changed'>['change'],
  now: number,
): void {
  const event = { type: 'job_changed', job_id: id, change, status, pause_reason } as const;
  tellWorkspace(sql, { sessionId: null, workspaceId: workspace_id }, [{ type: event.type, event }], now);
}

/** What was told of one run of a job; `ended` names how, also of an attempt that another one follows. */
export function tellFinished(
  sql: Knex.Transaction,
  workspaceId: string,
  row: JobRunRow,
  ended: Pick<EventOf<'job_run_finished'>, 'status'> & { readonly retryAt?: number },
  now: number,
): void {
  const { id, job_id, occurrence, attempts, reason, error, session_id, run_id } = row;
  const event = {
    type: 'job_run_finished',
    ...{ job_id, job_run_id: id, occurrence: timestamp(occurrence), attempt: attempts },
    status: ended.status,
    ...{ reason, error: error === null ? null : JSON.parse(error), session_id, run_id },
    retry_at: nullableTimestamp(ended.retryAt ?? null),
  } as const;
  const told = [{ type: event.type, event, ...(run_id !== null && { runId: run_id }) }];
  tellWorkspace(sql, { sessionId: session_id, workspaceId }, told, now);
}

export function auditOfJob<Verb extends string>({ id, organization_id }: JobRow, verb: Verb) {
  return {
    action: `job.${verb}` as const,
    target: { type: 'job', id },
    organizationId: organization_id,
  };
}
