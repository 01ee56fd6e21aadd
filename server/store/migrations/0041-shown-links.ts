/** Who was shown a link to a new password, for an account of which organization, and in answer to which request. */
import type { Knex } from 'knex';

export const shownLinks = {
  name: 'shown-links',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('password_resets', (table) => {
      // No foreign keys: what is withdrawn with a role, a person or an organization is deleted by name.
      table.text('created_by');
      table.text('organization_id');
      // Of the request with an Idempotency-Key whose kept answer shows it.
      table.text('kept_for');
      table.text('kept_key');
      table.index(['created_by']);
    });
  },
};
