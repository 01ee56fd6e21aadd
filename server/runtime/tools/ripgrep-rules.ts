// Whether ripgrep can be told what ignore files leave out of a search, and whether its start is left out itself.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { foldersDownTo, IGNORE_FILES, type IgnoreRules, isIgnored, withRulesOf } from './ignore-rules.ts';
import { readSmallFile } from './read-in-place.ts';
import type { RipgrepRules, WalkScope } from './search-job.ts';

/** Larger ones are read in the thread of the own search only, which can be stopped. */
const MAX_RULES_BYTES = 64 * 1024;

/** Null where ripgrep cannot be told the rules: it takes those of the top alone, and what they let in again stays out. */
export function rulesForRipgrep(scope: WalkScope): RipgrepRules | null {
  let rules: readonly IgnoreRules[] = [];
  for (const folder of foldersDownTo(scope)) {
    if (folder !== scope.top && isIgnored(folder, true, rules)) return { startIgnored: true };
    for (const name of IGNORE_FILES) {
      const path = join(folder, name);
      const readsItself = name === '.gitignore' && (folder === scope.top || folder === scope.start);
      const text = existsSync(path) ? readSmallFile(path, MAX_RULES_BYTES) : '';
      // Behind a byte order mark it does not know the first rule.
      if (text === null || text.startsWith('\uFEFF') || (!readsItself && /^!/m.test(text))) return null;
    }
    if (folder !== scope.start) rules = withRulesOf(folder, rules);
  }
  return { startIgnored: false };
}

/** Whether ripgrep may not know the first rule of a file that it reads itself; of a large one that is not looked for. */
export function mayHideRule(path: string): boolean {
  return existsSync(path) && readSmallFile(path, MAX_RULES_BYTES)?.startsWith('\uFEFF') !== false;
}
