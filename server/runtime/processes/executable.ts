// Finds a program on the server's PATH.
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

/** The absolute path of a program, or null when this machine does not have it. */
export function findExecutable(name: string): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder.startsWith('/'));
  return folders.map((folder) => join(folder, name)).find(isExecutable) ?? null;
}

/** Whether a program started so would be found. */
export function isRunnable(file: string, cwd: string, searchPath: string | undefined): boolean {
  if (file.includes('/')) return isExecutable(resolve(cwd, file));
  return (searchPath ?? '').split(delimiter).some((folder) => isExecutable(resolve(cwd, folder, file)));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    // Not for us to run, or in a folder that we may not look into, is the same as not there.
    return false;
  }
}
