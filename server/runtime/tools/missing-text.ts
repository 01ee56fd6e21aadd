// Says why an exact piece of text may not be in a file, so that the next try of a model can be the right one.
import { holds } from './find-part.ts';

const MAX_SHOWN_LENGTH = 2000;
/** A file and a wish of a million equal lines must not keep the server busy. */
const MAX_TEXT_LENGTH = 1_000_000;
const MAX_LINES_COMPARED = 200;
const MAX_PLACES_COMPARED = 1000;

/** A sentence or two for a model; the text of the file, and what was looked for in it in vain. */
export function whyMissing(text: string, wanted: string): string {
  const unnumbered = wanted.replaceAll(/^ *\d+\t/gm, '');
  if (unnumbered !== wanted && holds(text, unnumbered))
    return 'Leave out the line numbers, which view puts before each line.';
  const unescaped = wanted
    .replaceAll('\\n', '\n')
    .replaceAll('\\t', '\t')
    .replaceAll(/\\(["'`])/g, '$1');
  if (unescaped !== wanted && holds(text, unescaped))
    return 'It is there without the backslashes: write line breaks, tabs and quotes as they are.';
  if (text.length > MAX_TEXT_LENGTH) return 'It has to match exactly: view the part that you mean again.';
  return unlikeLines(text.split(/\r?\n/), wanted.split(/\r?\n/));
}

/** Where the file begins like the wanted lines, and what it goes on with. */
function unlikeLines(lines: readonly string[], wanted: readonly string[]): string {
  const blankBefore = wanted.findIndex((line) => line.trim() !== '');
  const from = Math.max(0, blankBefore);
  const asked = wanted.slice(from, from + MAX_LINES_COMPARED);
  while (asked.length > 1 && asked.at(-1)?.trim() === '') asked.pop();
  const best = longestStart(lines.map(squeezed), asked.map(squeezed));
  if (best.length === 0) return 'No line is like its first one. View the part that you mean again.';
  const first = best.at + 1;
  if (best.length === MAX_LINES_COMPARED)
    return `Its first ${MAX_LINES_COMPARED} lines are like those from line ${first} on. Replace a smaller piece.`;
  if (best.length === asked.length) {
    const found = lines.slice(best.at, best.at + asked.length);
    const there = shown(found);
    if (found.every((line, index) => line === asked[index]))
      return `From line ${first} on it is there, but some of those lines end with CRLF and others with LF: replace them one by one.`;
    return `From line ${first} on it differs only in white space. There it reads:\n${there}`;
  }
  const differing = best.at + best.length;
  const there = lines[differing];
  const place = `It begins as line ${first} does, but line ${differing + 1}`;
  return there === undefined
    ? `${place} is behind the end of the file.`
    : `${place} is:\n${shown([there])}\ninstead of:\n${shown(asked.slice(best.length, best.length + 1))}`;
}

function squeezed(line: string): string {
  return line.replaceAll(/\s+/g, ' ').trim();
}

/** The place where most of the wanted lines follow each other, the first of several. */
function longestStart(lines: readonly string[], wanted: readonly string[]): { at: number; length: number } {
  let best = { at: 0, length: 0 };
  let places = 0;
  for (const [at, line] of lines.entries()) {
    if (line !== wanted[0]) continue;
    places += 1;
    if (places > MAX_PLACES_COMPARED) break;
    let length = 1;
    while (length < wanted.length && lines[at + length] === wanted[length]) length += 1;
    if (length > best.length) best = { at, length };
  }
  return best;
}

function shown(lines: readonly string[]): string {
  const text = lines.join('\n');
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH).toWellFormed()}…`;
}
