/** Which folders above the one that an agent works in belong to its project. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { projectFolders } from './project-folders.ts';

/** A folder with a repository, and one below it that an agent works in. */
function project() {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'service-project-')));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const work = join(root, 'job/src');
  mkdirSync(work, { recursive: true });
  mkdirSync(join(root, '.git'));
  writeFileSync(join(root, '.git/HEAD'), 'ref: refs/heads/main\n');
  return { root, work };
}

test('are all from the root of the repository on', async () => {
  const { root, work } = project();
  expect(await projectFolders(work, false)).toEqual([root, join(root, 'job'), work]);
  expect(await projectFolders(work, true)).toEqual([work]);
});

test.skipIf(process.getuid?.() !== 0)(
  'are not above the work where a stranger has put a repository into a folder of everybody',
  async () => {
    const { root, work } = project();
    chownSync(join(root, '.git'), 65534, 65534);
    // In a folder where nobody else may write, whoever owns it has let them.
    expect(await projectFolders(work, false)).toHaveLength(3);
    chmodSync(root, 0o1777);
    expect(await projectFolders(work, false)).toEqual([work]);
  },
);
