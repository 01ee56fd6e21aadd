/** What `make clean` removes, as make says it without running it. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('`make clean` leaves nothing that was compiled or generated, and the data', async () => {
  const { stdout } = await promisify(execFile)('make', ['--dry-run', 'clean'], {
    cwd: join(import.meta.dirname, '..'),
    env: { PATH: process.env.PATH },
  });
  const removed = stdout.trim().split(' ');
  const made = ['node_modules', '.venv', 'server/contract', 'clients/*/generated', 'docs/generated'];
  expect(removed).toEqual(expect.arrayContaining([...made, 'dist', 'clients/*/dist']));
  expect(removed).not.toContain('.data');
});
