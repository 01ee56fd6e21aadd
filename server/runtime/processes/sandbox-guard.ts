// Keeps a sandboxed command from changing the names in its workspace that programs outside the sandbox obey.
//
// What exists is mounted read-only over itself. `.git` is mounted over itself as well, writable: a mount point can be
// neither renamed nor removed, so nobody can put another `.git` in its place. What does not exist gets an empty folder
// as a placeholder, mounted read-only, for as long as commands run: git never adds an empty folder, an empty `.git` is
// no repository, and a folder is no settings file. One that a crash left behind goes with the next command. So there
// is no `git init` at the root of a workspace from inside the sandbox; in a folder below there is. Two servers that
// run commands in one workspace at the same time do not know of each other's placeholders: the first to end takes
// them away from the other.
import { readdirSync, type Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import { gitMounts, namedGitMounts, namedPlaceMounts } from './sandbox-git.ts';
import { holdFolder, type Release, statsOf } from './sandbox-placeholders.ts';

/** The mounts that protect a workspace. */
export interface WorkspaceGuard {
  readonly args: readonly string[];
  /** Takes the placeholders away again, and throws nothing; to be called when the command and all its children have ended. */
  release(): void;
}

/** Builds the mounts. Links cannot be protected by a mount, so a workspace with one of these names as a link is refused. */
export function guardProtectedNames(workspacePath: string): WorkspaceGuard {
  const releases: Release[] = [];
  const release = () => {
    for (const undo of releases.splice(0)) undo();
  };
  try {
    const names = ['service.json', '.service.json', '.service'].map((name) => join(workspacePath, name));
    const mounts = names.flatMap((path) => readOnly(path, releases));
    const git = mountsOfGit(join(workspacePath, '.git'), releases);
    return { args: [...git, ...namedPlaceMounts(workspacePath, git, releases), ...mounts], release };
  } catch (error) {
    release();
    throw error;
  }
}

function readOnly(path: string, releases: Release[]): readonly string[] {
  const stats = statsOf(path);
  if (stats?.isSymbolicLink())
    throw new Error(`${path} is a symbolic link, which the sandbox cannot protect`);
  if (!stats || isEmptyFolder(path, stats)) releases.push(holdFolder(path));
  return ['--ro-bind', path, path];
}

function mountsOfGit(git: string, releases: Release[]): readonly string[] {
  const stats = statsOf(git);
  if (stats?.isFile()) return [...namedGitMounts(git, releases), ...readOnly(git, releases)];
  const isRepository = stats?.isDirectory() && !isEmptyFolder(git, stats);
  return isRepository ? gitMounts(git, dirname(git), releases) : readOnly(git, releases);
}

function isEmptyFolder(path: string, stats: Stats): boolean {
  return stats.isDirectory() && readdirSync(path).length === 0;
}
