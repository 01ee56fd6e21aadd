/** Reads the bytes of a settings file into a tree that knows where everything stands. */
import { createScanner, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import type { Diagnostic, Place } from './diagnostic.ts';
import { objectOf, pointerKeys, pointerPart } from './pointer.ts';

/** A file that could be read as JSON with comments. */
export interface SettingsDocument {
  readonly value: unknown;
  /** The node at a JSON pointer; undefined where nothing stands. */
  node(pointer: string): Node | undefined;
  place(offset: number): Place;
}

/** Settings are written by hand; what is larger or deeper is no settings file, and costs too much to read. */
export const maximumBytes = 1024 * 1024;
const maximumDepth = 64;
/** Nobody mends more at once, and telling each of a million would take minutes. */
export const maximumDiagnostics = 100;

/** Reads the file's bytes; where they cannot be read as settings, the diagnostics say why. */
export function readDocument(
  bytes: Uint8Array,
  file: string,
): { readonly document: SettingsDocument | null; readonly diagnostics: readonly Diagnostic[] } {
  const { text, problem } = decode(bytes, file);
  if (problem) return { document: null, diagnostics: [problem] };
  const place = placesOf(text, file);
  const tooDeep = offsetTooDeep(text);
  if (tooDeep !== null) return { document: null, diagnostics: [nestedTooDeep(place(tooDeep))] };
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true });
  const diagnostics = errors.length
    ? errors.slice(0, maximumDiagnostics).map((error) => syntaxError(error, place))
    : firstOf(keyErrors(root, place), maximumDiagnostics);
  if (diagnostics.length) return { document: null, diagnostics };
  // An empty file says nothing, like a missing one.
  const value = root ? settingsValue(root) : objectOf([]);
  return { document: { value, place, node: nodeFinder(root) }, diagnostics };
}

function decode(bytes: Uint8Array, file: string): { text: string; problem?: Diagnostic } {
  if (bytes.length > maximumBytes) return { text: '', problem: tooLarge(file) };
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const readable = new TextDecoder('utf-8').decode(bytes);
    const place = placesOf(readable, file)(Math.max(0, readable.indexOf('\uFFFD')));
    return { text: '', problem: failure('The file is not UTF-8 text', 'Save it as UTF-8.', place) };
  }
}

/** Said of a file whose bytes need not even be read. */
export function tooLarge(file: string): Diagnostic {
  const message = `The file is larger than ${maximumBytes} bytes`;
  return failure(message, 'Is it a settings file?', { file, line: 1, column: 1 });
}

/** The parser calls itself for each level, so that a hostile file could exhaust the stack. */
function offsetTooDeep(text: string): number | null {
  const scanner = createScanner(text, true);
  let depth = 0;
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    // Tokens are told by their first letter: the names of their kinds are gone at run time.
    const first = text.charAt(scanner.getTokenOffset());
    if (first === '{' || first === '[') depth += 1;
    if (first === '}' || first === ']') depth -= 1;
    if (depth > maximumDepth) return scanner.getTokenOffset();
  }
  return null;
}

function nestedTooDeep(place: Place): Diagnostic {
  return failure(`The file is nested more than ${maximumDepth} levels deep`, 'Is it a settings file?', place);
}

/** Lines are counted once: a file may hold as many places as it has letters. */
function placesOf(text: string, file: string): (offset: number) => Place {
  let starts: readonly number[] | null = null;
  return (offset) => {
    starts ??= [0, ...Array.from(text.matchAll(/\r\n|\n|\r/g), ({ index, 0: end }) => index + end.length)];
    const line = lastAtMost(starts, offset);
    return { file, line: line + 1, column: offset - (starts[line] ?? 0) + 1 };
  };
}

function lastAtMost(sorted: readonly number[], limit: number): number {
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((sorted[middle] ?? 0) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

function syntaxError({ error, offset }: ParseError, place: (offset: number) => Place): Diagnostic {
  const words = printParseErrorCode(error)
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase();
  return failure(
    `The file is not JSON here: ${words}`,
    'Write JSON; comments and trailing commas are allowed.',
    place(offset),
  );
}

/** Of a key that stands twice, readers differ in which one counts; __proto__ changes what objects are in some. */
function* keyErrors(
  node: Node | undefined,
  place: (offset: number) => Place,
  pointer = '',
): Generator<Diagnostic> {
  const seen = new Set<string>();
  for (const [index, child] of (node?.children ?? []).entries()) {
    if (node?.type !== 'object') {
      yield* keyErrors(child, place, `${pointer}/${index}`);
      continue;
    }
    const key = keyOf(child);
    const below = `${pointer}/${pointerPart(key)}`;
    if (seen.has(key))
      yield failure(
        `The key ${JSON.stringify(key)} stands here twice`,
        'Keep one.',
        place(child.offset),
        below,
      );
    if (key === '__proto__')
      yield failure('The key "__proto__" is not allowed', 'Choose another name.', place(child.offset), below);
    seen.add(key);
    yield* keyErrors(child.children?.[1], place, below);
  }
}

function firstOf<Item>(items: Iterable<Item>, limit: number): Item[] {
  const found: Item[] = [];
  for (const item of items) {
    found.push(item);
    if (found.length === limit) break;
  }
  return found;
}

function failure(message: string, remedy: string, place: Place, pointer = ''): Diagnostic {
  return { severity: 'error', place, pointer, message, expected: null, remedy };
}

function keyOf(property: Node): string {
  return String(property.children?.[0]?.value);
}

/** Not the parser's own: its objects have a prototype, so that a provider named "constructor" would be there unasked. */
function settingsValue(node: Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(settingsValue);
  if (node.type !== 'object') return node.value;
  const properties = node.children ?? [];
  return objectOf(
    properties.map((property) => {
      const [, value] = property.children ?? [];
      return [keyOf(property), value ? settingsValue(value) : null] as const;
    }),
  );
}

/** Objects are indexed when somebody first looks into them: a file may hold a hundred thousand keys. */
function nodeFinder(root: Node | undefined): SettingsDocument['node'] {
  const indexes = new WeakMap<Node, ReadonlyMap<string, Node | undefined>>();
  const childAt = (node: Node | undefined, key: string): Node | undefined => {
    if (node?.type === 'array') return node.children?.[Number(key)];
    if (node?.type !== 'object') return undefined;
    let index = indexes.get(node);
    if (!index) {
      index = new Map((node.children ?? []).map((child) => [keyOf(child), child.children?.[1]]));
      indexes.set(node, index);
    }
    return index.get(key);
  };
  return (pointer) => pointerKeys(pointer).reduce(childAt, root);
}
