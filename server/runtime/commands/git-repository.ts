/** Which repository a command of git is about: what git starts, and what its aliases mean, stands in the settings of that one. */
import { assignsRepository, foldersOf, setsRepository } from './command-folders.ts';
import type { CommandPart, ParsedCommand } from './command-parts.ts';
import { baseOf, type CommandWord } from './command-words.ts';
import { commandsOfGit } from './git-commands.ts';
import { isOwnFolder } from './git-folder.ts';
import { behindGitOptions } from './git-options.ts';
import { type StartsAtTarget, targetsFrom } from './git-targets.ts';
import { placeFrom } from './inside.ts';

/** Marks the parts that have git work with another repository than the workspace's, or could. */
export function withRepositories(command: ParsedCommand, workspacePath: string): ParsedCommand {
  if (!command.parts.some(({ readings }) => readings.some((reading) => gitIn(reading) !== null)))
    return command;
  const start = setsRepository(command) ? null : foldersOf(command, workspacePath);
  const startsAtTarget = targetsFrom(workspacePath);
  const known = new Map<string, boolean>();
  const isOwn = (folder: string) => {
    const own = known.get(folder) ?? isOwnFolder(folder, workspacePath);
    known.set(folder, own);
    return own;
  };
  const parts = command.parts.map((part): CommandPart => {
    const found = part.readings.map((reading) =>
      repositoryIn(reading, part, { start, isOwn, startsAtTarget }),
    );
    const elsewhere = found.find((one) => one === 'any command') ?? found.find((one) => one !== null);
    return elsewhere ? { ...part, elsewhere } : part;
  });
  return { ...command, parts };
}

interface Places {
  /** Where the command may be; null where nobody can tell. */
  readonly start: readonly string[] | null;
  isOwn(folder: string): boolean;
  readonly startsAtTarget: StartsAtTarget;
}

function repositoryIn(
  reading: readonly CommandWord[],
  part: CommandPart,
  { start, isOwn, startsAtTarget }: Places,
): CommandPart['elsewhere'] | null {
  const at = gitIn(reading);
  if (at === null) return null;
  const args = reading.slice(at + 1);
  const [command] = behindGitOptions(args);
  const options = args.slice(0, args.length - behindGitOptions(args).length);
  const named =
    // The value of a variable that is not known yet makes the whole assignment unknown.
    part.words[0]?.text === null ||
    reading.slice(0, at).some(assignsRepository) ||
    options.some(({ text }) => /^--(git-dir|bare)(=|$)/.test(text ?? '')) ||
    // Files that git itself obeys would be its work.
    options.some(({ text }, at) => worksInGit(text, options[at + 1]?.text));
  const folders = start?.map((folder) => folderBehind(options, folder)) ?? [null];
  const sends = (folder: string) => startsAtTarget(command, behindGitOptions(args).slice(1), folder);
  if (!named && folders.every((folder) => folder !== null && isOwn(folder) && !sends(folder))) return null;
  return command?.text && commandsOfGit.has(command.text) ? 'a command of git' : 'any command';
}

/** Whether the files that `--work-tree` leads to may be those of a repository's own folder. */
function worksInGit(option: string | null | undefined, next: string | null | undefined): boolean {
  if (!option?.startsWith('--work-tree')) return false;
  const at = option.indexOf('=');
  const folder = at === -1 ? next : option.slice(at + 1);
  return typeof folder !== 'string' || folder.split('/').some((name) => /^\.git$/i.test(name));
}

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
    folder = placeFrom(folder, given);
  }
  return folder;
}
