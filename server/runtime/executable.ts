// Finds a program on the server's PATH.
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** The absolute path of a program, or null when this machine does not have it. */
export function findExecutable(name: string): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder.startsWith('/'));
  return folders.map((folder) => join(folder, name)).find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    // Not for us to run is the same as not there.
    return false;
  }
}
