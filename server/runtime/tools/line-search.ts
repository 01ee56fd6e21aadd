// Finds the lines of files that fit an expression: the same ones with ripgrep, which is faster, and without it.
import { lstat, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Sandbox } from '../processes/sandbox.ts';
import { foldersDownTo } from './ignore-rules.ts';
import { type RipgrepQuery, ripgrep } from './ripgrep.ts';
import { mayHideRule, rulesForRipgrep } from './ripgrep-rules.ts';
import { search } from './search.ts';
import type { LineMatch, RipgrepRules, WalkScope } from './search-job.ts';

/** What to look for, and where. */
export type LineQuery = Omit<RipgrepQuery, 'ignoreFiles'>;

/** How to look for it. */
export interface LineSearchOptions {
  readonly timeoutMs: number;
  /** The program; null to search without it. */
  readonly ripgrepPath: string | null;
  /** Where ripgrep runs; null to run it as it is. */
  readonly sandbox: Sandbox | null;
  readonly maxResults: number;
  readonly signal: AbortSignal;
}

/** What was found, the newest files first. */
export interface FoundLines {
  readonly matches: readonly LineMatch[];
  readonly truncated: boolean;
  readonly timedOut: boolean;
}

/** Searches with ripgrep where it is there and can be told what counts. */
export async function searchLines(query: LineQuery, options: LineSearchOptions): Promise<FoundLines> {
  const { ripgrepPath, timeoutMs, signal, maxResults } = options;
  const rules = ripgrepPath === null ? null : await rulesFor(query.scope, options);
  if (rules === 'late') return { matches: [], truncated: false, timedOut: true };
  if (ripgrepPath !== null && rules) {
    const { top, ignoreFiles } = rules;
    const counting = { ...query, scope: { ...query.scope, top } };
    const found = await ripgrep({ ...counting, ignoreFiles }, { ...options, ripgrepPath });
    // What ripgrep cannot read (a look-ahead, a brace that is meant as one) JavaScript may.
    if (!('refused' in found)) {
      const narrower = await narrowed(counting, found, options);
      // What it has found beyond the own search took the room of what there is.
      if (!narrower.truncated || narrower.matches.length === found.matches.length) return narrower;
    }
  }
  return search({ kind: 'grep', ...query, maxResults }, timeoutMs, signal);
}

/**
 * Below the top the rules of the folders above have to be compared, in expressions that a repository has written: in the
 * thread of the own search, which can be stopped. `late` where the time is up.
 */
async function rulesFor(
  scope: WalkScope,
  { timeoutMs, signal }: LineSearchOptions,
): Promise<RipgrepRules | null | 'late'> {
  if (scope.start === scope.top) return rulesForRipgrep(scope);
  const { rules, timedOut } = await search({ kind: 'rules', scope }, timeoutMs, signal);
  return timedOut ? 'late' : rules;
}

/** Without what ripgrep has found beyond the own search: it knows no ignore files but git's, and its globs beat them. */
async function narrowed(
  { scope, include }: LineQuery,
  found: FoundLines,
  { timeoutMs, signal }: LineSearchOptions,
): Promise<FoundLines> {
  const paths = [...new Set(found.matches.map(({ path }) => path))];
  // A file that was named itself is searched whatever the rules say.
  const isFile = paths.includes('');
  const mayBeMore = !isFile && (include?.includes('/') || (await hasOtherRules(scope, paths)));
  if (!mayBeMore) return { ...found, matches: await newestFirst(scope.start, found.matches) };
  const visible = await search({ kind: 'visible', scope, paths, include }, timeoutMs, signal);
  const seen = new Set(visible.paths);
  const matches = found.matches.filter(({ path }) => seen.has(path));
  return { ...found, matches: await newestFirst(scope.start, matches) };
}

/** Whether ignore files may speak of these files that ripgrep has not read, or not from their first rule on. */
async function hasOtherRules(scope: WalkScope, paths: readonly string[]): Promise<boolean> {
  const above = foldersDownTo(scope).slice(1);
  const below = new Set(
    paths.flatMap((path) => foldersDownTo({ top: scope.start, start: dirname(join(scope.start, path)) })),
  );
  const files = [
    ...above.filter((folder) => folder !== scope.start).map((folder) => join(folder, '.gitignore')),
    ...[...new Set([...above, ...below])].map((folder) => join(folder, '.serviceignore')),
  ];
  if ((await Promise.all(files.map(isThere))).includes(true)) return true;
  return [...below].some((folder) => mayHideRule(join(folder, '.gitignore')));
}

function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

const UNREACHABLE = -1;

async function newestFirst(start: string, matches: readonly LineMatch[]): Promise<readonly LineMatch[]> {
  const byFile = [...Map.groupBy(matches, (match) => match.path)];
  const files = await Promise.all(
    byFile.map(async ([path, lines]) => ({ path, lines, mtimeMs: await mtimeOf(join(start, path)) })),
  );
  return files
    .filter(({ mtimeMs }) => mtimeMs !== UNREACHABLE)
    .sort((one, other) => other.mtimeMs - one.mtimeMs || (one.path < other.path ? -1 : 1))
    .flatMap((file) => file.lines);
}

async function mtimeOf(path: string): Promise<number> {
  return stat(path).then(
    (stats) => stats.mtimeMs,
    // ripgrep, which goes from the top, also comes where a whole path is too long to lead: no other tool could open that.
    // What has gone since the search matched, so it is shown, last.
    (error: NodeJS.ErrnoException) => (error.code === 'ENAMETOOLONG' ? UNREACHABLE : 0),
  );
}
