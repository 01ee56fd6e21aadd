/** The Messages surface in front of a provider that speaks it too: what its clients say arrives as it is, and so does the answer. */

import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, readEvents, type StreamedEvent, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { sayWhole, startRawProvider } from '../test-raw-provider.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const vendor = {
    type: 'anthropic' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'the-key-of-the-upstream',
    models: [{ id: 'vendor-1' }],
  };
  app = await testApp({
    config: {
      providers: {
        vendor,
        anthropic: { ...vendor, models: [{ id: 'claude-sonnet-4-20250514' }] },
        prefixed: {
          ...vendor,
          system_prompt_prefix: 'Prefix.',
          provider_options: { service_tier: 'auto' },
          extra_headers: { 'Anthropic-Beta': 'ours, one' },
        },
      },
    },
  });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

beforeEach(() => untilFarFromMidnight(20_000));
beforeEach(() =>
  upstream.script([
    {
      reply: {
        reasoning: 'Let me see.',
        text: 'You said: {{last_user}}',
        usage: { input: 9, cached: 4, output: 5 },
      },
    },
  ]),
);

function request(more: Record<string, unknown> = {}) {
  return {
    model: 'vendor:vendor-1',
    max_tokens: 2000,
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] },
    ],
    ...more,
  };
}

function post(body: unknown, headers: Record<string, string> = {}) {
  return app.request('POST', '/v1/messages?beta=true', { token: ada.token, body, headers });
}

async function streamed(body: Record<string, unknown>): Promise<StreamedEvent[]> {
  const response = await app.stream('POST', '/v1/messages', {
    token: ada.token,
    body: { ...body, stream: true },
  });
  return Array.fromAsync(readEvents(response));
}

test('a request arrives as it was sent, but for the name of the model and the key', async () => {
  const asked = request({
    system: [{ type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral' } }],
    thinking: { type: 'enabled', budget_tokens: 1024 },
    metadata: { user_id: 'someone' },
  });
  const answer = await post(asked, { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'one,two' });
  expect(answer.status).toBe(200);
  const sent = await upstream.latest(() => true);
  expect(sent.body).toEqual({ ...asked, model: 'vendor-1', stream: false });
  expect(sent.path).toBe('/v1/messages?beta=true');
  expect(sent.headers).toMatchObject({ 'x-api-key': 'the-key-of-the-upstream', 'anthropic-beta': 'one,two' });
  expect(sent.headers).not.toHaveProperty('authorization');
});

test('arguments and schemas arrive with members of any name', async () => {
  // As text: in an object literal `__proto__` is no member.
  const any = '{"constructor":"x","__proto__":{"toString":1}}';
  const call = `{"type":"tool_use","id":"toolu_1","name":"make_class","input":${any}}`;
  const schema = `{"type":"object","properties":{"prototype":{"enum":[${any}]}}}`;
  const asked = {
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [JSON.parse(call)] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Done.' }] },
    ],
    tools: [{ name: 'make_class', input_schema: JSON.parse(schema), input_examples: [JSON.parse(any)] }],
    output_config: { format: { type: 'json_schema', schema: JSON.parse(schema) } },
  };
  expect(await post(request(asked))).toMatchObject({ status: 200 });
  const sent = JSON.stringify((await upstream.latest(() => true)).body);
  for (const member of Object.values(asked)) expect(sent).toContain(JSON.stringify(member));

  const elsewhere = { metadata: JSON.parse(any) };
  expect(await post(request(elsewhere))).toMatchObject({ status: 400 });
});

test('thoughts come with their signatures, and the answer names the model as it was asked for', async () => {
  const asked = request({ thinking: { type: 'enabled', budget_tokens: 1024 } });
  const { body } = await post(asked);
  expect(body).toMatchObject({
    model: 'vendor:vendor-1',
    content: [
      { type: 'thinking', thinking: 'Let me see.', signature: expect.stringMatching(/^Eq/) },
      { type: 'text', text: 'You said: Hi' },
    ],
    usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 5 },
  });
  const events = await streamed(asked);
  expect(events[0]?.data.message).toMatchObject({ model: 'vendor:vendor-1', usage: { input_tokens: 5 } });
  const signatures = events.flatMap(({ data }) => data.delta?.signature ?? []);
  expect(signatures).toEqual([body.content[0].signature]);
  expect(events.at(-2)?.data.usage).toMatchObject({ input_tokens: 5, output_tokens: 5 });
  expect(events.at(-1)?.event).toBe('message_stop');
  expect(events.every(({ event, data }) => event === data.type)).toBe(true);
});

test('what the settings add to requests is added', async () => {
  await post(request({ model: 'prefixed:vendor-1', system: 'Be kind.' }));
  expect((await upstream.latest(() => true)).body).toMatchObject({
    service_tier: 'auto',
    system: 'Prefix.\nBe kind.',
  });
});

test('betas of the settings go along with those of the client', async () => {
  const asked = request({ model: 'prefixed:vendor-1' });
  const sentBetas = async () => (await upstream.latest(() => true)).headers['anthropic-beta'];
  await post(asked, { 'anthropic-beta': 'one,two' });
  expect(await sentBetas()).toBe('one,two,ours');
  await post(asked);
  expect(await sentBetas()).toBe('ours,one');
});

test('what it uses is metered, whole and streamed, and where the client goes away', async () => {
  const grace = await app.register('grace');
  const used = async () => {
    const { body } = await app.request('GET', '/api/v1/usage?group_by=model', { token: grace.token });
    return body.data.reduce(
      (sum: number, row: { usage: { input_tokens: number; output_tokens: number } }) =>
        sum + row.usage.input_tokens + row.usage.output_tokens,
      0,
    );
  };
  await app.request('POST', '/v1/messages', { token: grace.token, body: request() });
  expect(await used()).toBe(14);
  const response = await app.stream('POST', '/v1/messages', {
    token: grace.token,
    body: request({ stream: true }),
  });
  await response.text();
  expect(await used()).toBe(28);
  const fail = { kind: 'hang', after_chunks: 5 };
  const usage = { input: 9, cached: 4, output: 8 };
  await upstream.script([
    { reply: { text: 'A long enough answer to be left.', chunk_size: 4, usage }, fail },
  ]);
  const left = await app.stream('POST', '/v1/messages', {
    token: grace.token,
    body: request({ stream: true }),
  });
  for await (const { event } of readEvents(left)) if (event === 'content_block_delta') break;
  await upstream.latest(({ outcome }) => outcome === 'aborted');
  // What was read is known from the begin of the answer, and what was heard counts by its length.
  await expect.poll(used).toBeGreaterThan(28 + 9);
});

test('whoever leaves behind the begin of an answer pays for what was read', async () => {
  const barbara = await app.register('barbara');
  const usage = { input: 9000, cached: 4, output: 8 };
  await upstream.script([
    { reply: { text: 'Never heard.', usage }, fail: { kind: 'hang', after_chunks: 1 } },
  ]);
  const left = await app.stream('POST', '/v1/messages', {
    token: barbara.token,
    body: request({ stream: true }),
  });
  for await (const { event } of readEvents(left)) if (event === 'message_start') break;
  await upstream.latest(({ outcome }) => outcome === 'aborted');
  await expect
    .poll(async () => {
      const { body } = await app.request('GET', '/api/v1/usage?group_by=model', { token: barbara.token });
      return body.data[0]?.usage;
    })
    .toMatchObject({ input_tokens: 9000, cached_input_tokens: 4 });
});

/** A server of its own, whose only vendor answers as the test says, byte for byte. */
async function withRawVendor() {
  const provider = await startRawProvider();
  onTestFinished(() => provider.stop());
  const vendor = { type: 'anthropic' as const, base_url: `${provider.url}/v1`, api_key: 'a-key' };
  const own = await testApp({
    config: { providers: { vendor: { ...vendor, models: [{ id: 'vendor-1' }] } } },
  });
  onTestFinished(() => own.close());
  return { provider, own };
}

/** What only a text keeps: numbers of 2^53 and more, which are rounded where they are read. */
const longNumbers = '{"id":12345678901234567891,"all":[-9007199254740993,{"price":0.1}]}';

test.each([false, true])(
  'long numbers in arguments come as they are, where the answer is whole and streamed: %s',
  async (stream) => {
    const { provider, own } = await withRawVendor();
    const call = `{"type":"tool_use","id":"toolu_1","name":"look","input":${longNumbers}}`;
    provider.says((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        `{"id":"msg_1","type":"message","role":"assistant","model":"vendor-1","content":[${call}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":5}}`,
      );
    });
    const { token } = await own.register('ada');
    const answer = await own.stream('POST', '/v1/messages', { token, body: request({ stream }) });
    const said = await answer.text();
    expect(said).toContain(stream ? JSON.stringify(longNumbers) : call);
  },
);

test('an answer that comes in one piece where a stream was asked for comes as a stream', async () => {
  const { provider, own } = await withRawVendor();
  const content = [
    { type: 'thinking', thinking: 'Hm.', signature: 'Eq' },
    { type: 'text', text: 'I look.' },
    { type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 'it' } },
  ];
  const answer = {
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'vendor-1', content },
    ...{ stop_reason: 'tool_use', stop_sequence: null, usage: { input_tokens: 9, output_tokens: 5 } },
  };
  provider.says((response) => sayWhole(response, answer));
  const { token } = await own.register('ada');
  const asked = { token, body: request({ stream: true }) };
  const events = await Array.fromAsync(readEvents(await own.stream('POST', '/v1/messages', asked)));
  expect(events.every(({ event, data }) => event === data.type)).toBe(true);
  const said = events.map(({ data }) => data);
  expect(said.at(0)?.message).toMatchObject({ model: 'vendor:vendor-1', content: [], stop_reason: null });
  expect(said.flatMap(({ content_block: block }) => block ?? [])).toMatchObject([
    { type: 'thinking', thinking: '' },
    { type: 'text', text: '' },
    { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} },
  ]);
  expect(said.flatMap(({ index, delta }) => (index === undefined ? [] : [{ index, ...delta }]))).toEqual([
    { index: 0 },
    { index: 0, type: 'thinking_delta', thinking: 'Hm.' },
    { index: 0, type: 'signature_delta', signature: 'Eq' },
    { index: 0 },
    { index: 1 },
    { index: 1, type: 'text_delta', text: 'I look.' },
    { index: 1 },
    { index: 2 },
    { index: 2, type: 'input_json_delta', partial_json: '{"at":"it"}' },
    { index: 2 },
  ]);
  expect(said.slice(-2)).toMatchObject([
    { delta: { stop_reason: 'tool_use' }, usage: { input_tokens: 9, output_tokens: 5 } },
    { type: 'message_stop' },
  ]);
  const { body } = await own.request('GET', '/api/v1/usage', { token });
  expect(body.data).toMatchObject([{ usage: { input_tokens: 9, output_tokens: 5 } }]);
  for (const stream of [true, false]) {
    const wrong = { token, body: request({ stream }) };
    provider.says((response) => sayWhole(response, {}));
    expect(await own.request('POST', '/v1/messages', wrong)).toMatchObject({
      status: 502,
      body: { error: { type: 'api_error' } },
    });
    const error = { type: 'overloaded_error', message: 'Not with a-key' };
    provider.says((response) => sayWhole(response, { type: 'error', error }));
    expect(await own.request('POST', '/v1/messages', wrong)).toMatchObject({
      status: 529,
      body: { error: { type: 'overloaded_error', message: expect.not.stringContaining('a-key') } },
    });
  }
});

test('what stays in the cache for an hour, and searches of the web, are paid for', async () => {
  const edsger = await app.register('edsger');
  const usage = { input: 100_000, kept_for_an_hour: 100_000, output: 0, searches: 10 };
  await upstream.script([{ reply: { text: 'Found.', usage } }]);
  const asked = { token: edsger.token, body: request({ model: 'anthropic:claude-sonnet-4-20250514' }) };
  for (const stream of [false, true])
    await (await app.stream('POST', '/v1/messages', { ...asked, body: { ...asked.body, stream } })).text();
  const { body } = await app.request('GET', '/api/v1/usage?group_by=model', { token: edsger.token });
  expect(body.data).toMatchObject([{ cost: 2 * (0.6 + 0.1) }]);
});

test('what is used beside the answer counts: to shorten the conversation, and by a model that advises', async () => {
  const barbara = await app.register('liskov');
  const iterations = [
    { type: 'message', input_tokens: 1000, output_tokens: 0 },
    { type: 'compaction', input_tokens: 100_000, output_tokens: 1000 },
    { type: 'advisor_message', model: 'claude-opus-4-20250514', input_tokens: 10_000, output_tokens: 0 },
  ];
  const model = 'anthropic:claude-sonnet-4-20250514';
  const used = async (usage: object) => {
    await upstream.script([{ reply: { text: 'Found.', usage: { input: 1000, output: 0, ...usage } } }]);
    for (const stream of [false, true]) {
      const body = request({ model, stream });
      await (await app.stream('POST', '/v1/messages', { token: barbara.token, body })).text();
    }
    const { body } = await app.request('GET', '/api/v1/usage?group_by=model', { token: barbara.token });
    return body.data;
  };
  // 3 and 15 dollars for a million of the one, 15 for a million of the other.
  const cost = 0.003 + (0.3 + 0.015) + 0.15;
  expect(await used({ iterations })).toMatchObject([
    { usage: { input_tokens: 2 * 111_000, output_tokens: 2 * 1000 }, cost: expect.closeTo(2 * cost, 9) },
  ]);
  // Nobody here knows what it costs to be answered faster, and the sum is what is known.
  const [{ cost: known, usage }] = await used({ speed: 'fast' });
  expect([known, usage.input_tokens]).toEqual([null, 2 * 112_000]);
});

test('a whole answer may take as long as it is allowed to be, since nothing is heard of it before its end', async () => {
  const vendor = { type: 'anthropic' as const, base_url: `${upstream.url}/v1`, api_key: 'a-key' };
  const patient = await testApp({
    config: { providers: { vendor: { ...vendor, models: [{ id: 'vendor-1' }] } } },
    settings: { providerSilenceSeconds: 0.5 },
  });
  onTestFinished(() => patient.close());
  const { token } = await patient.register('ada');
  const ask = (more: Record<string, unknown>) =>
    patient.request('POST', '/v1/messages', { token, body: request(more) });
  await upstream.script([{ reply: { text: 'At last.', first_byte_delay_ms: 1500 } }]);
  expect(await ask({ max_tokens: 20_000 })).toMatchObject({ status: 200 });
  expect(await ask({ max_tokens: 2000 })).toMatchObject({ status: 504 });
  expect(await ask({ max_tokens: 20_000, stream: true })).toMatchObject({ status: 504 });
});

test.each([
  [{ kind: 'status', status: 401 }, 502, 'api_error'],
  [{ kind: 'status', status: 429, retry_after: '7' }, 529, 'overloaded_error'],
  [{ kind: 'status', status: 529 }, 529, 'overloaded_error'],
  [{ kind: 'cut' }, 502, 'api_error'],
])('a failure before the first piece has a status of its own: %o', async (fail, status, type) => {
  await upstream.script([{ fail }]);
  for (const stream of [false, true]) {
    const answer = await post(request({ stream }));
    expect(answer).toMatchObject({ status, body: { type: 'error', error: { type } } });
    expect(JSON.stringify(answer.body)).not.toContain('the-key-of-the-upstream');
  }
});

test.each([
  [{ kind: 'cut', after_chunks: 4 }, 'api_error'],
  [{ kind: 'end', after_chunks: 4 }, 'api_error'],
  [{ kind: 'garbage', after_chunks: 4 }, 'api_error'],
  [{ kind: 'error_frame', after_chunks: 4, status: 529 }, 'overloaded_error'],
])('a failure within the stream is its last event: %o', async (fail, type) => {
  await upstream.script([{ reply: { text: 'A long enough answer to be cut.' }, fail }]);
  const events = await streamed(request());
  expect(events.at(-1)).toMatchObject({ event: 'error', data: { error: { type } } });
});
