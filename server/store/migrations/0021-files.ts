/** Files that people upload, and the objects in which their bytes are stored. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const files = {
  name: 'files',
  async up(sql: Knex.Transaction): Promise<void> {
    await createStoredObjects(sql);
    await createFiles(sql);
    if (sql.client.config.client !== 'pg') return;
    // Beginnings are ranges of bytes, on both engines.
    await sql.raw('alter table files alter column name_key type text collate "C"');
    for (const table of ['stored_objects', 'files']) await guard(sql, table, inScope('organization_id'));
  },
};

/**
 * Every object in the storage has its row before its first byte is written, and until its last one is gone: what a
 * killed process has left is found here. So nothing takes a row away but the deletion of the object.
 */
async function createStoredObjects(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('stored_objects', (table) => {
    // The name of the object in the storage.
    table.text('key').primary();
    // No references: the bytes are still to be deleted when their organization is gone.
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.text('user_id').notNullable();
    table.text('api_key_id');
    // Which storage has it: what was written before another one was set up stays where it is.
    table.text('backend').notNullable();
    table.text('state').notNullable();
    table.text('sha256');
    // While it is uploaded: what is reserved for it.
    table.bigInteger('size').notNullable();
    // When an object that is not kept may be deleted.
    table.bigInteger('expires_at');
    table.check("state in ('uploading', 'kept', 'leaving')");
    table.check("backend in ('fs', 's3')");
    table.index(['expires_at']);
    table.index(['organization_id', 'state']);
  });
  // The same bytes once in an organization, never across two: nobody learns from a refusal or a speed what others have.
  await sql.raw(
    "create unique index stored_objects_once on stored_objects (organization_id, sha256) where state = 'kept'",
  );
}

async function createFiles(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('files', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('object_key').notNullable().references('stored_objects.key');
    table.text('filename').notNullable();
    // The name in lower case, to be searched by its beginning.
    table.text('name_key').notNullable();
    table.text('media_type').notNullable();
    table.text('purpose').notNullable();
    table.text('metadata').notNullable();
    table.bigInteger('size').notNullable();
    table.text('sha256').notNullable();
    // Who uploaded it, as what is stored counts for them; no references: the file outlives both.
    table.text('user_id').notNullable();
    table.text('api_key_id');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['organization_id', 'sha256']);
    table.index(['organization_id', 'name_key']);
    table.index(['object_key']);
    table.index(['user_id']);
    table.index(['created_at']);
  });
}
