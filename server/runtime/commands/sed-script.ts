/** Scripts of sed of which it is known that they only edit what comes through: others write files, and start programs. */
import type { CommandWord } from './command-words.ts';

/** Options that take no word with them; those that write in place are known as such elsewhere. */
const known =
  /^(-[nErszu]+|-[nErszu]*([iI].*|l\d+)|--(quiet|silent|regexp-extended|null-data|zero-terminated|separate|unbuffered|posix|debug|sandbox|follow-symlinks|line-length=\d+|help|version|i[a-z-]*(=.*)?))$/;

/** A script among the words. */
interface Script {
  readonly at: number;
  /** Null where it stands in a file, or nobody can tell which word holds it. */
  readonly text: string | null;
}

/** Which of the words hold scripts, or name a file with one, that may do more. */
export function powerfulScripts(args: readonly CommandWord[]): readonly number[] {
  return scriptsIn(args).flatMap(({ at, text }) => (text !== null && isMadeOf(text, 'edits') ? [] : [at]));
}

/** Whether one of the scripts may start a program. */
export function scriptStartsPrograms(args: readonly CommandWord[]): boolean {
  return scriptsIn(args).some(({ text }) => text === null || !isMadeOf(text, 'edits and files'));
}

function scriptsIn(args: readonly CommandWord[]): readonly Script[] {
  const found: Script[] = [];
  let named = false;
  // A word that is not known may be the script, or an option in front of it.
  const first: Script[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? null;
    if (text === '--') continue;
    const option =
      /^(?:--(?<long>e[a-z]*|f[a-z]*)(?:=(?<value>[\s\S]*))?|-[nErszu]*(?<letter>[ef])(?<given>[\s\S]*))$/.exec(
        text ?? '',
      );
    if (option?.groups) {
      named = true;
      const { long, value, letter, given } = option.groups;
      const isFile = (long ?? letter ?? '').startsWith('f');
      const inside = value ?? (given || undefined);
      if (inside === undefined) at += 1;
      const script = inside ?? args[at]?.text ?? null;
      found.push({ at: Math.min(at, args.length - 1), text: isFile ? null : script });
    } else if (text === null || !text.startsWith('-') || text === '-') {
      if (first.every((one) => one.text === null)) first.push({ at, text });
    } else if (!known.test(text)) found.push({ at, text: null });
  }
  return named ? found : [...found, ...first];
}

/** What commands a script may have: those that print, delete, hold and replace, or also those that add text, read and write. */
type Kind = 'edits' | 'edits and files';

/** Whether the script is made of such commands alone. */
function isMadeOf(script: string, kind: Kind): boolean {
  let rest = script;
  while (rest !== '') {
    const behind = behindCommand(rest.replace(/^[\s;{}]+/, ''), kind);
    if (behind === null) return false;
    rest = behind;
  }
  return true;
}

const address = /^(?:\d+(?:~\d+)?|\$|[+~]\d+)\s*/;

/**
 * A comment, a jump and its place, what takes a file up to the end of its line, and one line of text. Where that goes on in
 * the next line nobody can tell its end.
 */
const otherCommand =
  /^(?:#[^\n]*|[:btT]\s*[\w.-]*\s*(?=[;}\n]|$)|[Fz]\s*(?=[;}\n]|$)|[rRwW][^\n]+|[aic](?=[^\n]*[^\s\\])(?:[^\n]*[^\n\\])(?=\n|$))/;
const flagsOfEdit = /^[gpiIm0-9]*\s*(?=[;}\n]|$)/;
const flagsOfAny = /^[gpiImM0-9]*(?:w[^\n]+|\s*(?=[;}\n]|$))/;

/** What follows the first command; null where it is none of those. */
function behindCommand(text: string, kind: Kind): string | null {
  let rest = text;
  for (let count = 0; count < 2; count += 1) {
    const behind = rest.startsWith('/') ? behindPart(rest.slice(1), '/') : rest.replace(address, '');
    if (behind === null) return null;
    if (behind === rest) break;
    rest = behind.replace(/^[IM]*\s*/, '');
    if (!rest.startsWith(',')) break;
    rest = rest.slice(1).trimStart();
  }
  rest = rest.replace(/^[!\s]+/, '');
  if (rest === '' || /^[{};]/.test(rest)) return rest;
  const simple = /^[pPdDgGhHxnN=]\s*(?=[;}\n]|$)|^[qQlL]\s*\d*\s*(?=[;}\n]|$)/.exec(rest);
  if (simple) return rest.slice(simple[0].length);
  const other = kind === 'edits' ? null : otherCommand.exec(rest);
  if (other) return rest.slice(other[0].length);
  const delimiter = rest[1] ?? '';
  if (!/^[sy]$/.test(rest[0] ?? '') || !/^[^\s\w\\;]$/.test(delimiter)) return null;
  const pattern = behindPart(rest.slice(2), delimiter);
  const replacement = pattern === null ? null : behindPart(pattern, delimiter);
  const flags = replacement === null ? null : (kind === 'edits' ? flagsOfEdit : flagsOfAny).exec(replacement);
  return flags && replacement !== null ? replacement.slice(flags[0].length) : null;
}

/** What follows a part up to its delimiter. In brackets some take it for a letter and others do not: nobody can tell then. */
function behindPart(text: string, delimiter: string): string | null {
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === delimiter) return text.slice(at + 1);
    else if (text[at] === '[') {
      const bracket = /^\[\^?\]?[^\]]*\]?/.exec(text.slice(at))?.[0] ?? '';
      if (bracket.includes(delimiter) || bracket.includes('\\')) return null;
    }
  }
  return null;
}
