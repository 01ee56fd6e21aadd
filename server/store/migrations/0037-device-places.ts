/** How many devices wait is counted by the place that they are at: of IPv6 a network, and not each of its addresses. */
import type { Knex } from 'knex';

export const devicePlaces = {
  name: 'device-places',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('device_logins', (table) => {
      table.text('place').notNullable().defaultTo('unknown');
      table.index(['place', 'expires_at']);
      table.dropIndex(['address', 'expires_at']);
    });
    // Those that wait now have ten minutes to live.
    await sql('device_logins')
      .whereNotNull('address')
      .update({ place: sql.ref('address') });
  },
};
