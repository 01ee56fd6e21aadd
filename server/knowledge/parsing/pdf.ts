/** PDF: lines put together from the pieces that are drawn, paragraphs by their distance, headings by their size. */
import { getDocumentProxy } from 'unpdf';
import { ParseFailure } from './parse-failure.ts';
import type { ParsedDocument } from './parsed-document.ts';
import { type TextBuilder, textBuilder } from './text-builder.ts';

const mostPages = 5000;

export async function parsePdf(bytes: Uint8Array): Promise<ParsedDocument> {
  const pdf = await open(bytes);
  try {
    if (pdf.numPages > mostPages)
      throw new ParseFailure(
        'too_large',
        `The document has ${pdf.numPages} pages, and ${mostPages} are the most; split it into several.`,
      );
    const builder = textBuilder();
    const sizes = new Map<number, number>();
    // Headings are told by what most of the text is not: the first pages show how large it is.
    const ahead: Line[][] = [];
    for (let number = 1; number <= pdf.numPages; number += 1) {
      const lines = await linesOf(pdf, number);
      for (const { size, text } of lines) sizes.set(size, (sizes.get(size) ?? 0) + text.length);
      ahead.push(lines);
      if (number < pagesAhead && number < pdf.numPages) continue;
      const body = commonSize(sizes);
      for (const page of ahead.splice(0)) addPage(builder, page, body);
    }
    return builder.build('application/pdf');
  } finally {
    await pdf.loadingTask.destroy();
  }
}

const pagesAhead = 20;

async function open(bytes: Uint8Array) {
  try {
    return await getDocumentProxy(bytes, { stopAtErrors: false, verbosity: 0 });
  } catch (error) {
    if (error instanceof Error && error.name === 'PasswordException')
      throw new ParseFailure(
        'password_protected',
        'The PDF asks for a password; save it without one.',
        error,
      );
    throw new ParseFailure('malformed', 'The PDF is damaged and cannot be read; save it again.', error);
  }
}

interface Line {
  readonly text: string;
  /** Of its largest letters, in half points. */
  readonly size: number;
  /** From the bottom of the page; null where the file does not say. */
  readonly y: number;
}

interface DrawnText {
  readonly str: string;
  readonly hasEOL: boolean;
  readonly height: number;
  readonly width: number;
  readonly transform: readonly number[];
}

type Pdf = Awaited<ReturnType<typeof open>>;

async function linesOf(pdf: Pdf, number: number): Promise<Line[]> {
  const page = await pdf.getPage(number);
  try {
    const { items } = await page.getTextContent({ disableNormalization: false });
    return joined(items.filter((item): item is typeof item & DrawnText => 'str' in item));
  } finally {
    page.cleanup();
  }
}

function joined(items: readonly DrawnText[]): Line[] {
  const lines: Line[] = [];
  let words = '';
  let size = 0;
  let y: number | null = null;
  let end: number | null = null;
  const close = (): void => {
    if (words.trim() !== '') lines.push({ text: words.trim(), size, y: y ?? 0 });
    [words, size, y, end] = ['', 0, null, null];
  };
  for (const { str, hasEOL, height, width, transform } of items) {
    const [, , , , left = 0, bottom = 0] = transform;
    if (y !== null && Math.abs(bottom - y) > Math.max(height, 1)) close();
    // Words that are drawn apart are not always parted by a space.
    if (end !== null && left - end > Math.max(height, 1) * 0.2 && !words.endsWith(' ') && str !== ' ')
      words += ' ';
    words += str;
    if (str.trim() !== '') {
      size = Math.max(size, Math.round(height * 2));
      y ??= bottom;
      end = left + width;
    }
    if (hasEOL) close();
  }
  close();
  return lines;
}

function commonSize(sizes: ReadonlyMap<number, number>): number {
  return [...sizes].toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? 0;
}

const longestHeading = 200;

function addPage(builder: TextBuilder, lines: readonly Line[], body: number): void {
  builder.nextPage();
  const spacing = usualSpacing(lines);
  let open: Line[] = [];
  const close = (): void => {
    const text = open.map((line) => line.text).join('\n');
    const [first] = open;
    if (first && isHeading(first) && text.length <= longestHeading)
      builder.heading(first.size >= body * 1.6 ? 1 : 2, text);
    else builder.add('paragraph', text);
    open = [];
  };
  const isHeading = ({ size, text }: Line): boolean => size >= body * 1.18 && /\p{L}/u.test(text);
  for (const line of lines) {
    const last = open.at(-1);
    const apart = last && (last.y - line.y > spacing * 1.4 || line.y > last.y + spacing);
    if (last && (apart || isHeading(last) !== isHeading(line))) close();
    open.push(line);
  }
  close();
}

/** The distance between two lines of one paragraph: the one that comes most often. */
function usualSpacing(lines: readonly Line[]): number {
  const counts = new Map<number, number>();
  for (const [index, line] of lines.entries()) {
    const gap = Math.round((lines[index - 1]?.y ?? line.y) - line.y);
    if (gap > 0) counts.set(gap, (counts.get(gap) ?? 0) + 1);
  }
  return [...counts].toSorted(([a, x], [b, y]) => y - x || a - b)[0]?.[0] ?? Number.POSITIVE_INFINITY;
}
