/** Corpora and their documents, and the jobs that take documents in. */
import type { Knex } from 'knex';
import { forServerAlone, guard, inScope } from './0006-tenancy.ts';

export const corpora = {
  name: 'corpora',
  async up(sql: Knex.Transaction): Promise<void> {
    await createCorpora(sql);
    await createDocuments(sql);
    await createJobs(sql);
    if (sql.client.config.client !== 'pg') return;
    // Beginnings are ranges of bytes, on both engines.
    for (const table of ['corpora', 'documents'])
      await sql.raw(`alter table ${table} alter column name_key type text collate "C"`);
    for (const table of organizationTables) await guard(sql, table, inScope('organization_id'));
    await guard(sql, 'ingestion_workers', forServerAlone);
  },
};

const organizationTables = [
  ...['corpora', 'corpus_grants', 'extracted_texts', 'documents'],
  ...['ingestion_jobs', 'ingestion_items'],
];

async function createCorpora(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('corpora', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('name').notNullable();
    table.text('name_key').notNullable();
    table.text('description').notNullable();
    table.text('visibility').notNullable();
    // JSON: strategy, size, overlap.
    table.text('chunking').notNullable();
    // What made the vectors that searches read; null where there are none.
    table.text('embedder_identity');
    // Of several sets of vectors beside each other, the one that searches read.
    table.integer('vector_set').notNullable();
    // Of the documents that searches see.
    table.integer('documents').notNullable();
    table.integer('chunks').notNullable();
    table.bigInteger('bytes').notNullable();
    table.text('metadata').notNullable();
    table.text('user_id').notNullable();
    table.integer('revision').notNullable();
    // Counts the changes of grants, which have a version of their own.
    table.integer('grants_revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.check("visibility in ('private', 'workspace', 'organization')");
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['workspace_id', 'created_at', 'id']);
    table.index(['user_id']);
  });
  await sql.schema.createTable('corpus_grants', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('corpus_id').notNullable().references('corpora.id').onDelete('cascade');
    // The id of a user or of a group.
    table.text('principal_id').notNullable();
    table.text('user_id').references('users.id').onDelete('cascade');
    table.text('group_id').references('groups.id').onDelete('cascade');
    table.text('role').notNullable();
    table.bigInteger('created_at').notNullable();
    table.primary(['corpus_id', 'principal_id']);
    table.index(['user_id']);
    table.index(['group_id']);
    table.check("role in ('viewer', 'member', 'admin')");
    table.check('(user_id is null) <> (group_id is null)');
  });
}

async function createDocuments(sql: Knex.Transaction): Promise<void> {
  /** What a parser has read from some bytes: once in an organization, as the bytes are. */
  await sql.schema.createTable('extracted_texts', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    // The SHA-256 of the bytes.
    table.text('sha256').notNullable();
    // The parser and its version: another one reads the bytes anew.
    table.text('parser').notNullable();
    // Compressed JSON: the text, its pages, and the blocks that it is cut along.
    table.binary('content').notNullable();
    table.bigInteger('characters').notNullable();
    table.bigInteger('used_at').notNullable();
    table.unique(['organization_id', 'sha256', 'parser']);
    table.index(['used_at']);
  });
  await sql.schema.createTable('documents', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('corpus_id').notNullable().references('corpora.id').onDelete('cascade');
    table.text('title').notNullable();
    table.text('name_key').notNullable();
    table.text('source').notNullable();
    // The file may go with force; what was read from it stays.
    table.text('file_id').references('files.id').onDelete('set null');
    table.text('url');
    // Compressed: what was given as text.
    table.binary('given');
    table.text('media_type');
    // Of the file, of what the URL answered, or of the text.
    table.bigInteger('bytes').notNullable();
    table.text('sha256');
    table.text('status').notNullable();
    table.boolean('enabled').notNullable();
    table.text('metadata').notNullable();
    table.text('text_id').references('extracted_texts.id');
    // The one that searches see; 0 as long as none was published.
    table.integer('generation').notNullable();
    // The last one that was begun.
    table.integer('newest_generation').notNullable();
    table.bigInteger('characters').notNullable();
    table.integer('chunks').notNullable();
    table.text('error_code');
    table.text('error_message');
    table.text('user_id').notNullable();
    table.text('api_key_id');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.check("source in ('file', 'url', 'text')");
    table.check("status in ('pending', 'ready', 'failed')");
    table.index(['corpus_id', 'created_at', 'id']);
    table.index(['corpus_id', 'status', 'created_at', 'id']);
    table.index(['corpus_id', 'name_key']);
    table.index(['file_id']);
    table.index(['text_id']);
    table.index(['user_id']);
  });
  // The same file, or the same address, is one document of a corpus however often it is added.
  await sql.raw(
    'create unique index documents_file_once on documents (corpus_id, file_id) where file_id is not null',
  );
  await sql.raw('create unique index documents_url_once on documents (corpus_id, url) where url is not null');
}

async function createJobs(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('ingestion_jobs', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    table.text('corpus_id').notNullable().references('corpora.id').onDelete('cascade');
    table.text('status').notNullable();
    table.integer('attempts').notNullable();
    table.integer('total').notNullable();
    table.integer('completed').notNullable();
    table.integer('failed').notNullable();
    table.integer('cancelled').notNullable();
    table.text('user_id').notNullable();
    table.text('api_key_id');
    // When an item of it was taken last: those that waited longest come first.
    table.bigInteger('served_at').notNullable();
    // When its progress was told last.
    table.bigInteger('told_at').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('started_at');
    table.bigInteger('ended_at');
    table.check("status in ('queued', 'running', 'completed', 'partial', 'failed', 'cancelled')");
    table.index(['corpus_id', 'created_at', 'id']);
    table.index(['ended_at', 'organization_id']);
  });
  await sql.schema.createTable('ingestion_items', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('job_id').notNullable().references('ingestion_jobs.id').onDelete('cascade');
    table.text('document_id').notNullable().references('documents.id').onDelete('cascade');
    table.integer('ordinal').notNullable();
    table.text('status').notNullable();
    // How far it came: what a person sees, not what it goes on from.
    table.text('stage').notNullable();
    table.integer('attempts').notNullable();
    // Of the document, as this attempt writes it.
    table.integer('generation');
    // The process that is at it.
    table.text('worker');
    // Before that it is not tried again.
    table.bigInteger('not_before').notNullable();
    table.text('error_code');
    table.text('error_message');
    table.bigInteger('started_at');
    table.bigInteger('ended_at');
    table.check("status in ('queued', 'running', 'completed', 'failed', 'cancelled')");
    table.unique(['job_id', 'ordinal']);
    table.index(['job_id', 'status', 'ordinal']);
    table.index(['document_id']);
    table.index(['worker']);
  });
  // A process that takes items in says here that it is alive, by counting.
  await sql.schema.createTable('ingestion_workers', (table) => {
    table.text('owner').primary();
    table.bigInteger('renewals').notNullable();
  });
}
