/** Tables as text: a line for each row, in blocks of so many rows at most. */
import type { TextBuilder } from './text-builder.ts';

/** Cells by bars; what is empty at the end is left out. */
export function rowText(cells: readonly string[]): string {
  const texts = cells.map((cell) => cell.replaceAll(/\s+/g, ' ').trim());
  while (texts.at(-1) === '') texts.pop();
  return texts.join(' | ');
}

/** The words of a cell that a table stands in, without what the empty cells of that leave at the end. */
export function withoutBars(cell: string): string {
  let end = cell.length;
  while (end > 0 && ' |'.includes(cell.charAt(end - 1))) end -= 1;
  return cell.slice(0, end);
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
