/**
 * Markdown: its headings, fences, tables and paragraphs, line by line. Only where blocks begin and end matters here, so
 * that the text stays as it was written, and a hostile one costs no more than its length.
 */
import type { Block } from './parsed-document.ts';

interface Line {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

export function markdownBlocks(text: string): Block[] {
  const lines = linesOf(text);
  const blocks: Block[] = [];
  for (let at = frontMatterEnd(lines); at < lines.length; ) {
    const { block, next } = blockAt(lines, at);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

export function linesOf(text: string): Line[] {
  const lines: Line[] = [];
  for (let start = 0; start <= text.length; ) {
    const found = text.indexOf('\n', start);
    const end = found === -1 ? text.length : found;
    lines.push({ text: text.slice(start, end), start, end });
    start = end + 1;
  }
  return lines;
}

/** Settings at the head of a file, between lines of dashes: part of the text, and no heading. */
function frontMatterEnd(lines: readonly Line[]): number {
  if (lines[0]?.text.trim() !== '---') return 0;
  const end = lines.findIndex(({ text }, index) => index > 0 && text.trim() === '---');
  return end > 0 && end < 50 ? end + 1 : 0;
}

type Found = { readonly block: Block | null; readonly next: number };

function blockAt(lines: readonly Line[], at: number): Found {
  const line = lines[at];
  if (!line || isBlank(line)) return { block: null, next: at + 1 };
  return headingAt(lines, at) ?? fenceAt(lines, at) ?? textAt(lines, at);
}

function isBlank(line: Line | undefined): boolean {
  return line === undefined || line.text.trim() === '';
}

const numberSigns = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/s;

/** Signs at the end of a heading, behind a blank, are none of its words. */
function withoutSigns(words: string): string {
  const trimmed = words.trimEnd();
  let end = trimmed.length;
  while (trimmed[end - 1] === '#') end -= 1;
  return end === 0 || ' \t'.includes(trimmed.charAt(end - 1)) ? trimmed.slice(0, end) : trimmed;
}

function headingAt(lines: readonly Line[], at: number): Found | null {
  const line = lines[at];
  const [, signs, words = ''] = line?.text.match(numberSigns) ?? [];
  if (line && signs !== undefined)
    return { block: heading(line, line, signs.length, withoutSigns(words)), next: at + 1 };
  const rule = lines[at + 1];
  // A line that is underlined: whatever else it might begin is told by its first characters.
  if (line && rule && /^ {0,3}(=+|-{2,})[ \t]*$/.test(rule.text) && /^ {0,3}[^\s>*+|`~-]/.test(line.text))
    return { block: heading(line, rule, rule.text.includes('=') ? 1 : 2, line.text), next: at + 2 };
  return null;
}

function heading(first: Line, last: Line, level: number, words: string): Block {
  const title = words.replaceAll(/\s+/g, ' ').trim();
  return { kind: 'heading', start: first.start, end: last.end, page: null, level, title };
}

/** A fence that is never closed goes to the end. */
function fenceAt(lines: readonly Line[], at: number): Found | null {
  const line = lines[at];
  const [, fence] = line?.text.match(/^ {0,3}(`{3,}|~{3,})/) ?? [];
  if (!line || fence === undefined) return null;
  const closes = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !closes.test(lines[end]?.text ?? '')) end += 1;
  const last = Math.min(end, lines.length - 1);
  return { block: { ...span(lines, at, last), kind: 'code' }, next: last + 1 };
}

/** A table where its second line is a rule; else a paragraph, up to what begins something else. */
function textAt(lines: readonly Line[], at: number): Found {
  const rule = lines[at + 1]?.text ?? '';
  const isTable = /^[ \t|:-]+$/.test(rule) && rule.includes('-') && lines[at]?.text.includes('|');
  let last = at;
  while (!endsAt(lines, last + 1)) last += 1;
  return { block: { ...span(lines, at, last), kind: isTable ? 'table' : 'paragraph' }, next: last + 1 };
}

function endsAt(lines: readonly Line[], at: number): boolean {
  const line = lines[at];
  if (!line || isBlank(line)) return true;
  return numberSigns.test(line.text) || /^ {0,3}(`{3,}|~{3,})/.test(line.text);
}

function span(lines: readonly Line[], first: number, last: number): Omit<Block, 'kind'> {
  return { start: lines[first]?.start ?? 0, end: lines[last]?.end ?? 0, page: null };
}
