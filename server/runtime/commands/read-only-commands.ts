/** The commands that need nobody's leave: they only show what lies in the workspace, whatever their words. */
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import type { CommandPart } from './command-parts.ts';
import type { CommandWord } from './command-words.ts';
import { isWithin, liesInside } from './inside.ts';
import { asksInside, isTestName } from './test-commands.ts';

/** What a command may be given so that it can do nothing but show. */
interface Form {
  /** Options of one letter without a value. */
  readonly flags?: string;
  /** Options of one letter with a value, in the same word or the next one. */
  readonly valued?: string;
  /** Options that begin with two dashes; those that end with `=` take a value. Shortened ones are not among them. */
  readonly long?: readonly string[];
  /** Whether `-5` is an option. */
  readonly counts?: boolean;
  /** What the other words are: files, any text, a text and then files, names of programs, or how a time is written. */
  readonly rest: 'files' | 'text' | 'text, files' | 'names' | 'formats' | 'none';
  /** Among the files, how many there may be at most. */
  readonly mostFiles?: number;
  /** Whether none of the files may be a folder. */
  readonly noFolders?: true;
  /** Whether the shell carries it out itself, so that no file of that name is looked for. */
  readonly builtin?: true;
  /** Whether words count that the shell still has to fill in. */
  readonly anyText?: true;
}

const color = ['--color', '--color=auto', '--color=never', '--color=always'];

/**
 * Left out is what can write, start something or read elsewhere by an option that a list like this might miss, by a
 * file that a repository brings along, or by its input: git, sed in general, awk, rg, jq, less, tar, xargs, env.
 */
const forms: Readonly<Record<string, Form>> = {
  ':': { rest: 'text', builtin: true, anyText: true },
  true: { rest: 'text', builtin: true, anyText: true },
  false: { rest: 'text', builtin: true, anyText: true },
  echo: { rest: 'text', builtin: true, anyText: true },
  printf: { rest: 'text', builtin: true, anyText: true },
  read: { flags: 'r', rest: 'text', builtin: true },
  set: { rest: 'text', builtin: true },
  pwd: { flags: 'LP', rest: 'none', builtin: true },
  exit: { rest: 'text', builtin: true },
  break: { rest: 'text', builtin: true },
  continue: { rest: 'text', builtin: true },
  sleep: { rest: 'text' },
  seq: { rest: 'text' },
  date: { flags: 'uR', rest: 'formats' },
  whoami: { rest: 'none' },
  uname: { flags: 'asnrvmpio', rest: 'none' },
  nproc: { rest: 'none' },
  basename: { flags: 'a', valued: 's', rest: 'text' },
  dirname: { rest: 'text' },
  which: { flags: 'a', rest: 'names' },
  ls: {
    flags: 'aAlhrtSR1dFpsinGoUXCmkgcuvx',
    long: ['--all', '--almost-all', '--human-readable', '--recursive', ...color],
    rest: 'files',
  },
  cat: { flags: 'nbsAvETet', long: ['--number', '--show-all'], rest: 'files' },
  head: { flags: 'qv', valued: 'nc', long: ['--lines=', '--bytes='], counts: true, rest: 'files' },
  tail: { flags: 'qv', valued: 'nc', long: ['--lines=', '--bytes='], counts: true, rest: 'files' },
  wc: { flags: 'lwcmL', long: ['--lines', '--words', '--bytes', '--chars'], rest: 'files' },
  nl: { valued: 'bwsvni', rest: 'files' },
  tac: { rest: 'files' },
  cut: { flags: 'sn', valued: 'dfcb', rest: 'files' },
  tr: { flags: 'dscC', rest: 'text' },
  // A second file would be written.
  uniq: { flags: 'cduiD', valued: 'fsw', rest: 'files', mostFiles: 1 },
  sort: { flags: 'nrufhVbdgiMsc', valued: 'kt', rest: 'files' },
  comm: { flags: '123', rest: 'files' },
  cmp: { flags: 'sbl', rest: 'files' },
  diff: {
    flags: 'uqbBwiaNyc',
    valued: 'U',
    long: ['--brief', '--unified', '--unified=', ...color],
    rest: 'files',
    mostFiles: 2,
    // Of two folders it compares what their links lead to.
    noFolders: true,
  },
  stat: { flags: 't', valued: 'c', rest: 'files' },
  du: { flags: 'shakmbc', valued: 'd', long: ['--max-depth='], rest: 'files' },
  md5sum: { rest: 'files' },
  sha1sum: { rest: 'files' },
  sha256sum: { rest: 'files' },
  realpath: { rest: 'files' },
  grep: grepForm(),
  egrep: grepForm(),
  fgrep: grepForm(),
};

function grepForm(): Form {
  const long = [
    '--include=',
    '--exclude=',
    '--exclude-dir=',
    '--line-number',
    '--count',
    '--ignore-case',
    ...color,
  ];
  return { flags: 'nrilLcvwxoqshHEFPaIzZbT', valued: 'ABCme', long, counts: true, rest: 'text, files' };
}

/**
 * Whether a part of a command only shows what lies in the workspace.
 * @param workspacePath - The real path of the folder that the command starts in.
 */
export function onlyShows({ kind, words, obscure }: CommandPart, workspacePath: string): boolean {
  if (obscure !== null || kind === 'write') return false;
  if (kind === 'read') return words.every((word) => liesInside(word, workspacePath));
  const [name, ...args] = words;
  if (typeof name?.text !== 'string') return false;
  if (isTestName(name.text)) return asksInside(name.text, args, workspacePath);
  if (name.text === 'find') return isFindThatShows(args, workspacePath) && isForeign('find', workspacePath);
  if (name.text === 'sed') return isSedThatShows(args, workspacePath) && isForeign('sed', workspacePath);
  // Not as a member that every object has.
  const form = Object.hasOwn(forms, name.text) ? forms[name.text] : undefined;
  if (!form || !(form.builtin || isForeign(name.text, workspacePath))) return false;
  if (form.builtin && form.rest === 'text' && !form.flags)
    return args.every((word) => (form.anyText ? !word.many : word.text !== null || !word.many));
  return fits(form, args, workspacePath);
}

function fits(form: Form, args: readonly CommandWord[], workspacePath: string): boolean {
  const rest: CommandWord[] = [];
  let hasText = false;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text;
    if (typeof text !== 'string') return false;
    if (text === '--') {
      rest.push(...args.slice(at + 1));
      break;
    }
    if (!/^-./.test(text)) {
      rest.push({ text, many: false });
      continue;
    }
    const option = optionOf(form, text);
    if (!option) return false;
    if (option.letter === 'e') hasText = true;
    if (option.wantsWord) {
      at += 1;
      if (typeof args[at]?.text !== 'string') return false;
    }
  }
  return restFits(form, rest, hasText, workspacePath);
}

function optionOf(form: Form, text: string): { letter: string; wantsWord: boolean } | null {
  if (text.startsWith('--')) {
    const name = text.includes('=') ? text.slice(0, text.indexOf('=') + 1) : text;
    return form.long?.includes(text) || (name.endsWith('=') && form.long?.includes(name))
      ? { letter: '', wantsWord: false }
      : null;
  }
  if (form.counts && /^-\d+$/.test(text)) return { letter: '', wantsWord: false };
  const letters = [...text.slice(1)];
  for (const [index, letter] of letters.entries()) {
    if (form.valued?.includes(letter)) return { letter, wantsWord: index === letters.length - 1 };
    if (!form.flags?.includes(letter)) return null;
  }
  return { letter: '', wantsWord: false };
}

function restFits(
  form: Form,
  rest: readonly CommandWord[],
  hasText: boolean,
  workspacePath: string,
): boolean {
  if (form.rest === 'none') return rest.length === 0;
  if (form.rest === 'text') return rest.every(({ text }) => text !== null);
  // Any other word would set the clock.
  if (form.rest === 'formats') return rest.every(({ text }) => text?.startsWith('+'));
  if (form.rest === 'names') return rest.every(({ text }) => text !== null && !text.includes('/'));
  const files = form.rest === 'text, files' && !hasText ? rest.slice(1) : rest;
  if (rest.some(({ text }) => text === null) || files.length > (form.mostFiles ?? Number.POSITIVE_INFINITY))
    return false;
  if (form.noFolders && files.some((word) => isFolder(word, workspacePath))) return false;
  return files.every((word) => liesInside(word, workspacePath));
}

function isFolder({ text }: CommandWord, workspacePath: string): boolean {
  return (
    text !== null &&
    text !== '-' &&
    (statSync(resolve(workspacePath, text), { throwIfNoEntry: false })?.isDirectory() ?? false)
  );
}

/** Folders, and then only what compares and prints: every other word of `find` is refused. */
function isFindThatShows(args: readonly CommandWord[], workspacePath: string): boolean {
  const texts = args.map(({ text }) => text);
  const first = texts.findIndex((text) => text === null || /^[-!(),]/.test(text));
  const folders = first === -1 ? args : args.slice(0, first);
  if (!folders.every((word) => liesInside(word, workspacePath))) return false;
  const rest = first === -1 ? [] : texts.slice(first);
  for (let at = 0; at < rest.length; at += 1) {
    const text = rest[at];
    if (typeof text !== 'string') return false;
    if (findTests.has(text)) {
      at += 1;
      if (typeof rest[at] !== 'string') return false;
    } else if (!findWords.has(text)) return false;
  }
  return true;
}

const findTests = new Set([
  '-name',
  '-iname',
  '-path',
  '-ipath',
  '-type',
  '-maxdepth',
  '-mindepth',
  '-size',
  '-mtime',
  '-mmin',
  '-regex',
  '-iregex',
  '-perm',
]);
const findWords = new Set([
  '!',
  '(',
  ')',
  '-not',
  '-o',
  '-or',
  '-a',
  '-and',
  '-print',
  '-print0',
  '-prune',
  '-empty',
  '-ls',
  '-depth',
  '-true',
  '-false',
]);

/** `sed -n 10,20p file`, and nothing else that its language can do. */
function isSedThatShows(args: readonly CommandWord[], workspacePath: string): boolean {
  const [quiet, script, ...files] = args;
  if (quiet?.text !== '-n' || !/^\d+(,(\d+|\$))?p$/.test(script?.text ?? '')) return false;
  return files.every((word) => !word.text?.startsWith('-') && liesInside(word, workspacePath));
}

/** Whether the shell would find a program of this name, and not first in a place where the agent could have put one. */
function isForeign(name: string, workspacePath: string): boolean {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (!folder.startsWith('/')) return false;
    const path = join(folder, name);
    if (isProgram(path))
      return !isWithin(realpathSync(path), realpathSync(workspacePath)) && !isWithin(path, workspacePath);
  }
  // A sandbox has its own search path, of folders of the system.
  return true;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    // Not there, or not to be run.
    return false;
  }
}
