/** How the web is searched: which engine is asked, with which key, and by which rules. */
import type { Knex } from 'knex';
import { forServerAlone, guard } from './0006-tenancy.ts';

export const webSearch = {
  name: 'web-search',
  async up(sql: Knex.Transaction): Promise<void> {
    // One row, which is there from the first change on.
    await sql.schema.createTable('web_search_settings', (table) => {
      table.integer('id').primary();
      // Absent where nobody is asked, or where the environment names whom.
      table.text('engine');
      table.text('base_url');
      table.text('sealed_api_key');
      table.integer('max_results').notNullable();
      table.text('safe_search').notNullable();
      // Lists of domains, as JSON.
      table.text('allow_domains').notNullable();
      table.text('deny_domains').notNullable();
      table.integer('revision').notNullable();
      table.bigInteger('updated_at').notNullable();
      table.check('id = 1');
      table.check('engine is not null or (base_url is null and sealed_api_key is null)');
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'web_search_settings', forServerAlone);
  },
};
