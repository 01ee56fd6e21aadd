/** Answers of the Messages surface that were cut or never end: none is told as complete, and half of a tool call least of all. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Account, type Json, readEvents, type TestApp, testApp } from '../test-app.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { type RawProvider, sayEvents, startRawProvider } from '../test-raw-provider.ts';

let provider: RawProvider;
let app: TestApp;
let ada: Account;

const config = () => ({
  options: { limits: { max_attempts: 1 } },
  providers: {
    chat: {
      ...{ type: 'openai-compat' as const, base_url: `${provider.url}/v1`, api_key: 'the-key' },
      models: [{ id: 'm' }],
    },
  },
});

beforeAll(async () => {
  provider = await startRawProvider();
  app = await testApp({ config: config() });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await provider.stop();
});

const tools = [{ name: 'bash', input_schema: { type: 'object' } }];
const half = '{"path":"/data","recursive":true,"exclu';
const usage = { prompt_tokens: 5, completion_tokens: 3 };

/** A call of the tool, as it is written piece by piece. */
const call = (index: number, json: string) => ({
  choices: [
    {
      index: 0,
      delta: {
        tool_calls: [
          { index, id: `call_${index}`, type: 'function', function: { name: 'bash', arguments: json } },
        ],
      },
    },
  ],
});
const text = (content: string) => ({ choices: [{ index: 0, delta: { content } }] });
const finish = (finish_reason: string) => ({ choices: [{ index: 0, delta: {}, finish_reason }], usage });

/** The model says this from now on, and nothing more until it is left; to its end with a reason for it. */
function says(pieces: readonly Json[], reason?: string): void {
  provider.says((response) => {
    sayEvents(response, ...pieces);
    if (reason === undefined) return;
    sayEvents(response, finish(reason), '[DONE]');
    response.end();
  });
}

function request(more: Json = {}) {
  const messages = [{ role: 'user', content: 'Clean up.' }];
  return { model: 'chat:m', max_tokens: 100, tools, messages, ...more };
}

async function newSession(on: TestApp = app, token = ada.token): Promise<string> {
  return (await on.request('POST', '/api/v1/sessions', { token, body: {} })).body.id;
}

/** Asks, and interrupts the run of the session once something of the answer has come. */
async function interrupted(
  session: string,
  end: () => Promise<unknown>,
  { on = app, token = ada.token } = {},
) {
  const headers = { 'x-service-session-id': session };
  const asked = on.stream('POST', '/v1/messages', { token, headers, body: request({ stream: true }) });
  const events: Json[] = [];
  let ending: Promise<unknown> | undefined;
  for await (const { data } of readEvents(await asked)) {
    events.push(data);
    if (data.type === 'content_block_start') ending = end();
  }
  await ending;
  return events;
}

async function interrupt(session: string): Promise<void> {
  const path = `/api/v1/sessions/${session}/interrupt`;
  expect(await app.request('POST', path, { token: ada.token })).toMatchObject({ status: 202 });
}

test.each([
  ['half of a call', [call(0, half)]],
  ['half of a text', [text('The first half')]],
])('an interrupted answer with %s ends in an error by which clients ask again', async (_, pieces) => {
  says(pieces);
  const session = await newSession();
  const events = await interrupted(session, () => interrupt(session));
  expect(events.at(-1)).toMatchObject({
    type: 'error',
    error: { type: 'timeout_error', message: expect.stringMatching(/interrupted.*; try again later\.$/) },
  });
  expect(events.some(({ type }) => type === 'message_delta')).toBe(false);
});

test('a run whose client has lost its key goes on for nobody', async () => {
  says([text('The first half')]);
  const session = await newSession();
  const { body: made } = await app.request('POST', '/api/v1/auth/api-keys', {
    token: ada.token,
    body: { name: 'Lost' },
  });
  const revoke = () =>
    app.request('DELETE', `/api/v1/auth/api-keys/${made.api_key.id}`, { token: ada.token });
  const events = await interrupted(session, revoke, { token: made.key });
  expect(events.at(-1)).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
  const state = async () =>
    (await app.request('GET', `/api/v1/sessions/${session}`, { token: ada.token })).body.status;
  await expect.poll(state).toBe('idle');
});

test('a thread whose answer was interrupted goes on from the one before', async () => {
  says([text('Yes.')], 'stop');
  const post = (body: Json) => app.request('POST', '/v1/messages', { token: ada.token, body });
  const first = await post(request({ thread: { type: 'create' } }));
  const { tools: _said, ...more } = request({
    thread: { type: 'continue', previous_message_id: first.body.id },
  });
  says([text('The first half')]);
  const waiting = post(more);
  await expect.poll(() => provider.asked).toBeGreaterThan(0);
  const session = first.headers.get('x-service-session-id') ?? '';
  const running = async () =>
    (await app.request('GET', `/api/v1/sessions/${session}`, { token: ada.token })).body.status;
  await expect.poll(running).toBe('running');
  await interrupt(session);
  expect(await waiting).toMatchObject({ status: 408, body: { error: { type: 'timeout_error' } } });
  says([text('Yes.')], 'stop');
  expect(await post(more)).toMatchObject({ status: 200 });
});

test.each([true, false])(
  'a server that stops says so, and not where to go on; in a session: %s',
  async (held) => {
    says([call(0, half)]);
    const stopping = await testApp({ config: config() });
    let closed: Promise<void> | undefined;
    const close = () => (closed ??= stopping.close());
    onTestFinished(() => close());
    const { token } = await stopping.register('ada');
    const headers: Record<string, string> = held
      ? { 'x-service-session-id': await newSession(stopping, token) }
      : {};
    const asked = { token, headers, body: request({ stream: true }) };
    const events: Json[] = [];
    for await (const { data } of readEvents(await stopping.stream('POST', '/v1/messages', asked))) {
      events.push(data);
      if (data.type === 'content_block_start') void close();
    }
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      error: { message: expect.stringMatching(/^The server (is stopping|stopped).*; try again later\.$/) },
    });
  },
);

test.each([false, true])(
  'a call that nobody can read is no answer, unless the client is told; streamed: %s',
  async (stream) => {
    const ask = async () => {
      const body = request({ stream });
      const answer = await app.stream('POST', '/v1/messages', { token: ada.token, body });
      return { status: answer.status, said: await answer.text() };
    };
    says([call(0, half)], 'tool_calls');
    const broken = await ask();
    expect(broken.said).toMatch(/"type":"api_error","message":"[^"]*try again later/);
    expect(broken.said).not.toContain('"stop_reason":"tool_use"');
    says([call(0, half)], 'length');
    const cut = await ask();
    expect(cut).toMatchObject({ status: 200, said: expect.stringContaining('"stop_reason":"max_tokens"') });
  },
);

test.each([
  ['null', '{}'],
  ['"{\\"path\\": \\"/data\\"}"', '{}'],
  ['[1, 2]', '{}'],
  ['', '{}'],
  [' {"path": "/data"}', ' {"path": "/data"}'],
])('arguments such as %s come so that the client can give them back', async (given, told) => {
  says([call(0, given.slice(0, 1)), call(0, given.slice(1))], 'tool_calls');
  const asked = request({ stream: true });
  const answer = await app.stream('POST', '/v1/messages', { token: ada.token, body: asked });
  const events = await Array.fromAsync(readEvents(answer));
  const json = events.map(({ data }) => data.delta?.partial_json ?? '').join('');
  expect(json || '{}').toBe(told);
  const whole = await app.request('POST', '/v1/messages', { token: ada.token, body: request() });
  expect(JSON.parse(told)).toEqual(whole.body.content[0].input);
});

test.each(['error', 'abort', 'insufficient_system_resource'])(
  'an answer that its provider ends by %s is a failure',
  async (reason) => {
    says([text('The first half')], reason);
    const answer = await app.request('POST', '/v1/messages', { token: ada.token, body: request() });
    expect(answer).toMatchObject({ status: 502, body: { error: { type: 'api_error' } } });
  },
);

test('an answer that fills the window of its model was cut by its length', async () => {
  says([text('The first half')], 'model_length');
  const answer = await app.request('POST', '/v1/messages', { token: ada.token, body: request() });
  expect(answer).toMatchObject({ status: 200, body: { stop_reason: 'max_tokens' } });
});

test('a call of our own that nobody can read is not made, and the model is told', async () => {
  const session = await newSession();
  let asked: Json;
  provider.says((response, { body }) => {
    asked = body;
    const begun = body.messages.at(-1).role === 'tool';
    const own = { ...call(0, '{"path":"some/deep/fol').choices[0] };
    own.delta?.tool_calls.forEach((one) => {
      one.function.name = 'ls';
    });
    if (begun) sayEvents(response, text('I see.'), finish('stop'), '[DONE]');
    else sayEvents(response, { choices: [own] }, finish('tool_calls'), '[DONE]');
    response.end();
  });
  const body = { prompt: 'Look', model: 'chat:m', session_id: session };
  const { body: run } = await app.request('POST', '/api/v1/query', { token: ada.token, body });
  expect(run.tool_results).toMatchObject([
    { name: 'ls', is_error: true, content: expect.stringMatching(/^The call was not made: its arguments/) },
  ]);
  expect(JSON.stringify(asked)).toContain('The call was not made');
});

test('calls that are written side by side come one behind the other, each with its own arguments', async () => {
  const many = Array.from({ length: 900 }, (_, index) => index);
  says(
    [
      ...many.map((index) => call(index, '{"n":')),
      text('And this.'),
      ...many.toReversed().map((index) => call(index, `${index}}`)),
    ],
    'tool_calls',
  );
  const answer = await app.request('POST', '/v1/messages', { token: ada.token, body: request() });
  const calls = answer.body.content.filter(({ type }: Json) => type === 'tool_use');
  expect(calls.map(({ input }: Json) => input.n)).toEqual(many);
  expect(answer.body.content.at(-1)).toEqual({ type: 'text', text: 'And this.' });
});

test('more calls than any model asks for are a failure', async () => {
  says(
    Array.from({ length: 1001 }, (_, index) => call(index, '{')),
    'tool_calls',
  );
  const answer = await app.request('POST', '/v1/messages', { token: ada.token, body: request() });
  expect(answer).toMatchObject({
    status: 502,
    body: { error: { message: expect.stringContaining('more than any answer holds') } },
  });
});

test('thousands of instructions between the messages are read in one pass', async () => {
  const { tools: _unused, ...body } = request();
  const said = { role: 'system', content: 'a', clear_at: 'next_user_message' };
  const messages = [...body.messages, ...Array.from({ length: 20_000 }, () => said)];
  const spent = await cpuMsOf(async () => {
    const { status } = await app.request('POST', '/v1/messages/count_tokens', {
      token: ada.token,
      body: { model: 'chat:m', messages },
    });
    expect(status).toBe(200);
  });
  expect(spent).toBeLessThan(2000);
});
