/** The Messages surface over HTTP: the vendor's shapes, sessions behind them, cancels, and failures in its own words. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import {
  type Account,
  type Json,
  type RequestOptions,
  readEvents,
  type StreamedEvent,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { createMessage } from './messages.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      providers: {
        scripted: {
          type: 'anthropic',
          base_url: `${upstream.url}/v1`,
          api_key: 'k',
          models: [{ id: 'scripted-1' }],
        },
        compatible: {
          type: 'openai-compat',
          base_url: `${upstream.url}/v1`,
          api_key: 'k',
          models: [{ id: 'compatible-1' }],
        },
      },
    },
  });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

beforeEach(() => upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

function say(content: unknown, more: Record<string, unknown> = {}) {
  return { model: 'scripted:scripted-1', max_tokens: 100, messages: [{ role: 'user', content }], ...more };
}

function post(body: unknown, options: RequestOptions = {}) {
  return app.request('POST', '/v1/messages', { token: ada.token, body, ...options });
}

/** What is counted; plain, the vendor says more beside it. */
function countsOf({ usage }: { readonly usage: Record<string, unknown> }) {
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage;
  return { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens };
}

async function newSession(body: Record<string, unknown> = {}): Promise<string> {
  return (await app.request('POST', '/api/v1/sessions', { token: ada.token, body })).body.id;
}

async function messagesOf(session: string): Promise<string[]> {
  const { body } = await app.request('GET', `/api/v1/sessions/${session}/messages?limit=100`, {
    token: ada.token,
  });
  return body.data.map(
    ({ role, parts }: { role: string; parts: { text?: string }[] }) => `${role}: ${parts[0]?.text}`,
  );
}

test('top_k reaches a provider that has it, and is left out for one that may refuse it', async () => {
  const asked = say('Hi', { top_k: 7 });
  expect((await post(asked)).status).toBe(200);
  expect((await upstream.requests()).at(-1)?.body).toMatchObject({ top_k: 7 });
  expect((await post({ ...asked, model: 'compatible:compatible-1' })).status).toBe(200);
  expect((await upstream.requests()).at(-1)?.body).not.toHaveProperty('top_k');
});

describe('a message', () => {
  test("is answered in the vendor's shape, and nothing is stored", async () => {
    const answer = await post(say('Hello'));
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'scripted:scripted-1',
      content: [{ type: 'text', text: 'You said: Hello' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    });
    expect(answer.headers.get('request-id')).toBe(answer.headers.get('x-request-id'));
    expect((await app.request('GET', '/api/v1/sessions', { token: mallory.token })).body.data).toEqual([]);
  });

  test('is streamed in the exact order that clients expect, with the usage of the plain answer', async () => {
    const plain = await post(say('Hello'));
    const response = await app.stream('POST', '/v1/messages', {
      token: ada.token,
      body: say('Hello', { stream: true }),
    });
    const events: StreamedEvent[] = [];
    for await (const event of readEvents(response)) events.push(event);
    const names = events.map(({ event }) => event).filter((name) => name !== 'ping');
    expect(names.filter((name, index, all) => name !== all[index - 1])).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(events.every(({ event, data }) => data.type === event)).toBe(true);
    expect(events.map(({ data }) => data.delta?.text ?? '').join('')).toBe('You said: Hello');
    expect(events.at(-2)?.data).toMatchObject({
      delta: { stop_reason: 'end_turn' },
      usage: countsOf(plain.body),
    });
  });

  test('takes a key in either header, and refuses two that differ', async () => {
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'k', scopes: ['messages'] },
    });
    const withKey = (headers: Record<string, string>) =>
      app.request('POST', '/v1/messages', { body: say('Hi'), headers });
    expect((await withKey({ 'x-api-key': body.key })).status).toBe(200);
    expect((await withKey({ authorization: `Bearer ${body.key}` })).status).toBe(200);
    expect((await withKey({ authorization: `Bearer ${body.key}`, 'x-api-key': body.key })).status).toBe(200);
    const both = await withKey({ authorization: `Bearer ${ada.token}`, 'x-api-key': body.key });
    expect(both).toMatchObject({
      status: 401,
      body: { type: 'error', error: { type: 'authentication_error' } },
    });
  });

  test('carries instructions, wherever they stand, and limits', async () => {
    await post({
      ...say('Hi'),
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: 'Hi' },
        { role: 'system', content: 'And kind.' },
      ],
      temperature: 0.3,
      stop_sequences: ['END'],
      metadata: { user_id: 'x' },
    });
    const sent = await upstream.latest(() => true);
    expect(sent.body).toMatchObject({ max_tokens: 100, temperature: 0.3, stop_sequences: ['END'] });
    expect(sent.body).toMatchObject({ system: [{ text: 'Be brief.' }] });
    expect(JSON.stringify(sent.body)).toContain('And kind.');
  });

  test.each<[string, unknown, RegExp]>([
    ['a wrong type', { ...say('Hi'), max_tokens: 'many' }, /max_tokens/],
    ['no messages', { model: 'm', max_tokens: 1 }, /messages/],
    ['a wrong role', { ...say('Hi'), messages: [{ role: 'robot', content: 'x' }] }, /messages.*role/],
    ['an unknown block', say([{ type: 'hologram' }]), /messages.*content/],
    ['broken JSON', '{"model": ', /JSON/],
  ])('with %s is refused with the place', async (_what, body, place) => {
    const answer = await post(body);
    expect(answer).toMatchObject({
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error' } },
    });
    expect(answer.body.error.message).toMatch(place);
    expect(answer.body.request_id).toBe(answer.headers.get('request-id'));
  });

  test.each([
    [{ kind: 'status', status: 401 }, 'api_error'],
    [{ kind: 'status', status: 429 }, 'overloaded_error'],
    [{ kind: 'status', status: 529 }, 'overloaded_error'],
    [{ kind: 'status', status: 500 }, 'api_error'],
    [{ kind: 'cut', after_chunks: 2 }, 'api_error'],
  ])("fails in the vendor's words: %o", async (fail, type) => {
    await upstream.script([{ reply: { text: 'A long enough answer to be cut.' }, fail }]);
    const plain = await post(say('Hi'));
    expect(plain.body).toMatchObject({ type: 'error', error: { type } });
    expect(plain.status).toBeGreaterThanOrEqual(500);
  });

  test('of which several are sent at once goes on with one of them, and with the others in forks', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const first = await post(say('One'), { headers });
    const ask = (content: string) => {
      const messages = [
        { role: 'user', content: 'One' },
        { role: 'assistant', content: first.body.content },
        { role: 'user', content },
      ];
      return post({ ...say('x'), messages }, { headers });
    };
    const answers = await Promise.all(['Two', 'Three', 'Four', 'Five'].map(ask));
    const places = answers.map((answer) => answer.headers.get('x-service-session-id'));
    expect(new Set(places).size).toBe(4);
    expect(places).toContain(session);
    expect(await messagesOf(session)).toHaveLength(4);
  });

  test.each(['scripted:scripted-1', 'compatible:compatible-1'])(
    'says when to come back where its provider has said so: %s',
    async (model) => {
      await upstream.script([{ fail: { kind: 'status', status: 429, retry_after: '7' } }]);
      for (const stream of [false, true]) {
        const answer = await post(say('Hi', { model, stream }));
        expect(answer).toMatchObject({ status: 529, body: { error: { type: 'overloaded_error' } } });
        expect(answer.headers.get('retry-after')).toBe('7');
        expect(answer.body.error.message).toContain('in 7 s');
      }
    },
  );

  test.each([
    ['This model has a maximum context length of much less.', /^prompt is too long for the model$/],
    ['prompt is too long: 9 tokens > 8 maximum', /^prompt is too long: 9 tokens > 8 maximum$/],
    [
      "This model's maximum context length is 8 tokens. However, you requested 10 tokens (7 in the messages, 3 in the completion).",
      /^input length and `max_tokens` exceed context limit: 7 \+ 3 > 8, decrease input length or `max_tokens` and try again$/,
    ],
    ['It was blocked by our content filter.', /content/],
    ['The temperature is too high.', /status 400/],
  ])('that its provider will not take is refused in words that clients act on: %s', async (message, said) => {
    await upstream.script([{ fail: { kind: 'status', status: 400, message } }]);
    const session = await newSession();
    for (const model of ['scripted:scripted-1', 'compatible:compatible-1'])
      for (const [headers, stream] of [
        [{}, true],
        [{ 'x-service-session-id': session }, false],
      ] as const) {
        const answer = await post(say('Hi', { stream, model }), { headers });
        expect(answer).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
        expect(answer.body.error.message).toMatch(said);
      }
  });

  test('tells at its begin about how many tokens are read, and at its end how many', async () => {
    const words = 'So many words. '.repeat(100);
    for (const headers of [{}, { 'x-service-session-id': await newSession() }]) {
      const body = say(words, { model: 'compatible:compatible-1', stream: true });
      const response = await app.stream('POST', '/v1/messages', { token: ada.token, body, headers });
      const events = await Array.fromAsync(readEvents(response));
      expect(events[0]?.data.message.usage.input_tokens).toBeGreaterThan(200);
      expect(events.at(-2)?.data.usage.input_tokens).toBeGreaterThan(200);
    }
  });

  test('of no tokens is read and not answered', async () => {
    await upstream.script([{ reply: { text: '', stop_reason: 'max_tokens' } }]);
    const nothing = say('Hi', { max_tokens: 0 });
    const relayed = await post(nothing);
    expect(relayed.body).toMatchObject({ stop_reason: 'max_tokens' });
    expect((await upstream.latest(() => true)).body).toMatchObject({ max_tokens: 0 });
    const asked = (await upstream.requests()).length;
    const other = await post({ ...nothing, model: 'compatible:compatible-1' });
    expect(other.body).toMatchObject({ content: [], stop_reason: 'max_tokens', usage: { output_tokens: 0 } });
    expect(await upstream.requests()).toHaveLength(asked);
    const headers = { 'x-service-session-id': await newSession() };
    expect(await post(nothing, { headers })).toMatchObject({ status: 400 });
  });

  test('that fails in the middle of its stream ends with an error event, and nothing after it', async () => {
    await upstream.script([
      { reply: { text: 'A long enough answer to be cut.' }, fail: { kind: 'cut', after_chunks: 6 } },
    ]);
    const response = await app.stream('POST', '/v1/messages', {
      token: ada.token,
      body: say('Hi', { stream: true }),
    });
    const events: StreamedEvent[] = [];
    for await (const event of readEvents(response)) events.push(event);
    expect(events.at(-1)).toMatchObject({
      event: 'error',
      data: { type: 'error', error: { type: 'api_error' } },
    });
  });

  test.each([
    ['plain, before the first byte', {}, undefined],
    ['streamed, before the first byte', { stream: true }, undefined],
    ['streamed, in the middle', { stream: true }, 4],
  ])('whose client goes away closes the call of the provider: %s', async (_how, more, after_chunks) => {
    await upstream.script([
      {
        reply: { text: 'A long enough answer to hang in its middle.' },
        fail: { kind: 'hang', ...(after_chunks && { after_chunks }) },
      },
    ]);
    const controller = new AbortController();
    const call = fetch(`${app.url}/v1/messages`, {
      method: 'POST',
      signal: controller.signal,
      headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(say('Hi', more)),
    }).then((response) => response.text());
    await upstream.latest(() => true);
    setTimeout(() => controller.abort(), 100);
    await expect(call).rejects.toThrow();
    const started = performance.now();
    await upstream.latest(({ outcome }) => outcome === 'aborted');
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe('a message in a session', () => {
  test('is stored there, and the next one need not repeat it', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const first = await post(say('One'), { headers });
    expect(first.headers.get('x-service-session-id')).toBe(session);
    const second = await post(say('Two'), { headers });
    expect(second.headers.get('x-service-session-id')).toBe(session);
    const sent = await upstream.latest(() => true);
    expect((sent.body as { messages: unknown[] }).messages).toHaveLength(3);
    expect(await messagesOf(session)).toEqual([
      'user: One',
      'assistant: You said: One',
      'user: Two',
      'assistant: You said: Two',
    ]);
  });

  test('is recognised where the client repeats the whole history', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const first = await post(say('One'), { headers });
    const history = [
      { role: 'user', content: 'One' },
      { role: 'assistant', content: first.body.content },
      { role: 'user', content: [{ type: 'text', text: 'Two' }] },
    ];
    const second = await post({ ...say('Two'), messages: history }, { headers });
    expect(second.headers.get('x-service-session-id')).toBe(session);
    expect(await messagesOf(session)).toHaveLength(4);
  });

  test('with another history continues in a fork, and leaves the session as it was', async () => {
    const session = await newSession({ title: 'Original' });
    const headers = { 'x-service-session-id': session };
    await post(say('One'), { headers });
    const history = [
      { role: 'user', content: 'One' },
      { role: 'assistant', content: 'Something that was never said.' },
      { role: 'user', content: 'Two' },
    ];
    const forked = await post({ ...say('x'), messages: history }, { headers });
    const fork = forked.headers.get('x-service-session-id') ?? '';
    expect(fork).not.toBe(session);
    const { body } = await app.request('GET', `/api/v1/sessions/${fork}`, { token: ada.token });
    expect(body).toMatchObject({ parent_id: session, title: 'Original' });
    expect(await messagesOf(fork)).toEqual([
      'user: One',
      'assistant: Something that was never said.',
      'user: Two',
      'assistant: You said: Two',
    ]);
    expect(await messagesOf(session)).toHaveLength(2);
  });

  test('leaves no fork behind where it is refused, and names the one in which its provider failed', async () => {
    const profile = { slug: 'passing', description: 'Passes', instructions: 'Answer.' };
    const { body: agent } = await app.request('POST', '/api/v1/agents', { token: ada.token, body: profile });
    const sessions = [await newSession({ agent_slug: 'passing' }), await newSession()];
    for (const session of sessions) await post(say('One'), { headers: { 'x-service-session-id': session } });
    await app.request('DELETE', `/api/v1/agents/${agent.id}`, { token: ada.token });
    const messages = [
      { role: 'user', content: 'Never said' },
      { role: 'assistant', content: 'No.' },
      { role: 'user', content: 'Two' },
    ];
    const childrenOf = async (id = ''): Promise<Json[]> =>
      (await app.request('GET', `/api/v1/sessions/${id}/children`, { token: ada.token })).body.data;
    const ask = (session = '', stream = false) =>
      post({ ...say('x'), stream, messages }, { headers: { 'x-service-session-id': session } });
    const [refusing, failing] = sessions;
    const refused = await ask(refusing);
    expect(refused.status).toBe(404);
    expect(refused.headers.get('x-service-session-id')).toBeNull();
    expect(await childrenOf(refusing)).toEqual([]);
    for (const stream of [false, true]) {
      await upstream.script([{ fail: { kind: 'status', status: 400 } }]);
      const failed = await ask(failing, stream);
      expect(failed.status).toBe(400);
      const fork = (await childrenOf(failing)).at(-1);
      expect(failed.headers.get('x-service-session-id')).toBe(fork?.session.id);
    }
    expect(await childrenOf(failing)).toHaveLength(2);
  });

  test.each<[string, object]>([
    ['failed at once', { fail: { kind: 'status', status: 401 } }],
    [
      'was cut in the middle',
      { reply: { text: 'A long enough answer.' }, fail: { kind: 'cut', after_chunks: 6 } },
    ],
  ])('that is sent again after it %s stays in its session, and so does what follows', async (_how, rule) => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const history: { role: string; content: unknown }[] = [];
    const ask = async (content: string) => {
      const messages = [...history, { role: 'user', content }];
      const answer = await post({ ...say(content), messages }, { headers });
      if (answer.status !== 200) return answer;
      expect(answer.headers.get('x-service-session-id')).toBe(session);
      history.push({ role: 'user', content }, { role: 'assistant', content: answer.body.content });
      return answer;
    };
    await ask('One');
    await upstream.script([{ times: 1, ...rule }, { reply: { text: 'Well.' } }]);
    expect((await ask('Two')).status).toBeGreaterThanOrEqual(500);
    await ask('Two');
    await ask('Three');
    expect((await messagesOf(session)).slice(-3)).toEqual([
      'assistant: Well.',
      'user: Three',
      'assistant: Well.',
    ]);
  });

  test('beside one that is still being answered continues in a fork', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const first = await post(say('One'), { headers });
    const messages = (content: string) => [
      { role: 'user', content: 'One' },
      { role: 'assistant', content: first.body.content },
      { role: 'user', content },
    ];
    await upstream.script([
      { when: { last_user: 'Two' }, reply: { text: 'Slow.', hold_after_chunks: 3 } },
      { reply: { text: 'You said: {{last_user}}' } },
    ]);
    const slow = post({ ...say('x'), messages: messages('Two') }, { headers });
    await upstream.latest(() => true);
    const beside = await post({ ...say('x'), messages: messages('Three') }, { headers });
    expect(beside.headers.get('x-service-session-id')).not.toBe(session);
    await upstream.releaseHeld();
    expect((await slow).headers.get('x-service-session-id')).toBe(session);
  });

  test.each(['scripted:scripted-1', 'compatible:compatible-1'])(
    'keeps pictures and documents for %s: also in a fork, an export and an import',
    async (model) => {
      const picture = Buffer.from('a picture').toString('base64');
      const pdf = Buffer.from('%PDF-1.4 a document').toString('base64');
      const image = (data: string) => ({
        type: 'image',
        source: { type: 'base64', media_type: 'image/png', data },
      });
      const terms = {
        type: 'document',
        title: 'Terms',
        source: { type: 'base64', media_type: 'application/pdf', data: pdf },
      };
      const shown = (data: string) => [image(data), terms, { type: 'text', text: 'What is this?' }];
      const seen = async (): Promise<boolean[]> => {
        const body = JSON.stringify((await upstream.latest(() => true)).body);
        return [picture, pdf].map((bytes) => body.includes(bytes));
      };
      const session = await newSession();
      const headers = { 'x-service-session-id': session };
      const first = await post(say(shown(picture), { model }), { headers });
      expect(first.status).toBe(200);
      expect(await seen()).toEqual([true, true]);
      const repeat = (data: string) =>
        post(
          {
            ...say('x', { model }),
            messages: [
              { role: 'user', content: shown(data) },
              { role: 'assistant', content: first.body.content },
              { role: 'user', content: 'And now?' },
            ],
          },
          { headers },
        );
      expect((await repeat(picture)).headers.get('x-service-session-id')).toBe(session);
      expect((await repeat(pdf)).headers.get('x-service-session-id')).not.toBe(session);

      const own = (method: string, path: string, body?: unknown) =>
        app.request(method, `/api/v1/sessions${path}`, {
          token: ada.token,
          ...(body !== undefined && { body }),
        });
      const { body: listed } = await own('GET', `/${session}/messages`);
      expect(listed.data[0].parts).toEqual([
        { type: 'file', media_type: 'image/png', size: 9, sha256: expect.any(String) },
        { type: 'file', media_type: 'application/pdf', name: 'Terms', size: 19, sha256: expect.any(String) },
        { type: 'text', text: 'What is this?' },
      ]);
      const { body: document } = await own('GET', `/${session}/export`);
      expect(document.messages[0].parts).toMatchObject([{ data: picture }, { data: pdf }, {}]);
      const copies = [
        (await own('POST', '/import', document)).body.id,
        (await own('POST', `/${session}/fork`, {})).body.id,
      ];
      for (const id of [...copies, session]) {
        const answer = await post(say('Still there?', { model }), {
          headers: { 'x-service-session-id': id },
        });
        expect(answer.status).toBe(200);
        expect(await seen()).toEqual([true, true]);
      }
    },
  );

  test('keeps thoughts with their signatures for the vendor that signed them, and for no other', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    await upstream.script([{ reply: { reasoning: 'Let me see.', text: 'You said: {{last_user}}' } }]);
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    const asked = say('One', { thinking, max_tokens: 4000 });
    const first = await post(asked, { headers });
    const { signature } = first.body.content[0];
    expect(first.body.content).toMatchObject([
      { type: 'thinking', thinking: 'Let me see.', signature: expect.stringMatching(/^Eq/) },
      { type: 'text', text: 'You said: One' },
    ]);
    const response = await app.stream('POST', '/v1/messages', {
      token: ada.token,
      body: { ...asked, messages: [{ role: 'user', content: 'Two' }], stream: true },
      headers,
    });
    const events = await Array.fromAsync(readEvents(response));
    expect(events.flatMap(({ data }) => data.delta?.signature ?? [])).toEqual([signature]);
    expect(JSON.stringify((await upstream.latest(() => true)).body)).toContain(signature);
    const { body } = await app.request('GET', `/api/v1/sessions/${session}/messages`, { token: ada.token });
    expect(body.data[1].parts[0]).toEqual({ type: 'reasoning', text: 'Let me see.', signature });
    await post({ ...say('Three'), model: 'compatible:compatible-1' }, { headers });
    expect(JSON.stringify((await upstream.latest(() => true)).body)).not.toContain(signature);

    // What a client brings along is replayed, too.
    const history = [
      { role: 'user', content: 'Before' },
      {
        role: 'assistant',
        content: [
          { type: 'redacted_thinking', data: 'c2VhbGVk' },
          { type: 'thinking', thinking: 'Brought along.', signature },
          { type: 'text', text: 'So it was.' },
        ],
      },
      { role: 'user', content: 'Go on' },
    ];
    const brought = { 'x-service-session-id': await newSession() };
    expect((await post({ ...asked, messages: history }, { headers: brought })).status).toBe(200);
    const sent = JSON.stringify((await upstream.latest(() => true)).body);
    for (const words of ['c2VhbGVk', 'Brought along.']) expect(sent).toContain(words);
  });

  test('goes on with other instructions where its model binds thoughts to those of before', async () => {
    await upstream.script([{ reply: { reasoning: 'Let me see.', text: 'You said: {{last_user}}' } }]);
    const headers = { 'x-service-session-id': await newSession() };
    for (const system of ['Be brief.', 'Be kind.', 'Be brief.']) {
      const asked = say('Go on', { system, model: 'scripted:claude-opus-5-5' });
      expect((await post(asked, { headers })).status).toBe(200);
    }
  });

  test('that holds nothing but instructions is refused', async () => {
    const headers = { 'x-service-session-id': await newSession() };
    const answer = await post(
      { ...say(''), messages: [{ role: 'system', content: 'Be kind.' }] },
      { headers },
    );
    expect(answer).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
  });

  test('leaves the tools of the client to the client, beside those that the session allows', async () => {
    const session = await newSession({ permission_rules: [{ tool: 'ls', decision: 'allow' }] });
    const headers = { 'x-service-session-id': session };
    const tools = [
      { name: 'get_weather', input_schema: { type: 'object' } },
      // Called as one of ours, and none of it.
      { name: 'bash', input_schema: { type: 'object' } },
    ];
    await upstream.script([
      {
        when: { step: 0 },
        reply: {
          text: 'I look.',
          tool_calls: [
            { name: 'ls', arguments: {} },
            { name: 'get_weather', arguments: { place: 'Rome' } },
            { name: 'bash', arguments: { command: 'touch run-here' } },
          ],
        },
      },
      { when: { tool_results: 3 }, reply: { text: 'Last was: {{last_tool_result}}' } },
    ]);
    const first = await post(say('Look', { tools }), { headers });
    expect(first.body).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', name: 'get_weather', input: { place: 'Rome' } },
        { type: 'tool_use', name: 'bash', input: { command: 'touch run-here' } },
      ],
    });
    const results = first.body.content
      .filter(({ type }: { type: string }) => type === 'tool_use')
      .map(({ id, name }: { id: string; name: string }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: `Given by ${name}.`,
      }));
    const answer = { role: 'user', content: results };
    const history = [
      { role: 'user', content: 'Look' },
      { role: 'assistant', content: first.body.content },
    ];
    const repeated = await post({ ...say('x', { tools }), messages: [...history, answer] }, { headers });
    expect(repeated.body.content).toEqual([{ type: 'text', text: 'Last was: Given by bash.' }]);
    expect(repeated.headers.get('x-service-session-id')).toBe(session);
    const { body } = await app.request('GET', `/api/v1/sessions/${session}/messages?limit=100`, {
      token: ada.token,
    });
    expect(body.data.map(({ role }: { role: string }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
    ]);
  });

  test.each([true, false])('goes on from the result alone, streamed: %s', async (stream) => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'get_weather', arguments: { place: 'Rome' } }] } },
      { reply: { text: 'It was: {{last_tool_result}}' } },
    ]);
    const response = await app.stream('POST', '/v1/messages', {
      token: ada.token,
      body: say('Look', { tools, stream: true }),
      headers,
    });
    const events = await Array.fromAsync(readEvents(response));
    const start = events.find(({ event }) => event === 'content_block_start');
    expect(start?.data.content_block).toMatchObject({ type: 'tool_use', name: 'get_weather' });
    const pieces = events.map(({ data }) => data.delta?.partial_json ?? '');
    expect(JSON.parse(pieces.join(''))).toEqual({ place: 'Rome' });
    const result = { type: 'tool_result', tool_use_id: start?.data.content_block.id, content: 'Rain.' };
    const next = say([result], { tools, stream });
    if (!stream)
      expect((await post(next, { headers })).body.content).toMatchObject([{ text: 'It was: Rain.' }]);
    else {
      const rest = await app.stream('POST', '/v1/messages', { token: ada.token, body: next, headers });
      const texts = (await Array.fromAsync(readEvents(rest))).map(({ data }) => data.delta?.text ?? '');
      expect(texts.join('')).toBe('It was: Rain.');
    }
    const orphan = await post(say([{ ...result, tool_use_id: 'toolu_other' }], { tools }), { headers });
    expect(orphan).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
  });

  test('goes on without the history that its provider refuses, which the client may send again', async () => {
    const session = await newSession();
    const headers = { 'x-service-session-id': session };
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'eA==' } };
    const history = (content: unknown) => [
      { role: 'user', content },
      { role: 'assistant', content: 'Seen.' },
      { role: 'user', content: 'And now?' },
    ];
    await upstream.script([
      { times: 1, fail: { kind: 'status', status: 400 } },
      { reply: { text: 'You said: {{last_user}}' } },
    ]);
    const refused = await post(say('x', { messages: history([image]) }), { headers });
    expect(refused.status).toBe(400);
    const on = { prompt: 'Go on', session_id: session, model: 'scripted:scripted-1' };
    const query = await app.request('POST', '/api/v1/query', { token: ada.token, body: on });
    expect(query).toMatchObject({ status: 200, body: { status: 'completed' } });
    const asked = JSON.stringify((await upstream.latest(() => true)).body);
    expect(asked).toContain('Go on');
    expect(asked).not.toContain('eA==');

    const fresh = await newSession();
    const again = { headers: { 'x-service-session-id': fresh } };
    await upstream.script([
      { times: 1, fail: { kind: 'status', status: 400 } },
      { reply: { text: 'You said: {{last_user}}' } },
    ]);
    expect((await post(say('x', { messages: history([image]) }), again)).status).toBe(400);
    const mended = await post(say('x', { messages: history('A picture.') }), again);
    expect(mended.body.content).toEqual([{ type: 'text', text: 'You said: And now?' }]);
    const path = `/api/v1/sessions/${fresh}/messages?limit=100`;
    const { body } = await app.request('GET', path, { token: ada.token });
    expect(body.data.map(({ role, excluded }: Json) => [role, excluded])).toEqual([
      ...[
        ['user', true],
        ['assistant', true],
        ['user', true],
      ],
      ...[
        ['user', false],
        ['assistant', false],
        ['user', false],
        ['assistant', false],
      ],
    ]);
  });

  test('keeps nothing that it could not take in again', async () => {
    const tools = [{ name: 'look', input_schema: { type: 'object' } }];
    const use = { type: 'tool_use', id: 'twice', name: 'look', input: {} };
    const results = [{ type: 'tool_result', tool_use_id: 'twice', content: 'r' }];
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [use, use] },
      { role: 'user', content: results },
    ];
    const twice = await post(say('x', { tools, messages }));
    expect(twice).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
    expect(twice.body.error.message).toContain('another tool_use of this answer: "twice"');
    const block = { type: 'text', text: 'a' };
    const many = await post(say(Array.from({ length: 10_001 }, () => block)));
    expect(many).toMatchObject({ status: 400, body: { error: { type: 'invalid_request_error' } } });
    // Two messages of results make one.
    const half = Array.from({ length: 5001 }, () => block);
    const uses = ['one', 'two'].map((id) => ({ ...use, id }));
    const answers = ['one', 'two'].map((id) => ({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content: 'r' }, ...half],
    }));
    const made = [{ role: 'user', content: 'Hi' }, { role: 'assistant', content: uses }, ...answers];
    const crowded = await post(say('x', { tools, messages: made }));
    expect(crowded.body.error.message).toContain('more than 10000 parts');

    const session = await newSession();
    const source = { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' };
    const document = { type: 'document', title: 't'.repeat(1500), source };
    const headers = { 'x-service-session-id': session };
    expect((await post(say([document, { type: 'text', text: 'Read.' }]), { headers })).status).toBe(200);
    const exported = await app.request('GET', `/api/v1/sessions/${session}/export`, { token: ada.token });
    expect(exported.body.messages[0].parts[0].name).toBe('t'.repeat(1000));
    const body = exported.body;
    expect((await app.request('POST', '/api/v1/sessions/import', { token: ada.token, body })).status).toBe(
      201,
    );
  });

  test('has no tools, unless the session allows them without asking', async () => {
    const clean = await newSession();
    await post(say('Hi'), { headers: { 'x-service-session-id': clean } });
    expect((await upstream.latest(() => true)).body).not.toHaveProperty('tools');
    const ruled = await newSession({ permission_rules: [{ tool: 'ls', decision: 'allow' }] });
    await upstream.script([
      { when: { step: 0 }, reply: { text: 'I look. ', tool_calls: [{ name: 'ls', arguments: {} }] } },
      { reply: { text: 'Seen.' } },
    ]);
    const answer = await post(say('Look'), { headers: { 'x-service-session-id': ruled } });
    expect(answer.body.content).toEqual([{ type: 'text', text: 'I look. Seen.' }]);
  });

  test("is nobody else's", async () => {
    const session = await newSession();
    const answer = await post(say('Hi'), {
      token: mallory.token,
      headers: { 'x-service-session-id': session },
    });
    expect(answer).toMatchObject({ status: 404, body: { error: { type: 'not_found_error' } } });
  });

  test('whose client goes away before its answer is read ends as interrupted, too', async () => {
    await upstream.script([
      { reply: { text: 'A long enough answer to hang.' }, fail: { kind: 'hang', after_chunks: 4 } },
    ]);
    const session = await newSession();
    const controller = new AbortController();
    const call = {
      principal: await app.services.identity.authenticate(ada.token),
      headers: { 'x-service-session-id': session },
      body: say('Hi', { stream: true }),
      signal: controller.signal,
    } as unknown as Parameters<typeof createMessage>[0]; // all that the handler reads
    await createMessage(call, app.services);
    controller.abort();
    await expect
      .poll(
        async () =>
          (await app.request('GET', `/api/v1/runs?session_id=${session}`, { token: ada.token })).body.data[0],
      )
      .toMatchObject({ status: 'interrupted', interrupt_reason: 'client_disconnected' });
  });

  test('whose client goes away ends as interrupted', async () => {
    await upstream.script([
      {
        reply: { text: 'A long enough answer to hang in its middle.' },
        fail: { kind: 'hang', after_chunks: 4 },
      },
    ]);
    const session = await newSession();
    const response = await app.stream('POST', '/v1/messages', {
      token: ada.token,
      body: say('Hi', { stream: true }),
      headers: { 'x-service-session-id': session },
    });
    await response.body?.cancel();
    await upstream.latest(({ outcome }) => outcome === 'aborted');
    await expect
      .poll(
        async () =>
          (await app.request('GET', `/api/v1/runs?session_id=${session}`, { token: ada.token })).body.data[0],
      )
      .toMatchObject({ status: 'interrupted', interrupt_reason: 'client_disconnected', trigger: 'messages' });
  });
});
