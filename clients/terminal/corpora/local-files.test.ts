/** Which files are found below what a person names. */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { testHome } from '../test-command.ts';
import { filesBelow } from './local-files.ts';

test('a folder may hold more files than a call can be given', async () => {
  const { project } = testHome();
  const folder = join(project, 'below');
  mkdirSync(folder);
  execFileSync('sh', ['-c', 'seq 1 160000 | xargs -n 5000 touch'], { cwd: folder });
  const { files, failed } = await filesBelow([project]);
  expect(failed).toEqual([]);
  expect(files).toHaveLength(160_000);
  expect(files[0]).toEqual({ path: join(folder, '1'), place: 'project/below/1' });
});
