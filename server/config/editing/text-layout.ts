/** How the text of a settings file is laid out: lines, indentation, commas, and the remarks between values. */
import { createScanner, type Node } from 'jsonc-parser';

/** The line break that the text uses. */
export function lineBreakOf(text: string): string {
  return /\r?\n/.exec(text)?.[0] ?? '\n';
}

/** Whether nothing but spaces stands before the offset on its line. */
export function startsLine(text: string, offset: number): boolean {
  return !text.slice(lineStart(text, offset), offset).trim();
}

/** The spaces with which the line of the offset begins. */
export function indentAt(text: string, offset: number): string {
  return spacesAt(text, lineStart(text, offset));
}

/** The spaces and tabs at the offset. */
export function spacesAt(text: string, offset: number): string {
  return matchAt(/[ \t]*/y, text, offset);
}

/** Where the comments end that follow the offset on its line. */
export function endOfRemarks(text: string, offset: number): number {
  return offset + matchAt(/(?:[ \t]*(?:\/\*[^\r\n]*?\*\/|\/\/[^\r\n]*))*/y, text, offset).length;
}

/** Where the comma is that comes next, apart from comments; null where something else does. */
export function commaAfter(text: string, offset: number): number | null {
  const scanner = createScanner(text, true);
  scanner.setPosition(offset);
  scanner.scan();
  return text[scanner.getTokenOffset()] === ',' ? scanner.getTokenOffset() : null;
}

/** The offset behind a node. */
export function endOf({ offset, length }: Node): number {
  return offset + length;
}

function lineStart(text: string, offset: number): number {
  return offset === 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1;
}

function matchAt(pattern: RegExp, text: string, offset: number): string {
  pattern.lastIndex = offset;
  return pattern.exec(text)?.[0] ?? '';
}
