/** What the shell's own commands do that their words do not say: they change the shell, or run what their words become. */
import { stateful } from './command-kinds.ts';
import type { CommandWord } from './command-words.ts';
import { clear, type Effect } from './effect.ts';
import { isHarmlessName } from './harmless-variables.ts';

/** Null where the shell has none of that name, or there is nothing about it to be known. */
export function builtinEffect(name: string, args: readonly CommandWord[]): Effect | null {
  if (name === 'eval') return evalEffect(args);
  if (name === 'printf') return printfEffect(args);
  if (name === 'test' || name === '[') return testEffect(args);
  return stateful.has(name) ? statefulEffect(name, args) : null;
}

function evalEffect(args: readonly CommandWord[]): Effect {
  const obscure = 'eval runs what its words become';
  if (!args.every(isKnown)) return { obscure, anything: true, scripts: [] };
  return { obscure, anything: false, scripts: [args.map(({ text }) => text).join(' ')] };
}

function statefulEffect(name: string, args: readonly CommandWord[]): Effect {
  if (name === 'set' && args.length > 0 && args.every(isHarmlessSet)) return clear;
  if (name === 'read' && args.every(isHarmlessRead)) return clear;
  return {
    ...clear,
    obscure: `${name} changes what later commands mean, or runs what its words become`,
    anything: runsWords(name, args),
  };
}

/** Whether one of the words may be run, or become the meaning of a later name. */
function runsWords(name: string, args: readonly CommandWord[]): boolean {
  const some = (pattern: RegExp) => args.some(({ text }) => text === null || pattern.test(text));
  switch (name) {
    case 'source':
    case '.':
    case 'alias':
    case 'trap':
    case 'enable':
      return true;
    case 'exec':
      return args.length > 0;
    case 'fc':
      return !/^-[a-z]*l/.test(args[0]?.text ?? '');
    case 'hash':
      return some(/^-[a-z]*p/);
    case 'mapfile':
    case 'readarray':
      return some(/^-[a-zA-Z]*C/) || args.some(holdsIndex);
    case 'compgen':
      return !args.every(({ text }) => text !== null && /^-[abcdefgjksuv]+$/.test(text));
    case 'let':
      return !args.every(({ text }) => text !== null && isPlainArithmetic(text));
    case 'declare':
    case 'typeset':
    case 'local':
      return declaresWords(args);
    case 'readonly':
    case 'export':
      return args.some(({ text }) => /^POSIXLY_CORRECT|=\(/.test(text ?? ''));
    case 'set':
    case 'shopt':
      return args.some(({ text }) => text === 'posix');
    case 'read':
    case 'unset':
      return args.some((word) => word.text === null || word.text === 'POSIXLY_CORRECT' || holdsIndex(word));
    case 'wait':
      return args.some(holdsIndex);
    default:
      return false;
  }
}

/** A value is computed for `-i`; with `-n` it is a name; and a list in quotes is read as the shell would read it. */
function declaresWords(args: readonly CommandWord[]): boolean {
  const refers = args.some(({ text }) => /^-[a-zA-Z]*n/.test(text ?? ''));
  return args.some((word) => {
    if (word.text === null) return refers || !word.sets;
    return /^[-+][a-zA-Z]*i|^POSIXLY_CORRECT|=\(/.test(word.text) || holdsIndex(word);
  });
}

/** Whether text can be computed without the value of a variable, which may hold a command in an index. */
export function isPlainArithmetic(text: string): boolean {
  return /^[\d\s+*/%<>=!&|^~?:()-]*$/.test(text);
}

/** Whether it may name a member of a list by an index that is computed, and could hold a command. */
function holdsIndex({ text }: Pick<CommandWord, 'text'>): boolean {
  return /\[(?!(\d+|[@*])\])/.test(text ?? '');
}

function isHarmlessSet({ text }: CommandWord): boolean {
  return text !== null && /^(-[eux]+o?|\+[eux]+|pipefail|-o)$/.test(text);
}

/** Names in small letters mean nothing to the shell itself. */
function isHarmlessRead({ text }: CommandWord): boolean {
  return text === '-r' || (text !== null && isHarmlessName(text));
}

function isKnown({ text }: CommandWord): boolean {
  return text !== null;
}

/** Where there is nothing but a first word, nothing is written anywhere. */
function printfEffect(args: readonly CommandWord[]): Effect | null {
  const [first, next] = args;
  const [, given] = /^-v([\s\S]*)$/.exec(first?.text ?? '') ?? [];
  const mayBeOption = first?.text === null || (first?.text !== '--' && first?.text?.startsWith('-'));
  if (!mayBeOption && !setsVariable(first)) return null;
  const name = given === undefined ? null : given === '' ? next : { text: given };
  return {
    ...clear,
    obscure: 'printf -v and %n set a variable',
    anything:
      (first?.text === null && args.length > 1) || name?.text === null || holdsIndex(name ?? { text: '' }),
  };
}

/** `%n` puts a number into the variable that the word names: as search path, it is a folder of the workspace. */
function setsVariable(format: CommandWord | undefined): boolean {
  return /%[^A-Za-z%]*[hjlLtz]*n/.test((format?.text ?? '').replaceAll('%%', ''));
}

function testEffect(args: readonly CommandWord[]): Effect | null {
  if (isSoundTest(args)) return null;
  return {
    ...clear,
    obscure: 'what is tested is only known when it runs, unless it stands in quotes',
    anything: !args.every(isKnown) || args.some(holdsIndex),
  };
}

/** `-v` and `-R` look into arrays, whose index may hold a command. */
function isSoundTest(args: readonly CommandWord[]): boolean {
  if (args.some(({ text, many }) => many || text === '-v' || text === '-R')) return false;
  const words = args.at(-1)?.text === ']' ? args.slice(0, -1) : args;
  const rest = words[0]?.text === '!' ? words.slice(1) : words;
  if (rest.length === 1 || rest.every(isKnown)) return true;
  if (rest.length === 2) return rest[0]?.text?.startsWith('-') ?? false;
  return rest.length === 3 && /^(=|==|!=|<|>|-(eq|ne|lt|le|gt|ge|nt|ot|ef))$/.test(rest[1]?.text ?? '');
}
