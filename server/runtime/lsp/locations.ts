/** Places in files, as servers name them and as the model reads them. */
import { pathOf } from './diagnostics.ts';
import { readDocument } from './documents.ts';
import { isInside } from './server-choice.ts';
import { memberOf, textOf } from './server-requests.ts';
import { shownPath } from './shown.ts';

/** A place that a server named. */
export interface Location {
  /** A path, or the address where it is none of a file. */
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

const mostShown = 100;
const longestLine = 160;

/** Takes one location, a list of them, or links, which the protocol allows alike. */
export function locationsOf(answer: unknown): readonly Location[] {
  const items: readonly unknown[] = Array.isArray(answer) ? answer : answer ? [answer] : [];
  return items.flatMap((item) => {
    const uri = textOf(item, 'targetUri') ?? textOf(item, 'uri');
    const range = memberOf(item, 'targetSelectionRange') ?? memberOf(item, 'range');
    if (uri === undefined) return [];
    return [locationOf(uri, range)];
  });
}

/** A place from an address and a range. */
export function locationOf(uri: string, range: unknown): Location {
  const start = memberOf(range, 'start');
  const number = (name: string) => Number(memberOf(start, name) ?? 0) + 1;
  return { path: pathOf(uri) ?? uri, line: number('line'), column: number('character') };
}

/** One line each, with the text of the line where the file lies in the workspace; what lies outside is only named. */
export function locationLines(locations: readonly Location[], workspacePath: string): string {
  const unique = new Map(locations.map((location) => [Object.values(location).join('\0'), location]));
  // What belongs to the project first; within that in the order of the files.
  const inside = new Set(
    [...new Set(locations.map(({ path }) => path))].filter((path) => isInside(workspacePath, path)),
  );
  const ordered = [...unique.values()].toSorted(
    (one, other) =>
      Number(inside.has(other.path)) - Number(inside.has(one.path)) ||
      compare(one.path, other.path) ||
      one.line - other.line,
  );
  const texts = new Map<string, readonly string[]>();
  const lines = ordered.slice(0, mostShown).map(({ path, line, column }) => {
    const place = `${shownPath(path, workspacePath)}:${line}:${column}`;
    if (!inside.has(path)) return `${place} (outside the workspace)`;
    const text = texts.get(path) ?? (readDocument(path) ?? '').split(/\r\n|\r|\n/);
    texts.set(path, text);
    return `${place}: ${(text[line - 1] ?? '').trim().slice(0, longestLine)}`;
  });
  if (unique.size > mostShown) lines.push(`… and ${unique.size - mostShown} more`);
  return lines.join('\n');
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
