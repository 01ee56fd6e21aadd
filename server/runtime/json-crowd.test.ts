/** What is too much to be parsed is found wherever it stands, and in whatever pieces it comes. */
import { describe, expect, test } from 'vitest';
import { JsonCrowd, parseHeld } from './json-crowd.ts';

const values = '{},'.repeat(300_000);
const text = `"${'{,['.repeat(300_000)}"`;

describe('too many values', () => {
  test.each([
    ['plainly', `[${values}1]`],
    ['behind a text', `["\\\\",${values}1]`],
    ['behind a text with an escaped mark', `["\\"",${values}1]`],
    ['in an event behind a line with a mark', `id: "\ndata: [${values}1]`],
    ['in an event behind a line with a mark and a backslash', `id: "\\\ndata: [${values}1]`],
    ['in an event behind a line that ends in the old way', `id: "\\\rdata: [${values}1]`],
    ['as lists in lists', '['.repeat(600_000)],
  ])('are found that stand %s', (_, written) => {
    const bytes = Buffer.from(written);
    expect(new JsonCrowd().isIn(bytes)).toBe(true);
    for (const cut of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const crowd = new JsonCrowd();
      crowd.isIn(bytes.subarray(0, cut));
      expect(crowd.isIn(bytes.subarray(cut))).toBe(true);
    }
    expect(() => parseHeld(written)).toThrow('it holds more values than can be held');
  });
});

test('what stands in texts is no value, wherever they are cut', () => {
  const written = `{"a":${text},"b\\"":${text}}`;
  expect(parseHeld(written)).toEqual(JSON.parse(written));
  const bytes = Buffer.from(written);
  for (const cut of [5, 6, 7, 900_007, 900_008, 900_009, 900_010, 900_011, 900_012, 900_013]) {
    const crowd = new JsonCrowd();
    expect(crowd.isIn(bytes.subarray(0, cut))).toBe(false);
    expect(crowd.isIn(bytes.subarray(cut))).toBe(false);
  }
});

test('each text has its own values', () => {
  const crowd = new JsonCrowd();
  for (let times = 0; times < 5; times += 1) {
    expect(crowd.isIn(Buffer.from(`[${values.slice(0, 600_000)}"`))).toBe(false);
    crowd.restart();
  }
});
