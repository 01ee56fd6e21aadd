/** Memories of people, workspaces, sessions and agents: their versions, their tags, and the index that finds them. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const memories = {
  name: 'memories',
  async up(sql: Knex.Transaction): Promise<void> {
    await createMemories(sql);
    await createVersions(sql);
    await createTags(sql);
    await createIndex(sql);
    await createVectors(sql);
    // Of those who have chosen nothing, agents remember.
    await sql.schema.alterTable('user_preferences', (table) => {
      table.boolean('memories').notNullable().defaultTo(true);
    });
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['memories', 'memory_versions', 'memory_tags', 'memory_documents', 'memory_vectors'])
      await guard(sql, table, inScope('organization_id'));
  },
};

async function createMemories(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('memories', (table) => {
    table.text('id').primary();
    table.text('scope').notNullable();
    // Names the person in the organization, the workspace, the session, or the profile in the workspace.
    table.text('owner_key').notNullable();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    // The one person who may read it; null where others share it.
    table.text('private_to').references('users.id').onDelete('cascade');
    table.text('workspace_id').references('workspaces.id').onDelete('cascade');
    table.text('session_id').references('sessions.id').onDelete('cascade');
    table.text('agent_slug');
    table.text('kind').notNullable();
    table.text('content').notNullable();
    // Of the content without what makes no difference.
    table.text('content_hash').notNullable();
    table.text('tags').notNullable();
    table.text('source_session_id').references('sessions.id').onDelete('set null');
    table.text('source_message_id').references('messages.id').onDelete('set null');
    // Who wrote the present version; no references, as the memory outlives both.
    table.text('author_id').notNullable();
    table.text('author_run_id');
    // For whom it counts.
    table.text('user_id').notNullable();
    table.text('api_key_id');
    table.bigInteger('size').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('expires_at');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.unique(['owner_key', 'content_hash']);
    table.index(['organization_id', 'private_to', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['owner_key', 'created_at', 'id']);
    table.index(['private_to']);
    table.index(['session_id']);
    table.index(['source_session_id']);
    table.index(['source_message_id']);
    table.index(['user_id']);
    table.index(['api_key_id']);
    table.index(['expires_at']);
    table.check("scope in ('user', 'workspace', 'session', 'agent')");
    table.check("(scope = 'user') = (private_to is not null)");
    table.check("(scope = 'user') = (workspace_id is null)");
    table.check("(scope = 'session') = (session_id is not null)");
    table.check("(scope = 'agent') = (agent_slug is not null)");
  });
}

async function createVersions(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('memory_versions', (table) => {
    table.text('organization_id').notNullable();
    table.text('memory_id').notNullable().references('memories.id').onDelete('cascade');
    table.integer('version').notNullable();
    table.text('kind').notNullable();
    table.text('content').notNullable();
    table.text('tags').notNullable();
    table.bigInteger('expires_at');
    table.text('author_id').notNullable();
    table.text('author_run_id');
    table.bigInteger('created_at').notNullable();
    table.primary(['memory_id', 'version']);
  });
}

async function createTags(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('memory_tags', (table) => {
    table.text('organization_id').notNullable();
    table.text('memory_id').notNullable().references('memories.id').onDelete('cascade');
    table.text('tag').notNullable();
    table.primary(['memory_id', 'tag']);
    table.index(['organization_id', 'tag', 'memory_id']);
  });
}

/** Those of one embedder: another one's cannot be compared, and are made anew. */
async function createVectors(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('memory_vectors', (table) => {
    table.text('organization_id').notNullable();
    table.text('memory_id').primary().references('memories.id').onDelete('cascade');
    // Of which version it is.
    table.integer('revision').notNullable();
    table.text('embedder').notNullable();
    table.binary('vector').notNullable();
  });
}

/** SQLite has a table of its own for the words, which follows the documents; PostgreSQL has them in a column. */
async function createIndex(sql: Knex.Transaction): Promise<void> {
  const sqlite = sql.client.config.client === 'sqlite3';
  await sql.schema.createTable('memory_documents', (table) => {
    table.bigIncrements('id');
    table.text('organization_id').notNullable();
    table.text('memory_id').notNullable().unique().references('memories.id').onDelete('cascade');
    if (!sqlite) table.specificType('words', 'tsvector').notNullable();
  });
  if (!sqlite) {
    await sql.raw('create index memory_documents_words on memory_documents using gin (words)');
    return;
  }
  // As the index of sessions has it: we split the text into words ourselves.
  await sql.raw(
    `create virtual table memory_words using
       fts5(words, content='', contentless_delete=1, detail=none, prefix='3', tokenize="ascii tokenchars '_@'")`,
  );
  await sql.raw(
    `create trigger memory_documents_deleted after delete on memory_documents
     begin delete from memory_words where rowid = old.id; end`,
  );
}
