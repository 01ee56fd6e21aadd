/** What people grant is for the calls that a pattern names, no longer for every call of a tool. */
import type { Knex } from 'knex';

export const grantPatterns = { name: '0006-grant-patterns', up };

async function up(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('permission_grants', (table) => {
    // Null in what was given before: for commands such a grant counts no more.
    table.text('pattern');
  });
}
