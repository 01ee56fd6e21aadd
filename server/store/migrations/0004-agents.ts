/** Agent profiles of organizations, and plans. */
import type { Knex } from 'knex';

export const agents = {
  name: 'agents-and-plans',
  async up(sql: Knex.Transaction): Promise<void> {
    await createAgents(sql);
    await createPlans(sql);
  },
};

async function createAgents(sql: Knex.Transaction): Promise<void> {
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
  // Slugs are merged with those of files, which are sorted by code point in every language.
  if (sql.client.config.client === 'pg')
    await sql.raw('alter table agents alter column slug type text collate "C"');
}

async function createPlans(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('plans', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    // No reference: the run may be deleted with its messages while the plan stays.
    table.text('run_id');
    table.integer('version').notNullable();
    table.text('title').notNullable();
    table.text('content').notNullable();
    // As JSON, with how far each is.
    table.text('steps').notNullable();
    table.text('status').notNullable();
    table.text('comment');
    table.text('carried_out_by');
    table.text('decided_by');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['organization_id', 'status', 'created_at', 'id']);
    table.index(['organization_id', 'session_id', 'created_at', 'id']);
    table.index(['session_id', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['workspace_id', 'status', 'created_at', 'id']);
    table.index(['carried_out_by']);
    table.check("status in ('draft', 'proposed', 'approved', 'executing', 'done', 'failed', 'rejected')");
  });
  await sql.schema.createTable('plan_versions', (table) => {
    table.text('organization_id').notNullable();
    table.text('plan_id').notNullable().references('plans.id').onDelete('cascade');
    table.integer('version').notNullable();
    table.text('run_id');
    table.text('title').notNullable();
    table.text('content').notNullable();
    table.bigInteger('created_at').notNullable();
    table.primary(['plan_id', 'version']);
  });
}
