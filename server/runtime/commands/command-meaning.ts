/** What a command's words come to: wrappers are taken off, and every reading that a denial could mean is listed. */
import { type Effect, effectOf } from './command-effect.ts';
import { wrappers } from './command-kinds.ts';
import { baseOf, type CommandWord, known } from './command-words.ts';
import { behindGitOptions } from './git-options.ts';
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
  const readings = [words, command, ...inner.readings];
  return { ...inner, words, writes, readings, written: writtenIn(readings) };
}

function writtenIn(readings: readonly (readonly CommandWord[])[]): readonly CommandWord[] {
  const files = readings.flatMap(writtenByOptions).map(({ file }) => file);
  return [...new Map(files.map((file) => [file.text, file])).values()];
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
  if (outer.length > mostReadings || (command.length > mostWords && (wrappers.has(name) || name === 'find')))
    return { ...plain, words: command, readings: outer, obscure: 'it is too complicated', anything: true };
  const readings = [...outer, command, [known(baseOf(name)), ...command.slice(1)]];
  const wrapped = wrappedCommand(name, command);
  if (wrapped) return unwrap(wrapped, readings);
  const program = baseOf(name);
  return {
    ...effectOf(program, command),
    words: command,
    readings: [...readings, ...suffixes(program, command)],
  };
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
function suffixes(name: string, command: readonly CommandWord[]): readonly (readonly CommandWord[])[] {
  if (name === 'git') return [[known('git'), ...behindGitOptions(command.slice(1))]];
  if (!wrappers.has(name) && name !== 'find') return [];
  const all = command.map((_, index) => command.slice(index)).slice(1);
  // What feeds `xargs` adds words that nobody knows yet.
  const fed = name === 'xargs' || name === 'parallel' ? [{ text: null, many: true }] : [];
  return all.flatMap((words) => {
    const ended = words.slice(0, endOf(words));
    const [head, ...rest] = ended;
    const based = typeof head?.text === 'string' ? [[known(baseOf(head.text)), ...rest, ...fed]] : [];
    return [[...ended, ...fed], ...based];
  });
}

/** `find -exec` ends its command with `;` or `+`. */
function endOf(words: readonly CommandWord[]): number {
  const end = words.findIndex(({ text }) => text === ';' || text === '+');
  return end === -1 ? words.length : end;
}
