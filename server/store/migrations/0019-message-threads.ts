/** Threads of the Messages surface: what their sessions do not say of them. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const messageThreads = {
  name: 'message-threads',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('message_threads', (table) => {
      table.text('session_id').primary().references('sessions.id').onDelete('cascade');
      table.text('organization_id').notNullable();
      // The newest answer, or the one that is being written: the thread goes on from it alone.
      table.text('message_id').notNullable().unique();
      table.text('previous_message_id');
      table.text('system').notNullable();
      table.text('tools').notNullable();
      table.text('tool_changes').notNullable();
      table.index(['previous_message_id']);
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'message_threads', inScope('organization_id'));
  },
};
