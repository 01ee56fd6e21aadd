// What .gitignore and .serviceignore files leave out of lists and searches.
import { dirname, join, relative } from 'node:path';
import ignore, { type Ignore } from 'ignore';
import { entriesInPlace, readSmallFile } from './read-in-place.ts';
import type { WalkScope } from './search-job.ts';

/** In the order in which their rules count: the later overrule the earlier. */
export const IGNORE_FILES = ['.gitignore', '.serviceignore'] as const;
/** As git has it where file systems tell capitals from small letters. */
const ignorecase = process.platform === 'darwin' || process.platform === 'win32';
const MAX_IGNORE_FILE_BYTES = 1024 * 1024;
/** A rule with a slash before its end means a path from its own folder on; another one a name at any depth. */
export const PLACED_RULE = /^(?!#).*\/.*\S/m;
/** A name that only a rule for all names can mean. */
const UNHEARD_OF = 'qzx-7f3e-unheard-of';

/**
 * The rules of a folder and of those below it down to another, as if all stood in the first: only together they say whether
 * a folder is let in again which what lies in it would be left out with.
 */
export interface IgnoreRules {
  readonly folder: string;
  readonly rules: Ignore;
}

/** The rules from above the start; none where they leave the start itself out: whoever names it wants to look there. */
export function rulesAbove(scope: WalkScope): IgnoreRules | null {
  return rulesDownTo({ top: topThatCounts(scope), start: scope.start });
}

/**
 * Where ignore files count from: not from above the base where those there leave it out, or a folder that it lies in, or all
 * that it holds. Git would show nothing of it then; but whoever works there does so on purpose, and finds what they would
 * find if it stood alone.
 */
export function topThatCounts({ top, base }: Pick<WalkScope, 'top' | 'base'>): string {
  const above = rulesDownTo({ top, start: base });
  return !above || leavesNothingIn(base, withRulesOf(base, above)) ? base : top;
}

function rulesDownTo({ top, start }: Pick<WalkScope, 'top' | 'start'>): IgnoreRules | null {
  let rules: IgnoreRules | null = null;
  for (const folder of foldersDownTo({ top, start })) {
    if (isIgnored(folder, true, rules)) return null;
    if (folder !== start) rules = withRulesOf(folder, rules);
  }
  return rules;
}

/**
 * As `tmp/*` does of `tmp`, also where `!tmp/.gitkeep` keeps the empty folder in git. That each file which is there just now
 * is ignored is not enough: a new package may hold its `node_modules` alone.
 */
function leavesNothingIn(folder: string, rules: IgnoreRules | null): boolean {
  const leavesOut = (name: string, isFolder: boolean) => isIgnored(join(folder, name), isFolder, rules);
  if (!leavesOut(UNHEARD_OF, false) || !leavesOut(UNHEARD_OF, true)) return false;
  return entriesInPlace(folder).every(
    (entry) => /^\.(git|keep)/.test(entry.name) || leavesOut(entry.name, entry.isDirectory()),
  );
}

/** Those that hold in a folder, and those of its own. */
export function withRulesOf(folder: string, above: IgnoreRules | null): IgnoreRules | null {
  const texts = IGNORE_FILES.flatMap((name) => {
    const text = readSmallFile(join(folder, name), MAX_IGNORE_FILE_BYTES);
    // A byte order mark is no part of the first rule, as in git.
    return text === null ? [] : [text.replace(/^\uFEFF/, '')];
  });
  if (texts.length === 0) return above;
  const own = texts.join('\n');
  if (!above) return { folder, rules: ignore({ ignorecase }).add(own) };
  const moved = rulesFromAbove(own, relative(above.folder, folder));
  return { folder: above.folder, rules: ignore({ ignorecase }).add(above.rules).add(moved) };
}

/** As they read in a file of a folder above. What comes last decides, so that the nearest does, as in git. */
function rulesFromAbove(text: string, folder: string): readonly { readonly pattern: string }[] {
  const place = `/${folder.replaceAll(/[\\*?[\]]/g, '\\$&')}/`;
  return text.split(/\r?\n/).flatMap((rule) => {
    const [, not = '', pattern = ''] = /^(!?)\/?(.*)$/s.exec(rule) ?? [];
    if (rule.startsWith('#') || pattern.trim() === '') return [];
    return [{ pattern: `${not}${place}${PLACED_RULE.test(rule) ? '' : '**/'}${pattern}` }];
  });
}

/** What a folder is left out with, all that lies in it is, too. */
export function isIgnored(path: string, isFolder: boolean, rules: IgnoreRules | null): boolean {
  return rules?.rules.ignores(relative(rules.folder, path) + (isFolder ? '/' : '')) ?? false;
}

/** Of files below the start those that a walk would have come to. */
export function visibleFiles(scope: WalkScope, paths: readonly string[]): readonly string[] {
  const rulesOf = new Map<string, IgnoreRules | null>();
  const rulesIn = (folder: string): IgnoreRules | null => {
    const known = rulesOf.get(folder);
    if (known !== undefined) return known;
    const above = folder === scope.start ? rulesAbove(scope) : rulesIn(dirname(folder));
    // No walk reads the rules of a folder that is left out.
    const rules = isIgnored(folder, true, above) ? above : withRulesOf(folder, above);
    rulesOf.set(folder, rules);
    return rules;
  };
  return paths.filter((path) => {
    const file = join(scope.start, path);
    return !isIgnored(file, false, rulesIn(dirname(file)));
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
