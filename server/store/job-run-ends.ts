/** Runs of jobs as they begin and end: in the transactions of the runs themselves, so that both always say the same. */
import type { Knex } from 'knex';
import type { InterruptReason, JobRunAttempt, RunError } from '../contract/api.ts';
import type { RunEnd } from './change-run.ts';
import { attemptsOf, type JobRow, type JobRunRow, tellFinished } from './job-rows.ts';
import type { RunRow } from './runs.ts';
import { timestamp } from './timestamps.ts';

/** The first pause before another attempt; each one after it is twice as long, up to the longest. */
const firstPauseMs = 30_000;
const longestPauseMs = 3_600_000;
/** What a model provider asks for is heeded so far. */
const longestWaitMs = 86_400_000;

/** What is not the job's fault is tried again. */
const passing: readonly (InterruptReason | null)[] = ['shutdown', 'workspace_unavailable'];

/** What may fare better by itself before long, as `max_retries` in the contract lists it. */
const passingFaults: readonly RunError['code'][] = [
  ...(['provider_failed', 'provider_timeout', 'provider_rate_limited'] as const),
  ...(['workspace_unavailable', 'session_busy', 'rate_limited', 'embedder_failed'] as const),
  ...(['database_unavailable', 'storage_unavailable', 'storage_full', 'internal_error'] as const),
];

export function mayPass({ code }: Pick<RunError, 'code'>): boolean {
  return passingFaults.includes(code);
}

/** What became of the run of a job: as it ended, or why it was asked to stop. */
export async function endJobRun(
  sql: Knex.Transaction,
  { id: run_id }: Pick<RunRow, 'id'>,
  end: RunEnd,
  now: number,
): Promise<void> {
  const row = await sql<JobRunRow>('job_runs').where({ run_id, status: 'running' }).forUpdate().first();
  // Not before the row is held: whoever pauses the job holds it too, and has committed by then or sees what is stored here.
  const job = row && (await sql<JobRow>('scheduled_jobs').where({ id: row.job_id }).first());
  if (!row || !job) return;
  const ended = { ...row, error: end.error && JSON.stringify(end.error) };
  await endAttempt(sql, job, ended, outcomeOf(row, end), now);
}

type Ended = 'completed' | 'failed' | 'interrupted' | 'timed_out' | 'cancelled';

interface Outcome {
  readonly status: Ended;
  readonly reason?: 'requested' | 'replaced';
  /** Whether another attempt may fare better. */
  readonly mayPass: boolean;
}

/** One that came to its end before it heard that it should stop has come to its end; it is not begun once more. */
function outcomeOf({ stop_wanted }: JobRunRow, { status, interruptReason, error }: RunEnd): Outcome {
  if (status !== 'interrupted')
    return { status, mayPass: stop_wanted === null && error !== null && mayPass(error) };
  if (stop_wanted === 'timed_out') return { status: 'timed_out', mayPass: false };
  if (stop_wanted !== null) return { status: 'cancelled', reason: stop_wanted, mayPass: false };
  return { status, mayPass: passing.includes(interruptReason) };
}

/** Ends the run, or has it wait for another attempt. */
export async function endAttempt(
  sql: Knex.Transaction,
  job: JobRow,
  row: JobRunRow,
  { status, reason, mayPass: mayFareBetter }: Outcome,
  now: number,
): Promise<void> {
  const again =
    mayFareBetter && row.attempts <= job.max_retries && (job.status !== 'paused' || isRequest(row));
  const { attempts, error, deaths } = row;
  const free = { worker: null, deadline_at: null, stop_wanted: null, attempts, error, deaths };
  if (!again) {
    const ended = { ...free, status, reason: reason ?? null, ended_at: now };
    await sql<JobRunRow>('job_runs').where({ id: row.id }).update(ended);
    return tellFinished(sql, job.workspace_id, { ...row, ...ended }, { status }, now);
  }
  const due_at = now + pauseAfter(attempts, row);
  const attempt: JobRunAttempt = {
    run_id: row.run_id,
    status: status === 'interrupted' ? status : 'failed',
    error: error === null ? null : JSON.parse(error),
    ended_at: timestamp(now),
  };
  const earlier_attempts = JSON.stringify([...attemptsOf(row), attempt]);
  const waiting = { ...free, status: 'queued', due_at, earlier_attempts, run_id: null } as const;
  await sql<JobRunRow>('job_runs').where({ id: row.id }).update(waiting);
  tellFinished(sql, job.workspace_id, row, { status: attempt.status, retryAt: due_at }, now);
}

/** A provider that said when it wants to be asked again is not asked before, as far as that is soon. */
function pauseAfter(attempts: number, { error }: Pick<JobRunRow, 'error'>): number {
  const pause = Math.min(firstPauseMs * 2 ** (attempts - 1), longestPauseMs);
  const { retry_after_seconds: wanted = 0 }: Partial<RunError> = error === null ? {} : JSON.parse(error);
  return Math.max(pause, Math.min(wanted * 1000, longestWaitMs));
}

function isRequest({ trigger }: JobRunRow): boolean {
  return trigger === 'request';
}
