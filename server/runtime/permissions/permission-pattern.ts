/** The patterns of permission rules, how they are read, and what they cover. */
import type { CommandWord } from '../commands/command-words.ts';

/** One character, or what stands for others. */
type Sign = string | typeof any | typeof within | typeof single | typeof perhaps | typeof folders;

const any = Symbol('any characters');
const within = Symbol('any characters but a slash');
const single = Symbol('one character but a slash');
const perhaps = Symbol('the next sign, or not');
const folders = Symbol('any characters up to a slash');

/** A pattern for the parts of commands. */
export interface CommandPattern {
  readonly kind: 'command' | 'read' | 'write';
  readonly words: readonly (readonly Sign[])[];
  /** Whether any further words may follow. */
  readonly open: boolean;
}

/** Reads a pattern for commands. Every text is one: a quote that is not closed ends where the text ends. */
export function commandPattern(text: string): CommandPattern {
  const words = splitWords(text);
  const open = words.length > 0 && isStar(words.at(-1));
  const closed = open ? words.slice(0, -1) : words;
  const first = closed[0]?.quoted || closed[0]?.signs.length !== 1 ? null : closed[0].signs[0];
  const kind = first === '>' ? 'write' : first === '<' ? 'read' : 'command';
  const rest = kind === 'command' ? closed : closed.slice(1);
  return { kind, words: rest.map(({ signs }) => signs), open };
}

/** Whether a pattern covers this command for certain: words that are not known yet only where any word will do. */
export function covers(
  pattern: CommandPattern,
  kind: CommandPattern['kind'],
  words: readonly CommandWord[],
): boolean {
  if (pattern.kind !== kind && !coversAll(pattern)) return false;
  if (words.length < pattern.words.length || (words.length > pattern.words.length && !pattern.open))
    return false;
  return pattern.words.every((signs, index) => {
    const word = words[index];
    if (!word || word.many) return false;
    return word.text === null ? signs.length === 1 && signs[0] === any : matches(signs, word.text);
  });
}

/** Whether a pattern may turn out to mean this command: words that are not known yet may be any. */
export function mayMean(
  pattern: CommandPattern,
  kind: CommandPattern['kind'],
  words: readonly CommandWord[],
): boolean {
  if (pattern.kind !== kind && !coversAll(pattern)) return false;
  return mayFollow(pattern, words);
}

function mayFollow(pattern: CommandPattern, words: readonly CommandWord[]): boolean {
  // How many words of the pattern may be used up so far.
  let reached = new Set([0]);
  for (const word of words) {
    reached = word.many
      ? onward(pattern, reached)
      : new Set([...reached].flatMap((at) => steps(pattern, at, word)));
    if (reached.size === 0) return false;
  }
  return reached.has(pattern.words.length);
}

/** Any number of words: everything from the first on, which it stays, however many of them follow. */
function onward({ words }: CommandPattern, reached: Set<number>): Set<number> {
  let first = words.length;
  for (const at of reached) if (at < first) first = at;
  const all = words.length - first + 1;
  return reached.size === all ? reached : new Set(Array.from({ length: all }, (_, more) => first + more));
}

function steps({ words, open }: CommandPattern, at: number, word: CommandWord): readonly number[] {
  const signs = words[at];
  if (!signs) return open ? [at] : [];
  return word.text === null || matches(signs, word.text) ? [at + 1] : [];
}

/** Whether the pattern itself has this word, and not only the `*` at its end; `*` alone has every word. */
export function means(pattern: CommandPattern, word: number): boolean {
  return word < pattern.words.length || coversAll(pattern);
}

/** Whether the pattern is of one command alone, word by word. */
export function isExact({ words, open }: CommandPattern): boolean {
  return !open && words.every((signs) => signs.every((sign) => typeof sign === 'string'));
}

/** Whether a pattern that covers a redirected file covers every other. */
export function isOfAnyFile({ words, open }: CommandPattern): boolean {
  return open && words.length === 0;
}

/** The plain letters that its first word begins with. */
export function beginning({ words: [first = []] }: CommandPattern): string {
  const end = first.findIndex((sign) => typeof sign !== 'string');
  return (end === -1 ? first : first.slice(0, end)).join('');
}

/** `*` alone is for everything, redirected files too. */
function coversAll(pattern: CommandPattern): boolean {
  return pattern.kind === 'command' && isOfAnyFile(pattern);
}

/** The pattern that covers exactly these words. */
export function exactPattern(kind: CommandPattern['kind'], words: readonly string[]): string {
  const sign = kind === 'write' ? ['>'] : kind === 'read' ? ['<'] : [];
  return [...sign, ...words.map(quoted)].join(' ');
}

function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Whether a glob covers a path: `*` and `?` stay within a folder, `**` does not. */
export function coversPath(glob: string, path: string): boolean {
  if (glob === '**') return !path.startsWith('/');
  return matches(globSigns(glob), path) || (glob.endsWith('/**') && path === glob.slice(0, -3));
}

function globSigns(glob: string): readonly Sign[] {
  const tokens = glob.match(/\\[\s\S]|\*\*\/?|[\s\S]/gu) ?? [];
  return tokens.flatMap((token): readonly Sign[] => {
    if (token === '*') return [within];
    if (token === '?') return [single];
    if (token === '**/') return [perhaps, folders];
    if (token === '**') return [any];
    return [token.startsWith('\\') && token.length > 1 ? token.slice(1) : token];
  });
}

/** A glob that covers exactly this path, or with `/**` behind it what lies below. */
export function literalGlob(path: string): string {
  return path.replace(/[\\*?]/g, '\\$&');
}

/**
 * Whether an origin or a host covers an address, in whichever spelling: `bücher.example`, `example.org.`. A pattern with a
 * path means less than its origin: it allows nothing, and denies all of that.
 */
export function coversUrl(pattern: string, address: string, purpose: 'allow' | 'deny'): boolean {
  const url = placeOf(address);
  if (!url) return false;
  if (pattern === '*') return true;
  if (pattern.includes('://')) {
    const origin = purpose === 'deny' || namesOrigin(pattern) ? placeOf(pattern) : null;
    return origin !== null && origin.scheme === url.scheme && isSame(origin, url);
  }
  const isBelow = pattern.startsWith('*.');
  const named = isBelow ? pattern.slice(2) : pattern;
  const wanted = placeOfHost(purpose === 'deny' ? named.replace(/[/?#].*$/s, '') : named);
  if (!wanted) return false;
  if (isBelow)
    return url.host.endsWith(`.${wanted.host}`) && (wanted.port === '' || wanted.port === url.port);
  return wanted.port === '' ? wanted.host === url.host : isSame(wanted, url);
}

interface WebPlace {
  readonly scheme: string;
  /** As it is sent to a resolver, without the dot that ends a name in full. */
  readonly host: string;
  readonly port: string;
}

function placeOf(address: string): WebPlace | null {
  if (!URL.canParse(address)) return null;
  const { protocol, hostname, port } = new URL(address);
  const usual = protocol === 'https:' ? '443' : protocol === 'http:' ? '80' : '';
  return { scheme: protocol, host: hostname.replace(/\.+$/, ''), port: port || usual };
}

function namesOrigin(pattern: string): boolean {
  if (!URL.canParse(pattern)) return false;
  const { pathname, search, hash, username, password } = new URL(pattern);
  return pathname === '/' && `${search}${hash}${username}${password}` === '';
}

/** Of a pattern that names a host, and perhaps a port; a path or a name in front of it would be lost. */
function placeOfHost(text: string): WebPlace | null {
  if (/[/\\?#@\s]/.test(text)) return null;
  const place = placeOf(`https://${text}`);
  const [, port = ''] = /:(\d+)$/.exec(text) ?? [];
  return place?.host ? { ...place, port } : null;
}

function isSame(one: WebPlace, other: WebPlace): boolean {
  return one.host === other.host && one.port === other.port;
}

/** In time that grows with the product of both lengths at most: patterns and texts come from people and models. */
function matches(signs: readonly Sign[], text: string): boolean {
  const letters = [...text];
  let reached = closure(signs, new Set([0]));
  for (const letter of letters) {
    const next = new Set<number>();
    for (const at of reached) {
      const sign = signs[at];
      if (sign === any || sign === folders || (sign === within && letter !== '/')) next.add(at);
      if (sign === letter || (sign === single && letter !== '/') || (sign === folders && letter === '/'))
        next.add(at + 1);
    }
    if (next.size === 0) return false;
    reached = closure(signs, next);
  }
  return reached.has(signs.length);
}

function closure(signs: readonly Sign[], reached: Set<number>): Set<number> {
  // A set may grow while it is walked: what is added is walked, too.
  for (const at of reached) {
    if (signs[at] === any || signs[at] === within || signs[at] === perhaps) reached.add(at + 1);
    if (signs[at] === perhaps) reached.add(at + 2);
  }
  return reached;
}

interface PatternWord {
  readonly signs: readonly Sign[];
  readonly quoted: boolean;
}

function isStar(word: PatternWord | undefined): boolean {
  return word?.signs.length === 1 && word.signs[0] === any;
}

const wordForm = /(?:'[^']*(?:'|$)|"(?:\\[\s\S]|[^"\\])*(?:"|$)|\\[\s\S]|[^\s'"\\]|\\$)+/gu;
const pieceForm = /'([^']*)(?:'|$)|"((?:\\[\s\S]|[^"\\])*)(?:"|$)|\\([\s\S])|([\s\S])/gu;

function splitWords(text: string): readonly PatternWord[] {
  return (text.match(wordForm) ?? []).map((word) => {
    const pieces = [...word.matchAll(pieceForm)];
    const signs = pieces.flatMap(([, plain, double, escaped, bare]): readonly Sign[] => {
      if (bare !== undefined) return [bare === '*' ? any : bare];
      return [...(plain ?? double?.replace(/\\(["\\$`])/gu, '$1') ?? escaped ?? '')];
    });
    return { signs, quoted: pieces.some(([, , , , bare]) => bare === undefined) };
  });
}
