/** Cuts a document into passages: along its structure, and inside a block only where that is too long for one. */
import type { Chunking } from '../../contract/api.ts';
import type { Chunk } from '../chunk.ts';
import { ParseFailure } from '../parsing/parse-failure.ts';
import type { Block, ParsedDocument } from '../parsing/parsed-document.ts';
import { positionsIn } from './positions.ts';
import { firstNotBelow, tokenStarts } from './tokens.ts';

type Cuttable = Pick<ParsedDocument, 'text' | 'blocks'>;

/** A passage before its offsets are counted in code points. */
interface Piece {
  readonly start: number;
  readonly end: number;
  readonly page: number | null;
  readonly headings: readonly string[];
}

/** Throws `ParseFailure` where it has too many passages. */
export function chunk(document: Cuttable, chunking: Chunking): Chunk[] {
  const { text } = document;
  const blocks = withoutGaps(document, chunking.strategy);
  const tokens = tokenStarts(text);
  const pieces = piecesOf(text, blocks, chunking, tokens);
  const { codePoint, line } = positionsIn(text);
  return pieces.map(({ start, end, page, headings }, ordinal) => ({
    ordinal,
    text: text.slice(start, end),
    start: codePoint(start),
    end: codePoint(end),
    page,
    line: line(start),
    headings: [...headings],
  }));
}

/** What stands between the blocks of a parser is not lost; without structure all of it is one. */
function withoutGaps({ text, blocks }: Cuttable, strategy: Chunking['strategy']): Block[] {
  if (strategy === 'fixed') return [{ kind: 'paragraph', start: 0, end: text.length, page: null }];
  const whole: Block[] = [];
  let at = 0;
  const fill = (end: number): void => {
    if (text.slice(at, end).trim() !== '') whole.push({ kind: 'paragraph', start: at, end, page: null });
  };
  for (const block of blocks) {
    fill(block.start);
    whole.push(block);
    at = block.end;
  }
  fill(text.length);
  return whole;
}

function piecesOf(text: string, blocks: readonly Block[], chunking: Chunking, tokens: Uint32Array): Piece[] {
  const count = (start: number, end: number): number =>
    firstNotBelow(tokens.subarray(0, -1), end) - firstNotBelow(tokens.subarray(0, -1), start);
  const pieces: Piece[] = [];
  const path = headingPath();
  let open: OpenPiece | null = null;
  for (const block of blocks) {
    const { start, end, page } = trimmed(text, block);
    if (start >= end) continue;
    if (pieces.length > mostPassages) throw tooManyPassages();
    const isHeading = block.kind === 'heading';
    // A heading stands with what is below it, never with what is above.
    if (isHeading && open?.onlyHeadings === false) {
      pieces.push(open);
      open = null;
    }
    if (isHeading) path.enter(block);
    const headings = path.above();
    if (open && count(open.start, end) <= chunking.size && fits(open, page, count, chunking)) {
      Object.assign(open, { end, headings, onlyHeadings: open.onlyHeadings && isHeading });
      continue;
    }
    // A heading that does not fit beside its text is cut together with it.
    const begin: number = open?.onlyHeadings ? open.start : start;
    if (open && !open.onlyHeadings) pieces.push(open);
    open = { start: begin, end, page, headings, onlyHeadings: isHeading };
    if (count(begin, end) <= chunking.size) continue;
    for (const piece of cut(text, { ...open, kind: block.kind }, chunking, tokens))
      pieces.push({ ...piece, headings });
    open = null;
  }
  if (open) pieces.push(open);
  if (pieces.length > mostPassages) throw tooManyPassages();
  return pieces;
}

/** All of them are shown in one transaction; a text of the greatest length has about as many. */
const mostPassages = 60_000;

function tooManyPassages(): ParseFailure {
  return new ParseFailure(
    'too_large',
    `The document has more than ${mostPassages} passages; split it into several, or choose larger passages in the chunking of its corpus.`,
  );
}

interface OpenPiece extends Piece {
  readonly onlyHeadings: boolean;
}

type Count = (start: number, end: number) => number;

/** What has grown to half of a passage ends with its page: it is cited by that. */
function fits(open: Piece, page: number | null, count: Count, { size }: Chunking): boolean {
  return open.page === page || count(open.start, open.end) * 2 < size;
}

/** The headings above, outermost first: as many and as long as an embedder reads beside the text. */
function headingPath() {
  const open: { readonly level: number; readonly title: string }[] = [];
  const mostHeadings = 4;
  const longest = 120;
  return {
    enter({ level = 1, title = '' }: Block): void {
      while ((open.at(-1)?.level ?? 0) >= level) open.pop();
      open.push({ level, title });
    },
    above: (): readonly string[] =>
      open
        .slice(-mostHeadings)
        .filter(({ title }) => title !== '')
        .map(({ title }) => [...title.slice(0, longest)].slice(0, longest).join('').toWellFormed()),
  };
}

/** Without what is blank around it; the first line of code keeps its indentation. */
function trimmed(text: string, { kind, start, end, page }: Pick<Block, 'kind' | 'start' | 'end' | 'page'>) {
  const inside = text.slice(start, end);
  const last = start + inside.trimEnd().length;
  const blank =
    kind === 'code'
      ? (inside.match(/^(?:[^\S\n]*\n)+/)?.[0].length ?? 0)
      : inside.length - inside.trimStart().length;
  return { start: start + blank, end: last, page };
}

/** A block that is too long, in pieces that end where a reader would stop, each repeating the end of the one before. */
function cut(
  text: string,
  block: Pick<Block, 'kind' | 'start' | 'end' | 'page'>,
  { size, overlap }: Chunking,
  tokens: Uint32Array,
): Omit<Piece, 'headings'>[] {
  const pieces: Omit<Piece, 'headings'>[] = [];
  const last = firstNotBelow(tokens.subarray(0, -1), block.end);
  for (let start = block.start; ; ) {
    const from = firstNotBelow(tokens, start);
    if (from + size >= last) {
      pieces.push(trimmed(text, { ...block, start }));
      break;
    }
    // Behind the last token that fits, and not before the half of it.
    const furthest = tokens[from + size] ?? block.end;
    const nearest = tokens[from + Math.ceil(size / 2)] ?? furthest;
    const end = stopIn(text, nearest, furthest, block.kind);
    pieces.push(trimmed(text, { ...block, start, end }));
    start = overlap > 0 ? resumeIn(text, tokens, end, overlap) : end;
  }
  return pieces.filter((piece) => piece.start < piece.end);
}

const sentenceEnd = /[.!?…]["'”’)\]]*\s|[。！？]/g;

/** The best place to stop: an empty line, a line of a table or of code, a sentence, a word; else behind a token. */
function stopIn(text: string, nearest: number, furthest: number, kind: Block['kind']): number {
  const window = text.slice(nearest, furthest);
  const byLine = kind === 'code' || kind === 'table';
  const stops = [
    window.lastIndexOf('\n\n') + 1,
    byLine ? window.lastIndexOf('\n') + 1 : lastEnd(window, sentenceEnd),
    lastEnd(window, /\s/g),
  ];
  const stop = stops.find((found) => found > 0);
  return stop === undefined ? furthest : nearest + stop;
}

function lastEnd(window: string, pattern: RegExp): number {
  let end = 0;
  for (const { 0: found, index } of window.matchAll(pattern)) end = index + found.length;
  return end;
}

/** So many tokens back, at the beginning of a word or of a line where there is one. */
function resumeIn(text: string, tokens: Uint32Array, end: number, overlap: number): number {
  const at = tokens[Math.max(firstNotBelow(tokens, end) - overlap, 0)] ?? end;
  const window = text.slice(at, end);
  const line = window.indexOf('\n') + 1;
  const word = window.search(/\s/) + 1;
  const start = line > 0 && line < window.length ? line : word;
  return at + (start < window.length ? start : 0);
}
