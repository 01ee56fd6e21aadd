/** What became of the times of jobs, as people read it; runs on request; and how the scheduler of the installation stands. */
import type { Knex } from 'knex';
import type { JobRun, operations, SchedulerStatus } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { insertJobRun, mostWaiting, openRuns, stopRun } from './job-queue.ts';
import { auditOfJob, type JobRow, type JobRunRow, lockJob, requireJob, toJobRun } from './job-rows.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { sweepTable } from './sweeps.ts';
import { nullableTimestamp } from './timestamps.ts';

export type JobRunQuery = Partial<NonNullable<operations['listJobRuns']['parameters']['query']>>;

export interface JobRunPlace {
  readonly jobId: string;
  readonly jobRunId: string;
}

/** A run as it was left, and the run of an agent that was asked to stop. */
export interface CancelledJobRun {
  readonly jobRun: JobRun;
  readonly stoppedRun: string | null;
}

export interface JobRuns {
  /** The latest time first. Throws `not_found`. */
  list(reach: Reach, jobId: string, query: JobRunQuery): Promise<Page<JobRun>>;
  /** Throws `not_found` for a job out of reach. */
  find(reach: Reach, place: JobRunPlace): Promise<JobRun | null>;
  /** Queues a run beside the times of the job. Throws `not_found`, `role_required` or `job_conflict`. */
  request(reach: Reach, jobId: string): Promise<JobRun>;
  /** Throws `not_found`, `role_required` or `job_conflict`. */
  cancel(reach: Reach, place: JobRunPlace): Promise<CancelledJobRun>;
  /** Of the whole installation. */
  status(): Promise<SchedulerStatus>;
  /** How many wait of the job of which most do. */
  mostWaiting(): Promise<number>;
  /** More of one job are skipped. */
  readonly waitingLimit: number;
  /** Forgets runs that ended before. */
  prune(before: Date): Promise<number>;
}

export function jobRunRepository({ database, clock, cursors }: StoreParts): JobRuns {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, jobId, query) =>
      database.read(reach, async (sql) => {
        const job = await requireJob(sql, reach, jobId);
        const filters = { job_id: job.id, ...(query.status && { status: query.status }) };
        const listing = {
          name: 'job_runs',
          reach,
          filters,
          columns: ['occurrence'],
          direction: 'desc',
          parts: [sql('job_runs').where(filters).select('*')],
        } as const;
        const { data, next_cursor } = await readPage<JobRunRow>(sql, cursors, listing, query);
        return { data: data.map(toJobRun), next_cursor };
      }),
    find: (reach, { jobId, jobRunId: id }) =>
      database.read(reach, async (sql) => {
        const job = await requireJob(sql, reach, jobId);
        const row = await sql<JobRunRow>('job_runs').where({ id, job_id: job.id }).first();
        return row ? toJobRun(row) : null;
      }),
    request: (reach, jobId) =>
      database.write('installation', async (sql) => {
        const job = await lockJob(sql, reach, jobId);
        await refuseOverlap(sql, job);
        const occurrence = await freeMoment(sql, job, now());
        const given = { occurrence, dueAt: occurrence, trigger: 'request', missed: 0, fate: 'run' } as const;
        const row = await insertJobRun(sql, job, given, now());
        // Nothing is kept of what cannot be.
        if (row.reason !== null)
          throw new Problem('job_conflict', 'So many runs of the job wait that no more can.');
        recordAudit(sql, reach, auditOfJob(job, 'run'));
        return toJobRun(row);
      }),
    cancel: (reach, place) => database.write('installation', (sql) => cancel(sql, reach, place, now())),
    status: () => database.read('installation', (sql) => readStatus(sql, now())),
    mostWaiting: () =>
      database.read('installation', async (sql) => {
        const most = await sql('job_runs')
          .where({ status: 'queued' })
          .groupBy('job_id')
          .orderBy('count', 'desc')
          .first(sql.raw('count(*) as count'));
        return Number(most?.count ?? 0);
      }),
    waitingLimit: mostWaiting,
    prune: (before) => sweepTable(database, 'job_runs', 'ended_at', before.getTime()),
  };
}

async function refuseOverlap(sql: Knex, job: JobRow): Promise<void> {
  if (job.overlap_policy !== 'skip') return;
  const open = await openRuns(sql, job.id).first();
  if (!open) return;
  throw new Problem(
    'job_conflict',
    `The run ${open.id} of the job has not ended (${open.status}): wait for it, cancel it, or change the overlap policy.`,
  );
}

/** Two requests in one millisecond are two runs. */
async function freeMoment(sql: Knex, { id }: JobRow, now: number): Promise<number> {
  const last = await sql<JobRunRow>('job_runs')
    .where({ job_id: id })
    .where('occurrence', '>=', now)
    .orderBy('occurrence', 'desc')
    .first('occurrence');
  return last ? last.occurrence + 1 : now;
}

async function cancel(
  sql: Knex.Transaction,
  reach: Reach,
  { jobId, jobRunId: id }: JobRunPlace,
  now: number,
): Promise<CancelledJobRun> {
  const job = await lockJob(sql, reach, jobId, true);
  const row = await sql<JobRunRow>('job_runs').where({ id, job_id: job.id }).first();
  if (!row) throw notFound('run of the job');
  const hasEnded = ({ status }: JobRunRow) =>
    new Problem('job_conflict', `The run has ended: it is ${status}.`);
  if (row.ended_at !== null) throw hasEnded(row);
  const stopped = await stopRun(sql, job, row, 'requested', now);
  if (stopped.ended_at !== null && stopped.reason !== 'requested') throw hasEnded(stopped);
  recordAudit(sql, reach, { ...auditOfJob(job, 'cancel'), after: { job_run_id: id } });
  return { jobRun: toJobRun(stopped), stoppedRun: stopped.status === 'running' ? stopped.run_id : null };
}

async function readStatus(sql: Knex, now: number): Promise<SchedulerStatus> {
  const jobs = { active: 0, paused: 0, completed: 0 };
  const counted: { status: JobRow['status']; count: number }[] = await sql('scheduled_jobs')
    .groupBy('status')
    .select('status', sql.raw('count(*) as count'));
  for (const { status, count } of counted) jobs[status] = Number(count);
  const open = { queued: 0, starting: 0, running: 0 };
  const runs: { status: keyof typeof open; count: number }[] = await sql('job_runs')
    .whereIn('status', Object.keys(open))
    .groupBy('status')
    .select('status', sql.raw('count(*) as count'));
  for (const { status, count } of runs) open[status] = Number(count);
  const workers: { worker: string; count: number }[] = await sql('job_runs')
    .where({ status: 'starting' })
    .groupBy('worker')
    .orderBy('worker')
    .select('worker', sql.raw('count(*) as count'));
  const due = await dueJobs(sql, now);
  const waiting = await claimable(sql, now).first('due_at');
  const oldest = Math.min(due.oldest ?? now, waiting?.due_at ?? now);
  return {
    jobs,
    due: due.count,
    lag_ms: Math.max(0, now - oldest),
    next_due_at: nullableTimestamp(due.next),
    ...open,
    processes: workers.map(({ worker: name, count }) => ({ name, starting: Number(count) })),
  };
}

async function dueJobs(sql: Knex, now: number) {
  const jobs = () => sql('scheduled_jobs').where({ status: 'active' });
  const [past] = await jobs()
    .where('next_due_at', '<=', now)
    .select<{ count: number; oldest: number | null }[]>(
      sql.raw('count(*) as count, min(next_due_at) as oldest'),
    );
  const [coming] = await jobs().min<{ next: number | null }[]>({ next: 'next_due_at' });
  return { count: Number(past?.count ?? 0), oldest: past?.oldest ?? null, next: coming?.next ?? null };
}

/** Runs whose moment has come and that nothing of their own job holds up, those that waited longest first. */
export function claimable(sql: Knex, now: number) {
  return sql<JobRunRow>('job_runs')
    .where({ status: 'queued' })
    .where('due_at', '<=', now)
    .whereNotExists(
      sql('job_runs as earlier')
        .whereRaw('earlier.job_id = job_runs.job_id')
        .whereNull('earlier.ended_at')
        .whereRaw("(earlier.occurrence < job_runs.occurrence or earlier.status in ('starting', 'running'))"),
    )
    .orderBy(['due_at', 'id']);
}
