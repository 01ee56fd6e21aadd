/** What all of a runtime's tools have in common is what its options say. */
import { symlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { hookBench, hookFolder } from './hooks/test-hooks.ts';
import { findExecutable } from './processes/executable.ts';

const { attempt } = hookBench();

test.skipIf(!findExecutable('bwrap'))(
  'folders of the service are hidden from commands also where they are named by a link (needs bubblewrap)',
  async () => {
    const folder = hookFolder();
    await mkdir(join(folder.path, 'real'));
    folder.write('real/key', 'the secret', 0o644);
    symlinkSync('real', join(folder.path, 'state'));
    const { results } = await attempt(folder, {
      call: ['cat real/key', 'cat state/key'].map((command) => ({ name: 'bash', arguments: { command } })),
      query: { permissionMode: 'bypass' },
      options: { hiddenPaths: [join(folder.path, 'state')] },
    });
    expect(results).toHaveLength(2);
    expect(JSON.stringify(results)).not.toContain('the secret');
  },
);

test('a single file of the service is shown by no tool, whoever would allow it', async () => {
  const folder = hookFolder();
  folder.write('../keys', 'the secret', 0o644);
  const { results } = await attempt(folder, {
    call: [
      { name: 'view', arguments: { file_path: '../keys' } },
      { name: 'grep', arguments: { pattern: 'secret', path: '..' } },
    ],
    query: { permissionMode: 'bypass' },
    options: { hiddenPaths: [join(folder.path, '../keys')] },
  });
  expect(results.map(({ is_error }) => is_error)).toEqual([true, true]);
  expect(JSON.stringify(results)).not.toContain('the secret');
});
