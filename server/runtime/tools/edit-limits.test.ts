// Replacements that would make a text too large, and changes of large files: refused, or made without holding up anybody.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Session } from '../../contract/api.ts';
import { scriptedSettings, startServer, temporaryFolder, writeSettings } from '../../server-process.ts';
import { clientOf } from '../../test-client.ts';
import { cpuMsOf, largestHoldOf } from '../../test-cpu.ts';
import { editTool } from './edit.ts';
import { multieditTool } from './multiedit.ts';
import { callTool, testWorkspace } from './test-workspace.ts';
import { viewTool } from './view.ts';
import { writeTool } from './write.ts';

const rules = { requireSandbox: false };
const [edit, multiedit, write] = [editTool(rules), multieditTool(rules), writeTool(rules)];
const MB = 1024 * 1024;

async function workspaceWith(content: string) {
  const workspace = testWorkspace();
  const path = workspace.file('a', content);
  await callTool(viewTool(rules), { file_path: 'a' }, workspace.context());
  return { path, context: workspace.context() };
}

const doubling = (times: number) =>
  Array.from({ length: times }, () => ({ old_string: 'a', new_string: 'aa', replace_all: true }));

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

test('a few edits that double a text again and again end no server, and the model is told', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'view', arguments: { file_path: 'a' } }] } },
    {
      when: { step: 1 },
      reply: { tool_calls: [{ name: 'multiedit', arguments: { file_path: 'a', edits: doubling(29) } }] },
    },
    { reply: { text: 'The tool said: {{last_tool_result}}' } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const server = await startServer({ folder });
  const client = clientOf(server, server.key);
  const { body: session } = await client.post<Session>('/api/v1/sessions', {});
  const workspace = join(folder, 'data/workspaces', session.workspace_id);
  await mkdir(workspace, { recursive: true });
  await writeFile(join(workspace, 'a'), 'a');
  // Planned before anybody is asked, and whatever the mode forbids.
  const query = { prompt: 'Go', session_id: session.id, permission_mode: 'read_only' };
  const stream = await client.stream('/api/v1/query/stream', query);
  await stream.ended;
  const done = stream.events.at(-1);
  expect(done).toMatchObject({ name: 'done', data: { status: 'completed' } });
  expect(JSON.stringify(done?.data)).toContain(
    'would make a (edit 24 of 29; none was made) too large (16777216 bytes; at most 10485760)',
  );
  expect((await client.get('/api/v1/sessions')).status).toBe(200);
  expect(await readFile(join(workspace, 'a'), 'utf8')).toBe('a');
});

test('what a replacement makes is bound in bytes as a file is, to the byte', async () => {
  const { context } = await workspaceWith('a'.repeat(5 * MB));
  const prepare = (new_string: string) =>
    edit.prepare({ file_path: 'a', old_string: 'a', new_string, replace_all: true }, context);
  expect((await prepare('é')).permission?.description).toBe('Edit a');
  await expect(prepare('éa')).rejects.toThrow('too large (15728640 bytes; at most 10485760). Use a command');
});

test.each([
  ['a line of a file with nothing but line breaks', '\n'.repeat(10 * MB - 2).concat('x\n'), 'x', 'y', false],
  ['each character of a file', 'a'.repeat(10 * MB), 'a', 'b', true],
  ['each line of a file', 'a\n'.repeat(5 * MB), 'a\n', 'b\n', true],
])('changing %s of ten megabytes takes little time', async (_what, content, old, now, replace_all) => {
  const { path, context } = await workspaceWith(content);
  const input = { file_path: 'a', old_string: old, new_string: now, replace_all };
  const spent = await cpuMsOf(() => callTool(edit, input, context));
  expect(spent).toBeLessThan(6000);
  expect((await readFile(path, 'utf8')) === content.replaceAll(old, now)).toBe(true);
});

test('a large file that is made of line breaks alone is written in little time', async () => {
  const context = testWorkspace().context();
  const content = '\n'.repeat(10 * MB);
  const spent = await cpuMsOf(async () => {
    const call = await write.prepare({ file_path: 'a', content }, context);
    expect(call.permission?.diff).toBe('--- /dev/null\n+++ b/a\n(0 characters become 10485760)\n');
  });
  expect(spent).toBeLessThan(800);
});

test('many edits of a large file let others work between them', async () => {
  const { context } = await workspaceWith('a'.repeat(10 * MB));
  const edits = Array.from({ length: 12 }, (_, index) => {
    const [old_string, new_string] = index % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
    return { old_string, new_string, replace_all: true };
  });
  edits.push({ old_string: 'a', new_string: 'c', replace_all: true });
  const held = await largestHoldOf(() => multiedit.prepare({ file_path: 'a', edits }, context));
  // Held from the first to the last, it would be nearly all of it; each alone is a thirteenth.
  expect(held).toBeLessThan(0.6);
});

test('the diff of a small change in a large file shows it, with its lines and its place', async () => {
  const lines = Array.from({ length: 400_000 }, (_, index) => `line ${index + 1}`);
  const { context } = await workspaceWith(lines.join('\n'));
  const diffOf = async (old_string: string, new_string: string) =>
    (await edit.prepare({ file_path: 'a', old_string, new_string }, context)).permission?.diff;
  expect(await diffOf('line 200000\n', 'another\nand one more\n')).toBe(
    '--- a/a\n+++ b/a\n@@ -199997,7 +199997,8 @@\n line 199997\n line 199998\n line 199999\n' +
      '-line 200000\n+another\n+and one more\n line 200001\n line 200002\n line 200003\n',
  );
  expect(await diffOf('line 1\nline 2\n', '')).toBe(
    '--- a/a\n+++ b/a\n@@ -1,5 +1,3 @@\n-line 1\n-line 2\n line 3\n line 4\n line 5\n',
  );
  expect(await diffOf('line 400000', 'the end')).toBe(
    '--- a/a\n+++ b/a\n@@ -399997,4 +399997,4 @@\n line 399997\n line 399998\n line 399999\n' +
      '-line 400000\n\\ No newline at end of file\n+the end\n\\ No newline at end of file\n',
  );
});
