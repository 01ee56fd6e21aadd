// What stands in a workspace in the place of names that do not exist, as long as sandboxed commands run there.
import {
  closeSync,
  fchmodSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmdirSync,
  type Stats,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { smallText } from '../commands/small-file.ts';

/** Takes a placeholder away, unless another command relies on it. Throws nothing: one that stays goes with the next command. */
export type Release = () => void;

/** An empty folder: git never adds one, an empty `.git` is no repository, and a folder is no settings file. */
export function holdFolder(path: string): Release {
  mkdirSync(path, { recursive: true });
  return held(path, () => rmdirSync(path));
}

/** A small file of this content, which may be there already. */
export function holdFile(path: string, content: string): Release {
  // One that a crash of the machine has emptied.
  if (isFileOf(path, '')) unlinkSync(path);
  if (!isFileOf(path, content)) writeNew(path, content);
  return held(path, () => {
    if (isFileOf(path, content)) unlinkSync(path);
  });
}

export function isFileOf(path: string, content: string): boolean {
  const stats = statsOf(path);
  return (
    stats?.isFile() === true && stats.size === content.length && smallText(path, content.length) === content
  );
}

export function statsOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function writeNew(path: string, content: string): void {
  const file = openSync(path, 'wx');
  try {
    // Commands may run as another user than the server.
    fchmodSync(file, 0o644);
    writeSync(file, content);
  } finally {
    closeSync(file);
  }
}

/** How many running commands of this process rely on each placeholder. */
const placeholders = new Map<string, number>();

function held(path: string, remove: () => void): Release {
  placeholders.set(path, (placeholders.get(path) ?? 0) + 1);
  return () => {
    const left = (placeholders.get(path) ?? 1) - 1;
    placeholders.set(path, left);
    if (left > 0) return;
    placeholders.delete(path);
    try {
      remove();
    } catch {
      // Somebody has put something there meanwhile, which stays; or the command has closed the folder to the server.
    }
  };
}
