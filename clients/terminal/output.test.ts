/** What is written: harmless, aligned for people, plain for programs. */
import { expect, test } from 'vitest';
import { brief, columnsOf, printable, shown, widthOf } from './output.ts';

test('text of others cannot move the cursor, change colours or clear the screen', () => {
  expect(printable('\x1b[2Jgone\x9b31m\x07\r')).toBe(String.raw`\e[2Jgone\u{9b}31m\u{7}\r`);
});

test('text of others cannot hide a part of itself, or show it in another order', () => {
  expect(printable('a\u202eb\u200bc\u2066d\u00ade\u3164f\u{e0041}g')).toBe(
    String.raw`a\u{202e}b\u{200b}c\u{2066}d\u{ad}e\u{3164}f\u{e0041}g`,
  );
});

test('a line break ends no line of a table, and stays where lines are wanted', () => {
  expect(printable('one\n\ttwo')).toBe(String.raw`one\n\ttwo`);
  expect(printable('one\n\ttwo\r\n', { lines: true })).toBe('one\n\ttwo\\r\n');
});

test('letters of all languages, and emoji, stay as they are', () => {
  const joined = [
    'می\u200cخواهم',
    'ශ්\u200dරී',
    'क्\u200dष',
    '👩\u200d💻',
    '👩🏽\u200d💻',
    '🏳\ufe0f\u200d🌈',
    '☎\ufe0e',
  ];
  for (const text of ['Grüße', '日本語', 'Здравствуйте', '✔️', '👍🏽', 'é', ...joined]) {
    expect(printable(text)).toBe(text);
    expect(shown(`${text}\r\n`)).toBe(`${text}\n`);
  }
});

test('a joiner that joins nothing hides nothing either, and none is left in what a person allows', () => {
  expect(printable('pay\u200cpal\u200d \u200dм\u200cи م\u200c\u200cم')).toBe(
    String.raw`pay\u{200c}pal\u{200d} \u{200d}м\u{200c}и م\u{200c}\u{200c}م`,
  );
  expect(printable('می\u200cخواهم 👩\u200d💻', { exact: true })).toBe(
    String.raw`می\u{200c}خواهم 👩\u{200d}💻`,
  );
  // Where it makes an emoji of what stands before it, it is seen; anywhere else many of them could spell something.
  expect(printable('❤\ufe0f 1\ufe0f\u20e3 👍🏽\ufe0f a\ufe0f\ufe0f1\ufe0f', { exact: true })).toBe(
    `❤\ufe0f 1\ufe0f\u20e3 👍🏽\ufe0f a\\u{fe0f}\\u{fe0f}1\\u{fe0f}`,
  );
});

test('wide letters and emoji count as two cells, and marks upon letters as none', () => {
  expect(['abc', '日本', '𠀀𰻝', '👍🏽', 'e\u0301', ''].map(widthOf)).toEqual([3, 4, 4, 2, 1, 0]);
});

test('the beginning of a text is short where there is no room for it at all', () => {
  for (const room of [1, 0, -12]) expect(brief('x'.repeat(20_000), room)).toBe('…');
});

test('the beginning of a text fills the cells that it is given, and ends with a whole character', () => {
  expect(brief('漢'.repeat(60), 30)).toBe(`${'漢'.repeat(14)}…`);
  expect(brief('漢'.repeat(15), 30)).toBe('漢'.repeat(15));
  const family = '👩\u200d👩\u200d👧\u200d👦';
  for (const text of ['😀', 'a😀', '👍🏽', family, 'e\u0301', `x${family}`].map((one) => one.repeat(500)))
    for (let width = 1; width < 12; width += 1) {
      const line = brief(text, width);
      expect(text.startsWith(line.slice(0, -1))).toBe(true);
      expect(line).not.toMatch(/\p{Cs}|\u200d…$/u);
      expect(widthOf(line)).toBeLessThanOrEqual(width);
    }
});

test('a terminal that does not say how wide it is has some columns, and one that does has those', () => {
  const widths = [0, undefined, 30].map((columns) => ({ columns }) as NodeJS.WriteStream); // the rest is not looked at
  expect(widths.map((stream) => columnsOf(stream))).toEqual([100, 100, 30]);
});
