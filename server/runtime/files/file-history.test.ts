/** What tools change is recorded, by the runtime alone: through a real run in a real folder. */
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { createMemoryTranscript, type MemoryTranscript } from '../memory/memory-transcript.ts';
import { createRuntime, type Runtime } from '../runtime.ts';
import { testQuery } from '../test-query.ts';

let upstream: Upstream;
let runtime: Runtime;
let transcript: MemoryTranscript;
let folder: string;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-history-'));
  transcript = createMemoryTranscript();
  const config = {
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
    providers: {
      scripted: {
        type: 'openai-compat' as const,
        base_url: `${upstream.url}/v1`,
        api_key: 'k',
        models: [{ id: 'scripted-1' }],
      },
    },
    permissions: { allowed_tools: ['write', 'edit', 'bash'] },
  };
  runtime = await createRuntime(config, { transcript, workspacePath: async () => folder });
});
afterEach(async () => {
  await runtime.close();
  await rm(folder, { recursive: true });
});

/** Runs one query in which the model makes these calls, a step each. */
async function runWith(...calls: readonly (readonly [name: string, input: object])[]): Promise<void> {
  await upstream.script([
    ...calls.map(([name, input], step) => ({
      when: { step },
      reply: { tool_calls: [{ name, arguments: input }] },
    })),
    { reply: { text: 'Done.' } },
  ]);
  const { runId } = await runtime.start(testQuery('Go.'));
  const options = { after: 0, follow: true, signal: AbortSignal.timeout(50_000) };
  for await (const { name, data } of runtime.follow(runId, options))
    if (name === 'error') throw new Error(data.error);
}

const recorded = () =>
  transcript
    .fileChanges('ses_1')
    .map(({ path, before, mode, after }) => [path, textOf(before?.bytes), mode, textOf(after?.bytes)]);

function textOf(bytes: Uint8Array | null | undefined): string | null {
  return bytes ? Buffer.from(bytes).toString() : null;
}

describe('what a session changes', () => {
  test('is recorded with what was there before, and where it lies in the workspace', async () => {
    await writeFile(join(folder, 'old.txt'), 'one\n', { mode: 0o750 });
    await runWith(
      ['write', { file_path: 'new/deep.txt', content: 'fresh\n' }],
      ['view', { file_path: 'old.txt' }],
      ['edit', { file_path: 'old.txt', old_string: 'one', new_string: 'two' }],
    );
    expect(recorded()).toEqual([
      ['new/deep.txt', null, null, 'fresh\n'],
      ['old.txt', 'one\n', 0o750, 'two\n'],
    ]);
  });

  test('by a command is recorded of the files that it had seen before, and of no others', async () => {
    for (const name of ['changed', 'deleted', 'touched', 'unseen'])
      await writeFile(join(folder, name), `${name}\n`);
    await runWith(...['changed', 'deleted', 'touched'].map((file_path) => ['view', { file_path }] as const), [
      'bash',
      { command: 'echo more >> changed; rm deleted; touch touched; echo more >> unseen' },
    ]);
    expect(await readFile(join(folder, 'unseen'), 'utf8')).toBe('unseen\nmore\n');
    expect(recorded().sort()).toEqual([
      ['changed', 'changed\n', 0o644, 'changed\nmore\n'],
      ['deleted', 'deleted\n', 0o644, null],
    ]);
  });

  test('never holds what lies elsewhere, though a command puts a link in the way', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'service-elsewhere-'));
    onTestFinished(() => rm(elsewhere, { recursive: true }));
    const secret = join(elsewhere, 'secret');
    await writeFile(secret, 'secret');
    await writeFile(join(folder, 'seen'), 'seen');
    await symlink(secret, join(folder, 'trap'));
    await runWith(['view', { file_path: 'seen' }], ['bash', { command: 'mv trap seen' }]);
    expect(recorded()).toEqual([['seen', 'seen', 0o644, null]]);
  });

  test('is named without its content where that is large', async () => {
    await writeFile(join(folder, 'log'), 'short');
    const command = 'head -c 11000000 /dev/zero > log';
    await runWith(['view', { file_path: 'log' }], ['bash', { command }]);
    const [change] = transcript.fileChanges('ses_1');
    expect(change?.after).toMatchObject({ size: 11_000_000, bytes: null });
    expect(change?.after?.sha256).toMatch(/^[0-9a-f]{64}$/);
  });
});
