/** In which folders the commands of a line may run, and whether it changes what git takes for its settings. */
import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { CommandPart, ParsedCommand } from './command-parts.ts';
import { baseOf, type CommandWord } from './command-words.ts';
import { isWithin, placeFrom, realPlace } from './inside.ts';

/** Where commands may be, in whichever order they change the folder; null where nobody can tell. */
export function foldersOf(
  { parts, movesAbout }: ParsedCommand,
  workspacePath: string,
): readonly string[] | null {
  if (parts.some(startsElsewhere)) return null;
  if (!movesAbout) return [workspacePath];
  try {
    return foldersBehind(parts.flatMap(targetsOf), realpathSync(workspacePath));
  } catch {
    // A folder has gone meanwhile.
    return null;
  }
}

function foldersBehind(targets: readonly CommandWord[], workspace: string): readonly string[] | null {
  const folders = new Set([workspace]);
  for (const { text } of targets) {
    const next = text === null ? [] : [...folders].flatMap((folder) => reached(folder, text));
    if (next.length === 0) return null;
    // `cd ..` comes back from where an earlier one led, as a rule.
    const inside = next.filter((folder) => isWithin(realPlace(folder), workspace));
    for (const folder of inside.length > 0 ? inside : next) folders.add(folder);
    if (folders.size > mostFolders) return null;
  }
  return [...folders];
}

const mostFolders = 50;

/** Programs that start another one in a folder that a word of theirs names, and by which words; some always do. */
const movers: Readonly<Record<string, RegExp>> = {
  env: /^(-[a-zA-Z0-9]*C|--c)/,
  sudo: /^(-[a-zA-Z]*[DRi]|--(ch|lo))/,
  unshare: /^(-[a-zA-Z]*[wR]|--[wr])/,
  nsenter: /^(-[a-zA-Z]*[wr]|--[wr])/,
  gdb: /^--?cd/,
  find: /^-(execdir|okdir)$/,
  ...Object.fromEntries(
    ['su', 'runuser', 'chroot', 'systemd-run', 'bwrap', 'firejail', 'proot', 'ssh'].map((name) => [
      name,
      /^/,
    ]),
  ),
};

/** Whether it has another program start in a folder that is not the shell's. */
export function startsElsewhere({ readings }: CommandPart): boolean {
  return readings.some(([name, ...args]) => {
    const program = baseOf(name?.text ?? '');
    const mover = Object.hasOwn(movers, program) ? movers[program] : undefined;
    return mover !== undefined && args.some(({ text }) => text === null || mover.test(text));
  });
}

/**
 * All folders that files may be redirected from, whether they are there yet or not, by their names and where these
 * really lead; null where nobody can tell. Unlike for git, none is left out because it is an unlikely one.
 */
export function foldersForFiles(command: ParsedCommand, workspace: string): readonly string[] | null {
  if (!command.movesAbout) return [workspace];
  const targets = [...new Set(command.parts.flatMap(namedFolders))];
  if (setsRepository(command) || targets.length > mostFolders) return null;
  const folders = new Set([workspace]);
  for (const target of targets) {
    if (target === null) return null;
    for (const folder of [...folders])
      for (const place of [resolve(folder, target), ...realPlaces(folder, target)]) folders.add(place);
    if (folders.size > mostFolders) return null;
  }
  // In a loop each `cd` comes again: a set may grow while it is walked, and what is added is walked, too.
  for (const folder of folders) {
    for (const target of targets) for (const place of realPlaces(folder, target ?? '')) folders.add(place);
    if (folders.size > mostFolders) return null;
  }
  return [...folders];
}

/** The folders that `cd` is given; null for the home of the shell, and for what only the shell knows. */
function namedFolders({ kind, readings }: CommandPart): readonly (string | null)[] {
  if (kind !== 'command') return [];
  return readings.flatMap(([name, ...args]) => {
    if (!/^(cd|pushd)$/.test(name?.text ?? '')) return [];
    const options = args.filter(({ text }) => /^(-[LPen@]+|--)$/.test(text ?? ''));
    if (name?.text === 'cd' && options.length === args.length) return [null];
    // `-` and the like lead back.
    return args.flatMap((word) =>
      options.includes(word) || /^(-|[+-]\d+)$/.test(word.text ?? '') ? [] : [word.text],
    );
  });
}

function realPlaces(folder: string, target: string): readonly string[] {
  return [resolve(folder, target), placeFrom(folder, target)].flatMap((path) => {
    try {
      const place = realPlace(path);
      return statSync(place).isDirectory() ? [place] : [];
    } catch {
      return [];
    }
  });
}

/** What `cd` is given, behind assignments or `builtin` too. */
function targetsOf({ kind, readings }: CommandPart): readonly CommandWord[] {
  if (kind !== 'command') return [];
  const targets = readings.flatMap(([name, ...args]) => {
    if (!/^(cd|pushd)$/.test(name?.text ?? '')) return [];
    const [target] = args.filter(({ text }) => !/^(-[LPe]+|--|-)$/.test(text ?? ''));
    // Back, or where the shell is at home, which is no folder of the workspace.
    return target ? [target] : [];
  });
  return [...new Map(targets.map((target) => [target.text, target])).values()];
}

/** Behind a link, `..` leads back as the shell has it, or on from where the link leads, as `cd -P` has it. */
function reached(folder: string, text: string): readonly string[] {
  const places = [resolve(folder, text)];
  try {
    places.push(realPlace(placeFrom(folder, text)));
  } catch {
    // The shell may reach it by its letters all the same.
  }
  return [...new Set(places)].filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
}

const variable = '(?:GIT_(?:DIR|COMMON_DIR|CONFIG\\w*|EXEC_PATH)|HOME|XDG_CONFIG_HOME)';
const assigned = new RegExp(`^${variable}\\+?=`);
const named = new RegExp(`^${variable}$`);
/** As a word of what sets variables, also by another name for one: `declare -n x=HOME`. */
const mentioned = new RegExp(`(?:^|=)(?:${variable}|OLDPWD|CDPATH)(?:\\+?=|$)`);

/** Whether it assigns what names a repository or settings to git. */
export function assignsRepository({ text }: CommandWord): boolean {
  return assigned.test(text ?? '');
}

/** Whether git may be told by a variable of the whole line where its repository or its settings lie, or `cd` where to go. */
export function setsRepository({ sets, parts }: ParsedCommand): boolean {
  return (
    sets.some((name) => named.test(name) || name === 'OLDPWD' || name === 'CDPATH') ||
    // All that could set one is obscure; in front of `cd` it need not be.
    parts.some(
      ({ obscure, readings }) =>
        (obscure !== null || readings.some(([name]) => name?.text === 'cd')) &&
        readings[0]?.some(({ text }) => text === null || mentioned.test(text)),
    )
  );
}
