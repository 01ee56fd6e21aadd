/** Which login let a device in, or began to link a provider: what it has begun ends with it. */
import type { Knex } from 'knex';

export const begunByLogins = {
  name: 'begun-by-logins',
  async up(sql: Knex.Transaction): Promise<void> {
    for (const name of ['device_logins', 'oidc_attempts'])
      await sql.schema.alterTable(name, (table) => {
        // No foreign key: they are deleted where the login ends, long before it is forgotten.
        table.text('login_id');
        table.index(['login_id']);
      });
  },
};
