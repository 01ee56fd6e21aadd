/** What a command does that its words do not say: it starts others, changes the shell, or runs what its words become. */
import { builtinEffect } from './builtin-effect.ts';
import { evaluators, isWrapper, shells } from './command-kinds.ts';
import { baseOf, type CommandWord } from './command-words.ts';
import { clear, type Effect } from './effect.ts';
import { overridesGit, overridesHarmlessly } from './git-options.ts';
import { scriptStartsPrograms } from './sed-script.ts';
import { scriptOf } from './shell-scripts.ts';
import { startsPrograms } from './writing-options.ts';

/** Judges a command by the name of its program, without a folder, and by its words. */
export function effectOf(name: string, command: readonly CommandWord[]): Effect {
  return builtinEffect(name, command.slice(1)) ?? programEffect(name, command.slice(1));
}

/** The same of a program that another one starts: it is none of the shell's own commands. */
export function programEffect(name: string, args: readonly CommandWord[]): Effect {
  if (shells.has(name)) return shellEffect(name, args);
  if (isWrapper(name)) return wrapperEffect(name, args);
  if (name === 'find' && args.some(startsBehind))
    return { obscure: 'find starts other commands with it', ...started(name, args) };
  if (startsPrograms(name, args))
    return { ...clear, obscure: `${name} is given programs to start by its options`, anything: true };
  if (name === 'git' && overridesGit(args))
    return {
      ...clear,
      obscure: 'git is given settings that can start programs',
      anything: !overridesHarmlessly(args),
    };
  // A pattern allows it by the script that it names.
  if (name === 'sed' && scriptStartsPrograms(args)) return { ...clear, anything: true };
  return clear;
}

/** Whether `find` starts what follows the word. */
export function startsBehind({ text }: CommandWord): boolean {
  return text !== null && /^-(exec|execdir|ok|okdir)$/.test(text);
}

function shellEffect(name: string, args: readonly CommandWord[]): Effect {
  const script = scriptOf(name, args);
  if (script.kind === 'file') return clear;
  const obscure = `${name} is given commands that are not its own words`;
  return script.kind === 'text'
    ? { obscure, anything: false, scripts: [script.text] }
    : { obscure, anything: true, scripts: [] };
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
  return ['parallel', 'expect', 'gdb', 'at', 'batch', 'start-stop-daemon'].includes(name);
}

function isKnown({ text }: CommandWord): boolean {
  return text !== null;
}
