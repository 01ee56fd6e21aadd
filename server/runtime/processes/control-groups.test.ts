/** Bounds on all processes of a command together, where the kernel lets this machine have them. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { bashTool } from '../tools/bash.ts';
import { createJobs } from '../tools/jobs.ts';
import { callTool, testWorkspace } from '../tools/test-workspace.ts';
import { detectControlGroups } from './control-groups.ts';
import { sandboxHere } from './test-sandbox.ts';

const groups = detectControlGroups();
const sandbox = await sandboxHere({ limits: { processes: 300, memoryBytes: 256 * 1024 ** 2 } });
const when = test.skipIf('unavailable' in sandbox);
const mebibytes = 1024 ** 2;

test('either there are groups, or it is said why not', () => {
  if ('unavailable' in groups)
    expect(groups.unavailable).toMatch(/^(they exist only on Linux|version 2: .+; version 1: .+)$/);
  if ('unavailable' in sandbox) return;
  expect(sandbox.totalsUnbounded).toBe('unavailable' in groups ? groups.unavailable : null);
});

test('a group is gone once its command has ended, and a new one says nothing of limits', async () => {
  if ('unavailable' in groups) return expect(groups.unavailable).toMatch(/^they exist|^version 2: /);
  const group = groups.open({ processes: 10, memoryBytes: 64 * mebibytes });
  expect(group.entrances.every((file) => existsSync(file))).toBe(true);
  expect(group.exceeded()).toBe(null);
  await group.close();
  expect(group.entrances.some((file) => existsSync(dirname(file)))).toBe(false);
});

test('what is swapped out counts as well, where the kernel counts it', async () => {
  if ('unavailable' in groups) return expect(groups.unavailable).toMatch(/^they exist|^version 2: /);
  const group = groups.open({ processes: 10, memoryBytes: 64 * mebibytes });
  onTestFinished(() => group.close());
  const limitOf = (file: string) =>
    group.entrances
      .map((entrance) => join(dirname(entrance), file))
      .filter((path) => existsSync(path))
      .map((path) => Number(readFileSync(path, 'utf8')));
  for (const limit of limitOf('memory.memsw.limit_in_bytes')) expect(limit).toBe(64 * mebibytes);
  for (const limit of limitOf('memory.swap.max')) expect(limit).toBe(0);
  expect([...limitOf('memory.limit_in_bytes'), ...limitOf('memory.max')]).toEqual([64 * mebibytes]);
});

when('a command is in a group with these limits where nothing else is set (needs bubblewrap)', async () => {
  const asStarted = await sandboxHere();
  if ('unavailable' in asStarted) throw new Error(asStarted.unavailable);
  const wrapped = await asStarted.wrap(['true'], { workspacePath: testWorkspace().path, network: false });
  onTestFinished(() => wrapped.release());
  expect(wrapped.limits.processes).toBe(256);
  if ('unavailable' in groups) return expect(wrapped.limits.memoryBytes).toBe(4 * 1024 ** 3);
  const folders = wrapped.args.filter((word) => word.endsWith('/cgroup.procs')).map((file) => dirname(file));
  const limitsIn = (...files: string[]) =>
    folders
      .flatMap((folder) => files.map((file) => join(folder, file)))
      .filter((path) => existsSync(path))
      .map((path) => Number(readFileSync(path, 'utf8')));
  expect(limitsIn('pids.max')).toEqual([256]);
  expect(limitsIn('memory.max', 'memory.limit_in_bytes')).toEqual([4 * 1024 ** 3]);
});

when(
  'three hundred forks at once and a gibibyte in many processes are held to the limits, and the machine goes on (needs bubblewrap)',
  async () => {
    if ('unavailable' in sandbox) throw new Error(sandbox.unavailable);
    const bash = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });
    const call = (command: string) =>
      callTool(bash, { command, timeout_seconds: 20 }, testWorkspace().context());
    const forks = await call('for i in $(seq 300); do sleep 60 & done; wait; exit 1');
    expect(forks.content).toMatch(/too many processes|Resource temporarily unavailable|retry/i);
    const memory = await call(
      'for i in 1 2 3 4 5 6 7 8; do (head -c 128M /dev/zero | tail -c 128M | (sleep 3; wc -c)) & done; wait; exit 1',
    );
    expect(memory.content).toContain('too much memory');
  },
);
