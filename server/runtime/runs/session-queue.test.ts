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

const at = (turn: number, signal = going) => ({ sessionId: 'ses_1', turn, signal });

/** Lets everything happen that is ready to. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the next begins when the one before it has ended, also by a failure', async () => {
  const queue = createSessionQueue(createEventHub(), nobody);
  const { log, piece } = recorder();
  const [a, b] = [piece('a'), piece('b')];
  const first = queue.turn(at(1), a.work);
  const second = queue.turn(at(2), b.work);
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

test('an earlier turn that comes later, as one that was taken over, goes first', async () => {
  const hub = createEventHub();
  const elsewhere = new Set([1]);
  const queue = createSessionQueue(hub, async ({ turn }) => [...elsewhere].some((other) => other < turn));
  const { log, piece } = recorder();
  const [a, b, c] = [piece('a'), piece('b'), piece('c')];
  for (const { finish } of [a, b, c]) finish();
  const later = [queue.turn(at(3), c.work), queue.turn(at(2), b.work)];
  await settled();
  expect(log).toEqual([]);
  elsewhere.clear();
  const taken = queue.turn(at(1), a.work);
  await Promise.all([taken, ...later]);
  expect(log.filter((line) => line.endsWith('begins'))).toEqual(['a begins', 'b begins', 'c begins']);
});

test('what another process works on is waited for, and only the first in line asks for it', async () => {
  const asked: number[] = [];
  let busy = true;
  const hub = createEventHub();
  const queue = createSessionQueue(hub, async ({ turn }) => {
    asked.push(turn);
    return busy;
  });
  const { piece } = recorder();
  const [a, b] = [piece('a'), piece('b')];
  for (const { finish } of [a, b]) finish();
  const turns = [queue.turn(at(2), a.work), queue.turn(at(3), b.work)];
  await settled();
  hub.notify('ses_1');
  await settled();
  expect(new Set(asked)).toEqual(new Set([2]));
  busy = false;
  hub.notify('ses_1');
  await Promise.all(turns);
});

test('what is stopped while it waits is worked off at once, and lets nobody past', async () => {
  const queue = createSessionQueue(createEventHub(), nobody);
  const { log, piece } = recorder();
  const [a, b, c] = [piece('a'), piece('b'), piece('c')];
  const stop = new AbortController();
  const turns = [
    queue.turn(at(1), a.work),
    queue.turn(at(2, stop.signal), b.work),
    queue.turn(at(3), c.work),
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
