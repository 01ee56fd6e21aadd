/** What holds for all of a workspace, where its folder is, and which of its settings files somebody trusts. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const workspaces = {
  name: 'workspaces',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('workspaces', (table) => {
      // The real path of a folder that was there before; null for one of the workspace's own.
      table.text('path');
      table.text('default_model');
      table.text('permission_mode');
      table.text('permission_rules').notNullable().defaultTo('[]');
      table.integer('revision').notNullable().defaultTo(1);
    });
    await sql.raw('create index workspaces_with_path on workspaces (path) where path is not null');
    await createTrust(sql);
    if (sql.client.config.client === 'pg') await guard(sql, 'workspace_trust', inScope('organization_id'));
  },
};

/** Here and not in a file, so that every node knows it, and it goes with the workspace. */
async function createTrust(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('workspace_trust', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    // The real path, relative to the folder: nodes may have it in different places.
    table.text('file').notNullable();
    table.text('sha256').notNullable();
    // What was shown when it was trusted, for the difference next time.
    table.text('review').notNullable();
    table.text('trusted_by').notNullable();
    table.bigInteger('trusted_at').notNullable();
    table.primary(['workspace_id', 'file']);
  });
}
