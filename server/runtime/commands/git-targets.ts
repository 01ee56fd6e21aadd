/**
 * Which repository a command of git sends to, besides the one that it works with: the receiving side starts the hooks of
 * that one, and `archive --remote` its filters. Who is only read from (`fetch`, `clone`, `ls-remote`) starts nothing.
 */
import { existsSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CommandWord } from './command-words.ts';
import { isOwnFolder, isRepositoryAt, repositoryOf } from './git-folder.ts';
import { settingsIn } from './git-settings.ts';
import { isWithin, realPlace } from './inside.ts';
import { largestSettings, smallText } from './small-file.ts';

/** Whether a command may have another repository of this machine start something, or be the one that is sent to later. */
export type StartsAtTarget = (
  command: CommandWord | undefined,
  args: readonly CommandWord[],
  folder: string,
) => boolean;

/** For the commands of one line, which may be many, in many folders: each folder is looked at once. */
export function targetsFrom(workspacePath: string): StartsAtTarget {
  const places = new Map<string, Place>();
  let lookedAt = 0;
  const placeAt = (folder: string): Place => ({
    workspace: realpathSync(workspacePath),
    bases: basesOf(realPlace(folder)),
    hasRemoteWithin: null,
    lookAt(further) {
      lookedAt += further.length;
      if (lookedAt > mostPlaces) throw new Error('these are too many places to look at');
    },
  });
  return (command, args, folder) => {
    const words = targetWords(command?.text ?? '', args);
    if (!words) return false;
    try {
      const place = places.get(folder) ?? placeAt(folder);
      places.set(folder, place);
      if (words.some(({ text }) => text === null || isForeign(text, place))) return true;
      return usesRemotes(command?.text ?? '') && hasRemoteWithin(place);
    } catch {
      // What cannot be looked at could be any.
      return true;
    }
  };
}

/** Far more than a line names that somebody means: each takes some ten microseconds of everybody's time. */
const mostPlaces = 10_000;

function usesRemotes(command: string): boolean {
  return command === 'push' || command === 'archive';
}

/** The words that may name a repository; null where the command sends to none. */
function targetWords(command: string, args: readonly CommandWord[]): readonly CommandWord[] | null {
  switch (command) {
    case 'push':
    case 'send-pack':
    case 'receive-pack':
    case 'upload-archive':
      return knownFrom(args);
    case 'archive': {
      const remote = args.findIndex(({ text }) => /^--rem/.test(text ?? ''));
      return remote === -1 ? null : args.slice(remote, remote + 2);
    }
    case 'remote':
    case 'submodule': {
      // To add a submodule git reads from it, and refuses those of this machine.
      const actions = command === 'remote' ? ['add', 'set-url'] : ['set-url'];
      const action = args.findIndex(({ text }) => actions.includes(text ?? ''));
      return action === -1 ? null : args.slice(action + 1);
    }
    default:
      return null;
  }
}

/** The repository comes first: what is not known yet behind it is something else. */
function knownFrom(args: readonly CommandWord[]): readonly CommandWord[] {
  const first = args.findIndex(
    ({ text }, at) => text !== null && !text.startsWith('-') && !takesValue(args[at - 1]),
  );
  return args.filter(({ text }, at) => text !== null || first === -1 || at < first);
}

function takesValue(option: CommandWord | undefined): boolean {
  return /^(-[a-zA-Z]*o|--(push-option|repo|receive-pack|exec))$/.test(option?.text ?? '');
}

interface Place {
  readonly workspace: string;
  /** Where relative names may start from: git goes to the top of its work tree, which is one of these. */
  readonly bases: readonly string[];
  /** Null until somebody asks. */
  hasRemoteWithin: boolean | null;
  /** @throws Error where the line has been taken to too many places. */
  lookAt(further: readonly string[]): void;
}

function basesOf(folder: string): readonly string[] {
  const bases: string[] = [];
  for (let at = folder; ; at = dirname(at)) {
    bases.push(at);
    if (existsSync(join(at, '.git'))) return bases;
    if (at === dirname(at)) return [folder];
  }
}

/** Whether the word is a path to a repository that is not the workspace's own, or to what could become one. */
function isForeign(word: string, { workspace, bases, lookAt }: Place): boolean {
  const path = pathIn(word.replace(/^--re[a-z]*=/, ''));
  if (path === null) return false;
  const places = bases.flatMap((base) => [resolve(base, path), resolve(base, `${path}.git`)]);
  lookAt(places);
  const there = places.filter((place) => isRepositoryAt(place, workspace));
  if (there.length > 0) return there.some((place) => !isOwnFolder(place, workspace));
  return isPath.test(path);
}

/** No name of a remote, and no branch. */
const isPath = /^(\.{1,2}$|\.{0,2}\/)/;

/** The path that git takes a word for where there is one; null for options, other machines and pairs of branches. */
function pathIn(word: string): string | null {
  if (word.startsWith('-') || word === '') return null;
  if (word.startsWith('file://')) return fileURLToPath(`file://${word.slice(word.indexOf('/', 7))}`);
  if (/^[^/]*:/.test(word)) return null;
  return word.startsWith('~') ? join(homedir(), word.slice(1)) : word;
}

/** A remote outside of the workspace somebody has set up; inside, whoever may write files may have written its hooks. */
function hasRemoteWithin(place: Place): boolean {
  const { workspace, bases, lookAt } = place;
  if (place.hasRemoteWithin !== null) return place.hasRemoteWithin;
  // It stays so where they cannot be read.
  place.hasRemoteWithin = true;
  const [folder = workspace] = bases;
  const folders = [folder, workspace].flatMap((from) => repositoryOf(from, workspace) ?? []);
  place.hasRemoteWithin = [...new Set(folders)].some((git) =>
    urlsIn(join(git, 'config')).some((url) => {
      const path = pathIn(url);
      if (path !== null) lookAt(bases);
      const inside = path !== null && bases.some((base) => isWithin(resolve(base, path), workspace));
      return inside && isForeign(url, place);
    }),
  );
  return place.hasRemoteWithin;
}

/** As git reads them there. */
function urlsIn(config: string): readonly string[] {
  // That of a worktree is the one of its repository.
  if (!statSync(config, { throwIfNoEntry: false })) return [];
  const text = smallText(config, largestSettings);
  if (text === null) throw new Error(`${config} is no file that git would have written`);
  return settingsIn(text)
    .filter(({ name }) => /\.(push)?url$/.test(name))
    .map(({ value }) => value);
}
