// Keeps a sandboxed command from changing the names in its workspace that programs outside the sandbox obey.
//
// What exists is mounted read-only over itself. `.git` is mounted over itself as well, writable: a mount point can be
// neither renamed nor removed, so nobody can put another `.git` in its place. What does not exist gets an empty folder
// as a placeholder, mounted read-only, for as long as commands run: git never adds an empty folder, an empty `.git` is
// no repository, and a folder is no settings file. One that a crash left behind goes with the next command. So there
// is no `git init` at the root of a workspace from inside the sandbox; in a folder below there is. Two servers that
// run commands in one workspace at the same time do not know of each other's placeholders: the first to end takes
// them away from the other.
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

/** The mounts that protect a workspace. */
export interface WorkspaceGuard {
  readonly args: readonly string[];
  /** Takes the placeholders away again; to be called when the command and all its children have ended. */
  release(): void;
}

type Release = () => void;

/** Builds the mounts. Links cannot be protected by a mount, so a workspace with one of these names as a link is refused. */
export function guardProtectedNames(workspacePath: string): WorkspaceGuard {
  const releases: Release[] = [];
  const release = () => {
    for (const undo of releases.splice(0)) undo();
  };
  try {
    const names = ['service.json', '.service.json', '.service'].map((name) => join(workspacePath, name));
    const mounts = names.flatMap((path) => readOnly(path, releases));
    return { args: [...gitMounts(join(workspacePath, '.git'), releases), ...mounts], release };
  } catch (error) {
    release();
    throw error;
  }
}

function readOnly(path: string, releases: Release[]): readonly string[] {
  const stats = statsOf(path);
  if (stats?.isSymbolicLink())
    throw new Error(`${path} is a symbolic link, which the sandbox cannot protect`);
  if (!stats || isEmptyFolder(path, stats)) releases.push(holdPlaceholder(path));
  return ['--ro-bind', path, path];
}

function gitMounts(git: string, releases: Release[]): readonly string[] {
  const stats = statsOf(git);
  if (!stats?.isDirectory() || isEmptyFolder(git, stats)) return readOnly(git, releases);
  const hooks = join(git, 'hooks');
  const config = join(git, 'config');
  const worktreeConfig = join(git, 'config.worktree');
  // A link in their place could be exchanged for another; then nothing in `.git` may change.
  if ([hooks, config, worktreeConfig].some((path) => statsOf(path)?.isSymbolicLink()))
    return ['--ro-bind', git, git];
  // Git itself makes them, so these need no removal.
  if (!statsOf(hooks)) mkdirSync(hooks);
  if (!statsOf(config)) writeFileSync(config, '', { flag: 'wx' });
  if (!statsOf(worktreeConfig) && readsWorktreeConfig(config))
    writeFileSync(worktreeConfig, '', { flag: 'wx' });
  releases.push(removeNewCommonDirectory(git));
  const kept = [hooks, config, worktreeConfig].filter((path) => statsOf(path));
  return ['--bind', git, git, ...kept.flatMap((path) => ['--ro-bind', path, path])];
}

/** Whether git reads `config.worktree` besides: `git sparse-checkout` and `git worktree` have it so. */
function readsWorktreeConfig(config: string): boolean {
  // To read a pipe would wait for its writer.
  return statsOf(config)?.isFile() === true && /worktreeconfig/i.test(readFileSync(config, 'utf8'));
}

/** The file `commondir` makes git read settings and hooks from elsewhere; an empty one would break git, so it goes afterwards. */
function removeNewCommonDirectory(git: string): Release {
  const path = join(git, 'commondir');
  if (statsOf(path)) return () => undefined;
  return () => rmSync(path, { recursive: true, force: true });
}

/** How many running commands of this process rely on each placeholder. */
const placeholders = new Map<string, number>();

function holdPlaceholder(path: string): Release {
  mkdirSync(path, { recursive: true });
  placeholders.set(path, (placeholders.get(path) ?? 0) + 1);
  return () => {
    const left = (placeholders.get(path) ?? 1) - 1;
    placeholders.set(path, left);
    if (left > 0) return;
    placeholders.delete(path);
    removeEmptyFolder(path);
  };
}

/** Somebody outside may have put something there meanwhile; that stays. */
function removeEmptyFolder(path: string): void {
  try {
    rmdirSync(path);
  } catch (error) {
    // `as`: file system calls throw errno errors only.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTEMPTY' && code !== 'ENOTDIR') throw error;
  }
}

function isEmptyFolder(path: string, stats: Stats): boolean {
  return stats.isDirectory() && readdirSync(path).length === 0;
}

function statsOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
