/** Ranks memories by the words that they share with a query (BM25), by what was found alone: the same on both engines. */
import { termsIn } from './chunk-terms.ts';
import { searchedText } from './memory-index.ts';
import type { MemoryRow } from './memory-rows.ts';

export interface RankedMemory {
  readonly row: MemoryRow;
  readonly score: number;
}

/** The usual measures of how soon a repeated word says no more, and how much a long text has to say. */
const saturation = 1.2;
const lengthWeight = 0.75;

/**
 * How rare a word is follows from the memories given, never from those of others: a score tells nothing of what its
 * reader does not see.
 */
export function ranked(rows: readonly MemoryRow[], terms: readonly string[]): RankedMemory[] {
  const documents = rows.map((row) => {
    const found = termsIn(searchedText(row));
    const length = [...found.values()].reduce((sum, count) => sum + count, 0);
    return { row, length, counts: terms.map((term) => found.get(term) ?? 0) };
  });
  const meanLength = documents.reduce((sum, { length }) => sum + length, 0) / Math.max(1, documents.length);
  const weights = terms.map((_, index) => {
    const holding = documents.filter(({ counts }) => (counts[index] ?? 0) > 0).length;
    return Math.log(1 + (documents.length - holding + 0.5) / (holding + 0.5));
  });
  return documents
    .map(({ row, length, counts }) => {
      const scale = saturation * (1 - lengthWeight + (lengthWeight * length) / meanLength);
      const parts = counts.map((count, index) => {
        return ((weights[index] ?? 0) * count * (saturation + 1)) / (count + scale);
      });
      return { row, score: parts.reduce((sum, part) => sum + part, 0) };
    })
    .sort((a, b) => b.score - a.score || (a.row.id < b.row.id ? 1 : -1));
}
