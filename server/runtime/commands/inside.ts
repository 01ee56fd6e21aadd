/** Whether a word of a command names something of the workspace. */
import { lstatSync, realpathSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { CommandWord } from './command-words.ts';

/** The name of something that is there, and that no link leads out of the workspace; `-` is the input. */
export function liesInside({ text }: CommandWord, workspacePath: string): boolean {
  if (text === null) return false;
  if (text === '-') return true;
  try {
    return isWithin(realpathSync(resolve(workspacePath, text)), realpathSync(workspacePath));
  } catch {
    // What is not there yet may be a link out of the workspace by then.
    return false;
  }
}

/** Both are real paths. */
export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith('../') && !way.startsWith('/'));
}

/** The same, also where nothing of that name is there, in a folder of the workspace that is. */
export function wouldLieInside(word: CommandWord, workspacePath: string): boolean {
  if (word.text === null) return false;
  const path = resolve(workspacePath, word.text);
  const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return liesInside(isThere ? word : { text: dirname(path), many: false }, workspacePath);
}
