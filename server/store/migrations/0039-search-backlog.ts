/** Which sessions came with so many messages that these are written where searches look afterwards, in parts. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const searchBacklog = {
  name: 'search-backlog',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('search_backlog', (table) => {
      table.text('session_id').primary().references('sessions.id').onDelete('cascade');
      table.text('organization_id').notNullable();
      table.text('workspace_id').notNullable();
      // Its messages behind the first place, up to and with the last one, are still to be written.
      table.integer('after_run_number').notNullable();
      table.integer('after_position').notNullable();
      table.integer('last_run_number').notNullable();
      table.integer('last_position').notNullable();
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'search_backlog', inScope('organization_id'));
  },
};
