/** Options of git, and words behind its command, by which it is told what to start. */
import type { CommandWord } from './command-words.ts';

/** Options whose value is the next word. */
const valued = /^(-[cC]|--(git-dir|work-tree|namespace|config-env|super-prefix|shallow-file|attr-source))$/;

/** The command of git and what follows it. */
export function behindGitOptions(words: readonly CommandWord[]): readonly CommandWord[] {
  let at = 0;
  while (words[at]?.text?.startsWith('-')) at += valued.test(words[at]?.text ?? '') ? 2 : 1;
  return words.slice(at);
}

/** Who commits, and how the answer looks; of others nobody knows what they start. */
const harmless = /^(user\.(name|email)|color\.[a-z.]+|core\.quotepath|advice\.[a-z]+|init\.defaultbranch)=/i;

/** Whether what overrides git's settings are only those that start nothing. */
export function overridesHarmlessly(args: readonly CommandWord[]): boolean {
  const leading = args.slice(0, args.length - behindGitOptions(args).length);
  return (
    leading.every(({ text }, at) => {
      const isOverride = text === null || text.startsWith('-c') || text.startsWith('--');
      return !isOverride || (text === '-c' && harmless.test(leading[at + 1]?.text ?? ''));
    }) && !args.some(({ text }) => text !== null && /^--(exec-path|config-env)(=|$)/.test(text))
  );
}

/** Whether `-c` or one of its like is among them, which name programs that git starts. */
export function overridesGit(args: readonly CommandWord[]): boolean {
  const leading = args.slice(0, args.length - behindGitOptions(args).length);
  return (
    leading.some(({ text }) => text === null || text.startsWith('-c')) ||
    args.some(({ text }) => text !== null && /^--(exec-path|config-env)(=|$)/.test(text))
  );
}

/** Options that name programs, whatever the command; git takes them shortened, too. */
const startingOptions =
  /^--(up?|upl[a-z-]*|rece[a-z-]*|ex?|exec?|ext[a-z]*|op[a-z-]*|sendmail-cmd|to-cmd|cc-cmd|header-cmd|smtp-server|httpd|access-hook)(=|$)/;

/** Commands of git, and the words by which they start programs, or take settings that do; digits stand among letters, too. */
const starters: readonly (readonly [command: string, word: RegExp])[] = [
  ['grep', /^-[a-zA-Z0-9]*O/],
  ['rebase', /^-[a-zA-Z0-9]*x/],
  ['difftool', /^-[a-zA-Z0-9]*x/],
  // The folder of git that `--separate-git-dir` names may be there, with settings that somebody wrote.
  ['clone', /^(-[a-zA-Z0-9]*[cu]|--(conf|temp|sep)[a-z-]*(=|$))/],
  ['init', /^--(temp|sep)[a-z-]*(=|$)/],
  ['submodule', /^foreach$/],
  ['bisect', /^run$/],
  ['filter-branch', /./],
];

/** Whether one of the words has git start what it names, now or by a setting that stays. */
export function gitStartsPrograms(args: readonly CommandWord[]): boolean {
  const words = args.map(({ text }) => text ?? '');
  if (words.some((word) => startingOptions.test(word)) || configures(behindGitOptions(args))) return true;
  return starters.some(([command, word]) => words.includes(command) && words.some((one) => word.test(one)));
}

/** How many words say only which settings are meant, and in which form they are shown. */
function beforeAction(words: readonly string[]): number {
  let at = 0;
  for (;;) {
    const word = words[at] ?? '';
    if (/^(-f|--(file|blob|type))$/.test(word)) at += 2;
    else if (
      /^(-z|--(global|local|system|worktree|show-origin|show-scope|null|name-only|type=\w+))$/.test(word)
    )
      at += 1;
    else return at;
  }
}

/** Whether `git config` sets what may name a program, or opens an editor. */
function configures([command, ...args]: readonly CommandWord[]): boolean {
  if (command?.text !== 'config') return false;
  const words = args.map(({ text }) => text ?? '');
  // Further back it may be the value of an option, and what follows a key and its value.
  if (/^(--get[a-z-]*|--list|-l|get|list)$/.test(words[beforeAction(words)] ?? '')) return false;
  const [first = '', ...others] = words.filter((word) => !word.startsWith('-'));
  const asks = others.length === 0 && !/^(edit|remove-section|rename-section)$/.test(first);
  if (asks) return words.some((word) => /^(-e|--e[a-z]*|--unset[a-z-]*|)$/.test(word));
  const [key, , ...more] = ['set', 'unset'].includes(first) ? others : [first, ...others];
  // Where there are more words than a key and its value, one of them may be the value of an option, and the key another.
  return more.length > 0 || !harmless.test(`${key}=`);
}
