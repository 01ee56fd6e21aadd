/** Passages that an embedder refuses: found by their words alone, and not asked for again. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const refusedPassages = {
  name: 'refused-passages',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('refused_passages', (table) => {
      table.bigInteger('number').notNullable().references('chunks.number').onDelete('cascade');
      // What refuses it, as corpora name what made their vectors.
      table.text('identity').notNullable();
      table.text('organization_id').notNullable();
      table.primary(['number', 'identity']);
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'refused_passages', inScope('organization_id'));
  },
};
