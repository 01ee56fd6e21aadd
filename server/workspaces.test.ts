/** Whom the workspaces of a server belong to, and as whom commands run in them. */
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from './log.ts';
import { detectSandbox } from './runtime/processes/sandbox.ts';
import { bashTool } from './runtime/tools/bash.ts';
import { createJobs } from './runtime/tools/jobs.ts';
import { callTool, testWorkspace } from './runtime/tools/test-workspace.ts';
import { writeTool } from './runtime/tools/write.ts';
import { workspaceFolder } from './workspaces.ts';

const asRoot = process.getuid?.() === 0;
const log = createLog('silent');

async function dataFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-workspaces-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const data = join(folder, 'data');
  await mkdir(join(data, 'workspaces'), { recursive: true, mode: 0o700 });
  // The temporary folder itself is closed to others; a server's data lies where the way is open.
  await chmod(folder, 0o711);
  return data;
}

test('a workspace belongs to the server’s user, or, where that is root, to an ordinary one', async () => {
  const data = await dataFolder();
  const folder = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
  const { uid, mode } = await stat(folder);
  expect(mode & 0o777).toBe(0o700);
  if (asRoot) expect(uid).not.toBe(0);
  else expect(uid).toBe(process.getuid?.());
});

test('what root has made in it before belongs to that user as well, and the folders above stay closed but for passing', async () => {
  const data = await dataFolder();
  await mkdir(join(data, 'workspaces/ws_1/src'), { recursive: true });
  await writeFile(join(data, 'workspaces/ws_1/src/a.txt'), 'x');
  await writeFile(join(data, 'secret'), 'x', { mode: 0o600 });
  const folder = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
  const owner = (await stat(folder)).uid;
  expect((await stat(join(folder, 'src/a.txt'))).uid).toBe(owner);
  expect((await stat(join(data, 'secret'))).uid).toBe(process.getuid?.());
  expect((await stat(data)).mode & 0o066).toBe(0);
});

test('commands and tools work in it together, whoever of them made a file; none of a command’s processes is root', async () => {
  const sandbox = await detectSandbox();
  if ('unavailable' in sandbox) throw new Error(sandbox.unavailable);
  const data = await dataFolder();
  const folder = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
  const context = testWorkspace().context({ workspacePath: folder });
  const bash = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });
  const write = writeTool({ requireSandbox: true });
  expect(await callTool(write, { file_path: 'made/by/tool.txt', content: 'one\n' }, context)).toMatchObject({
    is_error: false,
  });
  const command =
    'echo two >> made/by/tool.txt && mkdir made/also && echo x > made/also/file && cat /proc/self/uid_map';
  const output = await callTool(bash, { command }, context);
  expect(output).toMatchObject({ is_error: false });
  expect(await readFile(join(folder, 'made/by/tool.txt'), 'utf8')).toBe('one\ntwo\n');
  const { uid } = await stat(join(folder, 'made/also/file'));
  expect(uid).toBe((await stat(folder)).uid);
  if (asRoot) expect(uid).not.toBe(0);
}, 30_000);
