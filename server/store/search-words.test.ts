/** What counts as a word of a text, and that no text takes long. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { wordsIn } from './search-words.ts';

const wordsOf = (text: string) => [...wordsIn(text)].map(({ word }) => word);

test('accents and capitals make no other word, in whichever way they are written', () => {
  expect(wordsOf('Über u\u0308ber \u00fcber')).toEqual(['uber', 'uber', 'uber']);
});

test.each(['a', '語'])('thousands of marks on %s are read in time', async (sign) => {
  const text = sign + '\u0301'.repeat(25_000) + '\u0323'.repeat(24_999);
  let words: string[] = [];
  const spent = await cpuMsOf(() => {
    words = wordsOf(text);
  });
  expect(words).toEqual([sign]);
  expect(spent).toBeLessThan(500);
});
