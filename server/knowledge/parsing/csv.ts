/** CSV and TSV: a line of text for each row. */
import { CsvError } from 'csv-parse';
import { parse } from 'csv-parse/sync';
import { ParseFailure } from './parse-failure.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { rowText, tables } from './table-text.ts';
import { textBuilder } from './text-builder.ts';

export function parseCsv(text: string): ParsedDocument {
  const builder = textBuilder();
  const rows = tables(builder);
  for (const row of read(text, delimiterOf(text))) rows.add(rowText(row));
  rows.end();
  return builder.build('text/csv');
}

function read(text: string, delimiter: string): string[][] {
  try {
    const lax = { relax_column_count: true, relax_quotes: true, skip_empty_lines: true, bom: true };
    return parse(text, { delimiter, ...lax });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new ParseFailure('malformed', `The table cannot be read: ${error.message}`, error);
  }
}

/** The one that comes most often in the first line; spreadsheets of half of Europe write semicolons. */
function delimiterOf(text: string): string {
  const [line = ''] = text.split('\n', 1);
  const count = (mark: string): number => line.split(mark).length;
  return [',', ';', '\t'].toSorted((a, b) => count(b) - count(a))[0] ?? ',';
}
