/** The order of work in a session: one at a time, whatever fails, and nobody waits to be told that they are stopped. */
import { expect, test } from 'vitest';
import { createEventHub } from '../events/event-hub.ts';
import { createSessionQueue } from './session-queue.ts';

const going = new AbortController().signal;
const nobody = async () => false;

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

const at = (runNumber: number, signal = going) => ({ sessionId: 'ses_1', runNumber, signal });

/** Lets everything happen that is ready to. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the next begins when the one before it has ended, also by a failure', async () => {
  const queue = createSessionQueue(createEventHub(), nobody);
  const { log, piece } = recorder();
  const [a, b] = [piece('a'), piece('b')];
  const first = queue.enter(at(1), a.work);
  const second = queue.enter(at(2), b.work);
  await settled();
  expect(log).toEqual(['a begins']);
  expect(queue.waiting()).toEqual({ inAll: 1, inOneSession: 1 });
  a.fail();
  b.finish();
  await expect(first).rejects.toThrow('a');
  await second;
  expect(log).toEqual(['a begins', 'b begins', 'b ends']);
  expect(queue.waiting()).toEqual({ inAll: 0, inOneSession: 0 });
});

test('a run with a lower number that comes later, as one that was taken over, goes first', async () => {
  const hub = createEventHub();
  const elsewhere = new Set([1]);
  const queue = createSessionQueue(hub, async ({ runNumber }) =>
    [...elsewhere].some((other) => other < runNumber),
  );
  const { log, piece } = recorder();
  const [a, b, c] = [piece('a'), piece('b'), piece('c')];
  for (const { finish } of [a, b, c]) finish();
  const later = [queue.enter(at(3), c.work), queue.enter(at(2), b.work)];
  await settled();
  expect(log).toEqual([]);
  elsewhere.clear();
  const taken = queue.enter(at(1), a.work);
  await Promise.all([taken, ...later]);
  expect(log.filter((line) => line.endsWith('begins'))).toEqual(['a begins', 'b begins', 'c begins']);
});

test('what another process works on is waited for, and only the first in line asks for it', async () => {
  const asked: number[] = [];
  let busy = true;
  const hub = createEventHub();
  const queue = createSessionQueue(hub, async ({ runNumber }) => {
    asked.push(runNumber);
    return busy;
  });
  const { piece } = recorder();
  const [a, b] = [piece('a'), piece('b')];
  for (const { finish } of [a, b]) finish();
  const entries = [queue.enter(at(2), a.work), queue.enter(at(3), b.work)];
  await settled();
  hub.notify('ses_1');
  await settled();
  expect(new Set(asked)).toEqual(new Set([2]));
  busy = false;
  hub.notify('ses_1');
  await Promise.all(entries);
});

test('what is stopped while it waits is worked off at once, and lets nobody past', async () => {
  const queue = createSessionQueue(createEventHub(), nobody);
  const { log, piece } = recorder();
  const [a, b, c] = [piece('a'), piece('b'), piece('c')];
  const stop = new AbortController();
  const entries = [
    queue.enter(at(1), a.work),
    queue.enter(at(2, stop.signal), b.work),
    queue.enter(at(3), c.work),
  ];
  b.finish();
  c.finish();
  stop.abort();
  await entries[1];
  await settled();
  expect(log).toEqual(['a begins', 'b begins', 'b ends']);
  a.finish();
  await Promise.all(entries);
  expect(log.slice(3)).toEqual(['a ends', 'c begins', 'c ends']);
});
