/** Catalogues of models: the operator's, and the one that the environment names. */
import type { Knex } from 'knex';
import { forServerAlone, guard } from './0006-tenancy.ts';

export const modelCatalogs = {
  name: 'model-catalogs',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('model_catalogs', (table) => {
      table.text('id').primary();
      table.text('source').notNullable();
      table.text('name').notNullable();
      // Absent where the models stand in the request that made it.
      table.text('url');
      // JSON: the last that was good.
      table.text('models').notNullable();
      table.integer('model_count').notNullable();
      // Of the models: nodes see by it whether they have them already.
      table.text('mark').notNullable();
      // The ETag of the URL.
      table.text('version');
      table.bigInteger('fetched_at');
      table.bigInteger('checked_at');
      // When a node may look at the URL; put off by the node that does, so that no two of them look at once.
      table.bigInteger('next_check_at');
      table.integer('failures').notNullable();
      table.text('fault');
      table.integer('revision').notNullable();
      table.bigInteger('created_at').notNullable();
      table.bigInteger('updated_at').notNullable();
      table.index(['created_at', 'id']);
      table.index(['next_check_at']);
      table.check("source in ('setting', 'environment')");
    });
    await sql.raw(
      `create unique index model_catalogs_environment on model_catalogs (source) where source = 'environment'`,
    );
    if (sql.client.config.client === 'pg') await guard(sql, 'model_catalogs', forServerAlone);
  },
};
