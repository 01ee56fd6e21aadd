/** Where the programs of language servers are looked for. */
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, relative, resolve } from 'node:path';

/** The folders of PATH that no file of the workspace can be in: what lies there was put there by the person. */
export function foldersOutside(
  workspacePath: string,
  searchPath = process.env.PATH ?? '',
): readonly string[] {
  return searchPath.split(delimiter).filter((folder) => isAbsolute(folder) && !isIn(workspacePath, folder));
}

/** The program of that name on PATH, none of the workspace; null where there is none. */
export function findOnPath(name: string, workspacePath: string): string | null {
  const candidates = foldersOutside(workspacePath).map((folder) => join(folder, name));
  return candidates.find((file) => isProgram(file) && !isIn(workspacePath, file)) ?? null;
}

/** The program that a person named: a path, relative to the workspace, or a name on the whole of PATH. */
export function findNamed(command: string, workspacePath: string, searchPath: string): string | null {
  if (command.includes('/')) {
    const file = resolve(workspacePath, command);
    return isProgram(file) ? file : null;
  }
  const folders = searchPath.split(delimiter).filter((folder) => isAbsolute(folder));
  return folders.map((folder) => join(folder, command)).find(isProgram) ?? null;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    // Not there, or not for us to run.
    return false;
  }
}

function isIn(folder: string, path: string): boolean {
  const way = relative(folder, realOr(path));
  return !way.startsWith('..') && !isAbsolute(way);
}

function realOr(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // A folder of PATH that is not there holds nothing.
    return path;
  }
}
