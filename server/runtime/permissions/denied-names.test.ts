/** A rule that denies a file or an address ends the call by whichever of its names it is called. */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { downloadTool } from '../tools/download.ts';
import { editTool } from '../tools/edit.ts';
import { fetchTool } from '../tools/fetch.ts';
import { multieditTool } from '../tools/multiedit.ts';
import { callTool, type TestWorkspace, testWorkspace } from '../tools/test-workspace.ts';
import type { Tool, ToolContext } from '../tools/tool.ts';
import { viewTool } from '../tools/view.ts';
import { writeTool } from '../tools/write.ts';
import { decide, hiddenBy, type Verdict } from './permissions.ts';

const paths = { requireSandbox: false };

/** `config` is a link to `middle`, and that one to `settings`. */
async function linked(): Promise<{ workspace: TestWorkspace; context: ToolContext }> {
  const workspace = testWorkspace();
  mkdirSync(join(workspace.path, 'settings'));
  workspace.file('settings/a', 'a\n');
  symlinkSync('settings', join(workspace.path, 'middle'));
  symlinkSync(join(workspace.path, 'middle'), join(workspace.path, 'config'));
  const context = workspace.context();
  await callTool(viewTool(paths), { file_path: 'config/a' }, context);
  return { workspace, context };
}

async function verdict(
  tool: Tool,
  input: Record<string, unknown>,
  pattern: string,
  context: ToolContext,
  mode: 'accept_edits' | 'bypass' = 'bypass',
): Promise<Verdict['verdict']> {
  const { permission } = await tool.prepare(input, context);
  const rules = [{ tool: tool.name, decision: 'deny', pattern }] as const;
  const rest = { workspacePath: context.workspacePath, allowedTools: [], hookAllows: false, grants: [] };
  return decide({ name: tool.name, input }, permission, { ...rest, mode, rules }).verdict;
}

describe('a file behind links', () => {
  const replacement = { old_string: 'a', new_string: 'b' };
  test.each([
    ['edit', editTool(paths), 'a', replacement],
    ['multiedit', multieditTool(paths), 'a', { edits: [replacement] }],
    ['write', writeTool(paths), 'new/file', { content: 'x' }],
    ['view', viewTool(paths), 'a', {}],
  ] as const)('is denied to %s by each of its names', async (_name, tool, file, more) => {
    const { workspace, context } = await linked();
    const input = { file_path: `config/${file}`, ...more };
    for (const mode of ['accept_edits', 'bypass'] as const) {
      for (const pattern of ['config/**', 'middle/**', 'settings/**'])
        expect(await verdict(tool, input, pattern, context, mode), pattern).toBe('deny');
      expect(await verdict(tool, input, 'other/**', context, mode)).toBe('allow');
    }
    const absolute = { ...input, file_path: join(workspace.path, `config/../config/${file}`) };
    expect(await verdict(tool, absolute, 'config/**', context)).toBe('deny');
  });

  test('is denied by the link that leads out of the workspace', async () => {
    const { workspace, context } = await linked();
    symlinkSync('../outside', join(workspace.path, 'out'));
    const input = { file_path: 'out/secret.txt' };
    expect(await verdict(viewTool(paths), input, 'out/**', context)).toBe('deny');
    expect(await verdict(viewTool(paths), input, workspace.secretFile, context)).toBe('deny');
    expect(await verdict(viewTool(paths), input, 'in/**', context)).toBe('allow');
  });

  test('is allowed by the name alone that it really has', async () => {
    const { context } = await linked();
    const input = { file_path: 'config/a', ...replacement };
    const { permission } = await editTool(paths).prepare(input, context);
    const { workspacePath } = context;
    const rest = { workspacePath, mode: 'ask', hookAllows: false, grants: [], rules: [] } as const;
    const decided = (pattern: string) =>
      decide({ name: 'edit', input }, permission, { ...rest, allowedTools: [`edit(${pattern})`] }).verdict;
    expect(decided('settings/**')).toBe('allow');
    expect(decided('config/**')).toBe('ask');
  });
});

describe('a redirect within a site', () => {
  const outbound = () =>
    testOutbound({
      allow: ['127.0.0.1'],
      resolver: async () => [{ address: '127.0.0.1', family: 4 }],
    });
  const tools = () => [fetchTool(outbound()), downloadTool(paths, outbound())];

  test.each(['www.site.example', '*.site.example', 'http://www.site.example.:port'])(
    'is not followed to where a rule denies the tool: %s',
    async (form) => {
      for (const tool of tools()) {
        const server = await serveAnswers(({ headers }, response) => {
          const location = `http://www.${headers.host}/new`;
          if (headers.host?.startsWith('www.'))
            response.setHeader('content-type', 'text/plain').end('arrived');
          else response.writeHead(302, { location }).end();
        });
        const called = async (pattern: string) => {
          const rules = [{ tool: tool.name, decision: 'deny', pattern }] as const;
          const context = testWorkspace().context({ hidden: async () => hiddenBy(rules, tool.name) });
          const input = { url: `http://site.example:${server.port}/` };
          return callTool(tool, tool.name === 'fetch' ? input : { ...input, file_path: 'new' }, context);
        };
        expect(await called('other.example')).toMatchObject({ is_error: false });
        expect(await called(form.replace('port', String(server.port)))).toMatchObject({
          is_error: true,
          content: expect.stringContaining(`http://www.site.example:${server.port}/new`),
        });
        expect(server.requests.filter(({ url }) => url === '/new')).toHaveLength(1);
      }
    },
  );
});
