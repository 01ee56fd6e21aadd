/** Which repository a command of git is about: what git starts, and what its aliases mean, stands in the settings of that one. */
import { lstatSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { CommandPart, ParsedCommand } from './command-parts.ts';
import { baseOf, type CommandWord } from './command-words.ts';
import { behindGitOptions } from './git-options.ts';
import { isWithin } from './inside.ts';

/** Marks the parts that have git work with another repository than the workspace's, or could. */
export function withRepositories(command: ParsedCommand, workspacePath: string): ParsedCommand {
  if (!command.parts.some(({ readings }) => readings.some((reading) => gitIn(reading) !== null)))
    return command;
  const start = command.movesAbout ? foldersOf(command.parts, workspacePath) : [workspacePath];
  const known = new Map<string, boolean>();
  const isOwn = (folder: string) => {
    const own = known.get(folder) ?? isOwnFolder(folder, workspacePath);
    known.set(folder, own);
    return own;
  };
  const parts = command.parts.map((part): CommandPart => {
    const found = part.readings.map((reading) => repositoryIn(reading, part, { start, isOwn }));
    const elsewhere = found.find((one) => one === 'any command') ?? found.find((one) => one !== null);
    return elsewhere ? { ...part, elsewhere } : part;
  });
  return { ...command, parts };
}

interface Places {
  /** Where the command may be; null where nobody can tell. */
  readonly start: readonly string[] | null;
  isOwn(folder: string): boolean;
}

function repositoryIn(
  reading: readonly CommandWord[],
  part: CommandPart,
  { start, isOwn }: Places,
): CommandPart['elsewhere'] | null {
  const at = gitIn(reading);
  if (at === null) return null;
  const args = reading.slice(at + 1);
  const [command] = behindGitOptions(args);
  const options = args.slice(0, args.length - behindGitOptions(args).length);
  const named =
    // The value of a variable that is not known yet makes the whole assignment unknown.
    part.words[0]?.text === null ||
    reading.slice(0, at).some(({ text }) => variables.test(text ?? '')) ||
    options.some(({ text }) => /^--(git-dir|bare)(=|$)/.test(text ?? ''));
  const folders = start?.map((folder) => folderBehind(options, folder)) ?? [null];
  if (!named && folders.every((folder) => folder !== null && isOwn(folder))) return null;
  return command?.text && commandsOfGit.has(command.text) ? 'a command of git' : 'any command';
}

/** They name the repository or settings. */
const variables = /^(GIT_(DIR|COMMON_DIR|CONFIG\w*|EXEC_PATH)|HOME|XDG_CONFIG_HOME)\+?=/;

/** Where in the words of a command the name of git stands, behind assignments. */
function gitIn(reading: readonly CommandWord[]): number | null {
  const at = reading.findIndex(({ text }) => !/^\w+\+?=/.test(text ?? ''));
  return baseOf(reading[at]?.text ?? '') === 'git' ? at : null;
}

/** The folder that `-C` leads to; null where nobody can tell. */
function folderBehind(options: readonly CommandWord[], start: string): string | null {
  let folder = start;
  for (const [at, { text }] of options.entries()) {
    if (text !== '-C') continue;
    const given = options[at + 1]?.text;
    if (typeof given !== 'string') return null;
    folder = resolve(folder, given);
  }
  return folder;
}

const mostFolders = 50;

/** Where commands may be that change the folder, in whichever order they do so; null where nobody can tell. */
function foldersOf(parts: readonly CommandPart[], workspacePath: string): readonly string[] | null {
  const folders = new Set([workspacePath]);
  for (const { kind, words } of parts) {
    const [name, ...args] = words;
    if (kind !== 'command' || !/^(cd|pushd)$/.test(name?.text ?? '')) continue;
    const [target] = args.filter(({ text }) => !/^(-[LPe]+|--|-)$/.test(text ?? ''));
    // Back, or where the shell is at home, which is no folder of the workspace.
    if (!target) continue;
    const { text } = target;
    const next = text === null ? [] : [...folders].map((folder) => resolve(folder, text)).filter(isFolder);
    if (next.length === 0) return null;
    // `cd ..` comes back from where an earlier one led, as a rule.
    const inside = next.filter((folder) => isWithin(folder, workspacePath));
    for (const folder of inside.length > 0 ? inside : next) folders.add(folder);
    if (folders.size > mostFolders) return null;
  }
  return [...folders];
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Whether git takes, in this folder, the repository of the workspace, or what that one keeps for a worktree or submodule. */
function isOwnFolder(folder: string, workspacePath: string): boolean {
  try {
    const workspace = realpathSync(workspacePath);
    const [asked, own] = [folder, workspace].map((path) => repositoryOf(realpathSync(path), workspace));
    if (!asked || !own) return asked === own;
    // Outside of a `.git` a folder of git is one like any other: whoever may write files may have written its settings.
    const isGuarded = !isWithin(asked, workspace) || /(^|\/)\.git(\/|$)/i.test(relative(workspace, asked));
    return isGuarded && isWithin(asked, own);
  } catch {
    // What is not there yet could become anything.
    return false;
  }
}

/** The folder of git that git finds from here on upwards; null where there is none. */
function repositoryOf(folder: string, workspace: string): string | null {
  for (let at = folder; ; at = dirname(at)) {
    const git = join(at, '.git');
    const stats = statSync(git, { throwIfNoEntry: false });
    if (stats?.isDirectory()) return realpathSync(git);
    if (stats) return realpathSync(resolve(at, pointerIn(git, stats)));
    if (isRepositoryItself(at, workspace)) return at;
    if (at === dirname(at)) return null;
  }
}

function pointerIn(file: string, stats: Stats): string {
  // To read a pipe would wait for its writer.
  if (!stats.isFile() || stats.size > longestPointer) throw new Error(`${file} names no folder`);
  return readFileSync(file, 'utf8')
    .replace(/^gitdir: /, '')
    .trim();
}

const longestPointer = 8192;

/** A folder without `.git` may be a repository itself. In the workspace the same command may add what is missing yet. */
function isRepositoryItself(folder: string, workspace: string): boolean {
  const entry = (name: string) => lstatSync(join(folder, name), { throwIfNoEntry: false });
  if (!isWithin(folder, workspace)) return entry('HEAD') !== undefined && entry('objects') !== undefined;
  return entry('HEAD') !== undefined || entry('config')?.isDirectory() === false;
}

/** No alias takes their place. */
const commandsOfGit: ReadonlySet<string> = new Set(
  `add am apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean clone commit
  config count-objects describe diff diff-index diff-tree fetch for-each-ref format-patch fsck gc grep hash-object help
  init log ls-files ls-remote ls-tree maintenance merge merge-base merge-tree mv notes pull push range-diff rebase reflog
  remote repack reset restore rev-list rev-parse revert rm shortlog show show-ref sparse-checkout stash status submodule
  switch symbolic-ref tag update-index update-ref version worktree`.split(/\s+/),
);
