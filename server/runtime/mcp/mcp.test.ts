/** MCP servers as tools of the agent, with the public servers in their processes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { call, listening, overStdio, testContext, testMcp, testWorkspace } from './test-mcp.ts';

test('`mcp.*.command` a process is started with the first use, and its tools have the name of the server', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'everything', state: 'idle', detail: null }]);
  const tools = await mcp.tools({ workspacePath });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'everything', state: 'ready', detail: null }]);
  expect(tools.map(({ name }) => name)).toContain('mcp_everything_echo');
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_everything_echo', { message: 'Hello' }, context)).toEqual({
    content: 'Echo: Hello',
    is_error: false,
  });
});

test.each(['sse', 'streamableHttp'] as const)('the same server answers over %s', async (transport) => {
  const workspacePath = testWorkspace();
  const { url } = await listening(transport);
  const type = transport === 'sse' ? 'sse' : 'http';
  const mcp = testMcp({ remote: { type, url } });
  const tools = await mcp.tools({ workspacePath });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'remote', state: 'ready', detail: null }]);
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_remote_get-sum', { a: 2, b: 3 }, context)).toEqual({
    content: 'The sum of 2 and 3 is 5.',
    is_error: false,
  });
});

test('the file system server reads files of the workspace, and says why it refuses others', async () => {
  const workspacePath = testWorkspace();
  writeFileSync(join(workspacePath, 'note.txt'), 'a note');
  const mcp = testMcp({ files: overStdio('filesystem', workspacePath) });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const path = join(workspacePath, 'note.txt');
  expect(await call(tools, 'mcp_files_read_text_file', { path }, context)).toMatchObject({
    content: 'a note',
    is_error: false,
  });
  const refused = await call(tools, 'mcp_files_read_text_file', { path: '/etc/hostname' }, context);
  expect(refused).toMatchObject({ is_error: true, content: expect.stringContaining('denied') });
});
