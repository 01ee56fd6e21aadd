// Walks a folder inside the search thread: breadth first, ignore files respected, links never followed.
import type { Dirent } from 'node:fs';
import { join, relative } from 'node:path';
import { type IgnoreRules, isIgnored, rulesAbove, withRulesOf } from './ignore-rules.ts';
import { entriesInPlace } from './read-in-place.ts';
import type { WalkEntry, WalkScope } from './search-job.ts';

interface QueuedFolder {
  readonly path: string;
  readonly depth: number;
  readonly rules: IgnoreRules | null;
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

function sortedEntries(folder: string): readonly Dirent[] {
  return entriesInPlace(folder).toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function typeOf(entry: Dirent): WalkEntry['type'] {
  if (entry.isSymbolicLink()) return 'link';
  if (entry.isDirectory()) return 'folder';
  return entry.isFile() ? 'file' : 'other';
}
