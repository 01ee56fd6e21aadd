/** What happens in a workspace, in one order, so that it can be followed and replayed. */
import type { Knex } from 'knex';

export const live = {
  name: 'live',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('workspace_streams', (table) => {
      table.text('workspace_id').primary().references('workspaces.id').onDelete('cascade');
      table.bigInteger('last_event_id').notNullable();
      // Events up to this one are no longer kept.
      table.bigInteger('pruned_event_id').notNullable();
    });
    await sql.schema.createTable('workspace_events', (table) => {
      table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
      table.bigInteger('seq').notNullable();
      // Not the session itself: that it was deleted is told behind it.
      table.text('session_id').notNullable();
      table.text('run_id');
      // What a run told is not stored twice: it stands among the events of the run.
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
