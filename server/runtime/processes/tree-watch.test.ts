/** Many commands at once: each is watched, and all of them cost what one costs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { watchTree } from './tree-watch.ts';

test('each is told of its own tree, until it wants to know no more', async () => {
  const [one, other] = [await start('sleep 600 & sleep 600 & wait'), await start('sleep 600 & wait')];
  const counts = { one: 0, hasMemory: false, other: 0, looks: 0 };
  const stopOne = watchTree(one, 20, ({ descendants, residentBytes }) => {
    counts.one = descendants.length;
    // Those that only just begin have none yet.
    counts.hasMemory = residentBytes > 0;
  });
  const stopOther = watchTree(other, 60_000, ({ descendants }) => {
    counts.other = descendants.length;
    counts.looks += 1;
  });
  await expect.poll(() => counts).toMatchObject({ one: 2, hasMemory: true, other: 1 });
  stopOther();
  const { looks } = counts;
  await sleep(300);
  expect(counts.looks).toBe(looks);
  stopOne();
});

test('where a look is overdue, another who wants to know has it done at once, and Node has nothing to warn of', async () => {
  const root = await start('sleep 600 & wait');
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on('warning', warned);
  onTestFinished(() => void process.off('warning', warned));
  onTestFinished(watchTree(root, 20, () => undefined));
  // Longer than looks ever rest.
  const busyUntil = performance.now() + 1100;
  while (performance.now() < busyUntil);
  const told = new Promise((resolve) => onTestFinished(watchTree(root, 60_000, resolve)));
  expect(await told).toMatchObject({ descendants: { length: 1 } });
  expect(warnings).toEqual([]);
});

test('forty cost hardly more than one', async () => {
  const root = await start('sleep 600 & wait');
  const costOf = async (watchers: number) => {
    let looks = 0;
    const stops = Array.from({ length: watchers }, () => watchTree(root, 20, () => (looks += 1)));
    const ms = await cpuMsOf(() =>
      expect.poll(() => looks / watchers, { interval: 100 }).toBeGreaterThanOrEqual(10),
    );
    for (const stop of stops) stop();
    return (ms * watchers) / looks;
  };
  const [one, forty] = [await costOf(1), await costOf(40)];
  expect(forty).toBeLessThan(4 * one);
});

/** The process of a shell that leads a group of its own; ended with the test. */
async function start(script: string): Promise<number> {
  const child = spawn('/bin/sh', ['-c', `echo; ${script}`], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout, 'data');
  const { pid } = child;
  if (pid === undefined) throw new Error('It was not started');
  onTestFinished(() => void process.kill(-pid, 'SIGKILL'));
  return pid;
}
