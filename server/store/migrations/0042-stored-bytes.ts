/** What counts for a quota of storage is found by whomever the quota is about: it is added up while others wait for it. */
import type { Knex } from 'knex';

export const storedBytes = {
  name: 'stored-bytes',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('documents', (table) => {
      // With all that is asked for: in the row, the bytes stand behind the text that was given, which can be long.
      table.index(['organization_id', 'source', 'bytes']);
      for (const column of ['workspace_id', 'user_id'])
        table.index([column, 'organization_id', 'source', 'bytes']);
      table.dropIndex(['user_id']);
    });
    await sql.schema.alterTable('sessions', (table) => {
      table.index(['user_id']);
    });
    // Most things come from a login. By plain SQL, as knex knows no condition on an index for both databases.
    await sql.raw(
      `create index documents_api_key_id_organization_id_source_bytes_index
       on documents (api_key_id, organization_id, source, bytes) where api_key_id is not null`,
    );
    await sql.raw('create index files_api_key_id_index on files (api_key_id) where api_key_id is not null');
  },
};
