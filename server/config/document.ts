/** Reads the bytes of a settings file into a tree that knows where everything stands. */
import {
  createScanner,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser';
import type { Diagnostic, Place } from './diagnostic.ts';

/** A file that could be read as JSON with comments. */
export interface SettingsDocument {
  readonly value: unknown;
  /** The node at a JSON pointer; undefined where nothing stands. */
  node(pointer: string): Node | undefined;
  place(offset: number): Place;
}

/** Settings are written by hand; what is larger or deeper is no settings file, and costs too much to read. */
const maximumBytes = 1024 * 1024;
const maximumDepth = 64;

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
    ? errors.map((error) => syntaxError(error, place))
    : [...keyErrors(root, place)];
  if (diagnostics.length) return { document: null, diagnostics };
  // An empty file says nothing, like a missing one.
  const value: unknown = root ? getNodeValue(root) : {};
  return { document: { value, place, node: (pointer) => nodeAt(root, pointer) }, diagnostics };
}

/** The key as a part of a JSON pointer. */
export function pointerPart(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The keys that a JSON pointer names. */
export function pointerKeys(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function decode(bytes: Uint8Array, file: string): { text: string; problem?: Diagnostic } {
  if (bytes.length > maximumBytes) {
    const message = `The file is larger than ${maximumBytes} bytes`;
    return { text: '', problem: failure(message, 'Is it a settings file?', { file, line: 1, column: 1 }) };
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const readable = new TextDecoder('utf-8').decode(bytes);
    const place = placesOf(readable, file)(Math.max(0, readable.indexOf('\uFFFD')));
    return { text: '', problem: failure('The file is not UTF-8 text', 'Save it as UTF-8.', place) };
  }
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

function placesOf(text: string, file: string): (offset: number) => Place {
  return (offset) => {
    const before = text.slice(0, offset);
    const lines = before.split(/\r\n|\n|\r/);
    return { file, line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
  };
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
    const [name, value] = child.children ?? [];
    const key = String(name?.value);
    const at = { ...place(child.offset) };
    const below = `${pointer}/${pointerPart(key)}`;
    if (seen.has(key))
      yield failure(`The key ${JSON.stringify(key)} stands here twice`, 'Keep one.', at, below);
    if (key === '__proto__')
      yield failure('The key "__proto__" is not allowed', 'Choose another name.', at, below);
    seen.add(key);
    yield* keyErrors(value, place, below);
  }
}

function failure(message: string, remedy: string, place: Place, pointer = ''): Diagnostic {
  return { severity: 'error', place, pointer, message, expected: null, remedy };
}

function nodeAt(root: Node | undefined, pointer: string): Node | undefined {
  return pointerKeys(pointer).reduce<Node | undefined>(childAt, root);
}

function childAt(node: Node | undefined, key: string): Node | undefined {
  if (node?.type === 'array') return node.children?.[Number(key)];
  return node?.children?.find(({ children }) => children?.[0]?.value === key)?.children?.[1];
}
