/** Passwords that are forgotten, second factors, where accounts log in from, and the counts of the login brake. */
import type { Knex } from 'knex';
import { forServerAlone, guard, ofUser } from './0006-tenancy.ts';

export const passwords = {
  name: 'passwords',
  async up(sql: Knex.Transaction): Promise<void> {
    await createResets(sql);
    await createSecondFactors(sql);
    await createLoginAddresses(sql);
    await createCounts(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['password_resets', 'second_factors', 'recovery_codes', 'login_addresses'])
      await guard(sql, table, ofUser('user_id'));
    await guard(sql, 'counts', forServerAlone);
  },
};

async function createResets(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('password_resets', (table) => {
    table.text('hash').primary();
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.index(['user_id']);
    table.index(['expires_at']);
  });
}

/** A person has one second factor; it counts from `confirmed_at` on. */
async function createSecondFactors(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('second_factors', (table) => {
    table.text('user_id').primary().references('users.id').onDelete('cascade');
    table.text('sealed_secret').notNullable();
    // The time step of the last code that was taken: none is taken twice.
    table.bigInteger('last_step').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('confirmed_at');
  });
  await sql.schema.createTable('recovery_codes', (table) => {
    table.text('user_id').notNullable().references('second_factors.user_id').onDelete('cascade');
    table.text('hash').notNullable();
    table.bigInteger('used_at');
    table.primary(['user_id', 'hash']);
  });
}

async function createLoginAddresses(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('login_addresses', (table) => {
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.text('address').notNullable();
    table.bigInteger('last_used_at').notNullable();
    table.primary(['user_id', 'address']);
    table.index(['last_used_at']);
  });
}

/** As the library that counts on PostgreSQL wants it. On SQLite, with its one process, it counts in memory. */
async function createCounts(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('counts', (table) => {
    table.string('key', 255).primary();
    table.integer('points').notNullable().defaultTo(0);
    table.bigInteger('expire');
    table.index(['expire']);
  });
}
