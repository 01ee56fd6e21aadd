// Which ignore files above its start ripgrep gets by name, and whether it can be told at all what they leave out.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  foldersDownTo,
  IGNORE_FILES,
  type IgnoreRules,
  isIgnored,
  PLACED_RULE,
  topThatCounts,
  withRulesOf,
} from './ignore-rules.ts';
import { readSmallFile } from './read-in-place.ts';
import type { RipgrepRules, WalkScope } from './search-job.ts';

/** Larger ones are read in the thread of the own search only, which can be stopped. */
const MAX_RULES_BYTES = 64 * 1024;

/** Null where ripgrep cannot be told the rules: what a file lets in again that it does not get stays out. */
export function rulesForRipgrep(scope: WalkScope): RipgrepRules | null {
  const top = topThatCounts(scope);
  const ignoreFiles: string[] = [];
  let rules: IgnoreRules | null = null;
  for (const folder of foldersDownTo({ top, start: scope.start })) {
    if (isIgnored(folder, true, rules)) return { top, ignoreFiles: [] };
    for (const name of IGNORE_FILES) {
      const path = join(folder, name);
      if (!existsSync(path)) continue;
      const text = readSmallFile(path, MAX_RULES_BYTES);
      // Behind a byte order mark it does not know the first rule.
      if (text === null || text.startsWith('\uFEFF')) return null;
      // A path it would take from the top; and the start's own `.gitignore` it reads itself.
      const readsItself = folder === scope.start && name === '.gitignore';
      const isGiven = folder === top || (!readsItself && !PLACED_RULE.test(text));
      if (isGiven) ignoreFiles.push(path);
      // Of what it reads itself it takes the word over that of all that it gets by name.
      const mayLetIn = folder === scope.start ? readsItself : isGiven;
      if (!mayLetIn && /^!/m.test(text)) return null;
    }
    if (folder !== scope.start) rules = withRulesOf(folder, rules);
  }
  return { top, ignoreFiles };
}

/** Whether ripgrep may not know the first rule of a file that it reads itself; of a large one that is not looked for. */
export function mayHideRule(path: string): boolean {
  return existsSync(path) && readSmallFile(path, MAX_RULES_BYTES)?.startsWith('\uFEFF') !== false;
}
