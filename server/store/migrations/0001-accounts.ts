/** Accounts: people, their organizations and workspaces, and every credential. */
import { randomBytes } from 'node:crypto';
import type { Knex } from 'knex';

// Times are milliseconds since 1970 and JSON is text: both engines then give back exactly what was stored.
export const accounts = {
  name: 'accounts',
  async up(sql: Knex.Transaction): Promise<void> {
    await createInstallation(sql);
    await createPeople(sql);
    await createWorkspaces(sql);
    await createLogins(sql);
    await createApiKeys(sql);
    await createInvitations(sql);
  },
};

/** What holds for the whole database. The key signs list cursors, on every node alike. */
async function createInstallation(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('installation', (table) => {
    table.integer('id').primary();
    table.text('cursor_key').notNullable();
  });
  await sql('installation').insert({ id: 1, cursor_key: randomBytes(32).toString('hex') });
}

async function createPeople(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('users', (table) => {
    table.text('id').primary();
    table.text('email').notNullable();
    // The address in lower case: one person, however they spell it.
    table.text('email_key').notNullable().unique();
    table.text('name').notNullable();
    table.text('password_hash').notNullable();
    table.boolean('operator').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
  });
  await sql.raw('create index users_operators on users (id) where operator = true');
  await sql.schema.createTable('organizations', (table) => {
    table.text('id').primary();
    table.text('name').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
  });
  await sql.schema.createTable('memberships', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.text('role').notNullable();
    table.bigInteger('created_at').notNullable();
    table.primary(['organization_id', 'user_id']);
    table.index(['user_id', 'created_at']);
    table.check("role in ('owner', 'admin', 'member', 'viewer')");
  });
}

async function createWorkspaces(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('workspaces', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('name').notNullable();
    table.boolean('is_default').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['organization_id', 'created_at', 'id']);
  });
  await sql.raw(
    'create unique index workspaces_one_default on workspaces (organization_id) where is_default = true',
  );
}

async function createLogins(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('logins', (table) => {
    table.text('id').primary();
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.bigInteger('ended_at');
    table.index(['user_id', 'ended_at']);
    table.index(['expires_at']);
  });
  await sql.schema.createTable('refresh_tokens', (table) => {
    table.text('hash').primary();
    table.text('login_id').notNullable().references('logins.id').onDelete('cascade');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('used_at');
    table.index(['login_id']);
  });
  await sql.schema.createTable('signing_keys', (table) => {
    table.text('kid').primary();
    table.text('sealed_private_key').notNullable();
    table.text('public_jwk').notNullable();
    table.bigInteger('created_at').notNullable();
  });
}

/** A key acts for its user wherever that user may act, so it belongs to no organization. */
async function createApiKeys(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('api_keys', (table) => {
    table.text('id').primary();
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.text('name').notNullable();
    table.text('hash').notNullable().unique();
    table.text('prefix').notNullable();
    table.text('scopes').notNullable();
    table.boolean('disabled').notNullable();
    table.bigInteger('expires_at');
    table.bigInteger('last_used_at');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['user_id', 'created_at', 'id']);
  });
}

async function createInvitations(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('invitations', (table) => {
    table.text('hash').primary();
    table.text('kind').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.bigInteger('used_at');
    // No foreign key: who used a token stays known after the account is gone.
    table.text('used_by');
    table.index(['kind', 'used_at', 'expires_at']);
    table.check("kind in ('bootstrap', 'invitation')");
  });
}
