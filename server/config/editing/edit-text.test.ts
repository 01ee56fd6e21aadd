/** Editing the text of a settings file: what is asked for changes, and all else stays as somebody wrote it. */
import { isDeepStrictEqual } from 'node:util';
import { createScanner, getNodeValue, type ParseError, parseTree } from 'jsonc-parser';
import { describe, expect, test } from 'vitest';
import { removeFromText, type Step, setInText } from './edit-text.ts';

const hand = `{
  // The models.
  "models": {
    "large": { "model": "a", "provider": "b" } // the good one
  },
  "options": {
    "debug": true, // while we look for it
    /* quiet */ "progress": false,
    "tui": {
      "diff_mode": "split"
    }
  },
}
`;

describe('a value', () => {
  test.each<[string, Step[], unknown, string, string]>([
    ['is replaced where it stands', ['options', 'debug'], false, '"debug": true,', '"debug": false,'],
    [
      'comes after the last one, and after what is said of that',
      ['options', 'auto_lsp'],
      true,
      '    }\n  },\n}\n',
      '    },\n    "auto_lsp": true\n  },\n}\n',
    ],
    [
      'is added on the line on which its neighbours stand',
      ['models', 'large', 'think'],
      true,
      '"provider": "b" }',
      '"provider": "b", "think": true }',
    ],
    [
      'brings the objects that it needs',
      ['tools', 'ls', 'max_depth'],
      3,
      '  },\n}\n',
      '  },\n  "tools": {\n    "ls": {\n      "max_depth": 3\n    }\n  },\n}\n',
    ],
    [
      'leaves the remark to its neighbour',
      ['models', 'small'],
      { model: 'c', provider: 'd' },
      '"b" } // the good one\n',
      '"b" }, // the good one\n    "small": {\n      "model": "c",\n      "provider": "d"\n    }\n',
    ],
    [
      'that is a list stays on one line',
      ['options', 'disabled_tools'],
      ['bash', 'view'],
      '    }\n  },\n}\n',
      '    },\n    "disabled_tools": ["bash", "view"]\n  },\n}\n',
    ],
  ])('%s', (_, path, value, before, after) => {
    expect(hand).toContain(before);
    expect(setInText(hand, path, value)).toBe(hand.replace(before, after));
  });

  test.each<[string, Step[], string, string]>([
    ['goes with its line', ['options', 'tui'], '    "tui": {\n      "diff_mode": "split"\n    }\n', ''],
    ['leaves what is said beside it', ['options', 'debug'], '"debug": true, // while', '// while'],
    [
      'leaves what is said before it',
      ['options', 'progress'],
      '/* quiet */ "progress": false,',
      '/* quiet */ ',
    ],
    ['goes from among its neighbours', ['models', 'large', 'model'], '"model": "a", ', ''],
    ['takes the comma before it along', ['models', 'large', 'provider'], ', "provider": "b"', ''],
  ])('that is removed %s', (_, path, before, after) => {
    expect(hand).toContain(before);
    const removed = hand.replace(before, after);
    // The comma after the neighbour goes where no comma ended the list.
    expect(removeFromText(hand, path)).toBe(removed.replace('false,\n  },', 'false\n  },'));
  });

  test('takes the object along that would be empty, but not one with a remark in it', () => {
    expect(removeFromText(hand, ['options', 'tui', 'diff_mode'])).not.toContain('tui');
    const remark = '{ "options": { "tui": { /* mine */ "diff_mode": "split" } } }';
    expect(removeFromText(remark, ['options', 'tui', 'diff_mode'])).toBe(
      '{ "options": { "tui": { /* mine */ } } }',
    );
  });

  test.each([
    ['', '{\n  "a": {\n    "b": 1\n  }\n}\n'],
    ['// nothing yet\n', '// nothing yet\n{\n  "a": {\n    "b": 1\n  }\n}\n'],
    ['{}', '{\n  "a": {\n    "b": 1\n  }\n}'],
    ['{\n\t"c": 2\n}\n', '{\n\t"c": 2,\n\t"a": {\n\t\t"b": 1\n\t}\n}\n'],
    ['{\r\n    "c": 2\r\n}\r\n', '{\r\n    "c": 2,\r\n    "a": {\r\n        "b": 1\r\n    }\r\n}\r\n'],
    ['{ "a": {} }', '{ "a": { "b": 1 } }'],
    ['{ "a": { /* why */ } }', '{ "a": { /* why */\n  "b": 1\n} }'],
    ['{ "a": { // why\n } }', '{ "a": { // why\n  "b": 1\n} }'],
    ['{"a":{"c":2,},}', '{"a":{"c":2, "b": 1,},}'],
    ['{ "a": { "c": 2 // why\n } }', '{ "a": { "c": 2, "b": 1 // why\n } }'],
  ])('is set in %j', (before, after) => {
    expect(setInText(before, ['a', 'b'], 1)).toBe(after);
  });
});

test('whatever is edited, every remark, line end and other value stays', () => {
  for (let seed = 1; seed <= 150; seed++) editAtRandom(seed);
});

function editAtRandom(seed: number): void {
  const random = randomOf(seed);
  let text = randomText(random);
  for (let round = 0; round < 12; round++) {
    const before = parse(text);
    const path = randomPath(before, random);
    const removes = random() < 0.4 && path.length > 0;
    const value = random() < 0.8 ? 'new' : { deep: [1, { x: null }] };
    const edited = removes ? removeFromText(text, path) : setInText(text, path, value);
    const wanted = removes ? removed(before, path, text) : assigned(before, path, value);
    const remarks = remarksOutside(text, path, removes);
    const found = { value: parse(edited), remarks: remarksOutside(edited, []), ...endsOf(edited) };
    const told = { seed, path, removes, text, edited };
    expect({ ...told, ...found }).toEqual({ ...told, value: wanted, remarks, ...endsOf(text) });
    text = edited;
  }
}

function endsOf(text: string): object {
  return { hasBareLineFeed: /[^\r]\n/.test(text), endsLine: text.endsWith('\n') };
}

type Random = () => number;

/** The same numbers for the same seed, so that what fails can be tried again. */
function randomOf(seed: number): Random {
  let state = seed * 2_654_435_761;
  return () => {
    state = (state ^ (state << 13)) >>> 0;
    state = (state ^ (state >>> 17)) >>> 0;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 32;
  };
}

/** A file as ten people with ten editors might have left it. */
function randomText(random: Random): string {
  const lineBreak = random() < 0.3 ? '\r\n' : '\n';
  let remarks = 0;
  const space = (required = false): string => {
    const kind = random();
    remarks += 1;
    if (kind < 0.12) return `${random() < 0.5 ? ' ' : ''}// r${remarks} { "," }${lineBreak}  `;
    if (kind < 0.2) return ` /* r${remarks}, */ `;
    if (kind < 0.24) return `/* r${remarks}${lineBreak} over lines */`;
    if (kind < 0.5) return `${lineBreak}${' '.repeat(Math.floor(random() * 6))}`;
    return kind < 0.8 || required ? ' ' : '';
  };
  const value = (depth: number): string => {
    const kind = random();
    if (depth > 3 || kind < 0.3)
      return ['true', '"x // no, /* remark */ }"', '12', 'null'][Math.floor(random() * 4)] ?? '';
    return kind < 0.45 ? list(depth) : object(depth);
  };
  const entries = (make: (index: number) => string): string => {
    const count = Math.floor(random() * 4);
    const made = Array.from({ length: count }, (_, index) => `${space()}${make(index)}${space()}`);
    return `${made.join(',')}${count > 0 && random() < 0.3 ? `,${space()}` : ''}${count === 0 ? space() : ''}`;
  };
  const object = (depth: number): string =>
    `{${entries((index) => `"${names[index]}"${space()}:${space()}${value(depth + 1)}`)}}`;
  const list = (depth: number): string => `[${entries(() => value(depth + 1))}]`;
  return `${space()}${object(0)}${space()}${lineBreak}`;
}

const names = ['a', 'b', 'c/d', 'e'] as const;

/** A place that is there, or one that could be. */
function randomPath(value: unknown, random: Random): Step[] {
  const path: Step[] = [];
  let at = value;
  for (;;) {
    if (path.length > 0 && random() < 0.25) return path;
    if (Array.isArray(at)) {
      const index = Math.floor(random() * (at.length + 1));
      path.push(index);
      at = at[index];
    } else if (typeof at === 'object' && at !== null) {
      const name = names[Math.floor(random() * names.length)] ?? 'a';
      path.push(name);
      at = Reflect.get(at, name);
    } else if (at === undefined && random() < 0.5) {
      path.push('new');
    } else return path;
  }
}

function parse(text: string): unknown {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  expect({ text, errors }).toEqual({ text, errors: [] });
  return root && getNodeValue(root);
}

function assigned(value: unknown, [step, ...rest]: readonly Step[], wanted: unknown): unknown {
  if (step === undefined) return wanted;
  if (Array.isArray(value))
    return value.toSpliced(Number(step), 1, assigned(value[Number(step)], rest, wanted));
  const object = typeof value === 'object' && value !== null ? value : {};
  return { ...object, [step]: assigned(Reflect.get(object, step), rest, wanted) };
}

/** By another way than the code: of the objects around it, those go that hold nothing else and no remark. */
function removed(value: unknown, path: readonly Step[], text: string): unknown {
  if (at(value, path) === undefined) return value;
  const around = at(value, path.slice(0, -1));
  const isAlone =
    path.length > 1 &&
    typeof path.at(-1) === 'string' &&
    typeof path.at(-2) === 'string' &&
    Object.keys(around as object).length === 1 && // something was found in it
    isDeepStrictEqual(remarksOutside(text, path, true), remarksOutside(text, path.slice(0, -1), true));
  return isAlone ? removed(value, path.slice(0, -1), text) : taken(value, path);
}

function taken(value: unknown, [step, ...rest]: readonly Step[]): unknown {
  if (step === undefined) return undefined;
  if (Array.isArray(value)) {
    const item = rest.length > 0 ? [taken(value[Number(step)], rest)] : [];
    return value.toSpliced(Number(step), 1, ...item);
  }
  const entries = Object.entries(value as object).flatMap(([key, child]): [string, unknown][] => {
    if (key !== step) return [[key, child]];
    return rest.length > 0 ? [[key, taken(child, rest)]] : [];
  });
  return Object.fromEntries(entries);
}

function at(value: unknown, path: readonly Step[]): unknown {
  return path.reduce<unknown>(
    (one, step) => (typeof one === 'object' && one !== null ? Reflect.get(one, step) : undefined),
    value,
  );
}

/** Every remark in the text but those within what stands at the path; they may go with it. */
function remarksOutside(text: string, path: readonly Step[], withName = false): string[] {
  const root = parseTree(text, [], { allowTrailingComma: true });
  let node = root;
  for (const step of path) {
    node =
      node?.type === 'array'
        ? node.children?.[Number(step)]
        : node?.children?.find(({ children }) => children?.[0]?.value === step)?.children?.[1];
  }
  const named = withName && node?.parent?.type === 'property' ? node.parent : node;
  const whole = path.length > 0 ? named : undefined;
  const scanner = createScanner(text);
  const remarks: string[] = [];
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    const offset = scanner.getTokenOffset();
    const token = text.slice(offset, offset + scanner.getTokenLength());
    const inside = whole && offset >= whole.offset && offset < whole.offset + whole.length;
    if (/^\/[/*]/.test(token) && !inside) remarks.push(token.trimEnd());
  }
  return remarks;
}
