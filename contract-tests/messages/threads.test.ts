/** Threads as the vendor's own tool runner uses them: kept over restarts, and taken up by nobody else. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { createServiceClient } from '@service/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { lastingPort } from '../lasting-port.ts';
import { type Server, startServer } from '../start-server.ts';
import { startUpstream, type Upstream } from '../upstream/start-upstream.ts';
import { failureOf } from './vendor.ts';

let folder: string;
let upstream: Upstream;
let server: Server;
let operatorKey: string;
/** What the SDK has sent, in its order. */
let sent: { thread?: unknown; messages: unknown[] }[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-threads-'));
  upstream = await startUpstream();
  server = await startServer({ folder, upstreamUrl: upstream.url, port: String(await lastingPort()) });
  operatorKey = server.operatorKey;
});
afterAll(async () => {
  await server?.stop();
  await upstream?.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(() => {
  sent = [];
});

/** The same server once more: nothing of it was only in memory. */
async function restart(): Promise<void> {
  const { port } = new URL(server.url);
  await server.stop();
  const again = { folder, port, upstreamUrl: upstream.url, firstStart: false };
  server = await startServer(again);
}

function sdk(apiKey = operatorKey): Anthropic {
  return new Anthropic({
    baseURL: server.url,
    apiKey,
    maxRetries: 0,
    fetch: (url, options) => {
      if (typeof options?.body === 'string') sent.push(JSON.parse(options.body));
      return fetch(url, options);
    },
  });
}

const place = { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] } as const;

/** `once` happens while the first call is at work. */
function weather(once: () => Promise<void> = async () => undefined) {
  let isFirst = true;
  return betaTool({
    name: 'get_weather',
    description: 'Tells the weather of a place.',
    inputSchema: place,
    run: async (input) => {
      if (isFirst) {
        isFirst = false;
        await once();
      }
      return `Rain in ${input.place}.`;
    },
  });
}

const asksTwice = [
  {
    when: { step: 0 },
    reply: { text: 'I look.', tool_calls: [{ name: 'get_weather', arguments: { place: 'Rome' } }] },
  },
  { when: { step: 1 }, reply: { tool_calls: [{ name: 'get_weather', arguments: { place: 'Oslo' } }] } },
  { reply: { text: 'Last was: {{last_tool_result}}' } },
];

const threadKinds = () => sent.map(({ thread }) => (thread as { type?: string } | undefined)?.type ?? null);

describe.each(['scripted:scripted-1', 'vendor:vendor-1'])('a thread with %s', (model) => {
  const params = (run?: () => Promise<void>) => ({
    model,
    max_tokens: 500,
    system: 'Be brief.',
    messages: [{ role: 'user' as const, content: 'Is it raining?' }],
    tools: [weather(run)],
  });

  test.each([false, true])('carries a tool runner, streamed and over a restart: %s', async (stream) => {
    await upstream.script(asksTwice);
    const runner = sdk().beta.messages.toolRunner({ ...params(stream ? restart : undefined), stream });
    const last = await runner.runUntilDone();
    expect(last.content).toMatchObject([{ type: 'text', text: 'Last was: Rain in Oslo.' }]);
    expect(threadKinds()).toEqual(['create', 'continue', 'continue']);
    expect(sent.map(({ messages }) => messages.length)).toEqual([1, 1, 1]);
    expect(sent[2]).not.toHaveProperty('tools');
    const asked = JSON.stringify((await upstream.latest(() => true)).body);
    for (const said of [
      'Be brief.',
      'Is it raining?',
      'I look.',
      'Rain in Rome.',
      'Rain in Oslo.',
      'get_weather',
    ])
      expect(asked).toContain(said);
  });

  test("that is gone, or is somebody else's, is told so, and the runner says all of it again", async () => {
    await upstream.script(asksTwice);
    const client = createServiceClient({ baseUrl: server.url, token: operatorKey });
    const forget = async () => {
      const { data } = await client.GET('/api/v1/sessions', { params: { query: { limit: 1 } } });
      const [session] = data?.data ?? [];
      if (session)
        await client.DELETE('/api/v1/sessions/{session_id}', {
          params: { path: { session_id: session.id } },
        });
    };
    const last = await sdk().beta.messages.toolRunner(params(forget)).runUntilDone();
    expect(last.content).toMatchObject([{ type: 'text', text: 'Last was: Rain in Oslo.' }]);
    expect(threadKinds()).toEqual(['create', 'continue', 'create', 'continue']);
    const next = { model, max_tokens: 5, messages: [{ role: 'user' as const, content: 'And?' }] };
    const continued = { ...next, thread: { type: 'continue' as const, previous_message_id: last.id } };
    const stranger = await register();
    const ids = [last.id, 'msg_01k9w6r3h2e7xv5q0c8m4b1tza', 'nonsense'];
    for (const previous_message_id of ids) {
      const thread = { type: 'continue' as const, previous_message_id };
      const error = await failureOf(sdk(stranger).beta.messages.create({ ...next, thread }));
      expect(error).toMatchObject({
        status: 404,
        error: { error: { type: 'not_found_error', details: { error_code: 'thread_not_found' } } },
      });
    }
    await upstream.script([{ reply: { text: 'Well.' } }]);
    expect((await sdk().beta.messages.create(continued)).content).toMatchObject([{ type: 'text' }]);
    const again = await failureOf(sdk().beta.messages.create(continued));
    expect(again.error).toMatchObject({ error: { details: { error_code: 'thread_already_continued' } } });
  });

  test('goes on from the answer before where one fails, and forgets what was asked in vain', async () => {
    await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
    const thread = sdk().beta.messages.thread({ model, max_tokens: 50, system: 'Be brief.' });
    await thread.send({ role: 'user', content: 'One' });
    for (const fail of [
      { kind: 'status', status: 500 },
      { kind: 'cut', after_chunks: 4 },
    ]) {
      await upstream.script([{ fail }]);
      expect((await failureOf(thread.send({ role: 'user', content: 'Two' }))).status).toBe(502);
    }
    await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
    const last = await thread.send({ role: 'user', content: 'Two' });
    expect(last.content).toMatchObject([{ text: 'You said: Two' }]);
    expect(threadKinds()).toEqual(['create', 'continue', 'continue', 'continue']);
    const asked = JSON.stringify((await upstream.latest(() => true)).body);
    expect(asked.match(/"Two"/g)).toHaveLength(1);
  });

  test('of which an answer is being written takes no other', async () => {
    await upstream.script([{ reply: { text: 'Well.' } }]);
    const first = { model, max_tokens: 50, messages: [{ role: 'user' as const, content: 'One' }] };
    const { id } = await sdk().beta.messages.create({ ...first, thread: { type: 'create' } });
    await upstream.script([{ reply: { text: 'Slow enough.', hold_after_chunks: 2 } }]);
    const continued = { ...first, thread: { type: 'continue' as const, previous_message_id: id } };
    const slow = sdk().beta.messages.create(continued);
    await upstream.latest(({ chunks_written }) => chunks_written > 0);
    const beside = await failureOf(sdk().beta.messages.create(continued));
    expect(beside).toMatchObject({
      status: 409,
      error: { error: { details: { error_code: 'thread_continue_in_flight' } } },
    });
    await upstream.releaseHeld();
    expect((await slow).content).toMatchObject([{ text: 'Slow enough.' }]);
  });

  test('gains and loses tools in the middle, and keeps what it was told there', async () => {
    await upstream.script([{ reply: { text: 'Tools: {{tools}}' } }]);
    const thread = sdk().beta.messages.thread({
      model,
      max_tokens: 50,
      tools: [{ name: 'one', input_schema: place }],
    });
    await thread.send({ role: 'user', content: 'Hi' });
    const change = (block: object) =>
      ({ role: 'system', content: [block] }) as unknown as Anthropic.Beta.BetaMessageParam; // newer than the types
    const definition = { name: 'two', description: 'The second.', input_schema: place };
    const said = await thread.send([
      change({ type: 'tool_addition', tool: { type: 'tool_definition', definition } }),
      change({ type: 'tool_removal', tool: { type: 'tool_reference', name: 'one' } }),
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'Hi' },
    ]);
    const later = await thread.send({ role: 'user', content: 'And now?' });
    for (const { content } of [said, later]) expect(content).toMatchObject([{ text: 'Tools: two' }]);
    expect(JSON.stringify((await upstream.latest(() => true)).body)).toContain('Be kind.');
  });

  test('with what only the vendor could do is done without a thread', async () => {
    await upstream.script([{ reply: { text: 'Found.' } }]);
    const tools = [{ type: 'web_search_20250305' as const, name: 'web_search' as const }];
    const last = await sdk()
      .beta.messages.toolRunner({ ...params(), tools })
      .runUntilDone();
    expect(last.content).toMatchObject([{ text: 'Found.' }]);
    expect(threadKinds()).toEqual(['create', null]);
  });
});

/** Another person, in an organization of their own. */
async function register(): Promise<string> {
  const name = `stranger-${crypto.randomUUID()}`;
  const client = createServiceClient({ baseUrl: server.url, token: operatorKey });
  const { data } = await client.POST('/api/v1/auth/register', {
    body: { email: `${name}@example.com`, password: `a long password of ${name}`, name: 'Stranger' },
  });
  return data.access_token;
}
