/** Whose the session of a job is: in one that its runs have made, the rules of the job count as they are now. */
import type { Knex } from 'knex';

export const jobSessions = {
  name: 'job-sessions',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('scheduled_jobs', (table) => {
      table.boolean('made_session').notNullable().defaultTo(false);
    });
    // A session that is made with a run is as old as its run.
    await sql('scheduled_jobs')
      .whereExists(
        sql('job_runs')
          .join('sessions', 'sessions.id', 'job_runs.session_id')
          .whereRaw('job_runs.job_id = scheduled_jobs.id')
          .whereRaw('job_runs.session_id = scheduled_jobs.session_id')
          .whereRaw('job_runs.started_at = sessions.created_at'),
      )
      .update({ made_session: true });
  },
};
