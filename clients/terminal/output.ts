/** How the command speaks: answers on standard output, notices on standard error; for people on a terminal, plain elsewhere. */
import { isAbsolute, relative } from 'node:path';
import type { Diagnostic } from '../../server/config/config.ts';
import { homeFolder } from './home-folder.ts';

// An import statement would load every part of it, which takes a tenth of the shortest commands' time.
const { stripVTControlCharacters, styleText } = process.getBuiltinModule('node:util');

/** One column of a table. */
export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string;
  /** How its cells look on a terminal. */
  readonly style?: Style | ((row: Row) => Style | null);
}

/** The looks that this command uses. */
export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** What moves the cursor, turns the direction of writing round, or has no width. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * What has no width and still belongs to the text: joiners within words of the scripts that need them and within emoji,
 * and the selector of an emoji without colours. Between Latin, Greek or Cyrillic letters a joiner only hides.
 */
const needed =
  /(?<=[\p{L}\p{M}])[\u200c\u200d](?=(?![\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}])\p{L})|(?<=\p{Extended_Pictographic}(?:\p{Emoji_Modifier}|\ufe0f)?)\u200d(?=\p{Extended_Pictographic})|\ufe0e/u;
const hiding = new RegExp(`${unseen.source}(?<!${needed.source})`, 'gu');

/** In fewer columns than this, breaking lines makes them no easier to read. */
const narrowest = 40;

/** Whether a person reads what is written there. */
export function isTerminal(stream: NodeJS.WriteStream = process.stdout): boolean {
  return stream.isTTY === true;
}

/** Whether the terminal does nothing but to show line after line. */
export function isDumb(): boolean {
  return process.env.TERM === 'dumb';
}

/** How many cells a line has; some terminals do not say how wide they are. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout, unknown = 100): number {
  return stream.columns || unknown;
}

/** Text in a style, where the stream shows colours: NO_COLOR and FORCE_COLOR are heeded. */
export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream, validateStream: true });
}

/** Prints one answer, as it is; text that others wrote goes through `printable` before. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Prints JSON for programs. */
export function printJson(value: unknown): void {
  print(jsonText(value, 2));
}

/** JSON in which nothing is hidden: what `printable` would escape is escaped as JSON does it. */
export function jsonText(value: unknown, indentation = 0): string {
  const text = JSON.stringify(value, null, indentation) ?? 'null';
  return text.replaceAll(unseen, (character) => (character === '\n' ? character : jsonEscapeOf(character)));
}

/** Prints rows: as JSON, as an aligned table on a terminal, or with tabs between and without titles in a pipe. */
export function printTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { json = false }: { json?: boolean | undefined } = {},
): void {
  if (json) printJson(rows);
  else if (isTerminal()) printAligned(rows, columns);
  else for (const row of rows) print(columns.map((column) => printable(column.value(row))).join('\t'));
}

/** Writes lines of prose; on a terminal they are broken between words. */
export function write(text: string, stream: NodeJS.WriteStream): void {
  const broken = isTerminal(stream)
    ? text
        .split('\n')
        .map((line) => wrap(line, stream.columns))
        .join('\n')
    : text;
  stream.write(`${broken}\n`);
}

/** Says something beside the answer, on standard error. */
export function notice(text: string): void {
  const lines = printable(text, { lines: true });
  write(`${paint('yellow', 'service:', process.stderr)} ${lines}`, process.stderr);
}

/**
 * Text that others wrote, so that it neither moves the cursor nor hides anything: control characters, direction
 * marks and what has no width are written as escapes. With `lines`, line breaks and tabs stay. With `exact`, for what a
 * person allows or trusts, not even the joiners that a language needs are left unseen.
 */
export function printable(text: string, { lines = false, exact = false } = {}): string {
  return text.replaceAll(exact ? unseen : hiding, (character, at: number) => {
    // Emoji are commonly written with this selector, where it hides nothing.
    if (character === '\u{fe0f}' && !(exact && hidesThere(text, at))) return character;
    if (lines && (character === '\n' || character === '\t')) return character;
    return escapeOf(character);
  });
}

/** Whether the selector that stands there is of no emoji and of no key with a digit: many of them can spell something. */
function hidesThere(text: string, at: number): boolean {
  const isKey = text[at + 1] === '\u{20e3}';
  return (
    !isKey && !/\p{Extended_Pictographic}\p{Emoji_Modifier}?$/u.test(text.slice(Math.max(0, at - 4), at))
  );
}

/** Text of many lines that others wrote, for a terminal. */
export function shown(text: string, { exact = false } = {}): string {
  return printable(text.replaceAll('\r\n', '\n'), { lines: true, exact });
}

/** The beginning of a text as one line, which fills so many cells at most. */
export function brief(text: string, room: number): string {
  // On a narrow terminal nothing may be left for it, and less than nothing would be cut from the end.
  const width = Math.max(1, room);
  const all = text.trim();
  // More than that is not looked at: texts may be long, and characters of more halves fill two cells.
  const beginning = all.slice(0, 8 * width);
  const cut = beginning.length < all.length;
  // What the cut has left of a character is none.
  const line = printable(
    (cut ? beginning.replace(/[\ud800-\udbff\u200d]+$/, '') : beginning).replace(/\s+/g, ' '),
  );
  if (!cut && fitting(line, width) === line) return line;
  return `${fitting(line, width - 1).trimEnd()}…`;
}

/** A path as a person would write it here: on a terminal from `.` or `~`, whichever is shorter; elsewhere in full. */
export function displayPath(path: string, stream: NodeJS.WriteStream = process.stdout): string {
  if (!isTerminal(stream)) return printable(path, { exact: true });
  const home = homeFolder();
  const fromHome = isAbsolute(home) && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
  const fromHere = relative(process.cwd(), path) || '.';
  return printable(fromHere.length < fromHome.length ? fromHere : fromHome, { exact: true });
}

/** One diagnostic as a line for a person: where, how bad, what, and what to do. */
export function describeDiagnostic(
  { severity, place, pointer, message, expected, remedy }: Diagnostic,
  stream: NodeJS.WriteStream = process.stdout,
): string {
  const where = place ? `${displayPath(place.file, stream)}:${place.line}:${place.column}: ` : '';
  const what = `${pointer ? `${pointer}: ` : ''}${message}${expected === null ? '' : `; expected ${expected}`}`;
  const told = paint(severity === 'error' ? 'red' : 'yellow', severity, stream);
  return `${where}${told}: ${printable(`${what}. ${remedy}`)}`;
}

/** `No files`, `1 file`, `2 files`. */
export function counted(number: number, noun: string): string {
  return `${number === 0 ? 'No' : number} ${noun}${number === 1 ? '' : 's'}`;
}

/** How many cells of a terminal text fills; with tabs, at most. */
export function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += cellsOf(segment);
  return width;
}

/** As much of the beginning of a text as fits into so many cells. */
export function fitting(text: string, cells: number): string {
  if (plain.test(text)) return text.slice(0, cells);
  let width = 0;
  for (const { segment, index } of graphemesOf(text)) {
    width += cellsOf(segment);
    if (width > cells) return text.slice(0, index);
  }
  return text;
}

const plain = /^[ -~]*$/;
const wide =
  /\p{Emoji_Presentation}|\ufe0f|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;

let segmenter: Intl.Segmenter | undefined;

/** Made at the first need: it takes several milliseconds, which most commands can do without. */
function graphemesOf(text: string): Iterable<Intl.SegmentData> {
  segmenter ??= new Intl.Segmenter();
  return segmenter.segment(text);
}

function cellsOf(grapheme: string): number {
  if (grapheme === '\t') return 8;
  return wide.test(grapheme) ? 2 : 1;
}

/** What is carried over is indented; a word that is longer than a line is left to the terminal. */
function wrap(line: string, columns: number): string {
  // Some terminals do not say how wide they are.
  if (!columns || columns < narrowest) return line;
  const lines = [''];
  for (const word of line.split(/(?<= )/)) {
    const last = lines.at(-1) ?? '';
    const fits = widthOf(stripVTControlCharacters(last + word).trimEnd()) <= columns;
    if (fits || last.trim() === '') lines[lines.length - 1] = last + word;
    else lines.push(`  ${word}`);
  }
  return lines.map((one) => one.trimEnd()).join('\n');
}

function printAligned<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))));
  const widths = columns.map(({ title }, at) =>
    Math.max(...[title, ...cells.map((row) => row[at] ?? '')].map(widthOf)),
  );
  // Nothing is filled up behind the last column: a long line would wrap into an empty one.
  const fill = (text: string, at: number) =>
    at === columns.length - 1 ? text : text + ' '.repeat((widths[at] ?? 0) - widthOf(text));
  print(columns.map(({ title }, at) => paint('dim', fill(title.toUpperCase(), at))).join('  '));
  for (const [index, row] of rows.entries()) {
    const styled = columns.map(({ style }, at) => {
      const text = fill(cells[index]?.[at] ?? '', at);
      const chosen = typeof style === 'function' ? style(row) : style;
      return chosen ? paint(chosen, text) : text;
    });
    print(styled.join('  ').trimEnd());
  }
}

function jsonEscapeOf(character: string): string {
  if (character === '\u{fe0f}') return character;
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

function escapeOf(character: string): string {
  const named: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\u001b': '\\e' };
  const code = character.codePointAt(0) ?? 0;
  return named[character] ?? `\\u{${code.toString(16)}}`;
}
