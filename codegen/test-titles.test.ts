/** What a page names as its proof is a test that runs: not a comment, not one that is skipped, not any text. */
import { expect, test } from 'vitest';
import { titlesOf } from './settings-table.ts';
import { hasTitle } from './test-titles.ts';

const title = '`tools.grep.timeout` bounds';

/** The bracket is written otherwise, or this file would itself hold such titles. */
const written = (text: string) => text.replaceAll('«', '(').replaceAll('TITLE', title);
const keysIn = (text: string) => titlesOf('a.test.ts', text).flatMap(({ keys }) => keys);

test.each([
  "test«'TITLE', () => {});",
  "  it«\n    'TITLE',\n    () => {},\n  );",
  "describe«'TITLE', () => {});",
  "test.each«[1])«'TITLE', () => {});",
  "test.skipIf«absent)«'TITLE', () => {});",
  "const here = test.skipIf«absent);\nhere«'TITLE', () => {});",
  "test.skip«'another', () => {\n  expect«1);\n});\ntest«'TITLE', () => {});",
])('a test that runs is one: %j', (text) => {
  expect(hasTitle(written(text), title)).toBe(true);
  expect(keysIn(written(text))).toEqual(['tools.grep.timeout']);
});

test.each([
  "// test«'TITLE', () => {});",
  "/*\ntest«'TITLE', () => {});\n*/",
  "/**\n * test«'TITLE', () => {});\n */",
  "test.skip«'TITLE', () => {});",
  "test.todo«'TITLE', () => {});",
  "it.skip«\n  'TITLE',\n  () => {},\n);",
  "test.skip.each«[\n  1,\n])«'TITLE', () => {});",
  "describe.skip«'all', () => {\n  beforeAll««) => 1);\n\n  test«'TITLE', () => {});\n});",
  "expect«'TITLE', 1);",
])('what does not run, or is no test, is none: %j', (text) => {
  expect(hasTitle(written(text), title)).toBe(false);
  expect(keysIn(written(text))).toEqual([]);
});

test('a case of a table counts as well, unless its table is skipped', () => {
  const table = (test: string) => `${test}([\n  ['elsewhere', 1],\n])('%s', () => {});`;
  expect(hasTitle(table('test.each'), 'elsewhere')).toBe(true);
  expect(hasTitle(table('test.skip.each'), 'elsewhere')).toBe(false);
});
