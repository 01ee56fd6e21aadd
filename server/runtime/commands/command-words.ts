/** What is known of a word of a command before the shell expands it. */
import type { Assignment, CommandArgument, Word, WordPart } from 'unbash';

/** One word of a command. */
export interface CommandWord {
  /** Null where only the shell will know it. */
  readonly text: string | null;
  /** Whether it may become several words, or none. */
  readonly many: boolean;
  /** The variable that it assigns, even where its value is not known. */
  readonly sets?: string;
}

/** Nothing at all is known of it. */
export const anyWords: CommandWord = { text: null, many: true };

/** A word that is known. */
export function known(text: string): CommandWord {
  return { text, many: false };
}

/** The program that a word names: what stands behind its folders. */
export function baseOf(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** A word, or an assignment in the place of one, as far as it is known. */
export function wordOf(argument: CommandArgument): CommandWord {
  return argument.type === 'Word' ? knownPart(argument) : assignmentWord(argument);
}

/** `NAME=value`, in front of a command or among the words of one. */
export function assignmentWord(assignment: Assignment): CommandWord {
  const { name, value, append, index } = assignment;
  if (index) return { text: null, many: false };
  if (value.type === 'ArrayValue') return { text: null, many: false, sets: name };
  const { text } = knownPart(value);
  // What is assigned is not split into words.
  return { text: text === null ? null : `${name}${append ? '+=' : '='}${text}`, many: false, sets: name };
}

function knownPart(word: Word): CommandWord {
  const kinds = (word.parts ?? []).map(kindOf);
  const many = kinds.includes('many') || mayExpand(word.text);
  const fixed = !many && kinds.every((kind) => kind === 'fixed') && !expandsTilde(word.text);
  return { text: fixed ? word.value : null, many };
}

function kindOf(part: WordPart): 'fixed' | 'one' | 'many' {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return 'fixed';
    case 'DoubleQuoted':
      if (part.parts.every(({ type }) => type === 'Literal')) return 'fixed';
      return part.parts.some((child) => child.type !== 'Literal' && becomesList(child.text)) ? 'many' : 'one';
    case 'LocaleString':
    case 'ProcessSubstitution':
    // What is computed is a number.
    case 'ArithmeticExpansion':
      return 'one';
    case 'SimpleExpansion':
      // These are numbers.
      return /^\$[?#$]$/.test(part.text) ? 'one' : 'many';
    default:
      // Unquoted, an expansion is split at blanks and matched with the names of files.
      return 'many';
  }
}

/** `"$@"`, `"${list[@]}"` and `"${!prefix@}"` are as many words as there are members. */
function becomesList(expansion: string): boolean {
  return expansion.includes('@');
}

/** Inside of other expansions the parser takes braces and patterns for plain letters, which bash does not. */
function mayExpand(text: string): boolean {
  const plain = withoutQuotes(text).replaceAll('$?', '');
  return (
    /[*?`]/.test(plain) || between(plain, '[', ']') !== null || /,|\.\./.test(between(plain, '{', '}') ?? '')
  );
}

/** What stands between the first of the one and the last of the other: an expression would try each pair of them. */
function between(text: string, open: string, close: string): string | null {
  const [start, end] = [text.indexOf(open), text.lastIndexOf(close)];
  return start === -1 || end < start ? null : text.slice(start + 1, end);
}

/**
 * Whether a text that the parser takes for plain letters holds the beginning of an expansion: then there may be
 * commands in it that nobody has seen.
 */
export function hidesExpansion({ text, parts }: Word): boolean {
  const plain = (parts ?? []).every((part) => kindOf(part) === 'fixed');
  return plain && /[`]|[$<>=]\(|\$[\w{[@*#?$!-]/.test(withoutQuotes(text).replaceAll('"', ''));
}

/** Escaped and quoted letters fall away; of double quotes only those in which nothing is expanded. */
function withoutQuotes(text: string): string {
  return text.replace(/\\[\s\S]|\$?'(?:[^'\\]|\\[\s\S])*'|'[^']*'|"(?:[^"\\$`]|\\[\s\S])*"/g, '');
}

/** At the beginning, and after the signs that stand before the values of assignments. */
function expandsTilde(text: string): boolean {
  return /(?:^|[=:])~/.test(text);
}
