/** Jobs of the scheduler, and one row for each of their times. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const scheduler = {
  name: 'scheduler',
  async up(sql: Knex.Transaction): Promise<void> {
    await createJobs(sql);
    await createRuns(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['scheduled_jobs', 'job_runs']) await guard(sql, table, inScope('organization_id'));
  },
};

async function createJobs(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('scheduled_jobs', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    // With whose rights it runs.
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    // No reference: that the key is gone is to be noticed.
    table.text('api_key_id');
    table.text('name').notNullable();
    table.text('prompt').notNullable();
    table.text('cron');
    table.integer('interval_s');
    table.bigInteger('run_at');
    table.text('timezone').notNullable();
    // From when intervals are counted.
    table.bigInteger('anchor_at').notNullable();
    table.text('agent_slug').notNullable();
    table.text('model');
    table.text('session_mode').notNullable();
    table.text('session_id').references('sessions.id').onDelete('set null');
    table.text('permission_mode').notNullable();
    table.text('permission_rules').notNullable();
    table.text('overlap_policy').notNullable();
    table.text('misfire_policy').notNullable();
    table.integer('jitter_s').notNullable();
    table.integer('timeout_s').notNullable();
    table.integer('max_retries').notNullable();
    table.bigInteger('ends_at');
    table.integer('max_runs');
    table.text('status').notNullable();
    table.text('pause_reason');
    table.integer('runs_begun').notNullable();
    // Its next time, and that time with jitter; null unless it is active.
    table.bigInteger('next_at');
    table.bigInteger('next_due_at');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.check("status in ('active', 'paused', 'completed')");
    table.check("(status = 'active') = (next_due_at is not null)");
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['user_id']);
    table.index(['session_id']);
    table.index(['next_due_at']);
  });
}

async function createRuns(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('job_runs', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('job_id').notNullable().references('scheduled_jobs.id').onDelete('cascade');
    table.bigInteger('occurrence').notNullable();
    table.text('trigger').notNullable();
    table.text('status').notNullable();
    table.text('reason');
    table.text('error');
    table.integer('missed').notNullable();
    table.integer('attempts').notNullable();
    // JSON: the attempts before this one.
    table.text('earlier_attempts').notNullable();
    table.text('session_id').references('sessions.id').onDelete('set null');
    table.text('run_id').references('runs.id').onDelete('set null');
    table.bigInteger('due_at').notNullable();
    // The process that starts it, counted up with each that does; it is alive as long as its number of renewals grows.
    table.text('worker');
    table.integer('claims').notNullable();
    table.integer('renewals').notNullable();
    table.integer('deaths').notNullable();
    // When a run at work takes too long, and why it was asked to stop.
    table.bigInteger('deadline_at');
    table.text('stop_wanted');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('started_at');
    table.bigInteger('ended_at');
    // No time of a job is there twice, whichever processes come upon it.
    table.unique(['job_id', 'occurrence']);
    table.index(['organization_id']);
    table.index(['session_id']);
    table.index(['run_id']);
    table.index(['ended_at']);
  });
  // What has not ended is little, and is looked at every second.
  for (const [name, columns, status] of [
    ['job_runs_waiting', 'due_at, id', 'queued'],
    ['job_runs_starting', 'worker', 'starting'],
    ['job_runs_at_work', 'deadline_at', 'running'],
  ])
    await sql.raw(`create index ${name} on job_runs (${columns}) where status = '${status}'`);
  await sql.raw('create index job_runs_open on job_runs (job_id, occurrence) where ended_at is null');
}
