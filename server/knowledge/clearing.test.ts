/** Clearing in the background: until nothing is left, again after a failure, and no longer than the server runs. */
import { expect, test } from 'vitest';
import { createLog } from '../log.ts';
import { startClearing } from './clearing.ts';

const log = createLog('silent');

test('all parts are deleted one after the other, what comes later too, and a failure keeps nothing from it', async () => {
  let left = 3;
  let atOnce = 0;
  let mostAtOnce = 0;
  let fails = true;
  const clear = async (): Promise<number> => {
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    await new Promise((passed) => setTimeout(passed, 10));
    atOnce -= 1;
    if (fails) {
      fails = false;
      throw new Error('the database is away');
    }
    if (left === 0) return 0;
    left -= 1;
    return 1000;
  };
  const clearing = startClearing({ chunks: { clear }, log, pollMs: 5 });
  await expect.poll(() => left).toBe(0);
  left = 2;
  await expect.poll(() => left).toBe(0);
  await clearing.close();
  expect(mostAtOnce).toBe(1);
});

test('a server that stops waits for the part that is being deleted, and begins no other', async () => {
  const part = Promise.withResolvers<number>();
  let parts = 0;
  const clear = (): Promise<number> => {
    parts += 1;
    return part.promise;
  };
  const clearing = startClearing({ chunks: { clear }, log });
  let closed = false;
  const closing = clearing.close().then(() => {
    closed = true;
  });
  await new Promise(setImmediate);
  expect(closed).toBe(false);
  part.resolve(1000);
  await closing;
  expect(parts).toBe(1);
});
