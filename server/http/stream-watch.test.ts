/** How the credentials of open streams are asked after. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Caller, Ports } from './ports.ts';
import { createStreamWatch } from './stream-watch.ts';

test('a few at once, and a revoked one ends its streams alone', async () => {
  let [atOnce, most] = [0, 0];
  const asked: string[] = [];
  const identity = {
    stillValid: async (callers: readonly Caller[]) => {
      asked.push(callers[0]?.credentialId ?? '');
      atOnce += 1;
      most = Math.max(most, atOnce);
      await delay(5);
      atOnce -= 1;
      return callers.map(({ credentialId }) => credentialId !== 'revoked');
    },
  };
  const watch = createStreamWatch({ identity } as unknown as Ports); // all that is asked for where nothing fails
  const open = (credentialId: string) => watch.watch({ credentialId } as Caller, true); // all that is looked at
  const others = Array.from({ length: 20 }, (_, index) => open(`key_${index}`));
  const revoked = [open('revoked'), open('revoked')];
  await expect.poll(() => revoked.every(({ end }) => end.aborted), { timeout: 20_000 }).toBe(true);
  await expect.poll(() => new Set(asked).size).toBe(21);
  // In the next round all of them are asked after again.
  expect(new Set(asked)).toEqual(new Set([...others.map((_, index) => `key_${index}`), 'revoked']));
  expect(most).toBe(4);
  expect(others.some(({ end }) => end.aborted)).toBe(false);
});
