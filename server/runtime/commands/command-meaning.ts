/** What a command's words come to: wrappers are taken off, and every reading that a denial could mean is listed. */
import { valuesOf } from './assigned-values.ts';
import { effectOf, programEffect, startsBehind } from './command-effect.ts';
import { isWrapper, shells, stateful } from './command-kinds.ts';
import { baseOf, type CommandWord, known } from './command-words.ts';
import { clear, type Effect } from './effect.ts';
import { behindGitOptions } from './git-options.ts';
import { startedBeside } from './runners.ts';
import { type OptionWrite, writtenByOptions } from './writing-options.ts';

/** What the words of one command mean. */
export interface Meaning extends Effect {
  /** What is compared with the patterns that allow. */
  readonly words: readonly CommandWord[];
  /** All that is compared with the patterns that deny. */
  readonly readings: readonly (readonly CommandWord[])[];
  /** The files that it may write by one of its options. */
  readonly writes: readonly OptionWrite[];
  /** Those that any of the readings may write so, which are compared with the patterns that deny. */
  readonly written: readonly CommandWord[];
}

/** Reads the words of a command, the assignments in front of it among them. */
export function meaningOf(assignments: readonly CommandWord[], command: readonly CommandWord[]): Meaning {
  const inner = command.length === 0 ? { ...plain, words: [] } : unwrap(command, []);
  const words = [...assignments, ...inner.words];
  const writes = writtenByOptions(inner.words).map(({ at, file }) => ({ at: at + assignments.length, file }));
  const given = takesAssignments(command) ? [...assignments, ...command.slice(1)] : assignments;
  const values = valuesOf(given);
  const readings = [words, command, ...inner.readings, ...values.readings];
  const obscure = inner.obscure ?? (values.anything ? 'a variable of it is run as a command' : null);
  const anything = inner.anything || values.anything;
  return { ...inner, obscure, anything, words, writes, readings, written: writtenIn(readings) };
}

function writtenIn(readings: readonly (readonly CommandWord[])[]): readonly CommandWord[] {
  const files = readings.flatMap(writtenByOptions).map(({ file }) => file);
  return [...new Map(files.map((file) => [file.text, file])).values()];
}

function takesAssignments([name]: readonly CommandWord[]): boolean {
  const program = baseOf(name?.text ?? '');
  return isWrapper(program) || stateful.has(program);
}

const plain = { readings: [], obscure: null, anything: false, scripts: [] } as const;

/** Each word behind a wrapper may begin a command of its own: more would take time and memory by the square. */
const mostWords = 200;
const mostReadings = 40;

function unwrap(
  command: readonly CommandWord[],
  outer: readonly (readonly CommandWord[])[],
): Omit<Meaning, 'writes' | 'written'> {
  const name = command[0]?.text ?? null;
  if (!name)
    return {
      ...plain,
      words: command,
      readings: outer,
      obscure: 'its name is only known when it runs',
      anything: true,
    };
  const program = baseOf(name);
  const startsOthers = isWrapper(program) || program === 'find';
  if (outer.length > mostReadings || (command.length > mostWords && startsOthers))
    return { ...plain, words: command, readings: outer, obscure: 'it is too complicated', anything: true };
  const readings = [...outer, ...readingsOf(command)];
  const wrapped = wrappedCommand(name, command);
  if (wrapped) return unwrap(wrapped, readings);
  const named = plainly(command);
  const effect = effectOf(named[0]?.text ?? '', named);
  if (!startsOthers) {
    const beside = startedBeside(program, command.slice(1));
    const anything = effect.anything || beside.anything || beside.commands.some(mayStartMore);
    const besides = beside.commands.flatMap(readingsOf);
    return { ...effect, anything, words: command, readings: [...readings, ...besides] };
  }
  const inner = startedBy(program, command);
  return {
    ...effect,
    words: command,
    readings: [...readings, ...inner.flatMap(({ readings }) => readings)],
    anything: effect.anything || inner.some(({ anything }) => anything),
    scripts: [...new Set([effect, ...inner].flatMap(({ scripts }) => scripts))],
  };
}

/** By which words a denial could mean a command: its program also without its folder, and git also without its options. */
function readingsOf(command: readonly CommandWord[]): readonly (readonly CommandWord[])[] {
  const [name, ...args] = command;
  if (typeof name?.text !== 'string') return [command];
  const based = [known(baseOf(name.text)), ...args];
  const [git, ...words] = plainly(command);
  return git?.text === 'git' ? [command, based, [git, ...behindGitOptions(words)]] : [command, based];
}

/** The program without its folder, and git's `git-push` as `git push`. */
function plainly([name, ...args]: readonly CommandWord[]): readonly CommandWord[] {
  const program = baseOf(name?.text ?? '');
  const [, command] = /^git-(.+)$/.exec(program) ?? [];
  return command ? [known('git'), known(command), ...args] : [known(program), ...args];
}

/** The command behind a wrapper whose own words are simple enough to be sure. */
function wrappedCommand(name: string, command: readonly CommandWord[]): readonly CommandWord[] | null {
  const [, first, second] = command;
  if (typeof first?.text !== 'string') return null;
  switch (name) {
    case 'command':
    case 'nohup':
      return first.text.startsWith('-') ? null : command.slice(1);
    case 'nice':
      if (first.text === '-n' && /^-?\d+$/.test(second?.text ?? '') && command.length > 3)
        return command.slice(3);
      return first.text.startsWith('-') ? null : command.slice(1);
    case 'timeout':
      return /^\d+(\.\d+)?[smhd]?$/.test(first.text) && command.length > 2 ? command.slice(2) : null;
    default:
      return null;
  }
}

/** What would run if one of the words were the beginning of a command of its own. */
function startedBy(
  name: string,
  command: readonly CommandWord[],
): readonly (Pick<Meaning, 'readings'> & Effect)[] {
  // What feeds `xargs` adds words that nobody knows yet.
  const fed = name === 'xargs' || name === 'parallel' ? [{ text: null, many: true }] : [];
  const builtin = name === 'builtin' || name === 'command' ? command.findIndex(isBehindBuiltin) : -1;
  return command.slice(1).map((_, index) => {
    const at = index + 1;
    const words = command.slice(at);
    const ended = [...words.slice(0, endOf(words)), ...fed];
    const isStarted = name !== 'find' || command.slice(0, at).some(startsBehind);
    return { readings: readingsOf(ended), ...(isStarted ? effectBehind(ended, at === builtin) : clear) };
  });
}

function effectBehind(words: readonly CommandWord[], isBuiltin: boolean): Effect {
  const [program, ...args] = plainly(words);
  const name = program?.text ?? '';
  // What shells are given has been looked at.
  if (shells.has(name)) return clear;
  return isBuiltin ? effectOf(name, words) : programEffect(name, args);
}

/** Whether the words of a command do not tell what it runs: here no script of it is looked into. */
function mayStartMore(words: readonly CommandWord[]): boolean {
  const [program, ...args] = plainly(words);
  const { anything, scripts } = programEffect(program?.text ?? '', args);
  return anything || scripts.length > 0;
}

/** Only behind these two the shell's own commands are meant. */
function isBehindBuiltin({ text }: CommandWord, at: number): boolean {
  return at > 0 && !/^(-.*|builtin|command)$/.test(text ?? '');
}

/** `find -exec` ends its command with `;` or `+`. */
function endOf(words: readonly CommandWord[]): number {
  const end = words.findIndex(({ text }) => text === ';' || text === '+');
  return end === -1 ? words.length : end;
}
