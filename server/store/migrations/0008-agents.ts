/** Agent profiles of organizations, plans, and the sessions of sub-agents. */
import type { Knex } from 'knex';

export const agents = {
  name: 'agents',
  async up(sql: Knex.Transaction): Promise<void> {
    await createAgents(sql);
    await createPlans(sql);
    await addParentRuns(sql);
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
  // Slugs are merged with those of files, whose order is that of their letters whatever the language.
  if (sql.client.config.client === 'pg')
    await sql.raw('alter table agents alter column slug type text collate "C"');
}

async function createPlans(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('plans', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    // The run may be deleted with what was said in it, and the plan stays.
    table.text('run_id');
    table.integer('version').notNullable();
    table.text('title').notNullable();
    table.text('content').notNullable();
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
    table.index(['carried_out_by']);
    table.check("status in ('proposed', 'approved', 'carried_out', 'failed', 'rejected')");
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

/** Sessions of agents that other agents started are left out of lists: the indexes of lists hold the others alone. */
async function addParentRuns(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('sessions', (table) => {
    table.text('parent_run_id');
    // Which call of that run started the agent.
    table.text('parent_call');
    // The run of a person that all of it began with.
    table.text('root_run_id');
    table.integer('agent_depth').notNullable().defaultTo(0);
    // Lists of tools: only what each of them holds is left.
    table.text('tool_limits').notNullable().defaultTo('[]');
    table.unique(['parent_run_id', 'parent_call']);
    table.index(['root_run_id']);
  });
  for (const order of ['created_at', 'updated_at'])
    for (const [name, columns] of [
      [`sessions_by_${order}`, ['archived']],
      [`sessions_of_workspace_by_${order}`, ['workspace_id', 'archived']],
      [`sessions_of_status_by_${order}`, ['status', 'archived']],
    ] as const) {
      await sql.raw('drop index ??', [name]);
      const all = ['organization_id', ...columns, order, 'id'];
      const places = all.map(() => '??').join(', ');
      await sql.raw(`create index ?? on sessions (${places}) where parent_run_id is null`, [name, ...all]);
    }
}
