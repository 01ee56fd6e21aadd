/** Seeds jobs of the scheduler: the one that is shown, and one that runs can be asked of. */
import type { Knex } from 'knex';
import { at, type ExampleSeed, later } from './example-seed.ts';

/** Whose runs wait behind one that no process begins. */
const waitingJob = 'job_01k9w6r3h2e7xv5q0c8m4b1tzc';

export async function seedJobs(sql: Knex.Transaction, { job, jobRun, waitingJobRun }: ExampleSeed) {
  await seedJob(sql, job, { status: 'active', next_at: later, next_due_at: later });
  const another = { ...job, id: waitingJob, overlap_policy: 'queue' } as const;
  await seedJob(sql, another, { status: 'paused', pause_reason: 'requested' });
  await seedRun(sql, job, jobRun);
  const before = { id: 'jbr_01k9w6r3h2e7xv5q0c8m4b1tzb', status: 'starting', worker: 'nobody' } as const;
  const waiting = { ...waitingJobRun, reason: null, ended_at: null };
  await seedRun(sql, another, { ...waiting, ...before, occurrence: job.created_at });
  await seedRun(sql, another, { ...waiting, status: 'queued' });
}

type Shown = ExampleSeed['job'];

async function seedJob(sql: Knex.Transaction, job: Shown, state: object) {
  const { owner_id: user_id, next_runs: _next, last_run: _last, permission_rules, ...known } = job;
  const times = { anchor_at: at, created_at: at, updated_at: at };
  const rules = { permission_rules: JSON.stringify(permission_rules) };
  await sql('scheduled_jobs').insert({ ...known, user_id, ...rules, ...times, revision: 1, ...state });
}

type ShownRun = ExampleSeed['jobRun'];

async function seedRun(
  sql: Knex.Transaction,
  job: Shown,
  { worker = null, ...run }: ShownRun & { readonly worker?: string | null },
) {
  const milliseconds = (time: string | null) => time && Date.parse(time);
  await sql('job_runs').insert({
    ...run,
    ...{ organization_id: job.organization_id, job_id: job.id, worker },
    ...{ claims: 1, renewals: 0, deaths: 0, earlier_attempts: '[]' },
    occurrence: milliseconds(run.occurrence),
    due_at: milliseconds(run.due_at),
    created_at: at,
    started_at: milliseconds(run.started_at),
    ended_at: milliseconds(run.ended_at),
  });
}
