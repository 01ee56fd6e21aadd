/** MCP servers in a run: hooks and people are asked before their tools, and the person is told what is missing. */
import { expect, test } from 'vitest';
import { hookBench, hookFolder, saying } from '../hooks/test-hooks.ts';
import { createRuntime } from '../runtime.ts';
import { hostile, testWorkspace } from './test-mcp.ts';

const { attempt } = hookBench();
const call = { name: 'mcp_local_act', arguments: { value: '$(touch made)' } };

test('a hook is asked before an MCP tool, and its no ends the call', async () => {
  const folder = hookFolder();
  const hooks = [{ matcher: '^mcp_local_', command: saying({ decision: 'deny', reason: 'not today' }) }];
  const config = { mcp: { local: hostile('crashes') } };
  const { result, requests } = await attempt(folder, { call, hooks, config });
  expect(result).toMatchObject({ is_error: true, content: expect.stringContaining('not today') });
  expect(requests).toEqual([]);
});

test('a person is asked before an MCP tool, with what it is to do', async () => {
  const folder = hookFolder();
  const { result, requests } = await attempt(folder, {
    call,
    config: { mcp: { local: hostile('well') } },
    answer: 'allow_once',
    query: { onUnanswered: 'wait' },
  });
  expect(requests).toMatchObject([
    {
      action: 'execute',
      tool_name: 'mcp_local_act',
      description: 'Call act of the MCP server local',
      params: { server: 'local', tool: 'act', input: call.arguments },
    },
  ]);
  expect(result).toMatchObject({ is_error: false, content: 'act is done' });
  expect(folder.has('made')).toBe(false);
});

test('a run that may only read calls no MCP tool, whatever the server says of it', async () => {
  const { result } = await attempt(hookFolder(), {
    call,
    config: { mcp: { local: hostile('well') } },
    query: { permissionMode: 'read_only' },
  });
  expect(result).toMatchObject({ is_error: true, content: expect.stringContaining('read_only') });
});

test('the agent goes on without a server that fails, and the person is told once', async () => {
  const { done, notices } = await attempt(hookFolder(), {
    call: { name: 'ls', arguments: { path: '.' } },
    config: { mcp: { broken: hostile('ends-at-once') } },
  });
  expect(done.status).toBe('completed');
  expect(notices).toEqual(['The MCP server broken cannot be used: it ended with exit code 3.']);
});

test('tools are listed with where they come from', async () => {
  const workspacePath = testWorkspace();
  const config = { mcp: { local: hostile('well') }, options: { disabled_tools: ['mcp_local_act'] } };
  const runtime = await createRuntime(config, { workspacePath: async () => workspacePath });
  const listed = await runtime.toolsIn({ userId: 'usr_1', workspaceId: 'ws_1' });
  expect(listed.find(({ name }) => name === 'mcp_local_act')).toMatchObject({
    source: 'mcp',
    needs_permission: true,
    disabled_by: 'options.disabled_tools',
  });
  await runtime.close();
});
