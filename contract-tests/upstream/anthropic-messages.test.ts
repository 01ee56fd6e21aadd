// Anthropic's own SDK judges the Messages dialect.
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let client: Anthropic;

beforeAll(async () => {
  upstream = await startUpstream();
  client = new Anthropic({ baseURL: upstream.url, apiKey: 'sk-ant-test', maxRetries: 0 });
});
afterAll(() => upstream.stop());

const base = { model: 'claude-scripted', max_tokens: 100 };
const user = (content: string) => ({ role: 'user' as const, content }); // Narrows the literal for the SDK.
const tools = ['weather', 'clock'].map((name) => ({
  name,
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } }, // Narrows the literal.
}));
const full = {
  reasoning: 'two things at once',
  text: 'I look.',
  tool_calls: [
    { name: 'weather', arguments: { city: 'Oslo' } },
    { name: 'clock', arguments: {} },
  ],
  chunk_size: 4,
};

test('a plain answer has the text, the stop reason and the usage', async () => {
  await upstream.script([{ reply: { text: 'You said: {{last_user}}', usage: { input: 10, cached: 4 } } }]);
  const message = await client.messages.create({
    ...base,
    system: 'be kind',
    messages: [user('good morning')],
  });
  expect(message).toMatchObject({
    id: expect.stringMatching(/^msg_01\w{22}$/),
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'You said: good morning' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 6, cache_read_input_tokens: 4, output_tokens: 4 },
  });
});

test('the streamed message adds up to the plain one', async () => {
  await upstream.script([{ reply: full }]);
  const request = { ...base, messages: [user('go')], tools };
  const plain = await client.messages.create(request);
  const streamed = await client.messages.stream(request).finalMessage();
  const withoutIds = ({ content, stop_reason, usage }: typeof plain) => ({
    content: content.map((block) => ('id' in block ? { ...block, id: block.id.slice(0, 8) } : block)),
    stop_reason,
    usage,
  });
  expect(plain.content.map((block) => block.type)).toEqual(['thinking', 'text', 'tool_use', 'tool_use']);
  expect(plain.content[2]).toMatchObject({
    id: expect.stringMatching(/^toolu_01\w{22}$/),
    input: { city: 'Oslo' },
  });
  expect(withoutIds(streamed)).toEqual(withoutIds(plain));
});

test('the events come in the order of the vendor, each frame named by its type', async () => {
  await upstream.script([{ reply: full }]);
  const response = await fetch(`${upstream.url}/v1/messages?beta=true`, {
    method: 'POST',
    headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
    body: JSON.stringify({ ...base, messages: [user('go')], tools, stream: true }),
  });
  const frames = (await response.text()).split('\n\n').filter((frame) => frame !== '');
  const events = frames.map((frame) => {
    const [, name, data] = /^event: (\w+)\ndata: (\{.*\})$/.exec(frame) ?? [];
    return { name, data: JSON.parse(data ?? 'null') };
  });
  expect(events.every(({ name, data }) => name === data.type)).toBe(true);
  const order = events.map(({ data }) => data.delta?.type ?? data.content_block?.type ?? data.type);
  const once = order.filter((type, at) => type !== order[at - 1]);
  const toolUse = ['tool_use', 'input_json_delta', 'content_block_stop'];
  expect(once).toEqual([
    'message_start',
    ...['thinking', 'ping', 'thinking_delta', 'signature_delta', 'content_block_stop'],
    ...['text', 'text_delta', 'content_block_stop'],
    ...toolUse,
    ...toolUse,
    'message_delta',
    'message_stop',
  ]);
  expect(events[0]?.data.message).toMatchObject({
    content: [],
    stop_reason: null,
    usage: { input_tokens: 3 },
  });
  expect(events.at(-2)?.data).toMatchObject({
    delta: { stop_reason: 'tool_use' },
    usage: { output_tokens: 10 },
  });
  const json = events
    .filter(({ data }) => data.index === 2 && data.delta)
    .map(({ data }) => data.delta.partial_json);
  expect(json.length).toBeGreaterThan(3);
  expect(json.join('')).toBe('{"city":"Oslo"}');
});

test('tool results make the round trip through the SDK', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: full },
    {
      when: { step: 1, tool_results: 2, last_tool_result: 'o.?clock' },
      reply: { text: '{{last_tool_result}} it is.' },
    },
  ]);
  const first = await client.messages.stream({ ...base, messages: [user('go')], tools }).finalMessage();
  const results = first.content.flatMap((block) =>
    block.type === 'tool_use'
      ? [
          {
            type: 'tool_result' as const,
            tool_use_id: block.id,
            content: `${block.name === 'clock' ? 'two o’clock' : ''}`,
          },
        ] // Narrows.
      : [],
  );
  const messages = [
    user('go'),
    { role: 'assistant' as const, content: first.content },
    { role: 'user' as const, content: results },
  ]; // Narrows.
  const second = await client.messages.stream({ ...base, messages, tools }).finalText();
  expect(second).toBe('two o’clock it is.');
});

test('a stop sequence is named', async () => {
  await upstream.script([{ reply: { text: 'a b', stop_reason: 'stop_sequence', stop_sequence: 'END' } }]);
  const expected = { stop_reason: 'stop_sequence', stop_sequence: 'END' };
  const request = { ...base, messages: [user('x')], stop_sequences: ['END'] };
  expect(await client.messages.create(request)).toMatchObject(expected);
  expect(await client.messages.stream(request).finalMessage()).toMatchObject(expected);
});

test('tokens are counted by the documented rule, and models are listed', async () => {
  await upstream.script([{ reply: { text: 'x' } }], ['claude-a', 'claude-b']);
  const counted = await client.messages.countTokens({
    model: 'claude-a',
    messages: [user('one two')],
    tools,
  });
  expect(counted).toEqual({ input_tokens: 4 });
  const listed = await Array.fromAsync(client.models.list());
  expect(listed.map((it) => it.id)).toEqual(['claude-a', 'claude-b']);
  expect(await client.models.retrieve('claude-a')).toMatchObject({ type: 'model', id: 'claude-a' });
  await expect(client.models.retrieve('claude-c')).rejects.toBeInstanceOf(Anthropic.NotFoundError);
});

test('the list of models has pages, with what each model reads and writes', async () => {
  const ids = ['claude-a', 'claude-b', 'claude-c', 'claude-d', 'claude-e'];
  await upstream.script([], ids, { page_size: 2 });
  const listed = await Array.fromAsync(client.models.list({ limit: 100 }));
  expect(listed.map(({ id }) => id)).toEqual(ids);
  expect(listed[0]).toMatchObject({
    ...{ type: 'model', display_name: expect.any(String) },
    ...{ max_input_tokens: expect.any(Number), max_tokens: expect.any(Number) },
  });
  expect((await upstream.requests()).map(({ path }) => path)).toEqual([
    ...['/v1/models?limit=100', '/v1/models?limit=100&after_id=claude-b'],
    '/v1/models?limit=100&after_id=claude-d',
  ]);
});

test.each([
  [400, Anthropic.BadRequestError, 'invalid_request_error'],
  [401, Anthropic.AuthenticationError, 'authentication_error'],
  [429, Anthropic.RateLimitError, 'rate_limit_error'],
  [500, Anthropic.InternalServerError, 'api_error'],
  [529, Anthropic.InternalServerError, 'overloaded_error'],
])('a scripted %i becomes the error class of the SDK', async (status, errorClass, type) => {
  await upstream.script([{ fail: { kind: 'status', status, message: 'as scripted', retry_after: '7' } }]);
  const error = await client.messages.create({ ...base, messages: [user('x')] }).catch((it: unknown) => it);
  expect(error).toBeInstanceOf(errorClass);
  expect(error).toMatchObject({ status, type, apiMessage: 'as scripted' });
  expect(error instanceof Anthropic.APIError && error.headers?.get('retry-after')).toBe('7');
  expect(error instanceof Anthropic.APIError && error.requestID).toMatch(/^req_011\w{21}$/);
});

test('an error event in the stream reaches the caller with its type', async () => {
  await upstream.script([
    { reply: { text: 'not all of this' }, fail: { kind: 'error_frame', after_chunks: 4 } },
  ]);
  const stream = client.messages.stream({ ...base, messages: [user('x')] });
  await expect(stream.finalMessage()).rejects.toMatchObject({
    type: 'overloaded_error',
    apiMessage: 'Overloaded',
  });
});

const use = { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }] };
const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] };
test.each<[string, object, string]>([
  ['no max_tokens', { max_tokens: undefined }, 'max_tokens: '],
  ['no messages', { messages: [] }, 'messages: at least one message is required'],
  ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.role: '],
  [
    'an unknown block',
    { messages: [{ role: 'user', content: [{ type: 'input_text', text: 'x' }] }] },
    'messages.0.content.0.type: ',
  ],
  [
    'an empty text block',
    { messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] },
    'must be non-empty',
  ],
  [
    'an orphan tool_result',
    { messages: [result] },
    'messages.0.content: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1',
  ],
  [
    'a tool_use without its result',
    { messages: [user('x'), use, user('y')] },
    'messages.1: `tool_use` ids were found without',
  ],
  ['a tool_use at the end', { messages: [user('x'), use] }, 'messages.1: `tool_use` ids were found without'],
  [
    'thinking without a signature',
    {
      messages: [
        user('x'),
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'x', signature: '' }] },
        user('y'),
      ],
    },
    'messages.1.content.0.signature: ',
  ],
  [
    'an assistant first',
    { messages: [{ role: 'assistant', content: 'x' }] },
    'first message must use the "user" role',
  ],
  ['a wrong tool name', { tools: [{ name: 'a.b', input_schema: { type: 'object' } }] }, 'tools.0.name: '],
  ['a tool twice', { tools: [...tools, ...tools] }, 'Tool names must be unique'],
  ['a tool without a schema', { tools: [{ name: 'a' }] }, 'tools.0.input_schema'],
  ['a choice without tools', { tool_choice: { type: 'auto' } }, 'while providing tools'],
  [
    'a budget above max_tokens',
    { thinking: { type: 'enabled', budget_tokens: 1024 } },
    'greater than `thinking.budget_tokens`',
  ],
  ['an unknown field', { max_token: 1 }, 'max_token'],
])('a request with %s is refused with 400', async (_, wrong, message) => {
  await upstream.script([{ reply: { text: 'never' } }]);
  const refused = client.post('/v1/messages', { body: { ...base, messages: [user('x')], ...wrong } });
  await expect(refused).rejects.toBeInstanceOf(Anthropic.BadRequestError);
  await expect(refused).rejects.toMatchObject({
    type: 'invalid_request_error',
    apiMessage: expect.stringContaining(message),
  });
});

test('a request without a key, or without the version header, is refused', async () => {
  const post = async (headers: Record<string, string>) => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(base),
    };
    const response = await fetch(`${upstream.url}/v1/messages`, init);
    const body: unknown = await response.json();
    return { status: response.status, id: response.headers.get('request-id'), body };
  };
  const withoutKey = await post({ 'anthropic-version': '2023-06-01' });
  expect(withoutKey).toMatchObject({
    status: 401,
    body: { type: 'error', error: { type: 'authentication_error' } },
  });
  expect(withoutKey.body).toMatchObject({ request_id: withoutKey.id });
  const withoutVersion = await post({ 'x-api-key': 'k' });
  expect(withoutVersion).toMatchObject({
    status: 400,
    body: { error: { message: 'anthropic-version: header is required' } },
  });
});

test('a thought of a newer model is refused where what stood before it has changed, or left out if asked', async () => {
  await upstream.script([{ reply: { reasoning: 'Let me see.', text: 'Yes.' } }]);
  const bound = { model: 'claude-opus-5-5', max_tokens: 100 };
  const first = await client.beta.messages.create({ ...bound, system: 'one', messages: [user('go')] });
  const messages = [user('go'), { role: 'assistant' as const, content: first.content }, user('on')];
  await client.beta.messages.create({ ...bound, system: 'one', messages });
  const other = { ...bound, system: 'two', messages };
  await expect(client.beta.messages.create(other)).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('bound to a different conversation'),
  });
  const thinking = {
    type: 'adaptive' as const,
    block_binding: { prefix_mismatch_behavior: 'drop_block' as const },
  };
  await expect(client.beta.messages.create({ ...other, thinking })).rejects.toMatchObject({ status: 400 });
  const betas = ['thinking-binding-controls-2026-08-01'];
  expect((await client.beta.messages.create({ ...other, thinking, betas })).stop_reason).toBe('end_turn');
});
