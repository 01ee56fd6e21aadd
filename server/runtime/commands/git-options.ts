/** The options of git that stand in front of its command. */
import type { CommandWord } from './command-words.ts';

/** The command of git and what follows it. */
export function behindGitOptions(words: readonly CommandWord[]): readonly CommandWord[] {
  let at = 0;
  while (words[at]?.text?.startsWith('-'))
    at += /^(-[cC]|--(git-dir|work-tree|namespace|config-env))$/.test(words[at]?.text ?? '') ? 2 : 1;
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
