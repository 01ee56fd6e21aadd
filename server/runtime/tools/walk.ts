// Walks a folder inside the search thread: breadth first, ignore files respected, links never followed.
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ignore, { type Ignore } from 'ignore';
import type { WalkEntry, WalkScope } from './search-job.ts';

const IGNORE_FILES = ['.gitignore', '.serviceignore'] as const;
const MAX_IGNORE_FILE_BYTES = 1024 * 1024;
const ON_LINUX = process.platform === 'linux';

interface IgnoreRules {
  readonly folder: string;
  readonly rules: Ignore;
}

interface QueuedFolder {
  readonly path: string;
  readonly depth: number;
  readonly rules: readonly IgnoreRules[];
}

/** Yields what lies below the start, nearest first; `maxDepth` 0 means no limit. What is skipped is not entered. */
export function* walk(
  scope: WalkScope,
  maxDepth = 0,
  skip: (path: string) => boolean = () => false,
): Generator<WalkEntry> {
  const queue: QueuedFolder[] = [{ path: scope.start, depth: 1, rules: rulesAbove(scope) }];
  for (let folder = queue.shift(); folder; folder = queue.shift()) {
    const rules = withRulesOf(folder.path, folder.rules);
    for (const entry of sortedEntries(folder.path)) {
      const path = join(folder.path, entry.name);
      if (entry.name === '.git' || isIgnored(path, entry.isDirectory(), rules)) continue;
      const shown = relative(scope.start, path);
      if (skip(shown)) continue;
      yield { path: shown, depth: folder.depth, type: typeOf(entry) };
      const deeper = maxDepth === 0 || folder.depth < maxDepth;
      if (entry.isDirectory() && deeper) queue.push({ path, depth: folder.depth + 1, rules });
    }
  }
}

/**
 * Opens a file or folder and hands it on only if it is still where it was found: a command that runs meanwhile may
 * have put a link to somewhere else in its place. Null when it cannot be read.
 */
export function readInPlace<T>(path: string, read: (openedAt: string, descriptor: number) => T): T | null {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    // Unreadable or gone: a search passes over it as over a file that is not there.
    return null;
  }
  try {
    const openedAt = ON_LINUX ? `/proc/self/fd/${descriptor}` : path;
    if (ON_LINUX && readlinkSync(openedAt) !== path) return null;
    return read(openedAt, descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function sortedEntries(folder: string): readonly Dirent[] {
  const entries = readInPlace(folder, (openedAt, descriptor) =>
    fstatSync(descriptor).isDirectory() ? readdirSync(openedAt, { withFileTypes: true }) : [],
  );
  return (entries ?? []).sort((one, other) => (one.name < other.name ? -1 : 1));
}

function rulesAbove(scope: WalkScope): readonly IgnoreRules[] {
  const folders: string[] = [];
  for (let folder = scope.start; folder !== scope.top; folder = dirname(folder))
    folders.unshift(dirname(folder));
  return folders.reduce<readonly IgnoreRules[]>((rules, folder) => withRulesOf(folder, rules), []);
}

function withRulesOf(folder: string, rules: readonly IgnoreRules[]): readonly IgnoreRules[] {
  const texts = IGNORE_FILES.map((name) => readInPlace(join(folder, name), readSmallFile)).filter(
    (text) => text !== null,
  );
  if (texts.length === 0) return rules;
  return [...rules, { folder, rules: ignore().add(texts.join('\n')) }];
}

function readSmallFile(_openedAt: string, descriptor: number): string | null {
  const stats = fstatSync(descriptor);
  return stats.isFile() && stats.size <= MAX_IGNORE_FILE_BYTES ? readFileSync(descriptor, 'utf8') : null;
}

/** The nearest file that has an opinion decides, as git does. */
function isIgnored(path: string, isFolder: boolean, rules: readonly IgnoreRules[]): boolean {
  for (const { folder, rules: own } of rules.toReversed()) {
    const result = own.test(relative(folder, path) + (isFolder ? '/' : ''));
    if (result.ignored) return true;
    if (result.unignored) return false;
  }
  return false;
}

function typeOf(entry: Dirent): WalkEntry['type'] {
  if (entry.isSymbolicLink()) return 'link';
  if (entry.isDirectory()) return 'folder';
  return entry.isFile() ? 'file' : 'other';
}
