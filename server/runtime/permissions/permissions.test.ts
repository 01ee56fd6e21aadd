/** What the settings let an agent do unasked. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hookBench, hookFolder, type ScriptedCall } from '../hooks/test-hooks.ts';
import { testQuery } from '../test-query.ts';

const { attempt } = hookBench();
const write: ScriptedCall = { name: 'write', arguments: { file_path: 'made.txt', content: 'A' } };
const bash: ScriptedCall = { name: 'bash', arguments: { command: 'touch touched' } };
const allowed = (...allowed_tools: string[]) => ({ permissions: { allowed_tools } });

describe('a rule that denies a folder to a search', () => {
  test.each([
    ['grep', { pattern: 'canary' }],
    ['grep', { pattern: 'canary', path: '.' }],
    ['glob', { pattern: '**/*.txt' }],
    ['ls', { depth: 3 }],
  ])('hides it from one that begins above it: %s %o', async (name, input) => {
    const folder = hookFolder();
    for (const path of ['secrets/deep', 'open']) mkdirSync(join(folder.path, path), { recursive: true });
    folder.write('secrets/deep/hidden.txt', 'canary');
    folder.write('open/shown.txt', 'canary');
    const ruled = async (pattern: string) => {
      const { session } = testQuery('Go.');
      const permissionRules = [{ tool: name, pattern, decision: 'deny' as const }];
      const call = { name, arguments: input };
      const query = { session: { ...session, permissionRules } };
      return (await attempt(folder, { call, query })).result?.content;
    };
    expect(await ruled('nothing/**')).toContain('hidden.txt');
    const content = await ruled('secrets/**');
    expect(content).toContain('shown.txt');
    expect(content).not.toContain('hidden.txt');
    expect(content).toContain('What a rule denies is left out.');
  });
});

describe('the list of allowed tools', () => {
  test.each([
    ['tool', allowed('write'), false],
    ['tool:action', allowed('write:write'), false],
    ['another tool', allowed('bash'), true],
    ['another action', allowed('write:execute'), true],
    ['other letters', allowed('Write', 'write:'), true],
    ['nothing', allowed(), true],
  ])('`permissions.allowed_tools` lets a tool run unasked: %s', async (_case, config, refused) => {
    const folder = hookFolder();
    const { result, types } = await attempt(folder, { config, call: write });
    expect(result?.is_error).toBe(refused);
    expect(folder.has('made.txt')).toBe(!refused);
    expect(types).not.toContain('permission_requested');
  });

  test.each([
    ['bash(touch a*)', 'touch a1', false],
    ['bash(touch a*)', 'touch a1; touch b', true],
    ['bash(touch a*)', 'touch a1 && touch a2', false],
    ['bash:execute(touch *)', 'touch a1 b', false],
    ['bash(touch *)', 'touch a1 > b', true],
  ])(
    '`permissions.allowed_tools` covers a command only in all its parts: %s, %s',
    async (entry, command, refused) => {
      const call = { name: 'bash', arguments: { command } };
      const { result } = await attempt(hookFolder(), { config: allowed(entry), call });
      expect(result?.is_error).toBe(refused);
    },
  );

  test('what a person allows for the session is remembered as it was shown, and not for what else the shell can do', async () => {
    const commands = ['touch a', 'touch a', 'touch a; touch b', 'touch b'];
    const { requests, results } = await attempt(hookFolder(), {
      call: commands.map((command) => ({ name: 'bash', arguments: { command } })),
      query: { onUnanswered: 'wait' },
      answer: 'allow_session',
    });
    expect(results.every(({ is_error }) => !is_error)).toBe(true);
    expect(requests.map(({ grants }) => grants)).toEqual([['touch a'], ['touch b']]);
  });

  test('`permissions.allowed_tools` does not loosen a mode, a rule or a hook', async () => {
    const config = allowed('write', 'write:write');
    const reading = await attempt(hookFolder(), {
      config,
      call: write,
      query: { permissionMode: 'read_only' },
    });
    expect(reading.result?.content).toContain('This run may only read');
    const hooked = { ...config, hooks: { pre_tool_use: [{ command: 'exit 2' }] } };
    const denied = await attempt(hookFolder(), { config: hooked, call: write });
    expect(denied.result?.content).toContain('A hook denied it');
    const listed = await attempt(hookFolder(), {
      config,
      call: write,
      query: { permissionMode: 'deny_unlisted' },
    });
    expect(listed.result).toMatchObject({ is_error: false });
  });

  test('`permissions.allowed_tools` is read anew at each tool call: a right that is gone counts no more', async () => {
    const folder = hookFolder();
    const settings = () => (folder.has('made.txt') ? {} : allowed('write', 'bash'));
    const { results } = await attempt(folder, { settings, call: [bash, write, bash] });
    expect(results.map(({ is_error }) => is_error)).toEqual([false, false, true]);
  });
});
