/** Jobs as processes work on them: what has become due, who is about to begin which run, and what becomes of it. */
import type { Knex } from 'knex';
import type { JobPauseReason, PermissionRule, RunError } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import { type SlotsUntil, storeDue, type Timing, timeAfterDue } from './job-due.ts';
import { askToStop } from './job-queue.ts';
import { auditOfJob, type JobRow, type JobRunRow, tellFinished, tellJob } from './job-rows.ts';
import { endAttempt, mayPass } from './job-run-ends.ts';
import { claimable } from './job-runs.ts';
import { pauseJob, stamp } from './jobs.ts';
import type { StoreParts } from './parts.ts';

/** A run that this process is about to begin, with what it needs for that. */
export interface ClaimedJobRun {
  readonly id: string;
  readonly jobId: string;
  readonly worker: string;
  /** Counts up with each process that takes it. */
  readonly claims: number;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly apiKeyId: string | null;
  readonly name: string;
  readonly prompt: string;
  readonly agentSlug: string;
  readonly model: string | null;
  /** The session to go on with; null where it makes one. */
  readonly sessionId: string | null;
  /** Whether a run of the job has made it. */
  readonly madeSession: boolean;
  readonly permissionMode: JobRow['permission_mode'];
  readonly permissionRules: readonly PermissionRule[];
}

/** Why a run may not begin. */
type StartRefusal = Exclude<JobPauseReason, 'requested' | 'owner_changed'>;

/** A claim of a process: it is alive as long as its number grows. */
export interface SeenClaim {
  readonly id: string;
  readonly worker: string;
  readonly claims: number;
  readonly renewals: number;
}

/** Whatever is done for a run that is the process's no more throws an error named `LeaseLost`. */
export interface JobWork {
  /** The jobs of which something has become due, the longest due first, at most so many; without these. */
  due(most: number, without: readonly string[]): Promise<readonly string[]>;
  /** Stores what has become due of this job, unless another process does or has. */
  advance(jobId: string, slotsUntil: SlotsUntil, timing: Timing): Promise<void>;
  /** Asks runs to stop that take too long; answers with them. */
  stopOverdue(): Promise<readonly string[]>;
  claim(worker: string): Promise<ClaimedJobRun | null>;
  fail(claimed: ClaimedJobRun, error: RunError): Promise<void>;
  refuse(claimed: ClaimedJobRun, reason: StartRefusal): Promise<void>;
  giveBack(claimed: ClaimedJobRun, again: Date): Promise<void>;
  renew(worker: string, ids: readonly string[]): Promise<void>;
  claims(): Promise<readonly SeenClaim[]>;
  /** Frees it, unless its process has shown itself since. */
  bury(seen: SeenClaim): Promise<boolean>;
}

/** So often one run may bring down the process that begins it. */
const mostDeaths = 5;
/** More than these are not looked at when one is chosen: others are at them. */
const mostLooked = 50;

export function jobWork({ database, clock }: StoreParts): JobWork {
  const now = (): number => clock.now().getTime();
  const change = <T>(work: (sql: Knex.Transaction) => Promise<T>): Promise<T> =>
    database.write('installation', work);
  /** Most of the time there is nothing to do: that is found out without a transaction. */
  const anyThere = async (query: (sql: Knex) => Knex.QueryBuilder): Promise<boolean> =>
    (await database.read('installation', (sql) => query(sql).first('id'))) !== undefined;
  return {
    due: (most, without) =>
      database.read('installation', (sql) =>
        dueJobs(sql, now()).whereNotIn('id', without).limit(most).pluck('id'),
      ),
    advance: (jobId, slotsUntil, timing) =>
      change((sql) => advance(sql, jobId, { slotsUntil, timing }, now())),
    stopOverdue: async () =>
      (await anyThere((sql) => overdue(sql, now()))) ? change((sql) => stopOverdue(sql, now())) : [],
    claim: async (worker) =>
      (await anyThere((sql) => claimable(sql, now()))) ? change((sql) => claim(sql, worker, now())) : null,
    fail: (claimed, error) =>
      change(async (sql) => {
        const { job, row } = await held(sql, claimed);
        await failStart(sql, job, row, error, now());
      }),
    refuse: (claimed, reason) =>
      change(async (sql) => {
        const { job, row } = await held(sql, claimed);
        // One that failed and waited to be tried again was begun.
        const status = row.attempts === 0 ? 'skipped' : 'cancelled';
        const ended = { status, reason, worker: null, ended_at: now() } as const;
        await sql<JobRunRow>('job_runs').where({ id: row.id }).update(ended);
        tellFinished(sql, job.workspace_id, { ...row, ...ended }, { status }, now());
        if (job.status !== 'active') return;
        await pauseJob(sql, job, reason, now());
        recordAudit(sql, { userId: null }, { ...auditOfJob(job, 'pause'), after: { pause_reason: reason } });
      }),
    giveBack: (claimed, again) =>
      change(async (sql) => {
        const { row } = await held(sql, claimed);
        await sql<JobRunRow>('job_runs')
          .where({ id: row.id })
          .update({ status: 'queued', worker: null, due_at: again.getTime() });
      }),
    renew: (worker, ids) =>
      change(async (sql) => {
        await sql<JobRunRow>('job_runs')
          .whereIn('id', ids)
          .where({ worker, status: 'starting' })
          .increment('renewals', 1);
      }),
    claims: () =>
      database.read('installation', (sql) =>
        sql<JobRunRow>('job_runs')
          .where({ status: 'starting' })
          .select<SeenClaim[]>('id', 'worker', 'claims', 'renewals'),
      ),
    bury: (seen) => change((sql) => bury(sql, seen, now())),
  };
}

function dueJobs(sql: Knex, now: number) {
  return sql<JobRow>('scheduled_jobs').where('next_due_at', '<=', now).orderBy('next_due_at');
}

/** SQLite has one writer, who is held up by nobody. */
function unlocked(query: Knex.QueryBuilder): Knex.QueryBuilder {
  return query.client.config.client === 'pg' ? query.forUpdate().skipLocked() : query;
}

/** In one transaction with the next time of the job: whoever comes second finds nothing due any more. */
async function advance(
  sql: Knex.Transaction,
  id: string,
  { slotsUntil, timing }: { readonly slotsUntil: SlotsUntil; readonly timing: Timing },
  now: number,
): Promise<void> {
  const job: JobRow | undefined = await unlocked(dueJobs(sql, now).where({ id })).first();
  if (!job || job.next_at === null) return;
  const slots = slotsUntil(job, job.next_at, now);
  const runs_begun = await storeDue(sql, job, slots.due, now);
  const next = timeAfterDue({ ...job, runs_begun }, slots, timing);
  const columns = {
    runs_begun,
    next_at: next?.at ?? null,
    next_due_at: next?.dueAt ?? null,
  };
  if (next) await sql<JobRow>('scheduled_jobs').where({ id: job.id }).update(columns);
  else {
    const completed = { ...columns, status: 'completed', ...stamp(job, now) } as const;
    await sql<JobRow>('scheduled_jobs').where({ id: job.id }).update(completed);
    tellJob(sql, { ...job, ...completed }, 'completed', now);
  }
}

function overdue(sql: Knex, now: number) {
  return sql<JobRunRow>('job_runs')
    .where({ status: 'running' })
    .where('deadline_at', '<=', now)
    .whereNull('stop_wanted');
}

async function stopOverdue(sql: Knex.Transaction, now: number): Promise<string[]> {
  const rows: JobRunRow[] = await overdue(sql, now).orderBy('id').limit(mostLooked);
  for (const row of rows) await askToStop(sql, row, 'timed_out');
  return rows.flatMap(({ run_id }) => (run_id === null ? [] : [run_id]));
}

/** Passes over the jobs that other processes hold. Whether it still waits is asked again when its job is held. */
async function claim(sql: Knex.Transaction, worker: string, now: number): Promise<ClaimedJobRun | null> {
  for (const { id, job_id } of await claimable(sql, now).limit(mostLooked).select('id', 'job_id')) {
    const job: JobRow | undefined = await unlocked(
      sql<JobRow>('scheduled_jobs').where({ id: job_id }),
    ).first();
    const row = job && (await claimable(sql, now).where({ id }).first());
    if (!job || !row) continue;
    const claims = row.claims + 1;
    await sql<JobRunRow>('job_runs').where({ id }).update({ status: 'starting', worker, claims });
    return toClaimed(job, { ...row, worker, claims });
  }
  return null;
}

function toClaimed(job: JobRow, row: JobRunRow): ClaimedJobRun {
  return {
    id: row.id,
    jobId: job.id,
    worker: row.worker ?? '',
    claims: row.claims,
    organizationId: job.organization_id,
    workspaceId: job.workspace_id,
    userId: job.user_id,
    apiKeyId: job.api_key_id,
    name: job.name,
    prompt: job.prompt,
    agentSlug: job.agent_slug,
    model: job.model,
    sessionId: job.session_id,
    madeSession: Boolean(job.made_session),
    permissionMode: job.permission_mode,
    permissionRules: JSON.parse(job.permission_rules),
  };
}

/** A claim, by which a process shows that a run is its own to begin. */
export type Claim = Pick<ClaimedJobRun, 'id' | 'worker' | 'claims'>;

/** The run with its job, held, if it is still the process's own to begin. */
export async function held(
  sql: Knex.Transaction,
  { id, worker, claims }: Claim,
): Promise<{ readonly job: JobRow; readonly row: JobRunRow }> {
  // The job first, as everywhere.
  const job = await sql<JobRow>('scheduled_jobs')
    .whereIn('id', sql('job_runs').where({ id }).select('job_id'))
    .forUpdate()
    .first();
  const row = await sql<JobRunRow>('job_runs')
    .where({ id, worker, claims, status: 'starting' })
    .forUpdate()
    .first();
  if (job && row) return { job, row };
  throw Object.assign(new Error(`The run ${id} of a job is begun by another process, or no more.`), {
    name: 'LeaseLost',
  });
}

async function failStart(
  sql: Knex.Transaction,
  job: JobRow,
  row: JobRunRow,
  error: RunError,
  now: number,
): Promise<void> {
  const attempt = { ...row, attempts: row.attempts + 1, error: JSON.stringify(error) };
  await endAttempt(sql, job, attempt, { status: 'failed', mayPass: mayPass(error) }, now);
}

async function bury(
  sql: Knex.Transaction,
  { id, worker, claims, renewals }: SeenClaim,
  now: number,
): Promise<boolean> {
  const found = await held(sql, { id, worker, claims }).catch(unlessLost);
  if (!found || found.row.renewals !== renewals) return false;
  const { job, row } = found;
  const deaths = row.deaths + 1;
  if (deaths >= mostDeaths) await failStart(sql, job, { ...row, deaths }, broughtDown, now);
  else await sql<JobRunRow>('job_runs').where({ id }).update({ status: 'queued', worker: null, deaths });
  return true;
}

function unlessLost(error: unknown): null {
  if (error instanceof Error && error.name === 'LeaseLost') return null;
  throw error;
}

const broughtDown: RunError = {
  code: 'internal_error',
  message: `The server died ${mostDeaths} times while it began the run; tell the operator.`,
};
