/** How many passages of a corpus hold a word: what tells a word that says much from one that stands everywhere. */
import type { Knex } from 'knex';
import { storedWords } from './chunk-terms.ts';

export interface StoredTerms {
  readonly terms: string;
  readonly length: number;
}

/** What a corpus wins and loses by one change. */
interface TermChange {
  readonly chunks: Map<string, number>;
  readonly total: { chunks: number; words: number };
  add(row: StoredTerms): void;
  take(row: StoredTerms): void;
}

export function countTerms(): TermChange {
  const chunks = new Map<string, number>();
  const total = { chunks: 0, words: 0 };
  const count = ({ terms, length }: StoredTerms, sign: 1 | -1): void => {
    for (const term of storedWords(terms)) chunks.set(term, (chunks.get(term) ?? 0) + sign);
    total.chunks += sign;
    total.words += sign * length;
  };
  return { chunks, total, add: (row) => count(row, 1), take: (row) => count(row, -1) };
}

/** So many words in one statement. */
const atOnce = 250;

/** The caller holds the row of the corpus, so that no two change its words at a time. */
export async function changeCounts(
  sql: Knex.Transaction,
  corpus: { readonly number: number; readonly organizationId: string },
  { chunks, total }: TermChange,
): Promise<void> {
  const rows = [...chunks]
    .filter(([, change]) => change !== 0)
    .map(([term, change]) => ({
      corpus_number: corpus.number,
      organization_id: corpus.organizationId,
      term,
      chunks: change,
    }));
  for (let start = 0; start < rows.length; start += atOnce)
    await sql('corpus_terms')
      .insert(rows.slice(start, start + atOnce))
      .onConflict(['corpus_number', 'term'])
      .merge({ chunks: sql.raw('corpus_terms.chunks + excluded.chunks') });
  const fewer = rows.filter((row) => row.chunks < 0).map(({ term }) => term);
  for (let start = 0; start < fewer.length; start += atOnce)
    await sql('corpus_terms')
      .where({ corpus_number: corpus.number })
      .whereIn('term', fewer.slice(start, start + atOnce))
      .where('chunks', '<=', 0)
      .delete();
  await sql('searched_corpora')
    .where({ number: corpus.number })
    .increment({ chunks: total.chunks, words: total.words });
}
