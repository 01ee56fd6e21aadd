/** What model calls cost, how full a model's window is, summaries, and what a provider refused to be shown again. */
import type { Knex } from 'knex';

export const costs = {
  name: 'costs',
  async up(sql: Knex.Transaction): Promise<void> {
    for (const table of ['runs', 'sessions']) await addCost(sql, table);
    await sql.schema.alterTable('runs', (table) => {
      // What was asked for besides the prompt, as the runtime wrote it: whoever continues the run must know it too.
      table.text('request');
    });
    await sql.schema.alterTable('sessions', (table) => {
      table.bigInteger('context_used').notNullable().defaultTo(0);
      table.bigInteger('context_window');
      // No reference: messages go with their session, and each other's order of deletion must not matter.
      table.text('summary_message_id');
    });
    await sql.schema.alterTable('messages', (table) => {
      table.bigInteger('cost_nanodollars');
      table.boolean('summary').notNullable().defaultTo(false);
      table.boolean('excluded').notNullable().defaultTo(false);
    });
  },
};

/** Billionths of a dollar, so that sums are exact; what was used before anybody counted has no known price. */
async function addCost(sql: Knex.Transaction, name: string): Promise<void> {
  await sql.schema.alterTable(name, (table) => {
    table.bigInteger('cost_nanodollars').notNullable().defaultTo(0);
    table.boolean('unpriced').notNullable().defaultTo(false);
  });
  await sql(name)
    .where((used) => used.where('input_tokens', '>', 0).orWhere('output_tokens', '>', 0))
    .update({ unpriced: true });
}
