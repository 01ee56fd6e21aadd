/** Titles of sessions that a query opened. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { titleOf } from './session-title.ts';

test.each<[prompt: string, title: string]>([
  ['Say hello.', 'Say hello.'],
  ['\n  Say\thello,\r\n and  go. ', 'Say hello, and go.'],
  [' \n\u2028', 'New session'],
  ['👋'.repeat(100), '👋'.repeat(80)],
  [`a${' '.repeat(998)}👋`, 'a \ufffd'],
])('%j is called %j', (prompt, title) => {
  expect(titleOf(prompt)).toBe(title);
});

test('megabytes are not read for a title', async () => {
  const prompt = ` ${'a '.repeat(4 << 20)}`;
  const spent = await cpuMsOf(() => expect(titleOf(prompt)).toBe('a '.repeat(40).trim()));
  expect(spent).toBeLessThan(200);
});
