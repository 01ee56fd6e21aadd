/** What deleted corpora have left in searches, where nobody sees it: deleted in parts, each in a transaction that holds nobody up. */
import type { Knex } from 'knex';
import type { Database } from './database.ts';

/** So many rows, each with what belongs to it. */
const most = 1000;

/** Answers with how many rows; 0 where nothing is left, or another process is at it. */
export async function clearPart(database: Database): Promise<number> {
  // Nearly always there is nothing: that is found out without a transaction.
  const some = await database.read('installation', (sql) => leftCorpora(sql).first('number'));
  return some ? database.write('installation', clear) : 0;
}

/** The database lets go of them when their corpus is deleted, whatever it is deleted with. */
function leftCorpora(sql: Knex): Knex.QueryBuilder {
  return sql('searched_corpora').whereNull('corpus_id').orderBy('number');
}

async function clear(sql: Knex.Transaction): Promise<number> {
  const found = leftCorpora(sql).forUpdate();
  const corpus: { number: number } | undefined = await (sql.client.config.client === 'pg'
    ? found.skipLocked()
    : found
  ).first('number');
  if (!corpus) return 0;
  const { number: corpus_number } = corpus;
  let rows = 0;
  for (const [table, column] of [['chunks', 'number'] as const, ['corpus_terms', 'term'] as const]) {
    const first = sql(table)
      .where({ corpus_number })
      .orderBy(column)
      .limit(most - rows)
      .select(column);
    rows += await sql(table).where({ corpus_number }).whereIn(column, first).delete();
    if (rows === most) return rows;
  }
  await sql('searched_corpora').where({ number: corpus_number }).delete();
  return rows + 1;
}
