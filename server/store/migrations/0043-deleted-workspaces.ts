/** Which workspaces are gone while their folders may still be there: those are removed once the deletion is stored. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const deletedWorkspaces = {
  name: 'deleted-workspaces',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('deleted_workspaces', (table) => {
      table.text('id').primary();
      // No foreign key: it may be gone as well.
      table.text('organization_id').notNullable();
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'deleted_workspaces', inScope('organization_id'));
  },
};
