/**
 * A program that embeds the agent runtime, from beginning to end: it hands in its settings, asks for something, follows
 * what happens, answers a permission request, and lets a hook guard the tools. No server runs, and no settings file is
 * read. Run it with `node example.ts`; PROVIDER_URL, PROVIDER_KEY and PROVIDER_MODEL say which model answers. It ends
 * with an error where the runtime does not do what it should.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClientConfig } from '../contract/config.ts';
import { createMemoryTranscript } from './memory/memory-transcript.ts';
import { createRuntime } from './runtime.ts';

const folder = await mkdtemp(join(tmpdir(), 'service-example-'));

const config: ClientConfig = {
  providers: {
    gateway: {
      type: 'openai-compat',
      base_url: process.env.PROVIDER_URL ?? 'http://127.0.0.1:11434/v1',
      api_key: process.env.PROVIDER_KEY ?? 'none',
    },
  },
  models: {
    large: { provider: 'gateway', model: process.env.PROVIDER_MODEL ?? 'qwen3:32b', max_tokens: 2000 },
  },
  hooks: {
    pre_tool_use: [{ matcher: '^bash$', command: 'echo "No commands in this example." >&2; exit 2' }],
  },
  options: { disabled_tools: ['todos'] },
};

const transcript = createMemoryTranscript();
const runtime = await createRuntime(config, { transcript, workspacePath: async () => folder });

const { runId } = await runtime.start({
  session: {
    id: 'ses_example',
    workspaceId: 'ws_example',
    agentSlug: 'coder',
    model: null,
    systemPrompt: 'Be brief.',
    permissionRules: [],
  },
  userId: 'usr_example',
  trigger: 'api',
  messages: [
    {
      role: 'user',
      parts: [{ type: 'text', text: 'Write "Hello" into hello.txt, then run `rm hello.txt`.' }],
    },
  ],
  onUnanswered: 'wait',
});

const asked: string[] = [];
const answers: string[] = [];
const signal = AbortSignal.timeout(120_000);
for await (const { name, data } of runtime.follow(runId, { after: 0, follow: true, signal })) {
  if (name === 'message' && data.type === 'text_delta') {
    process.stdout.write(data.text);
  } else if (name === 'runtime' && data.type === 'permission_requested') {
    console.log(`[${data.request.description} I allow it once.]`);
    asked.push(data.request.tool_name);
    transcript.answerPermission(data.request.id, 'allow_once');
    runtime.wake(runId);
  } else if (name === 'done') {
    answers.push(...data.tool_results.map(({ content }) => content));
  } else if (name === 'error') {
    throw new Error(`The run failed: ${data.error}`);
  }
}
console.log();

const messages = await transcript.readMessages('ses_example');
console.log(`The session holds ${messages.length} messages: ${messages.map(({ role }) => role).join(', ')}.`);
await runtime.close();

assert.deepEqual(
  asked,
  ['write'],
  'Writing should have needed one permission, and the guarded command none.',
);
assert.deepEqual(
  await readdir(folder),
  ['hello.txt'],
  'The file should be there: the hook denied its removal.',
);
assert.match(await readFile(join(folder, 'hello.txt'), 'utf8'), /Hello/);
assert.ok(
  answers.some((answer) => answer.includes('No commands in this example.')),
  'The model should have been told why.',
);
await rm(folder, { recursive: true });
