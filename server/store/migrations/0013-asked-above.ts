/** What agents ask is listed at the session, and told of the run, that a person sees. */
import type { Knex } from 'knex';

export const askedAbove = { name: 'asked-above', up };

async function up(sql: Knex.Transaction): Promise<void> {
  for (const name of ['permission_requests', 'prompt_requests']) {
    await sql.schema.alterTable(name, (table) => {
      table.text('root_session_id');
      table.text('root_run_id');
    });
    await sql(name).update({ root_session_id: sql.ref('session_id'), root_run_id: sql.ref('run_id') });
    await sql.raw(
      `update ${name} set
        root_run_id = (select root_run_id from sessions where sessions.id = ${name}.session_id),
        root_session_id = (
          select runs.session_id from sessions join runs on runs.id = sessions.root_run_id
          where sessions.id = ${name}.session_id)
      where exists (
        select 1 from sessions join runs on runs.id = sessions.root_run_id
        where sessions.id = ${name}.session_id)`,
    );
    await sql.schema.alterTable(name, (table) => {
      table.index(['root_session_id', 'created_at', 'id']);
      table.index(['root_session_id', 'status', 'created_at', 'id']);
      table.index(['root_run_id', 'status', 'created_at', 'id']);
    });
  }
}
