/** One query to a runtime in a folder of its own, and what the model was told, for tests of what goes into a prompt. */
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig, Provider } from '../contract/config.ts';
import { createRuntime, type Query, type RuntimeOptions } from './runtime.ts';
import { testQuery } from './test-query.ts';

/** A folder that is gone after the test. */
export interface TestFolder {
  readonly path: string;
  file(name: string, content: string): Promise<string>;
}

export async function testFolder(): Promise<TestFolder> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'service-conversation-')));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return {
    path,
    async file(name, content) {
      await mkdir(dirname(join(path, name)), { recursive: true });
      await writeFile(join(path, name), content);
      return join(path, name);
    },
  };
}

/** What the model was told at its first step, and what its tool calls gave. */
export interface Told {
  readonly system: string;
  readonly tools: readonly string[];
  readonly results: readonly string[];
}

/** Lets the scripted model make the calls, one a step, and answer then. */
export async function converse(
  upstream: Upstream,
  workspacePath: string,
  config: ClientConfig = {},
  {
    calls = [],
    query = {},
    ...options
  }: RuntimeOptions & {
    readonly calls?: readonly (readonly [string, object])[];
    readonly query?: Partial<Query>;
  } = {},
): Promise<Told> {
  await upstream.script([
    ...calls.map(([name, input], step) => ({
      when: { step },
      reply: { tool_calls: [{ name, arguments: input }] },
    })),
    { reply: { text: 'Done.' } },
  ]);
  const scripted: Provider = {
    type: 'openai-compat',
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'm-1' }],
  };
  const runtime = await createRuntime(
    { ...config, providers: { scripted } },
    { workspacePath: async () => workspacePath, ...options },
  );
  try {
    const { runId } = await runtime.start(testQuery('Go.', query));
    const signal = AbortSignal.timeout(50_000);
    for await (const { name, data } of runtime.follow(runId, { after: 0, follow: true, signal })) {
      if (name === 'error') throw new Error(data.error);
      if (name === 'done')
        return { ...(await toldAtFirst(upstream)), results: data.tool_results.map(({ content }) => content) };
    }
    throw new Error('The run has no end');
  } finally {
    await runtime.close();
  }
}

async function toldAtFirst(upstream: Upstream): Promise<Pick<Told, 'system' | 'tools'>> {
  const [first] = await upstream.requests();
  // The upstream has checked its form.
  const body = first?.body as {
    readonly messages: readonly { readonly role: string; readonly content: string }[];
    readonly tools?: readonly { readonly function: { readonly name: string } }[];
  };
  return {
    system: body.messages.find(({ role }) => role === 'system')?.content ?? '',
    tools: (body.tools ?? []).map(({ function: { name } }) => name),
  };
}
