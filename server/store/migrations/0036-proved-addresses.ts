/** Whether anybody has shown that the address of an account is theirs, and which links and invitations went to it by mail. */
import type { Knex } from 'knex';

export const provedAddresses = {
  name: 'proved-addresses',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('users', (table) => {
      table.bigInteger('address_proved_at');
    });
    // Of accounts from before nobody knows; they are taken for proved, so that nobody loses keys.
    await sql('users').update({ address_proved_at: sql.ref('created_at') });
    await sql.schema.alterTable('password_resets', (table) => {
      table.boolean('mailed').notNullable().defaultTo(false);
    });
    await sql.schema.alterTable('invitations', (table) => {
      // Null where whoever invited was shown the link.
      table.bigInteger('mailed_at');
    });
  },
};
