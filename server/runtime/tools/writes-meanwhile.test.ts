// What a command is said to have changed while tools of other sessions write the same files.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { planPutBack } from '../files/put-back.ts';
import { bashTool } from './bash.ts';
import { createFileMemory } from './file-memory.ts';
import { createJobs } from './jobs.ts';
import { callTool, type TestWorkspace, testWorkspace } from './test-workspace.ts';
import type { FileChange } from './tool.ts';
import { viewTool } from './view.ts';
import { writeTool } from './write.ts';

const rules = { requireSandbox: true };
const bash = bashTool({ sandbox: null, allowNetwork: false, jobs: createJobs() });

/** The changes that the session of the command is said to have made, while another does its work. */
async function changesOf(
  workspace: TestWorkspace,
  command: string,
  meanwhile: () => Promise<unknown>,
): Promise<FileChange[]> {
  const changes: FileChange[] = [];
  const context = workspace.context({
    recordChange: async (change) => void changes.push(change),
  });
  await callTool(viewTool(rules), { file_path: 'a' }, context);
  const waiting = `touch begun; until [ -e on ]; do sleep 0.05; done; ${command}`;
  const called = callTool(bash, { command: waiting }, context);
  await expect.poll(() => existsSync(join(workspace.path, 'begun')), { timeout: 20_000 }).toBe(true);
  await meanwhile();
  writeFileSync(join(workspace.path, 'on'), '');
  expect(await called).toMatchObject({ is_error: false });
  return changes;
}

function otherSession(workspace: TestWorkspace) {
  return workspace.context({ sessionId: 'session_2', files: createFileMemory() });
}

async function writeAsOther(workspace: TestWorkspace): Promise<void> {
  const context = otherSession(workspace);
  await callTool(viewTool(rules), { file_path: 'a' }, context);
  const written = await callTool(writeTool(rules), { file_path: 'a', content: 'theirs' }, context);
  expect(written).toMatchObject({ is_error: false });
}

test('what the tool of another session has written is not the command’s', async () => {
  const workspace = testWorkspace();
  workspace.file('a', 'one');
  expect(await changesOf(workspace, 'true', () => writeAsOther(workspace))).toEqual([]);
});

test('what the command does to it then is, and it was what they had made of it', async () => {
  const workspace = testWorkspace();
  const path = workspace.file('a', 'one');
  const changes = await changesOf(workspace, 'echo mine >> a', () => writeAsOther(workspace));
  expect(changes).toMatchObject([{ path, before: 'theirs', after: Buffer.from('theirsmine\n') }]);
});

test('what another session has gone back on is not the command’s either', async () => {
  const workspace = testWorkspace();
  const path = workspace.file('a', 'one');
  const goBack = async () => {
    const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
    const wanted = { path: 'a', known: [sha256('one')], target: sha256('zero'), mode: null };
    const plan = await planPutBack(workspace.path, rules, [
      { ...wanted, read: async () => Buffer.from('zero') },
    ]);
    const staged = await plan.stage();
    await staged.locked(() => staged.apply());
    await staged.clear();
  };
  expect(await changesOf(workspace, 'true', goBack)).toEqual([]);
  expect(readFileSync(path, 'utf8')).toBe('zero');
});

test('what an editor saves nobody can tell from the command’s', async () => {
  const workspace = testWorkspace();
  const path = workspace.file('a', 'one');
  const save = async () => writeFileSync(path, 'edited');
  expect(await changesOf(workspace, 'true', save)).toMatchObject([{ path, after: Buffer.from('edited') }]);
});
