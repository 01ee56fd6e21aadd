// One exact replacement in a text, as `edit` and `multiedit` make it.
import { z } from 'zod';
import { MAX_EDITABLE_BYTES } from './file-content.ts';
import { countOf, finderOf, holds, withAll } from './find-part.ts';
import { whyMissing } from './missing-text.ts';
import { ToolInputError } from './tool.ts';

/** What a model says of one replacement. */
export const replacement = z.strictObject({
  old_string: z
    .string()
    .min(1, 'must not be empty; write makes a file, or replaces the whole of one')
    .describe('The exact text to replace, white space included; it must occur once'),
  new_string: z.string().describe('The text that takes its place; empty to delete'),
  replace_all: z.boolean().default(false).describe('Replace every occurrence'),
});

export type Replacement = z.output<typeof replacement>;

/** A text with a replacement made. */
export interface Replaced {
  readonly text: string;
  readonly count: number;
}

/**
 * Makes the replacement.
 * @param place where it is, for the message: the file, and which of several replacements.
 * @throws ToolInputError when the text is not found, is not unique, would stay as it is, or become too large.
 */
export function replaceIn(text: string, wish: Replacement, place: string): Replaced {
  const wanted = inEndingsOf(text, wish);
  const count = countOf(text, wanted.old);
  if (count === 0)
    throw new ToolInputError(`old_string was not found in ${place}. ${whyMissing(text, wanted.old)}`);
  if (count > 1 && !wish.replace_all) {
    throw new ToolInputError(
      `old_string occurs ${count} times in ${place}, ${linesOf(text, wanted.old)}. Add surrounding lines to make it unique, or set replace_all.`,
    );
  }
  if (wanted.old === wanted.new)
    throw new ToolInputError(`old_string and new_string are the same in ${place}.`);
  const bytes = Buffer.byteLength(text) + count * growth(wanted);
  // Reckoned before it is made: a few doublings make a text that ends the process where it is joined.
  if (bytes > MAX_EDITABLE_BYTES)
    throw new ToolInputError(
      `The replacement would make ${place} too large (${bytes} bytes; at most ${MAX_EDITABLE_BYTES}). Use a command, such as sed.`,
    );
  return { text: withAll(text, wanted.old, wanted.new), count };
}

interface Wanted {
  readonly old: string;
  readonly new: string;
}

function growth(wanted: Wanted): number {
  return Buffer.byteLength(wanted.new) - Buffer.byteLength(wanted.old);
}

/**
 * Models write LF. In a file of CRLF lines both strings are taken to mean CRLF, so that the file stays whole; in one with
 * both, where the text is there with CRLF alone.
 */
function inEndingsOf(text: string, wish: Replacement): Wanted {
  const asGiven = { old: wish.old_string, new: wish.new_string };
  if (!/\n/.test(asGiven.old + asGiven.new) || !text.includes('\r\n')) return asGiven;
  if (!isOfCrlf(text) && holds(text, asGiven.old)) return asGiven;
  const old = withCrlf(wish.old_string);
  return holds(text, old) ? { old, new: withCrlf(wish.new_string) } : asGiven;
}

const byteOrderMark = '\uFEFF';

/** A whole new content in the form of the text before, of which a view shows nothing: CRLF at the ends of lines, and a mark at the beginning. */
export function inFormOf(before: string, content: string): string {
  const lines = isOfCrlf(before) && !content.includes('\r\n') ? withCrlf(content) : content;
  return before.startsWith(byteOrderMark) && !lines.startsWith(byteOrderMark) ? byteOrderMark + lines : lines;
}

function isOfCrlf(text: string): boolean {
  return text.includes('\r\n') && countOf(text, '\r\n') > countOf(text, '\n') / 2;
}

function withCrlf(text: string): string {
  return text.replaceAll(/\r?\n/g, '\r\n');
}

const MAX_LINES_NAMED = 10;

/** The lines that the occurrences begin at. */
function linesOf(text: string, part: string): string {
  const numbers: number[] = [];
  let line = 1;
  let counted = 0;
  const find = finderOf(part);
  for (let at = find(text, 0); at !== -1; at = find(text, at + part.length)) {
    if (numbers.length === MAX_LINES_NAMED) return `at lines ${numbers.join(', ')} and on`;
    line += countOf(text.slice(counted, at), '\n');
    numbers.push(line);
    counted = at;
  }
  return `at lines ${numbers.join(', ')}`;
}
