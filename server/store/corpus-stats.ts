/** The numbers of a corpus: changed with each of its documents, so that nobody has to count. */
import type { Knex } from 'knex';
import type { DocumentRow } from './document-rows.ts';

type Counted = Pick<DocumentRow, 'generation' | 'enabled' | 'chunks' | 'bytes'>;

/** Comes last in its transaction, as everybody who changes something in the corpus waits for this row. */
export async function changeStats(
  sql: Knex.Transaction,
  corpusId: string,
  before: Counted | null,
  after: Counted | null,
): Promise<void> {
  const [was, is] = [countOf(before), countOf(after)];
  const changes = Object.entries(is).flatMap(([column, count]) => {
    const change = count - was[column as keyof typeof was]; // both have the same columns
    return change === 0 ? [] : [[column, sql.raw('?? + ?', [column, change])] as const];
  });
  if (changes.length > 0) await sql('corpora').where({ id: corpusId }).update(Object.fromEntries(changes));
}

/** What searches see of a document. */
function countOf(row: Counted | null) {
  if (!row || row.generation === 0 || !row.enabled) return { documents: 0, chunks: 0, bytes: 0 };
  return { documents: 1, chunks: row.chunks, bytes: Number(row.bytes) };
}
