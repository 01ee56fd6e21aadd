/** Uploads that can be gone on with, and the parts of them that have arrived. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const fileUploads = {
  name: 'file-uploads',
  async up(sql: Knex.Transaction): Promise<void> {
    await createUploads(sql);
    await createParts(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['file_uploads', 'file_upload_parts'])
      await guard(sql, table, inScope('organization_id'));
  },
};

async function createUploads(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('file_uploads', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    // For whom its room is reserved.
    table.text('user_id').notNullable();
    table.text('api_key_id');
    table.text('filename').notNullable();
    table.text('purpose').notNullable();
    table.text('metadata').notNullable();
    table.bigInteger('size').notNullable();
    table.text('sha256').notNullable();
    table.bigInteger('received').notNullable();
    // While somebody makes the file of it.
    table.bigInteger('completing_until');
    // No reference: whoever completes it again hears that the file is gone.
    table.text('file_id');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.index(['organization_id']);
    table.index(['workspace_id']);
    table.index(['user_id']);
    table.index(['expires_at']);
  });
}

/** Each is an object of its own: its bytes last whatever becomes of the rest, and every node reads them. */
async function createParts(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('file_upload_parts', (table) => {
    table.text('upload_id').notNullable().references('file_uploads.id').onDelete('cascade');
    table.text('organization_id').notNullable();
    table.bigInteger('start').notNullable();
    table.bigInteger('size').notNullable();
    table.text('object_key').notNullable().references('stored_objects.key');
    table.primary(['upload_id', 'start']);
    table.index(['organization_id']);
    table.index(['object_key']);
  });
}
