/** Finds the place that a model means: a line and a name on it, since models count columns badly. */
import { ToolInputError } from '../tools/tool.ts';

/** What a model may say of a place. */
export interface PlaceInput {
  readonly line?: number | undefined;
  readonly symbol?: string | undefined;
  readonly column?: number | undefined;
}

/** As the protocol counts: from 0, in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly character: number;
}

/** A model often misses the line by a few, since the file has moved on. */
const nearby = 5;

/** Throws ToolInputError that says where the name does occur. */
export function positionIn(text: string, { line, symbol, column }: PlaceInput): Position {
  const lines = text.split(/\r\n|\r|\n/);
  if (line !== undefined && line > lines.length)
    throw new ToolInputError(`The file has only ${lines.length} lines.`);
  if (symbol === undefined) return byColumn(lines, line, column);
  const wanted = symbol.trim();
  const found = lines.flatMap((content, index) =>
    occurrences(content, wanted).map((character) => ({ line: index, character })),
  );
  if (found.length === 0) throw new ToolInputError(`${JSON.stringify(wanted)} does not occur in the file.`);
  const target = (line ?? 1) - 1;
  const nearest = found.toSorted(
    (one, other) =>
      Math.abs(one.line - target) - Math.abs(other.line - target) ||
      Math.abs(one.character - (column ?? 1)) - Math.abs(other.character - (column ?? 1)),
  );
  const [best] = line === undefined ? found : nearest;
  if (!best || (line !== undefined && Math.abs(best.line - target) > nearby))
    throw new ToolInputError(
      `${JSON.stringify(wanted)} is not on line ${line}; it is on line ${linesOf(found)}.`,
    );
  return best;
}

function byColumn(lines: readonly string[], line: number | undefined, column: number | undefined): Position {
  if (line === undefined) throw new ToolInputError('Give the name as symbol, or a line with a column.');
  const content = lines[line - 1] ?? '';
  if (column === undefined) throw new ToolInputError('Give the name on that line as symbol, or its column.');
  return { line: line - 1, character: Math.min(column - 1, content.length) };
}

/** Whole names only, unless there is none. */
function occurrences(content: string, name: string): readonly number[] {
  const found: number[] = [];
  for (let at = content.indexOf(name); at >= 0 && name; at = content.indexOf(name, at + 1)) {
    if (!isOfName(content[at - 1]) && !isOfName(content[at + name.length])) found.push(at);
  }
  return found;
}

/** The usual letters first: a file may have millions of places to look at. */
function isOfName(character: string | undefined): boolean {
  if (character === undefined || character === ' ') return false;
  return (character >= 'a' && character <= 'z') || /[\p{L}\p{N}_$]/u.test(character);
}

function linesOf(found: readonly Position[]): string {
  const lines = [...new Set(found.map(({ line }) => line + 1))];
  return lines.slice(0, 10).join(', ') + (lines.length > 10 ? ', …' : '');
}
