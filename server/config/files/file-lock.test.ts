/** Locks: one at a time, and none that outlives its process. */
import { mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nameOwner } from '../../process-name.ts';
import { testProject } from '../test-project.ts';
import { withLock } from './file-lock.ts';

test('one action runs at a time, and each gives back its lock, even one that fails', async () => {
  const { path } = await testProject();
  let running = 0;
  const most: number[] = [];
  const action = async () => {
    most.push(++running);
    await new Promise(setImmediate);
    running -= 1;
  };
  await expect(withLock(path('locks'), 'one', () => Promise.reject(new Error('failed')))).rejects.toThrow(
    'failed',
  );
  await Promise.all(Array.from({ length: 20 }, () => withLock(path('locks'), 'one', action)));
  expect(most).toEqual(Array.from({ length: 20 }, () => 1));
  expect(await readdir(path('locks'))).toEqual([]);
});

test('actions under other names do not wait', async () => {
  const { path } = await testProject();
  await withLock(path('locks'), 'one', () => withLock(path('locks'), 'two', async () => undefined));
});

// No process has the number 0x7fffffff: systems count far less.
test.each([
  ['whose process died', { token: 'a', pid: 0x7fffffff, host: hostname() }, 0],
  ['that another machine left behind', { token: 'a', pid: process.pid, host: 'elsewhere' }, 60],
])('a lock %s is taken over, by one only', async (_, holder, secondsAgo) => {
  const { path } = await testProject();
  await mkdir(path('locks'));
  const file = join(path('locks'), 'one.lock');
  await writeFile(file, JSON.stringify(holder));
  const then = Date.now() / 1000 - secondsAgo;
  await utimes(file, then, then);
  let running = 0;
  const action = async () => {
    expect(++running).toBe(1);
    await new Promise(setImmediate);
    running -= 1;
  };
  await Promise.all(Array.from({ length: 10 }, () => withLock(path('locks'), 'one', action)));
  expect(await readdir(path('locks'))).toEqual([]);
});

test('a lock is taken over where each who wanted to take it over died, too', async () => {
  const { path } = await testProject();
  await mkdir(path('locks'));
  const dead = (token: string) => JSON.stringify({ token, pid: 0x7fffffff, host: hostname() });
  await writeFile(join(path('locks'), 'one.lock'), dead('a'));
  await writeFile(join(path('locks'), 'one.lock.a'), dead('b'));
  await writeFile(join(path('locks'), 'one.lock.b'), dead('c'));
  await Promise.all(Array.from({ length: 10 }, () => withLock(path('locks'), 'one', async () => undefined)));
  expect(await readdir(path('locks'))).toEqual([]);
});

test('a lock of a living process is not, however long that stood still', async () => {
  const { path } = await testProject();
  const file = join(path('locks'), 'one.lock');
  await mkdir(path('locks'));
  await writeFile(
    file,
    JSON.stringify({ token: 'a', owner: nameOwner(), pid: process.pid, host: hostname() }),
  );
  const then = Date.now() / 1000 - 3600;
  await utimes(file, then, then);
  let isHeld = true;
  const waiting = withLock(path('locks'), 'one', async () => isHeld);
  await new Promise((resolve) => setTimeout(resolve, 300));
  isHeld = false;
  await rm(file);
  expect(await waiting).toBe(false);
});

test('a lock of a living process is not while it works', async () => {
  const { path } = await testProject();
  const order: string[] = [];
  await withLock(path('locks'), 'one', async () => {
    const waiting = withLock(path('locks'), 'one', async () => order.push('second'));
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setTimeout(resolve, 1));
    order.push('first');
    return { waiting };
  }).then(({ waiting }) => waiting);
  expect(order).toEqual(['first', 'second']);
});
