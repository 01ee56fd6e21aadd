/** A rule that denies a file or an address ends the call by whichever of its names it is called. */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sounds } from '../../../contract-tests/upstream/media-files.ts';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { createMedia } from '../providers/media.ts';
import { operatorFetch } from '../providers/test-providers.ts';
import { downloadTool } from '../tools/download.ts';
import { editTool } from '../tools/edit.ts';
import { fetchTool } from '../tools/fetch.ts';
import { mediaTools } from '../tools/media-tools.ts';
import { multieditTool } from '../tools/multiedit.ts';
import { callTool, type TestWorkspace, testWorkspace, toolNamed } from '../tools/test-workspace.ts';
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

/** They act in other ways than by files, but with one. */
function toolsThatSaveOrSend(): readonly Tool[] {
  const own = { provider: 'openai' };
  const config = { image_generation: own, text_to_speech: own, speech_to_text: own };
  // Nobody asks it: what is prepared only says what it would do.
  const connect = async () => ({ baseUrl: 'http://127.0.0.1:9', apiKey: 'test-key', headers: {} });
  const definitions = [{ id: 'openai', type: 'openai', models: [], connect } as const];
  const media = createMedia({ definitions, timeouts: { silenceMs: 5000 }, fetch: operatorFetch });
  const named = mediaTools({ media, config, rules: paths }).map(({ tool }) => tool);
  return [downloadTool(paths, testOutbound({})), ...named];
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

  test.each([
    ['download', 'a', { url: 'https://example.org/x' }],
    ['generate_image', 'new/file', { prompt: 'a cat' }],
    ['speak', 'a', { text: 'hello' }],
    ['transcribe', 'sound.wav', {}],
  ] as const)('is denied to %s by each of its names', async (name, file, more) => {
    const { workspace, context } = await linked();
    workspace.file('settings/sound.wav', sounds.wav?.bytes ?? '');
    const tool = toolNamed(toolsThatSaveOrSend(), name);
    const input = { file_path: `config/${file}`, ...more };
    for (const pattern of ['config/**', 'middle/**', 'settings/**', `settings/${file}`, '*'])
      expect(await verdict(tool, input, pattern, context), pattern).toBe('deny');
    expect(await verdict(tool, input, 'other/**', context)).toBe('allow');
    expect(await verdict(tool, input, 'conf*', context)).toBe('allow');
  });

  test('is denied by the link that leads out of the workspace', async () => {
    const { workspace, context } = await linked();
    symlinkSync('../outside', join(workspace.path, 'out'));
    const input = { file_path: 'out/secret.txt' };
    expect(await verdict(viewTool(paths), input, 'out/**', context)).toBe('deny');
    expect(await verdict(viewTool(paths), input, workspace.secretFile, context)).toBe('deny');
    expect(await verdict(viewTool(paths), input, 'in/**', context)).toBe('allow');
  });

  test.each([
    ['generate_image', { prompt: 'a cat' }],
    ['speak', { text: 'hello' }],
  ] as const)(
    'is allowed to %s by the folder that it really lies in, or with every other',
    async (name, more) => {
      const { context } = await linked();
      const input = { file_path: 'config/new', ...more };
      const { permission } = await toolNamed(toolsThatSaveOrSend(), name).prepare(input, context);
      const decided = (allowedTools: readonly string[], patterns: readonly string[] = []) => {
        const { workspacePath } = context;
        const grants = patterns.map((pattern) => ({ toolName: name, action: 'execute', pattern }));
        const rest = { workspacePath, mode: 'ask', hookAllows: false, rules: [] } as const;
        return decide({ name, input }, permission, { ...rest, allowedTools, grants });
      };
      for (const pattern of ['*', 'settings/**'])
        expect(decided([`${name}(${pattern})`]).verdict, pattern).toBe('allow');
      expect(decided([`${name}(config/**)`]).verdict).toBe('ask');
      expect(decided([])).toEqual({ verdict: 'ask', grants: ['*'] });
      expect(decided([], ['*']).verdict).toBe('allow');
    },
  );

  test('a download is allowed by no path, as anything could be saved there', async () => {
    const { context } = await linked();
    const input = { file_path: 'new', url: 'https://example.org/x' };
    const { permission } = await toolNamed(toolsThatSaveOrSend(), 'download').prepare(input, context);
    const { workspacePath } = context;
    const rest = { workspacePath, mode: 'ask', hookAllows: false, grants: [], rules: [] } as const;
    const decided = (pattern: string) =>
      decide({ name: 'download', input }, permission, { ...rest, allowedTools: [`download(${pattern})`] })
        .verdict;
    expect(decided('example.org')).toBe('allow');
    expect(decided('new')).toBe('ask');
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
