/** Holds the statements of docs/threat-model.md to the truth: their tests are there, and what is called missing is not. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hasTitle } from './test-titles.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const page = read('docs/threat-model.md');

/** How many statements there are under each letter: none may vanish, none may come twice. */
const counts = { A: 13, B: 10, C: 14, D: 9, E: 9, F: 7, G: 6, H: 6, I: 7, J: 5, K: 10 };

interface Statement {
  readonly id: string;
  readonly says: string;
  /** File and title of each test. */
  readonly tests: readonly (readonly [string, string])[];
  readonly missing: readonly string[];
}

const statements = page
  .split('\n')
  .filter((line) => /^\| [A-K]\d+ \|/.test(line))
  .map(statementOf);

function statementOf(line: string): Statement {
  const [id = '', says = '', tests = '', missing = '', ...more] = line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());
  if (more.length > 0) throw new Error(`${id} has more cells than its table`);
  return {
    ...{ id, says },
    tests: tests === '' ? [] : tests.split('; `').flatMap(testsIn),
    missing: missing === '' ? [] : missing.split('; '),
  };
}

/** `file`: “title”, “title” */
function testsIn(text: string): (readonly [string, string])[] {
  const [, file = '', titles = ''] = /^`?([^`]+)`: (.+)$/s.exec(text) ?? [];
  return [...titles.matchAll(/“(.+?)”(?=, “|$)/g)].map(([, title = '']) => [file, title] as const);
}

/** The parts of the product that are missing, and by what one sees that they are there. */
const parts = new Map(
  [...page.matchAll(/^\| (.+) \| (operation|place) (\S+) \|$/gm)].map(([, part = '', kind, name = '']) => [
    part,
    { kind, name },
  ]),
);

test('each of the statements stands there once, and says something', () => {
  const ids = Object.entries(counts).flatMap(([letter, count]) =>
    Array.from({ length: count }, (_, index) => `${letter}${index + 1}`),
  );
  expect(ids).toHaveLength(96);
  expect(statements.map(({ id }) => id)).toEqual(ids);
  expect(statements.filter(({ says }) => says.length < 20)).toEqual([]);
});

describe('a statement', () => {
  test.each(statements.map((statement) => [statement.id, statement] as const))(
    '%s is held by tests that are there, or misses a part of the product that is not',
    (_, { tests, missing }) => {
      expect(tests.length + missing.length).toBeGreaterThan(0);
      expect(tests.filter(([file, title]) => !hasTest(file, title))).toEqual([]);
      expect(missing.filter((part) => !parts.has(part))).toEqual([]);
    },
  );
});

test.each([...parts])('%s is missing still', (part, { kind, name }) => {
  expect(isThere(kind, name), `${part} is there by now: give its statements their tests`).toBe(false);
  expect(statements.some(({ missing }) => missing.includes(part))).toBe(true);
});

test('what is there would be seen', () => {
  expect(isThere('operation', 'createSession')).toBe(true);
  expect(isThere('place', 'clients/terminal')).toBe(true);
  expect(hasTest('codegen/threat-model.test.ts', 'what is there would be seen')).toBe(true);
  expect(hasTest('codegen/threat-model.test.ts', ['a title that', 'stands nowhere'].join(' '))).toBe(false);
});

function hasTest(file: string, title: string): boolean {
  return file.endsWith('.test.ts') && existsSync(join(root, file)) && hasTitle(read(file), title);
}

function isThere(kind: string | undefined, name: string): boolean {
  if (kind === 'place') return existsSync(join(root, name));
  return read('server/contract/openapi.json').includes(`"operationId": "${name}"`);
}
