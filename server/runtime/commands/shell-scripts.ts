/** What a shell is given to run, as its words tell. */
import { normalize } from 'node:path';
import type { CommandWord } from './command-words.ts';

/** What a shell runs. */
export type ShellScript =
  /** A file of that name, like any other program. */
  | { readonly kind: 'file' }
  /** Commands that stand in this word. */
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'unknown' };

const unknown: ShellScript = { kind: 'unknown' };

/** Those that read a script as bash does, for what is looked at here. */
const likeBash = /^(sh|bash|dash|zsh|ksh|mksh|ash|rbash)$/;

/** Judges the words behind the name of a shell. */
export function scriptOf(shell: string, args: readonly CommandWord[]): ShellScript {
  const [first, ...rest] = args;
  if (!first?.text) return unknown;
  if (!/^[-+]/.test(first.text)) return isInput(first.text) ? unknown : { kind: 'file' };
  if (!likeBash.test(shell) || !/^-[a-npqrt-z]*c[a-npqrt-z]*$/.test(first.text)) return unknown;
  const script = rest[optionsBefore(rest)]?.text;
  return script ? { kind: 'text', text: script } : unknown;
}

/** The script is no option's word: `bash -c -e 'x'` and `bash -c -- 'x'` run `x`. Those with a value of their own end it. */
function optionsBefore(words: readonly CommandWord[]): number {
  const end = words.findIndex(({ text }) => text === null || !/^[-+][a-npqrt-z]+$/.test(text));
  const text = words[end]?.text ?? '';
  if (text === '--' || text === '-') return end + 1;
  return /^[-+]/.test(text) ? words.length : end;
}

/** Whether a file may be what another command writes, and no script that lies there: the names that systems have for it. */
function isInput(path: string): boolean {
  const plain = normalize(path);
  return /^(\/|(\.\.\/)+)(dev|proc)(\/|$)/.test(plain) || /(^|\/)(stdin|fd\/\d+|\d+)$/.test(plain);
}
