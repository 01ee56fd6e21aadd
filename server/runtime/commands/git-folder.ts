/** Which folder of git is found from a place, as git looks for it, and whether it is the workspace's own. */
import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { isWithin, realPlace } from './inside.ts';
import { longestPointer, smallText, startOf } from './small-file.ts';

/** Whether git takes, in this folder, the repository of the workspace, or what that one keeps for a worktree or submodule. */
export function isOwnFolder(folder: string, workspacePath: string): boolean {
  try {
    const workspace = realpathSync(workspacePath);
    const [asked, own] = [realPlace(folder), workspace].map((path) => repositoryOf(path, workspace));
    if (!asked || !own) return asked === own;
    // Outside of a `.git` a folder of git is one like any other: whoever may write files may have written its settings.
    const isGuarded = !isWithin(asked, workspace) || /(^|\/)\.git(\/|$)/i.test(relative(workspace, asked));
    return isGuarded && isWithin(asked, own);
  } catch {
    // What is not there yet could become anything.
    return false;
  }
}

/** The folder of git that git finds from here on upwards; null where there is none. Both are real paths. */
export function repositoryOf(folder: string, workspace: string): string | null {
  for (let at = folder; ; at = dirname(at)) {
    const git = join(at, '.git');
    const stats = statSync(git, { throwIfNoEntry: false });
    if (stats?.isDirectory()) return realpathSync(git);
    if (stats) return realpathSync(resolve(at, pointerIn(git)));
    if (isRepositoryItself(at, workspace)) return at;
    if (at === dirname(at)) return null;
  }
}

/**
 * The folder of git that `.git` leads to where it is a pointer or a link, and that lies in the workspace; null for none.
 * Where nobody can tell, it is the workspace. All are real paths.
 */
export function namedGitFolder(workspace: string): string | null {
  const git = join(workspace, '.git');
  const entry = lstatSync(git, { throwIfNoEntry: false });
  if (!entry || entry.isDirectory()) return null;
  try {
    const isFile = statSync(git, { throwIfNoEntry: false })?.isFile();
    const named = resolve(workspace, isFile ? pointerIn(git) : readlinkSync(git));
    // It may be made later.
    const folder = lstatSync(named, { throwIfNoEntry: false }) ? realPlace(named) : named;
    return isWithin(folder, workspace) ? folder : null;
  } catch {
    return workspace;
  }
}

/** Whether git obeys what lies there, in the folder of a repository that is not named `.git`. */
export function isInGitFolder(path: string, workspacePath: string): boolean {
  // Without a workspace there is no file of it either.
  if (!isThere(workspacePath)) return false;
  const workspace = realpathSync(workspacePath);
  const file = resolve(workspace, path);
  const named = namedGitFolder(workspace);
  if (named && isWithin(file, named)) return true;
  for (let at = dirname(file); at !== workspace && isWithin(at, workspace); at = dirname(at))
    if (isThere(join(at, 'HEAD')) && ['objects', 'commondir'].some((name) => isThere(join(at, name))))
      return true;
  return false;
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Whether git takes this very path for a repository that another one may be sent to, or what leads to one. */
export function isRepositoryAt(path: string, workspace: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  // Empty lines behind the name make a pointer as large as anybody likes, and git follows it.
  if (stats?.isFile()) return startOf(path, pointer.length)?.toString() === pointer;
  if (!stats?.isDirectory()) return false;
  return (
    statSync(join(path, '.git'), { throwIfNoEntry: false }) !== undefined ||
    isRepositoryItself(path, workspace)
  );
}

const pointer = 'gitdir: ';

function pointerIn(file: string): string {
  const text = smallText(file, longestPointer);
  if (text === null) throw new Error(`${file} names no folder`);
  return (text.startsWith(pointer) ? text.slice(pointer.length) : text).trim();
}

/** A folder without `.git` may be a repository itself. In the workspace the same command may add what is missing yet. */
function isRepositoryItself(folder: string, workspace: string): boolean {
  const hasHead = isThere(join(folder, 'HEAD'));
  if (!isWithin(folder, workspace)) return hasHead && isThere(join(folder, 'objects'));
  return hasHead || lstatSync(join(folder, 'config'), { throwIfNoEntry: false })?.isDirectory() === false;
}
