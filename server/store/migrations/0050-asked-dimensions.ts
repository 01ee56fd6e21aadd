/** Whether an embedder is asked for its length of vectors: many models take no such wish, not even for the length they have. */
import type { Knex } from 'knex';

export const askedDimensions = {
  name: 'asked-dimensions',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('embedders', (table) => {
      // What was chosen before was asked for its length each time, also where it had only been learned.
      table.boolean('asks_dimensions').notNullable().defaultTo(true);
    });
  },
};
