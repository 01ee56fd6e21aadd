/** The settings of the tools, from the ClientConfig to what the model is answered. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig, Provider } from '../contract/config.ts';
import { sandboxHere } from './processes/test-sandbox.ts';
import { createRuntime } from './runtime.ts';
import { testQuery } from './test-query.ts';

let upstream: Upstream;
let folder: string;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-settings-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  onTestFinished(() => void vi.unstubAllEnvs());
});

test.each([
  [undefined, ['a/', 'b/', 'c/', 'd.txt']],
  [0, ['a/', 'b/', 'c/', 'd.txt']],
  [2, ['a/', 'b/']],
])('`tools.ls.max_depth` of %s bounds how deep a listing goes', async (max_depth, seen) => {
  await mkdir(join(folder, 'a/b/c'), { recursive: true });
  await writeFile(join(folder, 'a/b/c/d.txt'), '');
  const answer = await useTool({ tools: { ls: max_depth === undefined ? {} : { max_depth } } }, 'ls', {});
  expect(
    answer
      .split('\n')
      .slice(1)
      .map((line) => line.trim()),
  ).toEqual(seen);
});

test.each([
  [undefined, 30],
  [10, 10],
  [0, 30],
])('`tools.ls.max_items` of %s bounds how many entries a listing has', async (max_items, entries) => {
  for (let index = 0; index < 30; index += 1) await writeFile(join(folder, `f${index}`), '');
  const answer = await useTool({ tools: { ls: max_items === undefined ? {} : { max_items } } }, 'ls', {});
  expect(answer.match(/^ {2}f\d+$/gm)).toHaveLength(entries);
  expect(answer.includes('Cut at 10 entries')).toBe(entries === 10);
});

test('`tools.ls.max_items` is 1000 where nobody has written it', async () => {
  for (let index = 0; index <= 1000; index += 1) await writeFile(join(folder, `f${index}`), '');
  expect(await useTool({}, 'ls', {})).toContain('(Cut at 1000 entries.');
});

test.each([
  ['1ms', true],
  [1_000_000, true],
  ['1m30s', false],
  ['1000h', false],
  [undefined, false],
])('`tools.grep.timeout` of %s bounds how long a search takes', async (timeout, stopped) => {
  await writeFile(join(folder, 'notes.txt'), 'needle\n');
  const answer = await useTool({ tools: { grep: timeout === undefined ? {} : { timeout } } }, 'grep', {
    pattern: 'needle',
  });
  // No search starts and ends within a millisecond.
  expect(/Stopped after/.test(answer)).toBe(stopped);
  // What was found until then is told all the same.
  if (!stopped) expect(answer).toContain('notes.txt');
});

test.skipIf('unavailable' in (await sandboxHere())).each([
  [undefined, false],
  [false, false],
  [true, true],
])(
  '`tools.bash.network` of %s lets commands in the sandbox reach the network (needs bubblewrap)',
  async (network, reached) => {
    const { port } = new URL(upstream.url);
    const command = `exec 3<>/dev/tcp/127.0.0.1/${port} && echo it is reached`;
    const answer = await useTool({ tools: { bash: network === undefined ? {} : { network } } }, 'bash', {
      command,
    });
    expect(answer).toContain(reached ? 'it is reached' : 'Connection refused');
  },
);

test.skipIf('unavailable' in (await sandboxHere()))(
  '`tools.bash.readable_paths` are read in the sandbox, not changed, and programs are found there (needs bubblewrap)',
  async () => {
    const machine = await mkdtemp(join(tmpdir(), 'service-machine-'));
    onTestFinished(() => rm(machine, { recursive: true }));
    await mkdir(join(machine, 'tools/bin'), { recursive: true });
    await writeFile(join(machine, 'tools/bin/own-tool'), '#!/bin/sh\necho own tool\n', { mode: 0o755 });
    await writeFile(join(machine, 'secret.txt'), 'a secret\n');
    await symlink('loop', join(machine, 'loop'));
    vi.stubEnv('PATH', `${join(machine, 'loop')}::${join(machine, 'tools/bin')}:${process.env.PATH}`);
    const command = `own-tool; cat ${machine}/secret.txt; echo x > ${machine}/tools/new; ls ${machine}`;
    expect(await useTool({}, 'bash', { command })).toContain('own-tool: command not found');
    vi.stubEnv('HOME', machine);
    const readable_paths = ['~/tools/'];
    const answer = await useTool({ tools: { bash: { readable_paths } } }, 'bash', { command });
    expect(answer).toMatch(/^own tool\n.*secret\.txt: No such file.*\n.*Read-only file system\ntools\n/);
  },
);

test('`options.disabled_tools` are neither offered to the model nor run when it asks for them all the same', async () => {
  await writeFile(join(folder, 'notes.txt'), 'a secret\n');
  const answer = await useTool({ options: { disabled_tools: ['view', 'bash'] } }, 'view', {
    file_path: 'notes.txt',
  });
  expect(answer).not.toContain('a secret');
  const offered = await offeredTools();
  expect(offered).toContain('ls');
  expect(offered).not.toContain('view');
  expect(offered).not.toContain('bash');
});

test('the names of tools that an editor offers are those that there are', async () => {
  const { default: schema } = await import('../contract/service.schema.json', { with: { type: 'json' } });
  const runtime = await createRuntime({}, { demo: true });
  const names = runtime.tools().map(({ name }) => name);
  await runtime.close();
  expect(schema.definitions.Options.properties.disabled_tools.items.examples).toEqual(names.sort());
  const allowed = schema.properties.permissions.properties.allowed_tools.items.examples;
  expect(allowed.filter((example) => !example.includes('('))).toEqual(names);
});

/** What the model is answered that uses the tool. */
async function useTool(config: ClientConfig, tool: string, input: object): Promise<string> {
  const scripted: Provider = {
    type: 'openai-compat',
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'scripted-1' }],
  };
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: tool, arguments: input }] } },
    { reply: { text: 'Done.' } },
  ]);
  const runtime = await createRuntime(
    { ...config, providers: { scripted } },
    { workspacePath: async () => folder },
  );
  try {
    const { runId } = await runtime.start(testQuery('Go.', { permissionMode: 'bypass' }));
    const signal = AbortSignal.timeout(50_000);
    for await (const { name, data } of runtime.follow(runId, { after: 0, follow: true, signal })) {
      if (name === 'done') return data.tool_results.map(({ content }) => content).join('\n');
    }
    throw new Error('The run has no end');
  } finally {
    await runtime.close();
  }
}

async function offeredTools(): Promise<string[]> {
  const [first] = await upstream.requests();
  const body = first?.body as { tools: { function: { name: string } }[] } | undefined; // the upstream has checked its form
  return body?.tools.map(({ function: { name } }) => name) ?? [];
}
