/** The place that a model means, given as a line and a name. */
import { expect, test } from 'vitest';
import { positionIn } from './place-in-file.ts';

const text = 'const a = b;\nlet 😀 = ab, b;\n\nfoo(b);\n';

test.each([
  ['the name on its line', { line: 1, symbol: 'b' }, { line: 0, character: 10 }],
  ['whole names only', { line: 1, symbol: 'a' }, { line: 0, character: 6 }],
  ['in units of UTF-16', { line: 2, symbol: 'b' }, { line: 1, character: 13 }],
  ['the first one without a line', { symbol: 'b' }, { line: 0, character: 10 }],
  ['a line near by', { line: 3, symbol: 'foo' }, { line: 3, character: 0 }],
  ['a column where there is no name', { line: 4, column: 5 }, { line: 3, character: 4 }],
  ['a column beyond the line as its end', { line: 4, column: 99 }, { line: 3, character: 7 }],
])('%s', (_case, place, position) => {
  expect(positionIn(text, place)).toEqual(position);
});

test.each([
  ['a name that is not there', { symbol: 'nothing' }, '"nothing" does not occur in the file.'],
  ['a line that is not there', { line: 9, symbol: 'b' }, 'The file has only 5 lines.'],
  ['neither name nor column', { line: 1 }, 'Give the name on that line as symbol, or its column.'],
  ['nothing', {}, 'Give the name as symbol, or a line with a column.'],
])('%s is refused with what to do', (_case, place, message) => {
  expect(() => positionIn(text, place)).toThrow(message);
});

test('a name far from its line is refused with where it is', () => {
  const long = `first\n${'\n'.repeat(20)}last\n`;
  expect(() => positionIn(long, { line: 20, symbol: 'first' })).toThrow(
    'is not on line 20; it is on line 1.',
  );
});
