/** Commands that mostly do something else, and start what some of their words name: only a denial looks for that. */
import { commandsIn, suffixesOf } from './assigned-values.ts';
import type { CommandWord } from './command-words.ts';

/** They start a program that stands among their words, or give a word of theirs to a shell. */
const hosts: ReadonlySet<string> = new Set(['perf', 'tmux', 'screen', 'rsync', 'socat']);

/** They start the program behind one of these words, and what they are called with is mostly for that. */
const packageRunners: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(
    ['npm', 'pnpm', 'yarn', 'bun', 'uv', 'poetry', 'pipenv', 'bundle'].map((name) => [
      name,
      /^(exec|x|run)$/,
    ]),
  ),
  npx: /^/,
  bunx: /^/,
};

/** What a denial has to know of them. */
interface Started {
  /** Each from its first word on. */
  readonly commands: readonly (readonly CommandWord[])[];
  /** Whether there is too much in a word to look at all of it. */
  readonly anything: boolean;
}

/** Each word may begin a command of its own: more would take time and memory by the square. */
const mostWords = 200;

/** What a command may start so. A word that is not known begins nothing. */
export function startedBeside(program: string, args: readonly CommandWord[]): Started {
  const words = args.slice(0, mostWords);
  if (hosts.has(program)) return startedFrom(words, words);
  const behind = Object.hasOwn(packageRunners, program) ? packageRunners[program] : undefined;
  const at = behind ? words.findIndex(({ text }) => text !== null && behind.test(text)) : -1;
  if (at === -1) return { commands: [], anything: false };
  const lines = words.filter(
    ({ text }, index) => text?.startsWith('--call=') || /^(-c|--call)$/.test(words[index - 1]?.text ?? ''),
  );
  return startedFrom(words.slice(at), lines);
}

function startedFrom(words: readonly CommandWord[], lines: readonly CommandWord[]): Started {
  const named = words.flatMap(({ text }, at) => (text === null ? [] : [words.slice(at)]));
  const held = lines.flatMap(({ text }) => valuesIn(text ?? '').flatMap(commandsIn));
  const anything = held.flat().length > mostWords;
  return { commands: anything ? named : [...named, ...held.flatMap(suffixesOf)], anything };
}

/** What a word may give to a shell: all of it, or what stands behind the option or the sign in front; also without quotes. */
function valuesIn(text: string): readonly string[] {
  if (!/\s/.test(text)) return [];
  const [letters = ''] = /^-\w{1,4}/.exec(text) ?? [];
  const behindLetters = Array.from(letters, (_, at) => text.slice(at + 1)).slice(1);
  const values = [text, ...behindLetters, text.replace(/^[\w-]+[:=]/, '')];
  return [...new Set(values.flatMap((value) => [value, value.replace(/[\\'"]/g, '')]))];
}
