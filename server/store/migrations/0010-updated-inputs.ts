/** Whoever allows a tool call may change its input before. */
import type { Knex } from 'knex';

export const updatedInputs = { name: '0010-updated-inputs', up };

async function up(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('permission_requests', (table) => {
    table.text('updated_input');
  });
}
