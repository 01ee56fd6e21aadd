/** The folders of a project, from the root of its repository down to where the agent works. */
import { dirname, join, sep } from 'node:path';
import { isThere } from './presence.ts';

/** The root first. Of many people's workspaces nothing above the workspace is looked at; nor is there without a repository. */
export async function projectFolders(workspacePath: string, shared: boolean): Promise<readonly string[]> {
  if (shared) return [workspacePath];
  const folders = [workspacePath];
  // A worktree and a submodule have a file there, not a folder.
  for (let folder = workspacePath; !isThere(join(folder, '.git')); ) {
    const above = dirname(folder);
    if (above === folder) return [workspacePath];
    folder = above;
    folders.unshift(folder);
  }
  return folders;
}

/** Whether `path` is `folder` or lies below it; both absolute and real. */
export function liesWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
