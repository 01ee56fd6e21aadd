/** One row for each time of a job: what overlaps is skipped, waits, or takes the place of what was there. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import { type JobRow, type JobRunRow, tellFinished } from './job-rows.ts';
import type { RunRow } from './runs.ts';

export interface NewJobRun {
  readonly occurrence: number;
  readonly dueAt: number;
  readonly trigger: JobRunRow['trigger'];
  readonly missed: number;
  /** `catch_up` waits for whatever has not ended; `misfire` does not run. */
  readonly fate: 'run' | 'catch_up' | 'misfire';
}

/** So many wait for a job; more are skipped. */
export const mostWaiting = 100;

/** The job is locked. Answers with the row as it was stored. */
export async function insertJobRun(
  sql: Knex.Transaction,
  job: JobRow,
  given: NewJobRun,
  now: number,
): Promise<JobRunRow> {
  const reason = given.fate === 'misfire' ? 'misfire' : await reasonToSkip(sql, job, given, now);
  const row: JobRunRow = {
    id: newId('jobRun'),
    organization_id: job.organization_id,
    job_id: job.id,
    occurrence: given.occurrence,
    trigger: given.trigger,
    status: reason === null ? 'queued' : 'skipped',
    reason,
    error: null,
    missed: given.missed,
    attempts: 0,
    earlier_attempts: '[]',
    session_id: null,
    run_id: null,
    due_at: given.dueAt,
    worker: null,
    claims: 0,
    renewals: 0,
    deaths: 0,
    deadline_at: null,
    stop_wanted: null,
    created_at: now,
    started_at: null,
    ended_at: reason === null ? null : now,
  };
  await sql<JobRunRow>('job_runs').insert(row);
  if (reason !== null) tellFinished(sql, job.workspace_id, row, { status: 'skipped' }, now);
  return row;
}

async function reasonToSkip(
  sql: Knex.Transaction,
  job: JobRow,
  { fate }: NewJobRun,
  now: number,
): Promise<'overlap' | 'queue_full' | null> {
  const open = await openRuns(sql, job.id).limit(mostWaiting + 1);
  if (open.length === 0) return null;
  if (open.length > mostWaiting) return 'queue_full';
  if (fate === 'catch_up' || job.overlap_policy === 'queue') return null;
  if (job.overlap_policy === 'skip') return 'overlap';
  await endOpen(sql, job, 'replaced', now);
  return null;
}

export function openRuns(sql: Knex, job_id: string) {
  return sql<JobRunRow>('job_runs').where({ job_id, ended_at: null }).orderBy('occurrence');
}

/** What waits ends at once, and what is at work is asked to stop. The job is locked. */
export async function endOpen(
  sql: Knex.Transaction,
  job: JobRow,
  reason: 'replaced' | 'job_paused',
  now: number,
): Promise<void> {
  const open = openRuns(sql, job.id);
  // A run that fails at this moment waits for another attempt once its row is held here, or it finds the job paused.
  // What is replaced is held by `askToStop`, its run first.
  if (reason === 'job_paused') open.forUpdate();
  for (const row of await open) {
    if (reason === 'replaced') await stopRun(sql, job, row, reason, now);
    // Pausing lets what is at work go on.
    else if (row.status !== 'running') await endWaiting(sql, job, row, reason, now);
  }
}

/**
 * Ends what waits, and asks what is at work to stop. What it is may change meanwhile: what waits begins, and what is at
 * work fails and waits for another attempt. Answers with the row as it is then.
 */
export async function stopRun(
  sql: Knex.Transaction,
  job: Pick<JobRow, 'workspace_id'>,
  seen: JobRunRow,
  reason: 'replaced' | 'requested',
  now: number,
): Promise<JobRunRow> {
  let row: JobRunRow | undefined = seen;
  while (row && row.ended_at === null) {
    if (row.status !== 'running') {
      const ended = await endWaiting(sql, job, row, reason, now);
      if (ended) return ended;
    } else if (row.stop_wanted !== null || (await askToStop(sql, row, reason))) return row;
    row = await sql<JobRunRow>('job_runs').where({ id: seen.id }).first();
  }
  return row ?? seen;
}

/** A process that is about to begin it finds that it is not its own any more. Null where it does not wait by now. */
async function endWaiting(
  sql: Knex.Transaction,
  { workspace_id }: Pick<JobRow, 'workspace_id'>,
  row: JobRunRow,
  reason: 'replaced' | 'job_paused' | 'requested',
  now: number,
): Promise<JobRunRow | null> {
  // One that failed and waits to be tried again was begun.
  const status = reason === 'replaced' && row.attempts === 0 ? 'skipped' : 'cancelled';
  const ended = { ...row, status, reason, worker: null, ended_at: now } as const;
  const changed = await sql<JobRunRow>('job_runs')
    .where({ id: row.id })
    .whereIn('status', ['queued', 'starting'])
    .update({ status, reason, worker: null, ended_at: now });
  if (changed === 0) return null;
  tellFinished(sql, workspace_id, ended, { status }, now);
  return ended;
}

/**
 * The run first, as where it ends: two transactions then never wait for each other. False where it is not at work by now,
 * or was asked already.
 */
export async function askToStop(
  sql: Knex.Transaction,
  { id, run_id }: JobRunRow,
  wanted: NonNullable<JobRunRow['stop_wanted']>,
): Promise<boolean> {
  if (run_id !== null)
    await sql<RunRow>('runs')
      .where({ id: run_id, ended_at: null })
      .whereNull('interrupt_requested')
      .update({ interrupt_requested: wanted });
  const changed = await sql<JobRunRow>('job_runs')
    .where({ id, status: 'running' })
    .whereNull('stop_wanted')
    .update({ stop_wanted: wanted });
  return changed === 1;
}
