/** What stands in the values of variables: many programs take some of them for commands. */
import { type CommandWord, known } from './command-words.ts';

/** What a denial has to know of them. */
export interface AssignedValues {
  /** The commands that they could be, each from any of its words on. */
  readonly readings: readonly (readonly CommandWord[])[];
  /** Whether one that is run may be any command. */
  readonly anything: boolean;
}

/** Variables whose value the shell, git and other programs run, or read as settings that say what to run. */
const run =
  /^(PS4|BASH_ENV|ENV|SHELL|VISUAL|BROWSER|MAKEFLAGS|GNUMAKEFLAGS|GIT_SSH|GIT_EXTERNAL_DIFF|\w*(PAGER|EDITOR|COMMAND|ASKPASS|_RSH|_SHELL)|LESS(OPEN|CLOSE)|\w*_OPTIONS|\w*OPT)$/;

/** Each word may begin a command of its own: more would take time and memory by the square. */
const mostWords = 200;

/** Looks at the words that assign something, among others. */
export function valuesOf(words: readonly CommandWord[]): AssignedValues {
  const values = words.flatMap(({ text }) => {
    const [, name = '', value = ''] = /^(\w+)\+?=([\s\S]+)$/.exec(text ?? '') ?? [];
    return value ? [{ name, value, commands: commandsIn(value) }] : [];
  });
  const isLong = values.reduce((sum, { commands }) => sum + commands.flat().length, 0) > mostWords;
  return {
    readings: isLong ? [] : values.flatMap(({ commands }) => commands.flatMap(suffixesOf)),
    // Quotes and expansions are for the shell that runs it.
    anything: isLong || values.some(({ name, value }) => run.test(name) && /[\\'"`$]/.test(value)),
  };
}

/** The commands that a text could be to a shell, as far as blanks and signs between commands part it. */
export function commandsIn(value: string): readonly (readonly string[])[] {
  const commands = value.split(/[;&|<>(){}`$!'"\n]+/).map((text) => text.trim().split(/\s+/));
  return commands.filter(([first]) => first !== '');
}

/** A command from each of its words on. */
export function suffixesOf(command: readonly string[]): readonly (readonly CommandWord[])[] {
  return command.map((_, at) => command.slice(at).map(known));
}
