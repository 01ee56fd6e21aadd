/** Scripts of sed of which it is known that they only edit what comes through: others write files, and start programs. */
import type { CommandWord } from './command-words.ts';

/** Options that take no word with them; those that write in place are known as such elsewhere. */
const known =
  /^(-[nErszu]+|-[nErszu]*([iI].*|l\d+)|--(quiet|silent|regexp-extended|null-data|zero-terminated|separate|unbuffered|posix|debug|sandbox|follow-symlinks|line-length=\d+|help|version|i[a-z-]*(=.*)?))$/;

/** Which of the words hold scripts, or name a file with one, that may do more. */
export function powerfulScripts(args: readonly CommandWord[]): readonly number[] {
  const found: number[] = [];
  let named = false;
  let first: number | null = null;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? null;
    if (text === null || text === '--') continue;
    const option =
      /^(?:--(?<long>e[a-z]*|f[a-z]*)(?:=(?<value>[\s\S]*))?|-[nErszu]*(?<letter>[ef])(?<given>[\s\S]*))$/.exec(
        text,
      );
    if (option?.groups) {
      named = true;
      const { long, value, letter, given } = option.groups;
      const isFile = (long ?? letter ?? '').startsWith('f');
      const inside = value ?? (given || undefined);
      if (inside === undefined) at += 1;
      const script = inside ?? args[at]?.text ?? null;
      if (isFile || script === null || !onlyEdits(script)) found.push(Math.min(at, args.length - 1));
    } else if (!text.startsWith('-') || text === '-') first ??= at;
    else if (!known.test(text)) found.push(at);
  }
  if (!named && first !== null && !onlyEdits(args[first]?.text ?? '')) found.push(first);
  return found;
}

/** Whether the script is made of such commands alone: of those that print, delete, hold and replace. */
function onlyEdits(script: string): boolean {
  let rest = script;
  while (rest !== '') {
    const behind = behindCommand(rest.replace(/^[\s;{}]+/, ''));
    if (behind === null) return false;
    rest = behind;
  }
  return true;
}

const address = /^(?:\d+(?:~\d+)?|\$|[+~]\d+)\s*/;

/** What follows the first command; null where it is none of those. */
function behindCommand(text: string): string | null {
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
  const delimiter = rest[1] ?? '';
  if (!/^[sy]$/.test(rest[0] ?? '') || !/^[^\s\w\\;]$/.test(delimiter)) return null;
  const pattern = behindPart(rest.slice(2), delimiter);
  const replacement = pattern === null ? null : behindPart(pattern, delimiter);
  const flags = replacement === null ? null : /^[gpiIm0-9]*\s*(?=[;}\n]|$)/.exec(replacement);
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
