/** Groups that hold what a command starts, where the kernel lets this process make any. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { startGroup } from './process-group.ts';
import { tracking, whyProcessesMayOutlive } from './tracking-group.ts';

const groups = tracking();

test('either there are groups, or it is said why not', () => {
  if ('unavailable' in groups) expect(whyProcessesMayOutlive()).toMatch(/^(no control group|control groups)/);
  else expect(whyProcessesMayOutlive()).toBeNull();
});

test('the end of a group is the end of all that is in it, and of the group', async () => {
  if ('unavailable' in groups) return expect(whyProcessesMayOutlive()).not.toBeNull();
  const group = groups.open();
  const [file = '', ...words] = group.entering;
  const script = 'trap "" TERM INT HUP; setsid sleep 600 & (setsid sh -c "sleep 600 & exit") ; echo $$; wait';
  const child = spawn(file, [...words, '/bin/sh', '-c', script], { stdio: ['ignore', 'pipe', 'ignore'] });
  await once(child.stdout, 'data');
  const entrance = group.entering.at(-1) ?? '';
  await expect.poll(() => readFileSync(entrance, 'utf8').trim().split('\n').length).toBeGreaterThanOrEqual(3);
  await group.end();
  expect(existsSync(dirname(entrance))).toBe(false);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  expect(child.signalCode).toBe('SIGKILL');
});

test('what the kernel takes for too long leaves no group behind', async () => {
  const folderOfGroups = () => {
    if ('unavailable' in groups) return [];
    const trial = groups.open();
    const folder = dirname(dirname(trial.entering.at(-1) ?? ''));
    return [trial.end().then(() => readdirSync(folder).filter((name) => name.includes(`-${process.pid}-`)))];
  };
  const [before = []] = await Promise.all(folderOfGroups());
  const env = { PATH: '/usr/bin:/bin', INPUT: 'x'.repeat(200_000) };
  const tooLong = {
    file: 'sh',
    args: ['-c', 'true'],
    cwd: '/',
    env,
    stdio: 'ignore',
    wrapped: false,
  } as const;
  expect(() => startGroup(tooLong)).toThrow('E2BIG');
  const [after = []] = await Promise.all(folderOfGroups());
  expect(after).toEqual(before);
});

test('a program that is not there is told of as before, whatever is put in front of it', async () => {
  const missing = {
    file: '/nowhere/program',
    args: [],
    cwd: '/',
    env: {},
    stdio: 'ignore',
    wrapped: false,
  } as const;
  await expect(startGroup(missing).exited).rejects.toMatchObject({ code: 'ENOENT' });
  const there = startGroup({
    ...missing,
    file: 'sh',
    args: ['-c', 'exit 7'],
    env: { PATH: '/usr/bin:/bin' },
  });
  await there.exited;
  expect(there.child.exitCode).toBe(7);
  await there.endCertainly();
});
