/** Whether a word of a command names something of the workspace. */
import { lstatSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, relative } from 'node:path';
import type { CommandWord } from './command-words.ts';

/** The name of something that is there, and that no link leads out of the workspace; `-` is the input. */
export function liesInside({ text }: CommandWord, workspacePath: string): boolean {
  if (text === null) return false;
  if (text === '-') return true;
  try {
    return isWithin(realPlace(placeFrom(workspacePath, text)), realpathSync(workspacePath));
  } catch {
    // What is not there yet may be a link out of the workspace by then.
    return false;
  }
}

/** What a program reaches that goes from a folder by this name. Its `..` are left: behind a link they lead on from there. */
export function placeFrom(folder: string, name: string): string {
  return isAbsolute(name) ? name : `${folder}/${name}`;
}

/** Where it really lies, as the system finds it: the other form of `realpathSync` takes `link/..` for nothing. */
export function realPlace(path: string): string {
  return realpathSync.native(path);
}

/** Both are real paths. */
export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith('../') && !way.startsWith('/'));
}

/** The same, also where nothing of that name is there, in a folder of the workspace that is. */
export function wouldLieInside(word: CommandWord, workspacePath: string): boolean {
  if (word.text === null) return false;
  const path = placeFrom(workspacePath, word.text);
  const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return liesInside(isThere ? word : { text: dirname(path), many: false }, workspacePath);
}
