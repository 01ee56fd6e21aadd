/** `test`, `[` and `[[`: what they ask about files is a look at these files. */
import type { CommandWord } from './command-words.ts';
import { wouldLieInside } from './inside.ts';

export function isTestName(name: string): boolean {
  return name === 'test' || name === '[' || name === '[[';
}

/** Questions about one file, and about the two on both sides. */
const ofOneFile = /^-[abcdefghkprsuwxGLNOS]$/;
const ofTwoFiles = /^-(nt|ot|ef)$/;

export function asksAboutFile(operator: string): boolean {
  return ofOneFile.test(operator);
}

export function comparesFiles(operator: string): boolean {
  return ofTwoFiles.test(operator);
}

/**
 * Whether all files that the words may ask about lie in the workspace. With words that are not known yet, `test` may
 * come to ask anything of them, unless their number says what it asks.
 */
export function asksInside(name: string, args: readonly CommandWord[], workspacePath: string): boolean {
  if (args.some(({ many }) => many && name !== '[[')) return false;
  const words = name === '[' && args.at(-1)?.text === ']' ? args.slice(0, -1) : args;
  const first = words.findIndex(({ text }) => text !== '!');
  const asked = first === -1 ? [] : words.slice(first);
  return filesOf(asked).every((word) => word !== null && wouldLieInside(word, workspacePath));
}

/** Null for a word that only might be a file. */
function filesOf(words: readonly CommandWord[]): readonly (CommandWord | null)[] {
  // Three words are a comparison, if the one in the middle is its sign: `[ "$x" = a ]`.
  if (words.length === 3 && isPlainSign(words[1])) return [];
  // Two are a question and what it is about.
  if (words.length === 2 && /^-[nz]$/.test(words[0]?.text ?? '')) return [];
  return words.flatMap(({ text }, index): readonly (CommandWord | null)[] => {
    const [before, after] = [words[index - 1] ?? null, words[index + 1] ?? null];
    if (text === null) return words.length > 2 || after !== null ? [null] : [];
    if (comparesFiles(text)) return [before, after];
    return asksAboutFile(text) && after !== null ? [after] : [];
  });
}

function isPlainSign(word: CommandWord | undefined): boolean {
  return /^(=|==|!=|<|>|-(eq|ne|lt|le|gt|ge))$/.test(word?.text ?? '');
}
