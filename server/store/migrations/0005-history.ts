/** What a session remembers besides its words: changes of files, feedback, what was gone back on; and the index for searches. */
import type { Knex } from 'knex';
import { indexMessage, indexTitle, type SearchedMessage, type TitledSession } from '../search-index.ts';

export const history = {
  name: 'history',
  async up(sql: Knex.Transaction): Promise<void> {
    await alterSessions(sql);
    await alterMessages(sql);
    await createFileChanges(sql);
    await createSearchIndex(sql);
    await indexWhatThereIs(sql);
  },
};

async function alterSessions(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('sessions', (table) => {
    table.boolean('pinned').notNullable().defaultTo(false);
    // The bytes of file contents that are kept for the session.
    table.bigInteger('kept_bytes').notNullable().defaultTo(0);
    for (const order of ['created_at', 'updated_at'])
      table.index(
        ['organization_id', 'parent_id', 'archived', order, 'id'],
        `sessions_of_parent_by_${order}`,
      );
  });
}

/** What was gone back on stays, so that nothing is lost; lists begin with the mark, so that it costs them nothing. */
async function alterMessages(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('messages', (table) => {
    table.boolean('reverted').notNullable().defaultTo(false);
    table.text('feedback');
    table.index(['session_id', 'reverted', 'turn', 'position'], 'messages_in_order');
    table.index(['session_id', 'reverted', 'role', 'turn', 'position'], 'messages_of_role_in_order');
    table.dropIndex(['session_id', 'role', 'turn', 'position']);
  });
}

async function createFileChanges(sql: Knex.Transaction): Promise<void> {
  // Kept for one session each: nobody can learn from the table what others have, and all of it goes with the session.
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
    table.integer('turn').notNullable();
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
  // Words are cut by us: this tokenizer parts them at the spaces between, and leaves all that is not ASCII alone.
  await sql.raw(
    `create virtual table search_words using
       fts5(words, content='', contentless_delete=1, detail=none, prefix='3', tokenize="ascii tokenchars '_@'")`,
  );
  await sql.raw(
    `create trigger search_documents_deleted after delete on search_documents
     begin delete from search_words where rowid = old.id; end`,
  );
}

const batch = 200;

async function indexWhatThereIs(sql: Knex.Transaction): Promise<void> {
  await inBatches<TitledSession>(sql, 'sessions', async (sessions) => {
    for (const session of sessions) await indexTitle(sql, session);
  });
  await inBatches<StoredMessage>(sql, 'messages', async (messages) => {
    // As it was stored.
    for (const message of messages)
      await indexMessage(sql, { ...message, parts: JSON.parse(message.parts) as SearchedMessage['parts'] });
  });
}

type StoredMessage = Omit<SearchedMessage, 'parts'> & { readonly parts: string };

/** Ids sort by time, so that what is newer is found first here too. */
async function inBatches<Row extends { readonly id: string }>(
  sql: Knex.Transaction,
  table: string,
  work: (rows: Row[]) => Promise<void>,
): Promise<void> {
  for (let last = ''; ; ) {
    // The table is the one whose rows are of this type.
    const rows = (await sql(table).where('id', '>', last).orderBy('id').limit(batch)) as Row[];
    if (rows.length > 0) await work(rows);
    if (rows.length < batch) return;
    last = rows.at(-1)?.id ?? last;
  }
}
