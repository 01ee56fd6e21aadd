/** Guessing what was meant. */
import { expect, test } from 'vitest';
import { nearest } from './nearest.ts';

const known = ['models', 'providers', 'max_tokens', 'top_p', 'top_k', 'disable'];

test.each([
  ['modles', 'models'],
  ['model', 'models'],
  ['provider', 'providers'],
  ['maxTokens', 'max_tokens'],
  ['max-tokens', 'max_tokens'],
  ['Disabled', 'disable'],
  ['topk', 'top_k'],
])('%s was meant as %s', (written, meant) => {
  expect(nearest(written, known)).toBe(meant);
});

test.each(['', 'x', 'environment', 'm'.repeat(100_000)])(
  'nothing known is near enough to %.20s',
  (written) => {
    expect(nearest(written, known)).toBeNull();
  },
);

test('where nothing is known, nothing was meant', () => {
  expect(nearest('models', [])).toBeNull();
});
