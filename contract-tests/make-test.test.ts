/** Which tests `make test ONLY=…` runs, as make says it without running them. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

// Without what a make that runs these tests tells the one below it.
const makeTest = (only: string) =>
  promisify(execFile)('make', ['--dry-run', 'test', `ONLY=${only}`], {
    cwd: root,
    env: { PATH: process.env.PATH },
  });

test.each([
  ['server/store', 'server'],
  ['clients/terminal/run clients/terminal/log', 'clients/terminal'],
  // The name of a test, in which the words of other workspaces may stand.
  ['server/store -t codegen clients/terminal', 'server'],
])('ONLY="%s" runs tests of %s', async (only, workspace) => {
  const { stdout } = await makeTest(only);
  expect(stdout.trim().split('\n').at(-1)).toMatch(new RegExp(`vitest.mjs run --root ${workspace} ${only}$`));
});

test.each([
  ['server/store clients/terminal/run', 'clients/terminal/run'],
  ['clients/terminal/run clients/typescript codegen', 'clients/typescript codegen'],
])('ONLY="%s" is refused, and the rest of it named', async (only, rest) => {
  await expect(makeTest(only)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`run by itself: ${rest}.  Stop.`),
  });
});
