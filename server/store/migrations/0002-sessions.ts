/** Sessions: their messages and runs, the events of each run, and what was asked of people. */
import type { Knex } from 'knex';

// Each list has an index that begins with its filters and ends with its order, so that a page costs the same
// wherever it stands.
export const sessions = {
  name: 'sessions',
  async up(sql: Knex.Transaction): Promise<void> {
    await createSessions(sql);
    await createSessionTags(sql);
    await createRuns(sql);
    await createMessages(sql);
    await createRunEvents(sql);
    await createPermissions(sql);
    await createPrompts(sql);
  },
};

async function createSessions(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('sessions', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('user_id').notNullable();
    table.text('parent_id').references('sessions.id').onDelete('set null');
    table.text('title').notNullable();
    table.text('status').notNullable();
    table.text('agent_slug').notNullable();
    table.text('model');
    table.text('system_prompt');
    table.text('permission_rules').notNullable();
    table.text('tags').notNullable();
    table.text('metadata').notNullable();
    table.boolean('archived').notNullable();
    addUsage(table);
    table.integer('message_count').notNullable();
    // How many runs were begun: the turn of the newest.
    table.integer('turn').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    for (const order of ['created_at', 'updated_at']) {
      table.index(['organization_id', 'archived', order, 'id'], `sessions_by_${order}`);
      table.index(
        ['organization_id', 'workspace_id', 'archived', order, 'id'],
        `sessions_of_workspace_by_${order}`,
      );
      table.index(['organization_id', 'status', 'archived', order, 'id'], `sessions_of_status_by_${order}`);
    }
    table.index(['workspace_id']);
    table.index(['parent_id']);
    table.check("status in ('idle', 'running', 'waiting')");
  });
}

/** The order and `archived` stand here again, so that a list by tag needs no sorting. */
async function createSessionTags(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('session_tags', (table) => {
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('tag').notNullable();
    table.boolean('archived').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.primary(['session_id', 'tag']);
    for (const order of ['created_at', 'updated_at'])
      table.index(['organization_id', 'tag', 'archived', order, 'session_id'], `session_tags_by_${order}`);
  });
}

async function createRuns(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('runs', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('user_id').notNullable();
    table.integer('turn').notNullable();
    table.text('status').notNullable();
    table.text('trigger').notNullable();
    table.text('agent_slug').notNullable();
    table.text('model').notNullable();
    table.text('permission_mode').notNullable();
    table.text('on_unanswered').notNullable();
    table.integer('steps').notNullable();
    addUsage(table);
    table.text('stop_reason');
    table.text('interrupt_reason');
    // What somebody has asked for, before the run has obeyed.
    table.text('interrupt_requested');
    table.text('error');
    table.bigInteger('last_event_id').notNullable();
    // Events up to this one are no longer kept.
    table.bigInteger('pruned_event_id').notNullable();
    table.text('lease_owner').notNullable();
    table.bigInteger('lease_expires_at').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('started_at');
    table.bigInteger('ended_at');
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['organization_id', 'status', 'created_at', 'id']);
    table.index(['organization_id', 'trigger', 'created_at', 'id']);
    table.index(['organization_id', 'session_id', 'created_at', 'id']);
    table.unique(['session_id', 'turn']);
  });
  await sql.raw('create index runs_active on runs (lease_expires_at) where ended_at is null');
  await sql.raw('create index runs_prunable on runs (ended_at) where pruned_event_id < last_event_id');
}

async function createMessages(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('messages', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('run_id').references('runs.id').onDelete('cascade');
    // A prompt may be stored while an earlier run still answers: the turn keeps question and answer together.
    table.integer('turn').notNullable();
    table.integer('position').notNullable();
    table.text('role').notNullable();
    table.text('parts').notNullable();
    table.text('model');
    table.text('stop_reason');
    table.text('usage');
    table.bigInteger('created_at').notNullable();
    table.unique(['session_id', 'turn', 'position']);
    table.index(['session_id', 'role', 'turn', 'position']);
    table.index(['run_id']);
  });
}

async function createRunEvents(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('run_events', (table) => {
    table.text('organization_id').notNullable();
    table.text('run_id').notNullable().references('runs.id').onDelete('cascade');
    table.bigInteger('seq').notNullable();
    table.text('name').notNullable();
    table.text('data').notNullable();
    table.primary(['run_id', 'seq']);
  });
}

async function createPermissions(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('permission_requests', (table) => {
    addQuestion(table);
    table.text('decision');
    table.text('message');
    table.check("status in ('pending', 'answered', 'expired', 'cancelled')");
  });
  await sql.schema.createTable('permission_grants', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    // Null: for every session of the workspace.
    table.text('session_id').references('sessions.id').onDelete('cascade');
    table.text('tool_name').notNullable();
    table.text('action').notNullable();
    table.text('granted_by').notNullable();
    table.bigInteger('created_at').notNullable();
    table.index(['workspace_id', 'session_id']);
    table.index(['session_id']);
  });
}

async function createPrompts(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('prompt_requests', (table) => {
    addQuestion(table);
    table.text('answers');
    table.check("status in ('pending', 'answered', 'declined', 'expired', 'cancelled')");
  });
}

function addUsage(table: Knex.CreateTableBuilder): void {
  table.bigInteger('input_tokens').notNullable();
  table.bigInteger('output_tokens').notNullable();
  table.bigInteger('cached_input_tokens').notNullable();
}

/** What a permission request and a prompt request have in common. */
function addQuestion(table: Knex.CreateTableBuilder): void {
  table.text('id').primary();
  table.text('organization_id').notNullable();
  table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
  table.text('run_id').notNullable().references('runs.id').onDelete('cascade');
  // As it was asked. JSON, since a model wrote parts of it, and JSON text takes whatever a model writes.
  table.text('request').notNullable();
  table.text('status').notNullable();
  table.text('answered_by');
  table.bigInteger('created_at').notNullable();
  table.bigInteger('expires_at').notNullable();
  table.bigInteger('resolved_at');
  table.index(['session_id', 'created_at', 'id']);
  table.index(['session_id', 'status', 'created_at', 'id']);
  table.index(['run_id', 'status']);
}
