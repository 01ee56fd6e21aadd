// OpenAI's own SDK judges the chat completions dialect.
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let client: OpenAI;

beforeAll(async () => {
  upstream = await startUpstream();
  client = new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: 'sk-test', maxRetries: 0 });
});
afterAll(() => upstream.stop());

const model = 'gpt-scripted';
const user = (content: string) => ({ role: 'user' as const, content }); // Narrows the literal for the SDK.
const tools = ['weather', 'clock'].map((name) => ({
  type: 'function' as const, // Narrows the literal for the SDK.
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}));
const oneTool = {
  text: 'I look.',
  tool_calls: [{ name: 'weather', arguments: { city: 'Oslo' } }],
  chunk_size: 3,
};

test('a plain answer has the text, the finish reason and the usage counted in words', async () => {
  await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
  const completion = await client.chat.completions.create({ model, messages: [user('good morning')] });
  expect(completion).toMatchObject({
    id: expect.stringMatching(/^chatcmpl-\w{29}$/),
    object: 'chat.completion',
    model,
    choices: [
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'You said: good morning' } },
    ],
    usage: { prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 },
  });
});

test('a streamed answer arrives in fragments and ends with the usage that was asked for', async () => {
  await upstream.script([{ reply: { text: 'one two three 🎉', chunk_size: 1, write_bytes: 5 } }]);
  const stream = client.chat.completions.stream({
    model,
    messages: [user('count')],
    stream_options: { include_usage: true },
  });
  const fragments: string[] = [];
  stream.on('content', (delta) => fragments.push(delta));
  const completion = await stream.finalChatCompletion();
  expect(fragments.filter((part) => part !== '')).toHaveLength(15);
  expect(completion.choices[0]?.message.content).toBe('one two three 🎉');
  expect(completion.usage).toMatchObject({ prompt_tokens: 1, completion_tokens: 4 });
});

test('without include_usage no chunk speaks of usage, with it all but the last say null', async () => {
  await upstream.script([{ reply: { text: 'hello' } }]);
  const chunksWith = async (options: object) => {
    const stream = await client.chat.completions.create({
      model,
      messages: [user('x')],
      stream: true,
      ...options,
    });
    return Array.fromAsync(stream);
  };
  const bare = await chunksWith({});
  expect(bare.every((chunk) => !('usage' in chunk))).toBe(true);
  const counted = await chunksWith({ stream_options: { include_usage: true } });
  expect(counted.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  expect(counted.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 2 } });
});

test('reasoning comes as reasoning_content before the text', async () => {
  await upstream.script([{ reply: { reasoning: 'hm, well', text: 'yes' } }]);
  const request = { model, messages: [user('sure?')] };
  const whole = await client.chat.completions.create(request);
  expect(whole.choices[0]?.message).toMatchObject({ reasoning_content: 'hm, well', content: 'yes' });
  expect(whole.usage?.completion_tokens_details?.reasoning_tokens).toBe(2);
  const stream = await client.chat.completions.create({ ...request, stream: true });
  const deltas = (await Array.fromAsync(stream)).map((chunk) => chunk.choices[0]?.delta);
  const firstText = deltas.findIndex((delta) => delta?.content);
  expect(
    deltas.slice(0, firstText).some((delta) => delta !== undefined && 'reasoning_content' in delta),
  ).toBe(true);
});

test('tool calls in parallel are streamed in fragments that add up', async () => {
  const second = { name: 'clock', arguments: '{"city": "Oslo"}' };
  await upstream.script([{ reply: { ...oneTool, tool_calls: [...oneTool.tool_calls, second] } }]);
  const stream = client.chat.completions.stream({ model, messages: [user('go')], tools });
  const fragments: string[] = [];
  stream.on('chunk', (chunk) => {
    const part = chunk.choices[0]?.delta.tool_calls?.[0]?.function?.arguments;
    if (part) fragments.push(part);
  });
  const [choice] = (await stream.finalChatCompletion()).choices;
  expect(choice?.finish_reason).toBe('tool_calls');
  expect(fragments.length).toBeGreaterThan(6);
  expect(choice?.message.tool_calls).toMatchObject([
    {
      id: expect.stringMatching(/^call_\w{24}$/),
      function: { name: 'weather', arguments: '{"city":"Oslo"}' },
    },
    {
      id: expect.stringMatching(/^call_\w{24}$/),
      function: { name: 'clock', arguments: '{"city": "Oslo"}' },
    },
  ]);
});

test('the SDK runs the tool and its result comes back in the answer', async () => {
  await upstream.script([
    { when: { step: 0, offers_tool: 'weather' }, reply: oneTool },
    { when: { tool_results: 1, step: 1 }, reply: { text: 'It is {{last_tool_result}}.' } },
  ]);
  const runner = client.chat.completions.runTools({
    model,
    stream: true,
    messages: [user('the weather in Oslo?')],
    tools: [
      {
        type: 'function',
        function: {
          name: 'weather',
          description: 'Tells the weather.',
          parse: (text: string): { city: string } => JSON.parse(text),
          function: ({ city }: { city: string }) => `mild in ${city}`,
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
        },
      },
    ],
  });
  expect(await runner.finalContent()).toBe('It is mild in Oslo.');
  expect((await upstream.requests()).map((record) => record.rule)).toEqual(['#0', '#1']);
});

test('a finish reason of length or content_filter can be scripted', async () => {
  for (const [stop_reason, finish_reason] of [
    ['max_tokens', 'length'],
    ['refusal', 'content_filter'],
    ['stop_sequence', 'stop'],
  ]) {
    await upstream.script([{ reply: { text: 'cut sh', stop_reason } }]);
    const { choices } = await client.chat.completions.create({ model, messages: [user('x')] });
    expect(choices[0]?.finish_reason).toBe(finish_reason);
  }
});

test('the models of the script are listed and any other is not found', async () => {
  await upstream.script([{ reply: { text: 'hi' } }], ['gpt-a', 'gpt-b']);
  expect((await client.models.list()).data.map((it) => it.id)).toEqual(['gpt-a', 'gpt-b']);
  expect(await client.models.retrieve('gpt-b')).toMatchObject({ id: 'gpt-b', object: 'model' });
  const unknown = client.chat.completions.create({ model: 'gpt-c', messages: [user('x')] });
  await expect(unknown).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  await expect(unknown).rejects.toMatchObject({ code: 'model_not_found' });
});

test.each([
  [401, OpenAI.AuthenticationError, 'invalid_api_key'],
  [403, OpenAI.PermissionDeniedError, 'unsupported_country_region_territory'],
  [429, OpenAI.RateLimitError, 'rate_limit_exceeded'],
  [500, OpenAI.InternalServerError, null],
  [503, OpenAI.InternalServerError, null],
])('a scripted %i becomes the error class of the SDK', async (status, errorClass, code) => {
  await upstream.script([{ fail: { kind: 'status', status, message: 'as scripted', retry_after: '7' } }]);
  const failed = client.chat.completions.create({ model, messages: [user('x')], stream: true });
  const error = await failed.catch((it: unknown) => it);
  expect(error).toBeInstanceOf(errorClass);
  expect(error).toMatchObject({ status, code, error: { message: 'as scripted' } });
  expect(error instanceof OpenAI.APIError && error.headers?.get('retry-after')).toBe('7');
  expect(error instanceof OpenAI.APIError && error.requestID).toMatch(/^req_[0-9a-f]{32}$/);
});

test('an error frame in the stream reaches the caller as an API error', async () => {
  const fail = { kind: 'error_frame', after_chunks: 2, status: 500, message: 'the model fell over' };
  await upstream.script([{ reply: { text: 'not all of this' }, fail }]);
  const stream = await client.chat.completions.create({ model, messages: [user('x')], stream: true });
  const error = await Array.fromAsync(stream).catch((it: unknown) => it);
  expect(error).toBeInstanceOf(OpenAI.APIError);
  expect(error).toMatchObject({ message: expect.stringContaining('the model fell over') });
});

const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } };
const asked = [user('x'), { role: 'assistant', content: null, tool_calls: [call] }];
test.each<[string, object, string]>([
  ['no messages', { messages: undefined }, "Invalid value for 'messages'"],
  ['an empty list of messages', { messages: [] }, "'messages'"],
  ['an unknown role', { messages: [{ role: 'robot', content: 'x' }] }, "'messages[0].role'"],
  [
    'an unknown part',
    { messages: [{ role: 'user', content: [{ type: 'text_' }] }] },
    "'messages[0].content[0].type'",
  ],
  [
    'a tool result that nobody asked for',
    { messages: [user('x'), { role: 'tool', content: 'y', tool_call_id: 'a' }] },
    'must be a response to',
  ],
  [
    'a tool call without its result',
    { messages: [...asked, user('y')] },
    'did not have response messages: call_1',
  ],
  ['a tool call at the end', { messages: asked }, 'did not have response messages: call_1'],
  [
    'an assistant message of nothing',
    { messages: [user('x'), { role: 'assistant', content: null }] },
    "'messages[1].content'",
  ],
  [
    'a tool name with a dot',
    { tools: [{ type: 'function', function: { name: 'a.b' } }] },
    "'tools[0].function.name'",
  ],
  ['an unknown parameter', { max_token: 3 }, "Unknown parameter: 'max_token'"],
  ['stream_options without stream', { stream_options: { include_usage: true } }, 'only allowed when'],
  ['a tool choice without tools', { tool_choice: 'auto' }, 'only allowed when'],
  ['an empty list of tools', { tools: [] }, "'tools'"],
  ['a temperature out of range', { temperature: 3 }, "'temperature'"],
])('a request with %s is refused with 400', async (_, wrong, message) => {
  await upstream.script([{ reply: { text: 'never' } }]);
  const body = { model, messages: [user('x')], ...wrong };
  const refused = client.post('/chat/completions', { body });
  await expect(refused).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  await expect(refused).rejects.toMatchObject({
    type: 'invalid_request_error',
    message: expect.stringContaining(message),
  });
});

test('a request without a key is refused with 401', async () => {
  const response = await fetch(`${upstream.url}/v1/chat/completions`, { method: 'POST', body: '{}' });
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', code: null } });
});

test('a model of Mistral takes no message of the user right behind a result, and ids of nine characters alone', async () => {
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  const asked = (name: string, id: string, ...more: ReturnType<typeof user>[]) => {
    const call = { id, type: 'function' as const, function: { name: 'weather', arguments: '{}' } }; // Narrows the literal.
    const messages = [
      user('Oslo?'),
      { role: 'assistant' as const, tool_calls: [call] }, // Narrows the literal for the SDK.
      { role: 'tool' as const, tool_call_id: id, content: 'Rain' }, // The same.
      ...more,
    ];
    return client.chat.completions.create({ model: name, messages });
  };
  const mistral = 'mistral-scripted';
  await expect(asked(mistral, 'abcDEF123', user('And?'))).rejects.toMatchObject({
    status: 400,
    code: '3230',
  });
  await expect(asked(mistral, 'call_1')).rejects.toMatchObject({ status: 400, code: '3280' });
  for (const answer of [asked(mistral, 'abcDEF123'), asked(model, 'call_1', user('And?'))])
    expect((await answer).choices).toMatchObject([{ message: { content: 'Yes.' } }]);
});
