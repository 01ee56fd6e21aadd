/** Finding programs on search paths as people really have them. */
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { findExecutable } from './executable.ts';

test('a program is found behind folders that are not there, not folders, or cannot be looked into', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'service-path-'));
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true });
  });
  const [loop, file, closed, decoy, programs] = ['loop', 'file', 'closed', 'decoy', 'programs'].map((name) =>
    join(folder, name),
  ) as [string, string, string, string, string]; // as many as there are names
  await symlink(loop, loop);
  await writeFile(file, '');
  await mkdir(closed, { mode: 0o000 });
  await mkdir(join(decoy, 'tool'), { recursive: true });
  await mkdir(programs);
  await writeFile(join(programs, 'tool'), '#!/bin/sh\n');
  vi.stubEnv('PATH', ['relative', join(folder, 'absent'), loop, file, closed, decoy, programs].join(':'));
  expect(findExecutable('tool')).toBeNull();
  await chmod(join(programs, 'tool'), 0o755);
  expect(findExecutable('tool')).toBe(join(programs, 'tool'));
});
