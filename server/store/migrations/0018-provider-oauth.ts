/** How provider settings are opened by OAuth: their tokens, and the attempts to get some. */
import type { Knex } from 'knex';
import { guard } from './0006-tenancy.ts';

export const providerOauth = {
  name: 'provider-oauth',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('provider_oauth', (table) => {
      ofSetting(table);
      // Sealed: the client and its tokens.
      table.text('sealed_tokens').notNullable();
      // Absent where nobody said when the token ends.
      table.bigInteger('expires_at');
      table.text('scopes').notNullable();
      // Why it has to be connected again.
      table.text('fault');
      // Until when one node renews the token; the others wait for it.
      table.bigInteger('lease_until');
      table.integer('revision').notNullable();
    });
    await sql.schema.createTable('provider_oauth_attempts', (table) => {
      ofSetting(table);
      table.text('state_hash').notNullable();
      // Sealed: the client, and what proves that whoever comes back is who went.
      table.text('sealed_attempt').notNullable();
      // Before that a device may not ask.
      table.bigInteger('next_poll_at').notNullable();
      table.bigInteger('expires_at').notNullable();
    });
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['provider_oauth', 'provider_oauth_attempts'])
      await guard(
        sql,
        table,
        `exists (select from provider_settings where provider_settings.id = ${table}.setting_id)`,
      );
  },
};

function ofSetting(table: Knex.CreateTableBuilder): void {
  table.text('setting_id').primary().references('provider_settings.id').onDelete('cascade');
}
