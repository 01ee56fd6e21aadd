/** Finds programs as a shell does: along PATH. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

/** Every executable file of that name, the one that a shell would run first. */
export function allOnPath(name: string, path: string | undefined, workingDirectory: string): string[] {
  // An empty entry stands for the working directory, as a relative one starts there.
  const folders = (path ?? '').split(delimiter).map((folder) => resolve(workingDirectory, folder));
  return [...new Set(folders)].map((folder) => join(folder, name)).filter(isExecutable);
}

/** The executable that a shell would run for the first word of a command; null where there is none. */
export function findProgram(word: string, path: string | undefined, workingDirectory: string): string | null {
  if (!word.includes('/')) return allOnPath(word, path, workingDirectory)[0] ?? null;
  const file = resolve(workingDirectory, word);
  return isExecutable(file) ? file : null;
}

/** Whether it is a file that this user may run. */
function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    // Absent, or out of reach: either way nothing that could be run.
    return false;
  }
}
