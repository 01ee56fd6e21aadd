/** What was used, by day, and how much may be. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const quotas = {
  name: 'quotas',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('runs', (table) => {
      // The key that asked, as what the run uses counts for it; no reference: what was used stays used.
      table.text('api_key_id');
    });
    await createQuotas(sql);
    await createUsage(sql);
    await createCounters(sql);
    await createCallsAtWork(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['quotas', 'usage_days', 'usage_counters', 'calls_at_work'])
      await guard(sql, table, inScope('organization_id'));
  },
};

async function createQuotas(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('quotas', (table) => {
    // The id of a user, group, organization, workspace or API key; its prefix says which.
    table.text('subject_id').notNullable();
    // The organization whose use counts, or the empty text for the use everywhere, as a key takes no null.
    table.text('scope').notNullable();
    table.text('subject_type').notNullable();
    table.text('organization_id').references('organizations.id').onDelete('cascade');
    // The subject once more where it is one of these, so that its quota goes with it.
    table.text('user_id').references('users.id').onDelete('cascade');
    table.text('group_id').references('groups.id').onDelete('cascade');
    table.text('workspace_id').references('workspaces.id').onDelete('cascade');
    table.text('api_key_id').references('api_keys.id').onDelete('cascade');
    table.text('limits').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.primary(['subject_id', 'scope']);
    for (const column of ['organization_id', 'user_id', 'group_id', 'workspace_id', 'api_key_id'])
      table.index([column]);
    table.check("subject_type in ('user', 'group', 'organization', 'workspace', 'api_key')");
  });
}

/** Who used what: read by getUsage. Of the same day, several rows may stand for the same, so that writers do not wait. */
async function createUsage(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('usage_days', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    // Days since 1970, in UTC.
    table.integer('day').notNullable();
    table.text('workspace_id').notNullable();
    table.text('user_id').notNullable();
    // The empty text where a login asked.
    table.text('api_key_id').notNullable();
    table.text('model').notNullable();
    table.integer('slot').notNullable();
    table.bigInteger('requests').notNullable();
    addTokens(table);
    // Calls of models whose price is not known.
    table.bigInteger('unpriced_calls').notNullable();
    table.primary(['organization_id', 'day', 'workspace_id', 'user_id', 'api_key_id', 'model', 'slot']);
    table.index(['day']);
    table.index(['user_id', 'day']);
    table.index(['workspace_id', 'day']);
  });
}

function addTokens(table: Knex.CreateTableBuilder): void {
  table.bigInteger('input_tokens').notNullable();
  table.bigInteger('output_tokens').notNullable();
  table.bigInteger('cached_input_tokens').notNullable();
  table.bigInteger('cost_nanodollars').notNullable();
}

/** The same by subject, groups among them: a quota is checked by adding up few rows. */
async function createCounters(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('usage_counters', (table) => {
    table.text('subject_id').notNullable();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.integer('day').notNullable();
    table.integer('slot').notNullable();
    table.bigInteger('requests').notNullable();
    table.bigInteger('tokens').notNullable();
    table.bigInteger('cost_nanodollars').notNullable();
    table.primary(['subject_id', 'day', 'organization_id', 'slot']);
    table.index(['organization_id']);
    table.index(['day']);
  });
}

/** Model calls without a run; each process keeps its own from expiring. */
async function createCallsAtWork(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('calls_at_work', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.text('api_key_id');
    table.bigInteger('expires_at').notNullable();
    for (const column of ['organization_id', 'workspace_id', 'user_id']) table.index([column]);
  });
}
