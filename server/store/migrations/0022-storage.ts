/** Which storage takes new files, and the buckets that have some. */
import type { Knex } from 'knex';
import { forServerAlone, guard } from './0006-tenancy.ts';

export const storage = {
  name: 'storage',
  async up(sql: Knex.Transaction): Promise<void> {
    await createStoragePlaces(sql);
    await createStorageSettings(sql);
    await sql.schema.alterTable('stored_objects', (table) => {
      // The bucket that has the object, as `storage_places` or the environment names it; absent on disk.
      table.text('place');
    });
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['storage_places', 'storage_settings']) await guard(sql, table, forServerAlone);
  },
};

/** A place stays when another takes new files: those that lie there are read and deleted with what stands here. */
async function createStoragePlaces(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('storage_places', (table) => {
    // Endpoint, bucket and prefix as one URL.
    table.text('place').primary();
    // Absent for AWS, whose endpoint follows from the region.
    table.text('endpoint');
    table.text('region').notNullable();
    table.text('bucket').notNullable();
    table.text('prefix').notNullable();
    table.boolean('path_style').notNullable();
    table.text('sealed_credentials').notNullable();
  });
}

/** One row, which is there from the first change on. */
async function createStorageSettings(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('storage_settings', (table) => {
    table.integer('id').primary();
    table.text('backend').notNullable();
    table.text('place').references('storage_places.place');
    // Absent where files are kept until somebody deletes them.
    table.integer('retention_days');
    table.bigInteger('max_file_bytes').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.check('id = 1');
    table.check("backend in ('fs', 's3')");
    table.check("(backend = 's3') = (place is not null)");
  });
}
