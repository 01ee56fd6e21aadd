/** What is kept of files that sessions changed, and the index for searches. */
import type { Knex } from 'knex';

export const history = {
  name: 'history',
  async up(sql: Knex.Transaction): Promise<void> {
    await createFileChanges(sql);
    await createSearchIndex(sql);
  },
};

async function createFileChanges(sql: Knex.Transaction): Promise<void> {
  // Contents are kept for each session anew: nobody learns from them what others have, and they go with the session.
  await sql.schema.createTable('file_contents', (table) => {
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('sha256').notNullable();
    table.bigInteger('size').notNullable();
    table.boolean('compressed').notNullable();
    table.binary('content').notNullable();
    table.primary(['session_id', 'sha256']);
  });
  await sql.schema.createTable('file_changes', (table) => {
    table.bigIncrements('id');
    table.text('organization_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('run_id').notNullable().references('runs.id').onDelete('cascade');
    table.integer('run_number').notNullable();
    table.text('tool_call_id').notNullable();
    table.text('path').notNullable();
    // Null where there is no file.
    table.text('before_sha256');
    table.bigInteger('before_size');
    table.integer('before_mode');
    table.text('after_sha256');
    table.bigInteger('after_size');
    table.boolean('reverted').notNullable();
    table.bigInteger('created_at').notNullable();
    table.index(['session_id', 'reverted', 'path', 'id'], 'file_changes_by_path');
    table.index(['run_id'], 'file_changes_of_run');
  });
}

/** SQLite has a table of its own for the words, which follows the documents; PostgreSQL has them in a column. */
async function createSearchIndex(sql: Knex.Transaction): Promise<void> {
  const sqlite = sql.client.config.client === 'sqlite3';
  await sql.schema.createTable('search_documents', (table) => {
    table.bigIncrements('id');
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    // Null for the title.
    table.text('message_id').references('messages.id').onDelete('cascade');
    table.text('kind').notNullable();
    if (!sqlite) table.specificType('words', 'tsvector').notNullable();
    table.index(['session_id', 'kind']);
    table.index(['message_id']);
    table.check("kind in ('title', 'message', 'tool')");
  });
  if (!sqlite) {
    await sql.raw('create index search_documents_words on search_documents using gin (words)');
    return;
  }
  // We split the text into words ourselves; this tokenizer only splits at spaces and leaves non-ASCII alone.
  await sql.raw(
    `create virtual table search_words using
       fts5(words, content='', contentless_delete=1, detail=none, prefix='3', tokenize="ascii tokenchars '_@'")`,
  );
  await sql.raw(
    `create trigger search_documents_deleted after delete on search_documents
     begin delete from search_words where rowid = old.id; end`,
  );
}
