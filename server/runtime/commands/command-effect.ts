/** What a command does that its words do not say: it starts others, changes the shell, or runs what its words become. */
import { evaluators, shells, stateful, wrappers } from './command-kinds.ts';
import { baseOf, type CommandWord } from './command-words.ts';
import { overridesGit, overridesHarmlessly } from './git-options.ts';
import { isHarmlessName } from './harmless-variables.ts';
import { scriptOf } from './shell-scripts.ts';
import { startsPrograms } from './writing-options.ts';

/** What is to be known of a command besides its words. */
export interface Effect {
  /** Why nothing but a permission for every command can cover it; null where its words say what runs. */
  readonly obscure: string | null;
  /** Whether it may turn out to be any command at all. */
  readonly anything: boolean;
  /** Further scripts that it gives to a shell. */
  readonly scripts: readonly string[];
}

const clear: Effect = { obscure: null, anything: false, scripts: [] };

/** Judges a command by the name of its program, without a folder, and by its words. */
export function effectOf(name: string, command: readonly CommandWord[]): Effect {
  const args = command.slice(1);
  if (shells.has(name)) return shellEffect(name, args);
  if (name === 'eval') return evalEffect(args);
  if (wrappers.has(name)) return wrapperEffect(name, args);
  if (stateful.has(name)) return statefulEffect(name, args);
  if (name === 'find' && args.some(({ text }) => text !== null && /^-(exec|execdir|ok|okdir)$/.test(text)))
    return { obscure: 'find starts other commands with it', ...started(name, args) };
  if (startsPrograms(name, args))
    return { ...clear, obscure: `${name} is given programs to start by its options`, anything: true };
  if (name === 'git' && overridesGit(args))
    return {
      ...clear,
      obscure: 'git is given settings that can start programs',
      anything: !overridesHarmlessly(args),
    };
  if (name === 'printf' && (mayBeOption(args[0]) || setsVariable(args[0])))
    return { ...clear, obscure: 'printf -v and %n set a variable' };
  if ((name === 'test' || name === '[') && !isSoundTest(args))
    return { ...clear, obscure: 'what is tested is only known when it runs' };
  return clear;
}

function shellEffect(name: string, args: readonly CommandWord[]): Effect {
  const script = scriptOf(name, args);
  if (script.kind === 'file') return clear;
  const obscure = `${name} is given commands that are not its own words`;
  return script.kind === 'text'
    ? { obscure, anything: false, scripts: [script.text] }
    : { obscure, anything: true, scripts: [] };
}

function evalEffect(args: readonly CommandWord[]): Effect {
  const obscure = 'eval runs what its words become';
  if (!args.every(isKnown)) return { obscure, anything: true, scripts: [] };
  return { obscure, anything: false, scripts: [args.map(({ text }) => text).join(' ')] };
}

function wrapperEffect(name: string, args: readonly CommandWord[]): Effect {
  if (name === 'command' && args[0]?.text === '-v' && args.every(isKnown)) return clear;
  if (args.length === 0 && name !== 'xargs' && name !== 'parallel') return clear;
  return { obscure: `${name} starts another command`, ...started(name, args) };
}

/** What is known of the commands that a command starts, besides what each of its words would begin. */
function started(name: string, args: readonly CommandWord[]): Pick<Effect, 'anything' | 'scripts'> {
  const { scripts, shellUnknown } = shellsAmong(name, args);
  if (!evaluators.has(name)) return { anything: !args.every(isKnown) || shellUnknown, scripts };
  const lines = args.flatMap(({ text }) => (text !== null && /[\s;&|<>$`(){}]/.test(text) ? [text] : []));
  // The line may begin behind the letters of an option, or be put together of several words.
  const isHidden = lines.some((line) => line.startsWith('-')) || args.some((word) => splitsText(name, word));
  return {
    anything: !args.every(isKnown) || shellUnknown || isHidden,
    scripts: [...new Set([...scripts, ...lines])],
  };
}

/** Any word that is a shell's name may start one; what it is given has to be known then. */
function shellsAmong(
  name: string,
  args: readonly CommandWord[],
): { readonly scripts: readonly string[]; readonly shellUnknown: boolean } {
  const given = args.map(({ text }, index) => {
    const isShell = text !== null && shells.has(baseOf(text));
    return isShell ? scriptOf(baseOf(text), args.slice(index + 1)) : null;
  });
  const scripts = given.flatMap((script) => (script?.kind === 'text' ? [script.text] : []));
  const shellUnknown = given.some((script, index) => {
    if (!script || script.kind === 'text') return false;
    // The name that a script is given: `find -exec sh -c 'x "$1"' sh {} ;`. Options of these two take no shell for a value.
    const isName = /^(find|xargs)$/.test(name) && isScript(args, index - 1);
    return !isName;
  });
  return { scripts, shellUnknown };
}

function isScript(args: readonly CommandWord[], index: number): boolean {
  const [shell, flag] = args.slice(Math.max(0, index - 2), index);
  return index >= 2 && flag?.text === '-c' && shells.has(baseOf(shell?.text ?? ''));
}

function splitsText(name: string, { text }: CommandWord): boolean {
  if (name === 'env') return text !== null && /^(-[A-Za-z]*S|--s)/.test(text);
  return ['parallel', 'expect', 'gdb', 'at', 'batch'].includes(name);
}

function statefulEffect(name: string, args: readonly CommandWord[]): Effect {
  if (name === 'set' && args.length > 0 && args.every(isHarmlessSet)) return clear;
  if (name === 'read' && args.every(isHarmlessRead)) return clear;
  const anything =
    name === 'exec' ? args.length > 0 : ['source', '.', 'alias', 'trap', 'enable'].includes(name);
  return {
    ...clear,
    obscure: `${name} changes what later commands mean, or runs what its words become`,
    anything,
  };
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

function mayBeOption(word: CommandWord | undefined): boolean {
  return word !== undefined && (word.text === null || word.text.startsWith('-'));
}

/** `%n` puts a number into the variable that the word names: as search path, it is a folder of the workspace. */
function setsVariable(format: CommandWord | undefined): boolean {
  return /%[^A-Za-z%]*[hjlLtz]*n/.test((format?.text ?? '').replaceAll('%%', ''));
}

/** `-v` and `-R` look into arrays, whose index may hold a command. */
function isSoundTest(args: readonly CommandWord[]): boolean {
  if (args.some(({ text, many }) => many || text === '-v' || text === '-R')) return false;
  const words = args.at(-1)?.text === ']' ? args.slice(0, -1) : args;
  const rest = words[0]?.text === '!' ? words.slice(1) : words;
  if (rest.every(isKnown)) return true;
  if (rest.length === 2) return rest[0]?.text?.startsWith('-') ?? false;
  return rest.length === 3 && /^(=|==|!=|<|>|-(eq|ne|lt|le|gt|ge|nt|ot|ef))$/.test(rest[1]?.text ?? '');
}
