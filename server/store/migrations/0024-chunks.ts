/** Passages of documents, and what finds them: their words, and what embedders made of them. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const chunks = {
  name: 'chunks',
  async up(sql: Knex.Transaction): Promise<void> {
    await createSearchedCorpora(sql);
    await createChunks(sql);
    if (sql.client.config.client === 'sqlite3') {
      await createSqliteWords(sql);
      await createSqliteVectors(sql);
      return;
    }
    await createPostgresWords(sql);
    for (const table of ['searched_corpora', 'corpus_terms', 'chunks', 'chunk_words'])
      await guard(sql, table, inScope('organization_id'));
  },
};

/** What ranking by words asks of a whole corpus; of no other one, or its scores would tell what others have. */
async function createSearchedCorpora(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('searched_corpora', (table) => {
    // Stands before every word of the corpus in the index, so that a search walks nobody else's.
    table.bigIncrements('number');
    table.text('corpus_id').notNullable().unique().references('corpora.id').onDelete('cascade');
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.bigInteger('chunks').notNullable();
    // Of all chunks together, repeated ones counted.
    table.bigInteger('words').notNullable();
    table.index(['organization_id']);
    table.index(['workspace_id']);
  });
  await sql.schema.createTable('corpus_terms', (table) => {
    table.bigInteger('corpus_number').notNullable().references('searched_corpora.number').onDelete('cascade');
    table.text('organization_id').notNullable();
    table.text('term').notNullable();
    table.bigInteger('chunks').notNullable();
    table.primary(['corpus_number', 'term']);
  });
}

async function createChunks(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('chunks', (table) => {
    table.bigIncrements('number');
    table.text('id').notNullable().unique();
    table.text('organization_id').notNullable();
    table.text('workspace_id').notNullable();
    table.bigInteger('corpus_number').notNullable().references('searched_corpora.number').onDelete('cascade');
    table.text('document_id').notNullable().references('documents.id').onDelete('cascade');
    table.integer('generation').notNullable();
    table.integer('ordinal').notNullable();
    // Null while no search may see it.
    table.bigInteger('published_at');
    table.text('text').notNullable();
    table.integer('start').notNullable();
    table.integer('end').notNullable();
    table.integer('page');
    table.integer('line').notNullable();
    table.text('headings').notNullable();
    // Each word with how often it comes, as ` word:2 other:1 `: what a score is made of, without the text.
    table.text('terms').notNullable();
    table.integer('length').notNullable();
    table.bigInteger('created_at').notNullable();
    table.unique(['document_id', 'generation', 'ordinal']);
    table.index(['corpus_number', 'number']);
  });
  await sql.raw('create index chunks_staged on chunks (created_at) where published_at is null');
}

async function createSqliteWords(sql: Knex.Transaction): Promise<void> {
  // We split the text into words ourselves; this tokenizer only splits at spaces and leaves non-ASCII alone.
  await sql.raw(
    `create virtual table chunk_words using
       fts5(words, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_'")`,
  );
  await sql.raw(
    `create trigger chunks_deleted after delete on chunks
     begin delete from chunk_words where rowid = old.number; end`,
  );
}

async function createPostgresWords(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('chunk_words', (table) => {
    table.bigInteger('number').primary().references('chunks.number').onDelete('cascade');
    table.text('organization_id').notNullable();
    table.specificType('words', 'tsvector').notNullable();
  });
  // Without its list of what is still to be sorted in: every search would read that from end to end.
  await sql.raw('create index chunk_words_words on chunk_words using gin (words) with (fastupdate = off)');
}

/** PostgreSQL gets its table at each start instead, where its server has the extension by then. */
async function createSqliteVectors(sql: Knex.Transaction): Promise<void> {
  await createEmbeddingSpaces(sql);
  await sql.schema.createTable('chunk_vectors', (table) => {
    table.bigIncrements('id');
    table.bigInteger('number').notNullable().references('chunks.number').onDelete('cascade');
    table.bigInteger('corpus_number').notNullable();
    table.integer('space').notNullable();
    table.binary('vector').notNullable();
    table.unique(['number', 'space']);
    table.index(['corpus_number', 'space', 'number']);
  });
  // One bit for each dimension, side by side: what a large corpus is looked through by.
  await sql.raw(
    `create table chunk_codes (
       corpus_number integer not null, space integer not null,
       number integer not null references chunks (number) on delete cascade,
       code blob not null, primary key (corpus_number, space, number)
     ) without rowid`,
  );
  await sql.raw('create index chunk_codes_number on chunk_codes (number)');
}

/** The embedders whose vectors are kept, by number: vectors of two are in different spaces. */
export async function createEmbeddingSpaces(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('embedding_spaces', (table) => {
    table.increments('number');
    table.text('identity').notNullable().unique();
    table.integer('dimensions').notNullable();
  });
}
