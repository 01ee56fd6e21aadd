/** Ways in besides the password: providers, device codes, and what a person is shown of each login. */
import type { Knex } from 'knex';
import { guard } from './0006-tenancy.ts';

export const signIn = {
  name: 'sign-in',
  async up(sql: Knex.Transaction): Promise<void> {
    await describeLogins(sql);
    await createOidc(sql);
    await createDeviceLogins(sql);
    if (sql.client.config.client === 'pg') await guardRows(sql);
  },
};

async function describeLogins(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('logins', (table) => {
    table.text('method').notNullable().defaultTo('password');
    table.text('device');
    table.text('address');
    // At most once a minute; null where it was never seen after its beginning.
    table.bigInteger('last_seen_at');
    table.index(['user_id', 'created_at', 'id']);
  });
}

async function createOidc(sql: Knex.Transaction): Promise<void> {
  // Who somebody is at a provider; never their e-mail address, which others may get one day.
  await sql.schema.createTable('oidc_identities', (table) => {
    table.text('issuer').notNullable();
    table.text('subject').notNullable();
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('last_login_at').notNullable();
    table.primary(['issuer', 'subject']);
    table.index(['user_id']);
  });
  await sql.schema.createTable('oidc_attempts', (table) => {
    table.text('state_hash').primary();
    // Of the secret in the cookie, from which the verifier and the nonce come: they are stored nowhere.
    table.text('browser_hash').notNullable();
    table.text('provider').notNullable();
    table.text('return_to').notNullable();
    // Whose account the answer is to be linked to; null for a login.
    table.text('user_id').references('users.id').onDelete('cascade');
    table.bigInteger('expires_at').notNullable();
    table.index(['expires_at']);
    table.index(['user_id']);
  });
  await sql.schema.createTable('login_codes', (table) => {
    table.text('code_hash').primary();
    table.text('browser_hash').notNullable();
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.bigInteger('expires_at').notNullable();
    table.index(['expires_at']);
    table.index(['user_id']);
  });
}

async function createDeviceLogins(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('device_logins', (table) => {
    table.text('device_hash').primary();
    table.text('user_code').notNullable().unique();
    table.text('client_name');
    table.text('address');
    table.text('status').notNullable();
    // Who has replied.
    table.text('user_id').references('users.id').onDelete('cascade');
    table.integer('interval_seconds').notNullable();
    table.bigInteger('polled_at');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.index(['expires_at']);
    table.index(['address', 'expires_at']);
    table.index(['user_id']);
    table.check("status in ('pending', 'allowed', 'denied')");
  });
  // How often somebody has named a code that no device has.
  await sql.schema.createTable('user_code_misses', (table) => {
    table.text('user_id').primary().references('users.id').onDelete('cascade');
    table.integer('misses').notNullable();
    table.bigInteger('since').notNullable();
  });
}

const installation = `(select current_setting('service.organizations', true)) = '*'`;

async function guardRows(sql: Knex.Transaction): Promise<void> {
  const own = `user_id = (select current_setting('service.user_id', true)) or ${installation}`;
  await guard(sql, 'oidc_identities', own);
  await guard(sql, 'user_code_misses', own);
  // Looked for by a secret, before anybody is known.
  for (const table of ['oidc_attempts', 'login_codes', 'device_logins'])
    await guard(sql, table, installation);
}
