/** The folders of a project, from the root of its repository down to where the agent works. */
import { lstatSync, statSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { countsForFolder } from '../../git-owner.ts';
import { isThere } from './presence.ts';

/** The root first. Of many people's workspaces nothing above the workspace is looked at; nor is there without a repository. */
export async function projectFolders(workspacePath: string, shared: boolean): Promise<readonly string[]> {
  if (shared) return [workspacePath];
  const folders = [workspacePath];
  for (let folder = workspacePath; !isRoot(folder); ) {
    const above = dirname(folder);
    if (above === folder) return [workspacePath];
    folder = above;
    folders.unshift(folder);
  }
  return folders;
}

/** A worktree and a submodule have a file there. While a command runs in the sandbox, a folder without anything may stand there. */
function isRoot(folder: string): boolean {
  const git = join(folder, '.git');
  return (
    isThere(git) &&
    !isOfStranger(git, folder) &&
    (isThere(join(git, 'HEAD')) || statSync(git, { throwIfNoEntry: false })?.isFile() === true)
  );
}

function isOfStranger(git: string, folder: string): boolean {
  try {
    return !countsForFolder(lstatSync(git), statSync(folder));
  } catch {
    // It has gone meanwhile, or whoever reads it says what is wrong with it.
    return false;
  }
}

/** Whether `path` is `folder` or lies below it; both absolute and real. */
export function liesWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
