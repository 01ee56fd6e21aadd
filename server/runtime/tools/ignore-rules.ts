// What .gitignore and .serviceignore files leave out of lists and searches.
import { dirname, join, relative } from 'node:path';
import ignore, { type Ignore } from 'ignore';
import { readSmallFile } from './read-in-place.ts';
import type { WalkScope } from './search-job.ts';

/** In the order in which their rules count: the later overrule the earlier. */
export const IGNORE_FILES = ['.gitignore', '.serviceignore'] as const;
/** As git has it where file systems tell capitals from small letters. */
const ignorecase = process.platform === 'darwin' || process.platform === 'win32';
const MAX_IGNORE_FILE_BYTES = 1024 * 1024;

/** The rules of one folder, for all that lies below it. */
export interface IgnoreRules {
  readonly folder: string;
  readonly rules: Ignore;
}

/** The rules from above the start; none where they leave the start itself out: whoever names it wants to look there. */
export function rulesAbove(scope: WalkScope): readonly IgnoreRules[] {
  let rules: readonly IgnoreRules[] = [];
  for (const folder of foldersDownTo(scope)) {
    if (folder !== scope.top && isIgnored(folder, true, rules)) return [];
    if (folder !== scope.start) rules = withRulesOf(folder, rules);
  }
  return rules;
}

/** Those that hold in a folder, and those of its own. */
export function withRulesOf(folder: string, rules: readonly IgnoreRules[]): readonly IgnoreRules[] {
  const texts = IGNORE_FILES.flatMap((name) => {
    const text = readSmallFile(join(folder, name), MAX_IGNORE_FILE_BYTES);
    // A byte order mark is no part of the first rule, as in git.
    return text === null ? [] : [text.replace(/^\uFEFF/, '')];
  });
  if (texts.length === 0) return rules;
  return [...rules, { folder, rules: ignore({ ignorecase }).add(texts.join('\n')) }];
}

/** The nearest file that has an opinion decides, as git does. */
export function isIgnored(path: string, isFolder: boolean, rules: readonly IgnoreRules[]): boolean {
  for (const { folder, rules: own } of rules.toReversed()) {
    const result = own.test(relative(folder, path) + (isFolder ? '/' : ''));
    if (result.ignored) return true;
    if (result.unignored) return false;
  }
  return false;
}

/** Of files below the start those that a walk would have come to. */
export function visibleFiles(scope: WalkScope, paths: readonly string[]): readonly string[] {
  const rulesOf = new Map<string, readonly IgnoreRules[] | null>();
  // Null where the folder, or one that it lies in, is left out itself.
  const rulesIn = (folder: string): readonly IgnoreRules[] | null => {
    const known = rulesOf.get(folder);
    if (known !== undefined) return known;
    const above = folder === scope.start ? rulesAbove(scope) : rulesIn(dirname(folder));
    const hidden = !above || (folder !== scope.start && isIgnored(folder, true, above));
    const rules = hidden ? null : withRulesOf(folder, above);
    rulesOf.set(folder, rules);
    return rules;
  };
  return paths.filter((path) => {
    const file = join(scope.start, path);
    const rules = rulesIn(dirname(file));
    return rules !== null && !isIgnored(file, false, rules);
  });
}

/** The folders from the top to the start, both included; the start alone where it does not lie below the top. */
export function foldersDownTo({ top, start }: Pick<WalkScope, 'top' | 'start'>): readonly string[] {
  const folders = [start];
  for (let folder = start; folder !== top; folder = dirname(folder)) {
    if (folder === dirname(folder)) return [start];
    folders.unshift(dirname(folder));
  }
  return folders;
}
