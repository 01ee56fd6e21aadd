/** What a person is told to type next is read by a shell as it was meant. */
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { asTyped, nextCommand } from './next-command.ts';

test.each(['docs', 'docs$(touch x)', 'a`touch x`b', '$5 deals', "it's", 'a "b" \\c', '*', '-x', 'a\nb'])(
  'the word %j is one word, and nothing of it is run',
  (word) => {
    const told = `printf %s ${asTyped(word)}`;
    expect(execFileSync('sh', ['-c', told], { encoding: 'utf8' })).toBe(word);
  },
);

test('it says the server that was asked', () => {
  const words = nextCommand('run', 'https://a.example', `--corpus ${asTyped('my docs')} "…"`);
  expect(words).toBe(`service run --server https://a.example --corpus 'my docs' "…"`);
});
