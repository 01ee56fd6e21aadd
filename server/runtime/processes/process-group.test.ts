/** The end of a process with all that it has started. */
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { startGroup } from './process-group.ts';

// What is frozen ends only when it is thawed: it stands for what a busy machine comes to late.
test('what is killed is waited for until it is gone', async (context) => {
  const folder = freezer();
  if (folder === null) return context.skip('the kernel lets this process freeze none');
  const { child, endCertainly } = startGroup({
    file: '/bin/sh',
    args: ['-c', 'setsid sleep 600 > /dev/null & echo $!; wait'],
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    stdio: ['ignore', 'pipe', 'ignore'],
    wrapped: true,
  });
  if (child.stdout === null) throw new Error('It has a pipe.');
  const [line] = await once(child.stdout, 'data');
  const pid = Number(String(line));
  await expect.poll(() => commandOf(pid)).toBe('sleep 600 ');
  writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  writeFileSync(join(folder, 'freezer.state'), 'FROZEN');
  await expect.poll(() => readFileSync(join(folder, 'freezer.state'), 'utf8')).toBe('FROZEN\n');
  let isOver = false;
  const ended = endCertainly().finally(() => {
    isOver = true;
  });
  await sleep(200);
  expect([isOver, commandOf(pid)]).toEqual([false, 'sleep 600 ']);
  writeFileSync(join(folder, 'freezer.state'), 'THAWED');
  await ended;
  expect(commandOf(pid)).toBe('');
});

test('one that does not end, and shows no mark, is not waited for for ever', async (context) => {
  const folder = freezer();
  if (folder === null) return context.skip('the kernel lets this process freeze none');
  const { child, endCertainly } = startGroup({
    file: '/bin/sh',
    // Without variables nobody can tell that it is of this group.
    args: ['-c', 'exec env -i sleep 600'],
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    stdio: 'ignore',
    wrapped: true,
  });
  const pid = child.pid ?? 0;
  await expect.poll(() => commandOf(pid)).toBe('sleep 600 ');
  writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  writeFileSync(join(folder, 'freezer.state'), 'FROZEN');
  await expect.poll(() => readFileSync(join(folder, 'freezer.state'), 'utf8')).toBe('FROZEN\n');
  const outcome = await Promise.race([endCertainly().then(() => 'given up'), sleep(15_000, 'waits')]);
  expect([outcome, commandOf(pid)]).toEqual(['given up', 'sleep 600 ']);
}, 30_000);

/** A control group that can be frozen, and is thawed with the end of the test; null where none can be made. */
function freezer(): string | null {
  const folder = `/sys/fs/cgroup/freezer/service-test-${process.pid}`;
  try {
    mkdirSync(folder);
  } catch {
    return null; // Whatever is in the way: it is another kernel, or for others to say.
  }
  onTestFinished(async () => {
    writeFileSync(join(folder, 'freezer.state'), 'THAWED');
    await expect.poll(() => readFileSync(join(folder, 'cgroup.procs'), 'utf8')).toBe('');
    rmdirSync(folder);
  });
  return folder;
}

/** Empty where it has ended. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
