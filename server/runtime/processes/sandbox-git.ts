// Keeps a sandboxed command from changing what git obeys in the repository of its workspace.
//
// A `commondir` makes git read settings and hooks from elsewhere. Where there is none, one that names `.git` itself is
// mounted read-only, which changes nothing for git (but that `core.bare` and `core.worktree` do not count meanwhile). To
// take one away afterwards would be too late: people ask git while commands run, and a command can close the folder.
import { chownSync, lstatSync, mkdirSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { placesNamedByGit } from '../commands/git-named-places.ts';
import { isWithin } from '../commands/inside.ts';
import { largestSettings, longestPointer, smallText } from '../commands/small-file.ts';
import { holdFile, holdFolder, isFileOf, type Release, statsOf } from './sandbox-placeholders.ts';

const ITSELF = '.\n';

/**
 * The mounts for the folder of git, `.git` as a rule.
 * @throws Error where git already reads its settings from a place that no mount protects.
 */
export function gitMounts(git: string, workspacePath: string, releases: Release[]): readonly string[] {
  assertOwnSettings(join(git, 'commondir'));
  const paths = ['hooks', 'config', 'config.worktree', 'commondir'].map((name) => join(git, name));
  // A link in their place could be exchanged for another; then nothing in `.git` may change.
  const hasLink = [...paths, join(git, 'worktrees')].some((path) => statsOf(path)?.isSymbolicLink());
  if (hasLink || !make(git, releases)) return ['--ro-bind', git, git];
  const kept = paths.filter((path) => statsOf(path));
  return ['--bind', git, git, ...kept.flatMap(readOnly), ...worktreeMounts(git, workspacePath)];
}

/** Those for the folder that a file `.git` names, where it lies in the workspace as well: `gitdir: ./.bare`. */
export function namedGitMounts(file: string, releases: Release[]): readonly string[] {
  const workspacePath = dirname(file);
  const text = smallText(file, longestPointer);
  // Git follows larger ones, too: empty lines behind the name count for nothing.
  if (text === null)
    throw new Error(`${file} is too large for the name of a folder that the sandbox could protect`);
  const [, named] = /^gitdir: (.+)/.exec(text) ?? [];
  const git = named === undefined ? file : resolve(workspacePath, named);
  if (git === workspacePath || !isWithin(git, workspacePath) || !statsOf(git)?.isDirectory()) return [];
  if (realpathSync(git) !== git)
    throw new Error(`${file} leads over a symbolic link, which the sandbox cannot protect`);
  const above = foldersAbove(git, workspacePath).flatMap(writable);
  return [...above, ...gitMounts(git, workspacePath, releases)];
}

/**
 * Those for what the settings send git to besides: folders of hooks, files of further settings. `before` are the mounts of
 * git's own folder.
 */
export function namedPlaceMounts(
  workspacePath: string,
  before: readonly string[],
  releases: Release[],
): readonly string[] {
  const bound = new Set(before);
  // Settings that are too large to be read only their owner can have made so: commands cannot write them.
  const named = placesNamedByGit(workspacePath) ?? [];
  const places = named.toSorted((a, b) => a.path.length - b.path.length);
  const outer: string[] = [];
  return places.flatMap(({ path, isFolder }) => {
    if (outer.some((other) => isWithin(path, other))) return [];
    outer.push(path);
    if (path === workspacePath)
      throw new Error(`the settings of git name all of ${path}, which the sandbox cannot protect`);
    if (statsOf(path)?.isSymbolicLink() || !isStraight(path))
      throw new Error(
        `${path}, which the settings of git name, is behind a symbolic link, which the sandbox cannot protect`,
      );
    if (!statsOf(path)) {
      makeFolder(dirname(path));
      releases.push(isFolder ? holdFolder(path) : holdFile(path, ''));
    }
    return [
      ...foldersAbove(path, workspacePath)
        .filter((folder) => !bound.has(folder))
        .flatMap(writable),
      ...readOnly(path),
    ];
  });
}

/** One that stays belongs to whoever owns the folder it is in, as whom commands run there. */
function makeFolder(path: string): void {
  if (statsOf(path)) return;
  makeFolder(dirname(path));
  mkdirSync(path);
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = lstatSync(dirname(path));
  chownSync(path, uid, gid);
}

/** Whether no link leads there, as far as anything is there. */
function isStraight(path: string): boolean {
  return statsOf(path) ? realpathSync(path) === path : isStraight(dirname(path));
}

/** Whoever can rename a folder above can put another in its place. The outermost first. */
function foldersAbove(path: string, workspacePath: string): readonly string[] {
  const above: string[] = [];
  for (let at = dirname(path); at !== workspacePath; at = dirname(at)) above.unshift(at);
  return above;
}

function writable(path: string): readonly string[] {
  return ['--bind', path, path];
}

function assertOwnSettings(common: string): void {
  if (!statsOf(common) || isFileOf(common, ITSELF) || isFileOf(common, '')) return;
  throw new Error(`${common} sends git elsewhere for its settings, which the sandbox cannot protect`);
}

/** Makes what is missing; git itself makes most of it, so that needs no removal. False where the folder takes nothing. */
function make(git: string, releases: Release[]): boolean {
  const [hooks, config] = [join(git, 'hooks'), join(git, 'config')];
  const worktreeConfig = join(git, 'config.worktree');
  try {
    if (!statsOf(hooks)) mkdirSync(hooks);
    if (!statsOf(config)) writeFileSync(config, '', { flag: 'wx' });
    if (!statsOf(worktreeConfig) && readsWorktreeConfig(config))
      writeFileSync(worktreeConfig, '', { flag: 'wx' });
    releases.push(holdFile(join(git, 'commondir'), ITSELF));
    return true;
  } catch (error) {
    // `as`: file system calls throw errno errors only.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'EROFS') throw error;
    return false;
  }
}

/** Whether git reads `config.worktree` besides: `git sparse-checkout` and `git worktree` have it so. */
function readsWorktreeConfig(config: string): boolean {
  const text = smallText(config, largestSettings);
  // Where that cannot be told, an empty file more is the safe answer.
  return text === null || /worktreeconfig/i.test(text);
}

/**
 * What git keeps here for a checkout outside of the workspace is obeyed there, its `commondir` above all, and no business
 * of a command that does not see that checkout. Others are folders of the workspace, where a command may make any.
 */
function worktreeMounts(git: string, workspacePath: string): readonly string[] {
  const folder = join(git, 'worktrees');
  if (!statsOf(folder)?.isDirectory()) return [];
  const paths = readdirSync(folder).map((name) => join(folder, name));
  const foreign = paths.filter((path) => statsOf(path)?.isDirectory() && !isOfWorkspace(path, workspacePath));
  return foreign.length === 0 ? [] : ['--bind', folder, folder, ...foreign.flatMap(readOnly)];
}

function isOfWorkspace(worktree: string, workspacePath: string): boolean {
  const back = join(worktree, 'gitdir');
  if (!statsOf(back)?.isFile()) return false;
  const named = smallText(back, longestPointer);
  return named !== null && isWithin(resolve(worktree, named.trim()), workspacePath);
}

function readOnly(path: string): readonly string[] {
  return ['--ro-bind', path, path];
}
