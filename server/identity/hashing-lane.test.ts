/** The lane of costly work: how much of it goes on at once, whose turn is next, and who is refused. */
import { expect, test } from 'vitest';
import { createLane } from './hashing-lane.ts';

/** Work that ends when it is told to. */
function begun(size: { atOnce: number; mostWaiting: number }) {
  const lane = createLane(size);
  const atWork: { name: string; end: () => void; fail: () => void }[] = [];
  const enter = (name: string) =>
    lane.enter(
      () =>
        new Promise<string>((resolve, reject) => {
          atWork.push({ name, end: () => resolve(name), fail: () => reject(new Error(name)) });
        }),
    );
  const settle = () => new Promise(setImmediate);
  return { enter, atWork, settle, queue: lane.queue };
}

test('so much goes on at once, and what waits has its turn in order, also after a failure', async () => {
  const { enter, atWork, settle } = begun({ atOnce: 2, mostWaiting: 5 });
  const entered = ['a', 'b', 'c', 'd'].map((name) => enter(name));
  await settle();
  expect(atWork.map(({ name }) => name)).toEqual(['a', 'b']);
  atWork[0]?.fail();
  await expect(entered[0]).rejects.toThrow('a');
  await settle();
  expect(atWork.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
  for (const name of ['b', 'c', 'd']) {
    atWork.find((one) => one.name === name)?.end();
    await settle();
  }
  expect(await Promise.all(entered.slice(1))).toEqual(['b', 'c', 'd']);
});

test('more than may wait is refused, until somebody has had their turn', async () => {
  const { enter, atWork, settle, queue } = begun({ atOnce: 1, mostWaiting: 1 });
  const entered = [enter('a'), enter('b')];
  expect(queue()).toEqual({ waiting: 1, limit: 1 });
  await expect(enter('c')).rejects.toMatchObject({ code: 'overloaded', status: 503 });
  atWork[0]?.end();
  await settle();
  entered.push(enter('d'));
  for (const index of [1, 2]) {
    atWork[index]?.end();
    await settle();
  }
  expect(await Promise.all(entered)).toEqual(['a', 'b', 'd']);
  expect(queue()).toEqual({ waiting: 0, limit: 1 });
});
