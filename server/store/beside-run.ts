/** What there may be beside a run at work, asked with one look when it ends: most have none of it. */
import type { Knex } from 'knex';

/** Questions that nobody has answered, the plan that it carries out, and the run of a job that it is. */
type BesideRun = Readonly<Record<'permissions' | 'prompts' | 'plans' | 'jobs', unknown>>;

/** Its session is held: none of these comes to be, or is another run's, before the transaction ends. */
export async function besideRun(sql: Knex.Transaction, runId: string): Promise<BesideRun> {
  // One engine answers with truth, the other with 0 or 1.
  const [row]: BesideRun[] = await sql.select({
    permissions: anyOf(sql, 'permission_requests', { run_id: runId, status: 'pending' }),
    prompts: anyOf(sql, 'prompt_requests', { run_id: runId, status: 'pending' }),
    plans: anyOf(sql, 'plans', { carried_out_by: runId }),
    jobs: anyOf(sql, 'job_runs', { run_id: runId, status: 'running' }),
  });
  return row ?? { permissions: false, prompts: false, plans: false, jobs: false };
}

function anyOf(sql: Knex.Transaction, table: string, which: Readonly<Record<string, string>>): Knex.Raw {
  return sql.raw('exists ?', [sql(table).where(which).select(sql.raw('1'))]);
}
