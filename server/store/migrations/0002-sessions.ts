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
    await createSeenFiles(sql);
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
    table.boolean('pinned').notNullable().defaultTo(false);
    addUsage(table);
    table.bigInteger('context_used').notNullable().defaultTo(0);
    table.bigInteger('context_window');
    table.integer('message_count').notNullable();
    // No reference: a session is deleted with its messages, in whichever order the database does that.
    table.text('summary_message_id');
    // The number of the newest run.
    table.integer('run_number').notNullable();
    // The bytes of the file contents that are kept for the session.
    table.bigInteger('kept_bytes').notNullable().defaultTo(0);
    addParentRun(table);
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['workspace_id']);
    table.index(['parent_id']);
    table.check("status in ('idle', 'running', 'waiting')");
  });
  await createSessionIndexes(sql);
}

/** What a child session knows of the run that started it. */
function addParentRun(table: Knex.CreateTableBuilder): void {
  table.text('parent_run_id');
  // The tool call of that run which started the agent.
  table.text('parent_call');
  // The run at the root of the tree: the one that a person began.
  table.text('root_run_id');
  table.integer('agent_depth').notNullable().defaultTo(0);
  // Lists of tool names. The agent may use only the tools that stand in every list.
  table.text('tool_limits').notNullable().defaultTo('[]');
  table.unique(['parent_run_id', 'parent_call']);
  table.index(['root_run_id']);
}

/** Lists leave out the sessions of sub-agents unless they ask for the children of one session. */
async function createSessionIndexes(sql: Knex.Transaction): Promise<void> {
  for (const order of ['created_at', 'updated_at']) {
    await createListIndex(sql, `sessions_by_${order}`, ['archived', order]);
    await createListIndex(sql, `sessions_of_workspace_by_${order}`, ['workspace_id', 'archived', order]);
    await createListIndex(sql, `sessions_of_status_by_${order}`, ['status', 'archived', order]);
    await sql.schema.alterTable('sessions', (table) => {
      table.index(
        ['organization_id', 'parent_id', 'archived', order, 'id'],
        `sessions_of_parent_by_${order}`,
      );
    });
  }
}

/** By plain SQL, as knex knows no condition on an index for both databases. */
async function createListIndex(
  sql: Knex.Transaction,
  name: string,
  columns: readonly string[],
): Promise<void> {
  const all = ['organization_id', ...columns, 'id'];
  const places = all.map(() => '??').join(', ');
  await sql.raw(`create index ?? on sessions (${places}) where parent_run_id is null`, [name, ...all]);
}

/** The order and `archived` stand here again, so that a list by tag needs no sorting. */
async function createSessionTags(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('session_tags', (table) => {
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('tag').notNullable();
    table.boolean('archived').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.primary(['session_id', 'tag']);
    for (const order of ['created_at', 'updated_at']) {
      table.index(['organization_id', 'tag', 'archived', order, 'session_id'], `session_tags_by_${order}`);
      table.index(
        ['workspace_id', 'tag', 'archived', order, 'session_id'],
        `session_tags_of_workspace_by_${order}`,
      );
    }
  });
}

async function createRuns(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('runs', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('user_id').notNullable();
    // Counts the runs of the session, from 1.
    table.integer('run_number').notNullable();
    table.text('status').notNullable();
    table.text('trigger').notNullable();
    table.text('agent_slug').notNullable();
    table.text('model').notNullable();
    table.text('permission_mode').notNullable();
    table.text('on_unanswered').notNullable();
    // What was asked for besides the prompt, as the runtime wrote it: whoever continues the run must know it too.
    table.text('request');
    // Names the folder that the run works in among those of all nodes.
    table.text('workspace_place');
    table.text('provisional_title');
    table.integer('steps').notNullable();
    addUsage(table);
    table.text('stop_reason');
    table.text('interrupt_reason');
    // Set when somebody asks for an interrupt, until the run has obeyed.
    table.text('interrupt_requested');
    table.text('error');
    table.bigInteger('last_event_id').notNullable();
    // The newest event when a step or its results were last stored: whatever comes after it was not finished.
    table.bigInteger('committed_event_id').notNullable().defaultTo(0);
    // Events up to this one are no longer kept.
    table.bigInteger('pruned_event_id').notNullable();
    table.text('lease_owner').notNullable();
    // A lease is alive as long as this number grows, whatever any clock says.
    table.bigInteger('lease_renewals').notNullable().defaultTo(0);
    table.integer('resumptions').notNullable().defaultTo(0);
    table.bigInteger('created_at').notNullable();
    table.bigInteger('started_at');
    table.bigInteger('ended_at');
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['organization_id', 'status', 'created_at', 'id']);
    table.index(['organization_id', 'trigger', 'created_at', 'id']);
    table.index(['organization_id', 'session_id', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['workspace_id', 'status', 'created_at', 'id']);
    table.unique(['session_id', 'run_number']);
  });
  await sql.raw('create index runs_active on runs (id) where ended_at is null');
  await sql.raw(
    'create index runs_of_session_active on runs (session_id, run_number) where ended_at is null',
  );
  await sql.raw('create index runs_prunable on runs (ended_at) where pruned_event_id < last_event_id');
}

async function createMessages(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('messages', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('run_id').references('runs.id').onDelete('cascade');
    // Keeps a prompt with its answer, as a prompt may be stored while an earlier run still answers.
    table.integer('run_number').notNullable();
    table.integer('position').notNullable();
    table.text('role').notNullable();
    table.text('parts').notNullable();
    table.text('model');
    table.text('stop_reason');
    table.text('usage');
    table.bigInteger('cost_nanodollars');
    table.boolean('summary').notNullable().defaultTo(false);
    // Kept for people, and no longer shown to models: a provider refused it.
    table.boolean('excluded').notNullable().defaultTo(false);
    // Reverted messages stay, so that nothing is lost; lists begin with the mark, so that they cost lists nothing.
    table.boolean('reverted').notNullable().defaultTo(false);
    table.text('feedback');
    table.bigInteger('created_at').notNullable();
    table.unique(['session_id', 'run_number', 'position']);
    table.index(['session_id', 'reverted', 'run_number', 'position'], 'messages_in_order');
    table.index(['session_id', 'reverted', 'role', 'run_number', 'position'], 'messages_of_role_in_order');
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
    // The input of the tool call as the person who allowed it changed it.
    table.text('updated_input');
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
    // Null: for every call of the tool.
    table.text('pattern');
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

/** What a session has last seen of a file, so that a change made since is not overwritten. */
async function createSeenFiles(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('seen_files', (table) => {
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('path').notNullable();
    table.text('sha256').notNullable();
    table.double('modified_at').notNullable();
    table.primary(['session_id', 'path']);
  });
}

function addUsage(table: Knex.CreateTableBuilder): void {
  table.bigInteger('input_tokens').notNullable();
  table.bigInteger('output_tokens').notNullable();
  table.bigInteger('cached_input_tokens').notNullable();
  // Billionths of a dollar, so that sums are exact.
  table.bigInteger('cost_nanodollars').notNullable().defaultTo(0);
  // Whether a model without a known price was used.
  table.boolean('unpriced').notNullable().defaultTo(false);
}

/** What a permission request and a prompt request have in common. */
function addQuestion(table: Knex.CreateTableBuilder): void {
  table.text('id').primary();
  table.text('organization_id').notNullable();
  table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
  table.text('run_id').notNullable().references('runs.id').onDelete('cascade');
  // What an agent asks is listed at the session, and told of the run, that a person sees.
  table.text('root_session_id');
  table.text('root_run_id');
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
  table.index(['root_session_id', 'created_at', 'id']);
  table.index(['root_session_id', 'status', 'created_at', 'id']);
  table.index(['root_run_id', 'status', 'created_at', 'id']);
}
