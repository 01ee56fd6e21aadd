/** What a deleted corpus had in searches outlives it: no search sees it, and it goes in parts, so that nobody waits for all of it. */
import type { Knex } from 'knex';

export const clearedCorpora = {
  name: 'cleared-corpora',
  async up(sql: Knex.Transaction): Promise<void> {
    if (sql.client.config.client === 'pg') await loosenOnPostgres(sql);
    else await loosenOnSqlite(sql);
  },
};

async function loosenOnPostgres(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('searched_corpora', (table) => {
    table.setNullable('corpus_id');
    for (const column of ['corpus_id', 'organization_id', 'workspace_id']) table.dropForeign(column);
    table.foreign('corpus_id').references('corpora.id').onDelete('set null');
  });
  await sql.schema.alterTable('chunks', (table) => {
    table.dropForeign('document_id');
  });
}

/**
 * SQLite takes no reference from a table, and passages are too many to write them anew. What is stored stays the same
 * without a reference, so that the text of the table may be changed: https://sqlite.org/lang_altertable.html#otheralter
 */
async function loosenOnSqlite(sql: Knex.Transaction): Promise<void> {
  await sql.raw('pragma writable_schema = on');
  await changeText(sql, 'searched_corpora', [
    ['`corpus_id` text not null', '`corpus_id` text'],
    [reference('corpus_id', 'corpora'), reference('corpus_id', 'corpora').replace('cascade', 'set null')],
    [reference('organization_id', 'organizations'), ''],
    [reference('workspace_id', 'workspaces'), ''],
  ]);
  await changeText(sql, 'chunks', [[reference('document_id', 'documents'), '']]);
  // All connections read the tables anew, this one among them.
  const [{ schema_version }] = await sql.raw('pragma schema_version');
  await sql.raw(`pragma schema_version = ${Number(schema_version) + 1}`);
  await sql.raw('pragma writable_schema = reset');
  // It wrote a list of words anew once a tenth of it was deleted: to empty a corpus in parts took ten times as long.
  await sql.raw(`insert into chunk_words (chunk_words, rank) values ('deletemerge', 50)`);
}

function reference(column: string, table: string): string {
  return `, foreign key(\`${column}\`) references \`${table}\`(\`id\`) on delete cascade`;
}

type Change = readonly [before: string, after: string];

async function changeText(sql: Knex.Transaction, name: string, changes: readonly Change[]): Promise<void> {
  const known = sql('sqlite_schema').where({ type: 'table', name });
  const { sql: made }: { sql: string } = await known.clone().first('sql');
  const changed = changes.reduce((text, [before, after]) => {
    const at = text.toLowerCase().indexOf(before);
    if (at < 0) throw new Error(`The table ${name} has not "${before}": ${made}`);
    return text.slice(0, at) + after + text.slice(at + before.length);
  }, made);
  await known.clone().update({ sql: changed });
}
