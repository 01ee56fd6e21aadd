/** Agent profiles of organizations. */
import type { Knex } from 'knex';

export const agents = {
  name: 'agents',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('agents', (table) => {
      table.text('id').primary();
      table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
      // Null: for every workspace of the organization.
      table.text('workspace_id').references('workspaces.id').onDelete('cascade');
      table.text('slug').notNullable();
      table.text('name').notNullable();
      table.text('description').notNullable();
      table.text('instructions').notNullable();
      table.text('tools');
      table.text('model');
      table.text('permission_mode');
      table.text('created_by').notNullable();
      table.integer('revision').notNullable();
      table.bigInteger('created_at').notNullable();
      table.bigInteger('updated_at').notNullable();
      table.unique(['organization_id', 'slug']);
      table.index(['workspace_id']);
    });
    // Slugs are merged with those of files, whose order is that of their letters whatever the language.
    if (sql.client.config.client === 'pg')
      await sql.raw('alter table agents alter column slug type text collate "C"');
  },
};
