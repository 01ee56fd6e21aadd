/** Tables as text: a line for each row, in blocks that begin with the names of the columns. */
import type { TextBuilder } from './text-builder.ts';

/** Cells by bars; what is empty at the end is left out. */
export function rowText(cells: readonly string[]): string {
  const texts = cells.map((cell) => cell.replaceAll(/\s+/g, ' ').trim());
  while (texts.at(-1) === '') texts.pop();
  return texts.join(' | ');
}

/** A block of a long table: what one passage cannot hold is cut between rows. */
const rowsPerBlock = 1000;

export function tables(builder: TextBuilder) {
  let rows: string[] = [];
  const end = (): void => {
    builder.add('table', rows.join('\n'));
    rows = [];
  };
  return {
    add(row: string): void {
      if (row === '') return;
      rows.push(row);
      if (rows.length >= rowsPerBlock) end();
    },
    end,
  };
}
