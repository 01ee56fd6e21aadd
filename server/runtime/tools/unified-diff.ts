// Shows the change of a file as a unified diff, within bounds of time and length.
import { FILE_HEADERS_ONLY, formatPatch, structuredPatch } from 'diff';
import type { ResolvedPath } from './workspace-path.ts';

const CONTEXT_LINES = 3;
const MAX_DIFF_MS = 300;
const MAX_DIFF_LENGTH = 100_000;
/** Splitting a text into lines has no time limit, and a million of them take a second. */
const MAX_COMPARED_LINES = 50_000;
const MAX_COMPARED_LENGTH = 2_000_000;

/** The change, for the person who decides about it; where it is too large to be compared, the sizes only. */
export function unifiedDiff(path: ResolvedPath, before: string | null, after: string): string {
  const [old, now] = [before === null ? '/dev/null' : `a/${path.shown}`, `b/${path.shown}`];
  const patch = patchOf(old, now, before ?? '', after);
  if (patch === null)
    return `--- ${old}\n+++ ${now}\n(${before?.length ?? 0} characters become ${after.length})\n`;
  return patch.length <= MAX_DIFF_LENGTH
    ? patch
    : `${patch.slice(0, MAX_DIFF_LENGTH)}\n(the rest of the diff is left out)\n`;
}

function patchOf(oldName: string, newName: string, before: string, after: string): string | null {
  const part = isSmall(before, after) ? { start: 0, before, after } : changedPart(before, after);
  if (!isSmall(part.before, part.after)) return null;
  // Two unlike texts take quadratic time.
  const options = { context: CONTEXT_LINES, timeout: MAX_DIFF_MS };
  const patch = structuredPatch(oldName, newName, part.before, part.after, undefined, undefined, options);
  if (!patch) return null;
  const skipped = lineBreaks(before.slice(0, part.start));
  for (const hunk of patch.hunks) {
    hunk.oldStart += skipped;
    hunk.newStart += skipped;
  }
  return formatPatch(patch, FILE_HEADERS_ONLY);
}

function isSmall(...texts: readonly string[]): boolean {
  const all = texts.reduce((length, text) => length + text.length, 0);
  return (
    all <= MAX_COMPARED_LENGTH &&
    texts.reduce((lines, text) => lines + lineBreaks(text), 0) <= MAX_COMPARED_LINES
  );
}

interface ChangedPart {
  /** Where the part begins, in both texts. */
  readonly start: number;
  readonly before: string;
  readonly after: string;
}

/** What stands between the lines that both begin with and those that both end with, and the context of it. */
function changedPart(before: string, after: string): ChangedPart {
  const shortest = Math.min(before.length, after.length);
  let same = 0;
  while (same < shortest && before.charCodeAt(same) === after.charCodeAt(same)) same += 1;
  let tail = 0;
  while (
    tail < shortest - same &&
    before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)
  )
    tail += 1;
  const start = contextBefore(before, same);
  const more = contextBehind(before, before.length - tail) - (before.length - tail);
  return {
    start,
    before: before.slice(start, before.length - tail + more),
    after: after.slice(start, after.length - tail + more),
  };
}

/** The beginning of the line, and of so many lines before it. */
function contextBefore(text: string, place: number): number {
  let start = place;
  for (let lines = 0; lines <= CONTEXT_LINES; lines += 1) {
    if (start === 0) return 0;
    start = text.lastIndexOf('\n', start - 1);
    if (start === -1) return 0;
  }
  return start + 1;
}

/** The end of the line, and of so many lines behind it. */
function contextBehind(text: string, place: number): number {
  let end = place;
  for (let lines = 0; lines <= CONTEXT_LINES; lines += 1) {
    end = text.indexOf('\n', end) + 1;
    if (end === 0) return text.length;
  }
  return end;
}

function lineBreaks(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}
