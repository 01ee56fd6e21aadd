/**
 * Deletes much within one transaction, a part at a time: PostgreSQL gives up a statement that takes long, and what goes with
 * a row by reference goes in the statement that deletes the row.
 */
import type { Knex } from 'knex';

/** What goes in one statement, each with the rows that belong to it. */
const passagesAtOnce = 2000;
const documentsAtOnce = 200;
const sessionsAtOnce = 50;

/** A corpus, or what has corpora. */
export type CorporaOf =
  | { readonly corpus_id: string }
  | { readonly workspace_id: string }
  | { readonly organization_id: string };

/**
 * What corpora hold, before they go themselves. What is taken into them at this moment is held by now. Their passages stay,
 * seen by nobody, until they are cleared.
 */
export async function emptyCorpora(sql: Knex.Transaction, place: CorporaOf): Promise<void> {
  // In the order in which whoever stages passages needs them: these first, their documents after them.
  await sql('searched_corpora')
    .where({ ...place })
    .orderBy('number')
    .forUpdate()
    .pluck('number');
  const documents: string[] = await sql('documents')
    .where({ ...place })
    .pluck('id');
  await deleteRows(sql, 'documents', documents, documentsAtOnce);
}

export async function deleteSessions(sql: Knex.Transaction, ids: readonly string[]): Promise<void> {
  await deleteRows(sql, 'sessions', ids, sessionsAtOnce);
}

/**
 * The passages of a document, or of its readings before one. From one to the next: those that are deleted stay in the index
 * until the transaction has ended.
 */
export async function deletePassagesOf(
  sql: Knex.Transaction,
  document_id: string,
  before?: number,
): Promise<void> {
  for (let last = { generation: -1, ordinal: -1 }; ; ) {
    const found = sql('chunks')
      .where({ document_id })
      .whereRaw('(generation, ordinal) > (?, ?)', [last.generation, last.ordinal])
      .orderBy(['generation', 'ordinal'])
      .limit(passagesAtOnce)
      .select('number', 'generation', 'ordinal');
    const rows: Passage[] = await (before === undefined ? found : found.where('generation', '<', before));
    const numbers = rows.map(({ number }) => number);
    await deleteRows(sql, 'chunks', numbers, passagesAtOnce, 'number');
    last = rows.at(-1) ?? last;
    if (rows.length < passagesAtOnce) return;
  }
}

interface Passage {
  readonly number: number;
  readonly generation: number;
  readonly ordinal: number;
}

async function deleteRows(
  sql: Knex.Transaction,
  table: string,
  keys: readonly (string | number)[],
  most: number,
  column = 'id',
): Promise<void> {
  for (let at = 0; at < keys.length; at += most)
    await sql(table)
      .whereIn(column, keys.slice(at, at + most))
      .delete();
}
