/** People as their organizations manage them, how they want things, and what limits an API key. */
import type { Knex } from 'knex';
import { guard, ofUser } from './0006-tenancy.ts';

export const users = {
  name: 'users',
  async up(sql: Knex.Transaction): Promise<void> {
    await addToUsers(sql);
    await addToApiKeys(sql);
    await createPreferences(sql);
  },
};

async function addToUsers(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('users', (table) => {
    table.text('avatar');
    table.text('status').notNullable().defaultTo('active');
    // The organization that made the account. No reference: it counts only while the person is a member of it.
    table.text('managed_by');
    // The name in lower case, to be searched by its beginning.
    table.text('name_key').notNullable().defaultTo('');
    table.index(['status', 'email_key']);
    table.index(['name_key', 'email_key']);
  });
  // Beginnings are ranges of bytes, on both engines.
  if (sql.client.config.client !== 'pg') return;
  for (const column of ['email_key', 'name_key'])
    await sql.raw('alter table users alter column ?? type text collate "C"', [column]);
}

async function addToApiKeys(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('api_keys', (table) => {
    // No reference: a key whose workspace is gone reaches nothing, and not everything.
    table.text('workspace_id');
    table.text('ip_allow').notNullable().defaultTo('[]');
    table.text('permission_rules').notNullable().defaultTo('[]');
    table.integer('rate_limit');
    // How many secrets the key has had, and the one before this.
    table.integer('secret_number').notNullable().defaultTo(1);
    table.text('old_hash');
    table.bigInteger('old_hash_expires_at');
    table.text('last_used_ip');
    table.bigInteger('requests').notNullable().defaultTo(0);
    table.unique(['old_hash']);
  });
}

async function createPreferences(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('user_preferences', (table) => {
    table.text('user_id').primary().references('users.id').onDelete('cascade');
    table.text('locale');
    table.text('timezone');
    table.text('theme').notNullable();
    table.text('default_model');
    table.text('notifications').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('updated_at').notNullable();
  });
  if (sql.client.config.client === 'pg') await guard(sql, 'user_preferences', ofUser('user_id'));
}
