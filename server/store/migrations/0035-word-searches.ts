/**
 * Finds by words on PostgreSQL. Under row-level security the planner lets no operator see a row before its policy has,
 * but for those that are known to tell nothing of it, and `@@` is not: each search read the whole table, and never its
 * index. A function of the owner may use the index, and asks what the policy asks.
 */
import type { Knex } from 'knex';
import { inScope } from './0006-tenancy.ts';

export const wordSearches = {
  name: 'word-searches',
  async up(sql: Knex.Transaction): Promise<void> {
    if (sql.client.config.client !== 'pg') return;
    for (const table of searchedByWords) await createSearch(sql, table, columnsOf[table]);
  },
};

/** The tables that have such a function: `<table>_with(wanted, most)`. */
export const searchedByWords = ['search_documents', 'chunk_words', 'memory_documents'] as const;

/** What it answers with. */
const columnsOf = {
  search_documents:
    'id bigint, organization_id text, workspace_id text, session_id text, message_id text, kind text',
  chunk_words: 'number bigint, organization_id text',
  memory_documents: 'id bigint, memory_id text',
};

async function createSearch(sql: Knex.Transaction, table: string, columns: string): Promise<void> {
  const names = columns.split(', ').map((column) => `found.${column.split(' ')[0]}`);
  // Its own policies would keep the owner from the index, too.
  await sql.raw(`alter table ${table} no force row level security`);
  await sql.raw(
    `create function ${table}_with(wanted tsquery, most bigint) returns table (${columns})
       language sql stable security definer set search_path = public, pg_temp
       as $$
         select ${names.join(', ')} from ${table} as found
         where found.words @@ wanted and (${inScope('found.organization_id')}) limit most
       $$`,
  );
}
