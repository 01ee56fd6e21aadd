/** An attempt to log in to an MCP server stays until its login is stored: whoever logs out meanwhile ends it, too. */
import type { Knex } from 'knex';

export const takenAttempts = {
  name: 'taken-attempts',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('mcp_login_attempts', (table) => {
      table.boolean('taken').notNullable().defaultTo(false);
    });
  },
};
