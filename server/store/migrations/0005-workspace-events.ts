/** The events of a workspace in one sequence, so that they can be followed and replayed. */
import type { Knex } from 'knex';

export const workspaceEvents = {
  name: 'workspace-events',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('workspace_streams', (table) => {
      table.text('workspace_id').primary().references('workspaces.id').onDelete('cascade');
      table.text('organization_id').notNullable();
      table.bigInteger('last_event_id').notNullable();
      // Events up to this one are no longer kept.
      table.bigInteger('pruned_event_id').notNullable();
    });
    await sql.schema.createTable('workspace_events', (table) => {
      table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
      table.text('organization_id').notNullable();
      table.bigInteger('seq').notNullable();
      // No reference: the event that tells of a session's deletion outlives the session.
      table.text('session_id').notNullable();
      table.text('run_id');
      // An event of a run is not stored twice: this names it among the events of the run.
      table.bigInteger('run_event_id');
      table.text('type').notNullable();
      table.text('data');
      table.bigInteger('created_at').notNullable();
      table.primary(['workspace_id', 'seq']);
      table.index(['session_id', 'seq']);
      table.index(['created_at']);
    });
  },
};
