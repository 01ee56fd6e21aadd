// Does search jobs, one after the other, in a thread of its own, because only a thread can be stopped in the middle of a regular expression.
import { fstatSync, lstatSync, readFileSync } from 'node:fs';
import { basename, join, matchesGlob } from 'node:path';
import { parentPort } from 'node:worker_threads';
import {
  type LineMatch,
  MAX_MATCH_LENGTH,
  type SearchJob,
  type SearchMessage,
  type WalkEntry,
  type WalkScope,
} from './search-job.ts';
import { readInPlace, walk } from './walk.ts';

type JobOf<Kind extends SearchJob['kind']> = Extract<SearchJob, { kind: Kind }>;

const BATCH = 200;
const MAX_FILES = 500_000;
const MAX_FILE_BYTES = 20 * 1024 * 1024;

function post(message: SearchMessage): void {
  parentPort?.postMessage(message);
}

function list(job: JobOf<'list'>): void {
  let batch: WalkEntry[] = [];
  let count = 0;
  const skip = (path: string) => job.ignore.some((pattern) => globMatches(path, pattern));
  for (const entry of walk(job.scope, job.maxDepth, skip)) {
    if (count === job.maxItems) {
      post({ type: 'entries', entries: batch });
      post({ type: 'end', truncated: true });
      return;
    }
    count += 1;
    batch.push(entry);
    if (batch.length < BATCH) continue;
    post({ type: 'entries', entries: batch });
    batch = [];
  }
  post({ type: 'entries', entries: batch });
  post({ type: 'end', truncated: false });
}

function glob(job: JobOf<'glob'>): void {
  const { paths, truncated } = newestFiles(job.scope, job.pattern);
  post({ type: 'paths', paths: paths.slice(0, job.maxResults) });
  post({ type: 'end', truncated: truncated || paths.length > job.maxResults });
}

function grep(job: JobOf<'grep'>): void {
  const matches = lineMatcher(job);
  if (!matches) return;
  const { paths, truncated } = filesToSearch(job);
  let room = job.maxResults;
  for (const path of paths) {
    const found = matchesIn(job.scope, path, matches, room + 1);
    if (found.length > 0) post({ type: 'matches', matches: found.slice(0, room) });
    room -= found.length;
    if (room < 0) break;
  }
  post({ type: 'end', truncated: truncated || room < 0 });
}

function filesToSearch(job: JobOf<'grep'>): { paths: readonly string[]; truncated: boolean } {
  if (lstatSync(job.scope.start).isFile()) return { paths: [''], truncated: false };
  return newestFiles(job.scope, job.include);
}

function lineMatcher(job: JobOf<'grep'>): ((line: string) => boolean) | null {
  if (job.literal) return (line) => line.includes(job.pattern);
  // ripgrep's way to ignore case for the whole pattern, which JavaScript does not read.
  const inline = /^\(\?i\)/.exec(job.pattern);
  try {
    const expression = new RegExp(
      inline ? job.pattern.slice(inline[0].length) : job.pattern,
      inline ? 'i' : '',
    );
    return (line) => expression.test(line);
  } catch (error) {
    post({ type: 'refused', reason: error instanceof Error ? error.message : 'Invalid regular expression' });
    return null;
  }
}

function matchesIn(
  scope: WalkScope,
  path: string,
  matches: (line: string) => boolean,
  limit: number,
): LineMatch[] {
  const found: LineMatch[] = [];
  const text = readInPlace(join(scope.start, path), (_openedAt, descriptor) => readText(descriptor));
  if (text === null) return found;
  let number = 0;
  for (let start = 0; start < text.length && found.length < limit; ) {
    const next = text.indexOf('\n', start);
    const end = next === -1 ? text.length : next;
    const line = text.slice(start, end).replace(/\r$/, '');
    number += 1;
    if (matches(line)) found.push({ path, line: number, text: line.slice(0, MAX_MATCH_LENGTH + 1) });
    start = end + 1;
  }
  return found;
}

function readText(descriptor: number): string | null {
  const stats = fstatSync(descriptor);
  if (!stats.isFile() || stats.size > MAX_FILE_BYTES) return null;
  const content = readFileSync(descriptor);
  return content.subarray(0, 8192).includes(0) ? null : content.toString('utf8');
}

function newestFiles(
  scope: WalkScope,
  pattern: string | null,
): { paths: readonly string[]; truncated: boolean } {
  const files: { path: string; mtimeMs: number }[] = [];
  let truncated = false;
  for (const entry of walk(scope)) {
    if (entry.type !== 'file' || (pattern !== null && !globMatches(entry.path, pattern))) continue;
    truncated = files.length === MAX_FILES;
    if (truncated) break;
    const stats = lstatSync(join(scope.start, entry.path), { throwIfNoEntry: false });
    if (stats) files.push({ path: entry.path, mtimeMs: stats.mtimeMs });
  }
  files.sort((one, other) => other.mtimeMs - one.mtimeMs || (one.path < other.path ? -1 : 1));
  return { paths: files.map((file) => file.path), truncated };
}

/** A pattern without a slash means the name at any depth, as in an ignore file. */
function globMatches(path: string, pattern: string): boolean {
  return pattern.includes('/')
    ? matchesGlob(path, pattern.replace(/^(\.?\/)+/, ''))
    : matchesGlob(basename(path), pattern);
}

parentPort?.on('message', (job: SearchJob) => {
  if (job.kind === 'list') list(job);
  else if (job.kind === 'glob') glob(job);
  else grep(job);
});
