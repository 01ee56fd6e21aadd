/** The order of work in a session: one at a time, whatever fails, and nobody waits to be told that they are stopped. */
import { expect, test } from 'vitest';
import { createSessionQueue } from './session-queue.ts';

const going = new AbortController().signal;

/** Work that is recorded, and ends when it is let go. */
function recorder() {
  const log: string[] = [];
  const piece = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const work = async () => {
      log.push(`${name} begins`);
      await promise;
      log.push(`${name} ends`);
    };
    return { work, finish: resolve, fail: () => reject(new Error(name)) };
  };
  return { log, piece };
}

/** Lets everything happen that is ready to. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the next begins when the one before it has ended, also by a failure', async () => {
  const queue = createSessionQueue();
  const { log, piece } = recorder();
  const [a, b] = [piece('a'), piece('b')];
  const first = queue.turn('ses_1', going, a.work);
  const second = queue.turn('ses_1', going, b.work);
  await settled();
  expect(log).toEqual(['a begins']);
  a.fail();
  b.finish();
  await expect(first).rejects.toThrow('a');
  await second;
  expect(log).toEqual(['a begins', 'b begins', 'b ends']);
});

test('what is stopped while it waits is worked off at once, and lets nobody past', async () => {
  const queue = createSessionQueue();
  const { log, piece } = recorder();
  const [a, b, c] = [piece('a'), piece('b'), piece('c')];
  const stop = new AbortController();
  const turns = [
    queue.turn('ses_1', going, a.work),
    queue.turn('ses_1', stop.signal, b.work),
    queue.turn('ses_1', going, c.work),
  ];
  b.finish();
  c.finish();
  stop.abort();
  await turns[1];
  await settled();
  expect(log).toEqual(['a begins', 'b begins', 'b ends']);
  a.finish();
  await Promise.all(turns);
  expect(log.slice(3)).toEqual(['a ends', 'c begins', 'c ends']);
});
