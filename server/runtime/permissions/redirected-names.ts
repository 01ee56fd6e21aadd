/** Whether a pattern that denies may mean a redirected file, by any of its names and from any folder that the line may be in. */
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { foldersForFiles, startsElsewhere } from '../commands/command-folders.ts';
import type { CommandPart, ParsedCommand } from '../commands/command-parts.ts';
import { type CommandWord, known } from '../commands/command-words.ts';
import { isWithin, placeFrom, realPlace } from '../commands/inside.ts';
import { namesAlong } from './file-names.ts';
import { beginning, type CommandPattern, mayMean } from './permission-pattern.ts';

/** Whether the pattern may mean this file, which a part reads or writes. */
type MeansFile = (
  pattern: CommandPattern,
  kind: 'read' | 'write',
  file: CommandWord,
  part: CommandPart,
) => boolean;

/** Looks at the files of the machine only once a pattern asks. */
export function redirectedNames(command: ParsedCommand, workspacePath: string): MeansFile {
  let names: ReturnType<typeof namesIn> | null = null;
  return (pattern, kind, file, part) => {
    if (mayMean(pattern, kind, [file])) return true;
    if (pattern.kind !== kind || file.text === null) return false;
    names ??= namesIn(command, workspacePath);
    const found = names(file.text, part);
    if (found === null) return mayMean(pattern, kind, [{ text: null, many: false }]);
    const roots = [workspacePath, realOrGiven(workspacePath)] as const;
    return found.some((name) => mayMean(pattern, kind, [known(spelled(name, pattern, roots))]));
  };
}

/** No line that a person would write has as many folders to look at: it could be put together to take long. */
const mostFoldersLookedAt = 10_000;
/** The system opens nothing of a longer name. */
const longestName = 4096;

/** All names of a file, in full; null where it may be any. */
function namesIn(
  command: ParsedCommand,
  workspacePath: string,
): (text: string, part: CommandPart) => readonly string[] | null {
  const workspace = realOrGiven(workspacePath);
  const folders = foldersForFiles(command, workspace);
  const moved = command.parts.some(startsElsewhere);
  const seen = new Map<string, readonly string[] | null>();
  let lookedAt = 0;
  const look = (text: string, from: readonly string[]) => {
    if (alreadyOpen.test(text)) return [];
    lookedAt += from.length * text.split('/').length;
    if (lookedAt > mostFoldersLookedAt) return null;
    const names = from.flatMap((folder) => namesOf(placeFrom(folder, text)));
    return names.some(isOfProcess) ? null : names;
  };
  return (text, part) => {
    if (text.length > longestName) return [];
    const astray = startsElsewhere(part) || (part.inScript && moved);
    const from = isAbsolute(text) ? ['/'] : astray ? null : folders;
    if (from === null) return null;
    const names = seen.has(text) ? seen.get(text) : look(text, from);
    seen.set(text, names ?? null);
    return names ?? null;
  };
}

/** Behind a link `..` leads on from there, but the name without both is no less one that a rule may have. */
function namesOf(path: string): readonly string[] {
  try {
    return [...new Set([resolve(path), withoutReturns(path)].flatMap(namesAlong))];
  } catch {
    // It cannot be reached.
    return [resolve(path)];
  }
}

/** The path without its `..`, as the system goes it. */
function withoutReturns(path: string): string {
  const at = path.search(/\/\.\.(\/|$)/);
  if (at === -1) return resolve(path);
  return withoutReturns(dirname(realOrGiven(path.slice(0, at) || '/')) + path.slice(at + 3));
}

function realOrGiven(path: string): string {
  try {
    return realPlace(path);
  } catch {
    return path;
  }
}

/** Where it was opened it had its name. */
const alreadyOpen = /^\/(dev|proc\/self)\/fd\/\d+$/;

/** What a process has open or calls its folder is another thing for each: `/proc/self/cwd/…`, `/dev/fd/3/…`. */
function isOfProcess(name: string): boolean {
  return /^\/proc\/(self|thread-self|\d+)\//.test(name);
}

/** As rules name it, from the root of the workspace, or in the form that this pattern begins with. */
function spelled(
  name: string,
  pattern: CommandPattern,
  [given, workspace]: readonly [string, string],
): string {
  const start = beginning(pattern);
  const way = relative(workspace, name);
  if (!isWithin(name, workspace)) return start.startsWith('../') ? way : name;
  if (start.startsWith('./')) return `./${way}`;
  const root = [given, workspace].find((path) => start.startsWith(`${path}/`));
  return root === undefined ? way || '.' : join(root, way);
}
