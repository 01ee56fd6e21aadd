// Does search jobs, one after the other, in a thread of its own, because only a thread can be stopped in the middle of a regular expression.
import { fstatSync, lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { globMatches, isIncluded } from './file-glob.ts';
import { visibleFiles } from './ignore-rules.ts';
import { lineMatcher } from './line-pattern.ts';
import { readInPlace, statsInPlace } from './read-in-place.ts';
import { rulesForRipgrep } from './ripgrep-rules.ts';
import {
  type LineMatch,
  MAX_MATCH_LENGTH,
  MAX_SEARCHED_BYTES,
  type SearchJob,
  type SearchMessage,
  type WalkEntry,
  type WalkScope,
} from './search-job.ts';
import { walk } from './walk.ts';

type JobOf<Kind extends SearchJob['kind']> = Extract<SearchJob, { kind: Kind }>;

const BATCH = 200;
const MAX_FILES = 500_000;

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
  const { paths, truncated } = newestFiles(job.scope, (path) => globMatches(path, job.pattern));
  post({ type: 'paths', paths: paths.slice(0, job.maxResults) });
  post({ type: 'end', truncated: truncated || paths.length > job.maxResults });
}

function visible({ scope, paths, include }: JobOf<'visible'>): void {
  const included = paths.filter((path) => include === null || isIncluded(path, include));
  post({ type: 'paths', paths: visibleFiles(scope, included) });
  post({ type: 'end', truncated: false });
}

function rules({ scope }: JobOf<'rules'>): void {
  post({ type: 'rules', rules: rulesForRipgrep(scope) });
  post({ type: 'end', truncated: false });
}

function grep(job: JobOf<'grep'>): void {
  const matches = matcherOf(job);
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
  const { include } = job;
  return newestFiles(job.scope, (path) => include === null || isIncluded(path, include));
}

function matcherOf({ pattern, literal }: JobOf<'grep'>): ((line: string) => boolean) | null {
  try {
    return lineMatcher(pattern, literal);
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'Invalid regular expression';
    post({ type: 'refused', reason: `${reason}. With literal_text the pattern is taken as plain text.` });
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
  if (!stats.isFile() || stats.size > MAX_SEARCHED_BYTES) return null;
  const content = readFileSync(descriptor);
  if (content[0] === 0xff && content[1] === 0xfe) return new TextDecoder('utf-16le').decode(content);
  if (content[0] === 0xfe && content[1] === 0xff) return new TextDecoder('utf-16be').decode(content);
  // The decoder leaves out a mark at the beginning, as ripgrep does.
  return content.includes(0) ? null : new TextDecoder().decode(content);
}

function newestFiles(
  scope: WalkScope,
  fits: (path: string) => boolean,
): { paths: readonly string[]; truncated: boolean } {
  const files: { path: string; mtimeMs: number }[] = [];
  let truncated = false;
  for (const entry of walk(scope)) {
    if (entry.type !== 'file' || !fits(entry.path)) continue;
    truncated = files.length === MAX_FILES;
    if (truncated) break;
    const stats = statsInPlace(join(scope.start, entry.path));
    if (stats) files.push({ path: entry.path, mtimeMs: stats.mtimeMs });
  }
  files.sort((one, other) => other.mtimeMs - one.mtimeMs || (one.path < other.path ? -1 : 1));
  return { paths: files.map((file) => file.path), truncated };
}

parentPort?.on('message', (job: SearchJob) => {
  if (job.kind === 'list') list(job);
  else if (job.kind === 'glob') glob(job);
  else if (job.kind === 'visible') visible(job);
  else if (job.kind === 'rules') rules(job);
  else grep(job);
});
