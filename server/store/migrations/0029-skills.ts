/** Skills of people, workspaces and organizations with their files, and what is disabled. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const skills = {
  name: 'skills',
  async up(sql: Knex.Transaction): Promise<void> {
    await createSkills(sql);
    await createSwitches(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['skills', 'skill_files', 'skill_switches'])
      await guard(sql, table, inScope('organization_id'));
  },
};

function owned(table: Knex.CreateTableBuilder): void {
  table.text('scope').notNullable();
  // Names the person in the organization, the workspace, or the organization.
  table.text('owner_key').notNullable();
  table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
  // The one person whose it is; null where others share it.
  table.text('private_to').references('users.id').onDelete('cascade');
  table.text('workspace_id').references('workspaces.id').onDelete('cascade');
  table.index(['organization_id']);
  table.index(['private_to']);
  table.index(['workspace_id']);
  table.check("scope in ('user', 'workspace', 'organization')");
  table.check("(scope = 'user') = (private_to is not null)");
  table.check("(scope = 'workspace') = (workspace_id is not null)");
}

async function createSkills(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('skills', (table) => {
    table.text('id').primary();
    owned(table);
    table.text('name').notNullable();
    table.text('description').notNullable();
    table.text('digest').notNullable();
    table.integer('files').notNullable();
    table.bigInteger('size').notNullable();
    // For whom it counts; no references, as the skill outlives both.
    table.text('user_id').notNullable();
    table.text('api_key_id');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.unique(['owner_key', 'name']);
    table.index(['user_id']);
    table.index(['api_key_id']);
    table.index(['digest']);
  });
  await sql.schema.createTable('skill_files', (table) => {
    table.text('skill_id').notNullable().references('skills.id').onDelete('cascade');
    table.text('organization_id').notNullable();
    fileColumns(table);
    table.primary(['skill_id', 'path']);
    table.index(['organization_id']);
  });
}

function fileColumns(table: Knex.CreateTableBuilder): void {
  table.text('path').notNullable();
  table.integer('size').notNullable();
  table.text('sha256').notNullable();
  table.boolean('executable').notNullable();
  table.binary('content').notNullable();
}

/** By name: what is disabled stays so when another skill takes the name. */
async function createSwitches(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('skill_switches', (table) => {
    owned(table);
    table.text('name').notNullable();
    table.text('user_id').notNullable();
    table.bigInteger('created_at').notNullable();
    table.primary(['owner_key', 'name']);
  });
}
