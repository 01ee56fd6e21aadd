/** Which embedder the operator has chosen, those before it, and the corpora that are on their way from one to another. */
import type { Knex } from 'knex';
import { forServerAlone, guard, inScope } from './0006-tenancy.ts';

export const embedders = {
  name: 'embedders',
  async up(sql: Knex.Transaction): Promise<void> {
    await createEmbedders(sql);
    await createReindexings(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['embedders', 'embedder_settings']) await guard(sql, table, forServerAlone);
    await guard(sql, 'reindexings', inScope('organization_id'));
  },
};

async function createEmbedders(sql: Knex.Transaction): Promise<void> {
  // One stays when another is chosen: as long as a corpus has its vectors, questions are put to it, too.
  await sql.schema.createTable('embedders', (table) => {
    table.text('identity').primary();
    // One of the two: a provider that is kept on the server, or one of the settings.
    table.text('provider_setting_id');
    table.text('provider');
    table.text('model').notNullable();
    table.integer('dimensions').notNullable();
    table.check('(provider_setting_id is null) <> (provider is null)');
  });
  // One row, which is there from the first change on.
  await sql.schema.createTable('embedder_settings', (table) => {
    table.integer('id').primary();
    // Absent where the model of the machine embeds.
    table.text('identity').references('embedders.identity');
    table.integer('batch_size').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.check('id = 1');
  });
}

async function createReindexings(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('reindexings', (table) => {
    table.text('corpus_id').primary().references('corpora.id').onDelete('cascade');
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    // What is to make its vectors.
    table.text('identity').notNullable();
    // The process that is at it, and until when nobody else may be.
    table.text('worker');
    table.bigInteger('leased_until').notNullable();
    table.integer('failures').notNullable();
    // Before that it is not tried again.
    table.bigInteger('not_before').notNullable();
    table.text('error');
    table.bigInteger('created_at').notNullable();
    table.index(['organization_id']);
  });
}
