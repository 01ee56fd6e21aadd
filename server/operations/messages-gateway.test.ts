/** The Messages surface as a gateway: all that its clients send reaches a model of another vendor, and comes back in their shapes. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, readEvents, type StreamedEvent, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      models: { small: { provider: 'compatible', model: 'thinker-1' } },
      options: {
        model_names: {
          'claude-*': 'compatible:compatible-1',
          'claude-haiku-*': 'small',
          'claude-haiku-4': 'compatible-1',
          'gpt-*-mini': 'compatible:compatible-1',
        },
      },
      providers: {
        compatible: {
          type: 'openai-compat',
          base_url: `${upstream.url}/v1`,
          api_key: 'k',
          models: [
            { id: 'compatible-1', context_window: 32_000, default_max_tokens: 4000 },
            { id: 'thinker-1', can_reason: true },
          ],
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

beforeEach(() => upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

const weather = {
  name: 'get_weather',
  description: 'Tells the weather.',
  input_schema: { type: 'object', properties: { place: { type: 'string' } } },
};
const question = { role: 'user', content: 'Is it raining?' };

function request(more: Record<string, unknown> = {}) {
  return { model: 'compatible:compatible-1', max_tokens: 100, messages: [question], ...more };
}

function post(body: unknown, path = '/v1/messages') {
  return app.request('POST', path, { token: ada.token, body });
}

async function streamed(body: Record<string, unknown>): Promise<StreamedEvent[]> {
  const response = await app.stream('POST', '/v1/messages', {
    token: ada.token,
    body: { ...body, stream: true },
  });
  return Array.fromAsync(readEvents(response));
}

/** The body that the provider was sent, in the form of chat completions. */
async function sent(): Promise<Record<string, unknown> & { messages: Record<string, unknown>[] }> {
  return (await upstream.latest(() => true)).body as Awaited<ReturnType<typeof sent>>; // the vendor's form
}

describe('tools of the request', () => {
  const twoCalls = {
    reply: {
      text: 'I look.',
      tool_calls: [
        { name: 'get_weather', arguments: { place: 'Rome' } },
        { name: 'bash', arguments: {} },
      ],
    },
  };
  const bash = { name: 'bash', input_schema: { type: 'object' }, defer_loading: true };

  test('come back as tool_use and are not run here, whatever their names', async () => {
    await upstream.script([twoCalls]);
    const answer = await post(request({ tools: [weather, bash] }));
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', name: 'get_weather', input: { place: 'Rome' } },
        { type: 'tool_use', name: 'bash', input: {} },
      ],
    });
    expect(await upstream.requests()).toHaveLength(1);
    expect((await sent()).tools).toMatchObject([
      { function: { name: 'get_weather', description: 'Tells the weather.' } },
      { function: { name: 'bash' } },
    ]);
  });

  test('are streamed block after block, and the pieces of their arguments are the JSON of the whole', async () => {
    await upstream.script([twoCalls]);
    const whole = await post(request({ tools: [weather, bash] }));
    const events = await streamed(request({ tools: [weather, bash] }));
    const names = events.map(({ event }) => event).filter((name, at, all) => name !== all[at - 1]);
    expect(names.join(' ')).toBe(
      `message_start${' content_block_start content_block_delta content_block_stop'.repeat(3)} message_delta message_stop`,
    );
    const starts = events.filter(({ event }) => event === 'content_block_start');
    expect(starts.map(({ data }) => data.index)).toEqual([0, 1, 2]);
    expect(starts[1]?.data.content_block).toMatchObject({ type: 'tool_use', name: 'get_weather', input: {} });
    const pieces = events.flatMap(({ data }) =>
      data.index === 1 && data.delta?.type === 'input_json_delta' ? [data.delta.partial_json] : [],
    );
    expect(JSON.parse(pieces.join(''))).toEqual({ place: 'Rome' });
    expect(events.at(-2)?.data).toMatchObject({
      delta: { stop_reason: 'tool_use' },
      usage: whole.body.usage,
    });
  });

  // What every object of JavaScript inherits are names like any other in what a tool takes.
  test('may take arguments of any name, which come and go as they are', async () => {
    const schema =
      '{"type":"object","properties":{"constructor":{"type":"string"},"__proto__":{"type":"object"}}}';
    const input = '{"constructor":"Parser","__proto__":{"toString":"x"}}';
    const tools = [{ name: 'make_class', input_schema: JSON.parse(schema) }];
    await upstream.script([{ reply: { tool_calls: [{ name: 'make_class', arguments: input }] } }]);
    const first = await post(request({ tools }));
    const [call] = first.body.content;
    expect(JSON.stringify(call.input)).toBe(input);
    const [told] = (await sent()).tools as { function: { parameters: unknown } }[];
    expect(JSON.stringify(told?.function.parameters)).toContain(schema.slice(1, -1));

    const result = {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Done.' }],
    };
    const messages = [question, { role: 'assistant', content: first.body.content }, result];
    expect((await post(request({ tools, messages }))).status).toBe(200);
    expect((await sent()).messages[1]).toMatchObject({ tool_calls: [{ function: { arguments: input } }] });
    expect((await post(request({ tools, messages }), '/v1/messages/count_tokens')).status).toBe(200);
  });

  test('are answered by results, with what they show behind them', async () => {
    const picture = {
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' },
    };
    const messages = [
      question,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: 'abc' },
          { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { place: 'Rome' } },
          { type: 'tool_use', id: 'toolu_2', name: 'get_weather', input: { place: 'Oslo' } },
        ],
      },
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            content: [{ type: 'text', text: 'Rain.' }, picture],
          },
          { type: 'tool_result', tool_use_id: 'toolu_2', content: 'Snow.', is_error: true },
          { type: 'text', text: 'Well?', cache_control: { type: 'ephemeral' } },
        ],
      },
    ];
    expect((await post(request({ tools: [weather], messages }))).status).toBe(200);
    expect((await sent()).messages).toMatchObject([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Is it raining?' },
      { role: 'assistant', tool_calls: [{ id: 'toolu_1' }, { id: 'toolu_2' }] },
      { role: 'tool', tool_call_id: 'toolu_1', content: 'Rain.' },
      { role: 'tool', tool_call_id: 'toolu_2' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          { type: 'text', text: 'Well?' },
        ],
      },
    ]);
  });

  test.each([
    [{ type: 'auto' }, 'auto', undefined],
    [{ type: 'any', disable_parallel_tool_use: true }, 'required', false],
    [{ type: 'none' }, 'none', undefined],
    [{ type: 'tool', name: 'get_weather' }, { function: { name: 'get_weather' } }, undefined],
  ])('are chosen as the client wants: %o', async (tool_choice, choice, parallel) => {
    expect((await post(request({ tools: [weather], tool_choice }))).status).toBe(200);
    const body = await sent();
    if (typeof choice === 'string') expect(body.tool_choice).toBe(choice);
    else expect(body.tool_choice).toMatchObject(choice);
    expect(body.parallel_tool_calls).toBe(parallel);
  });

  test('of the vendor are told to the model where clients carry them out, and left out where the vendor would', async () => {
    const tools = [
      { type: 'bash_20250124', name: 'bash' },
      { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
      { type: 'web_search_20250305', name: 'web_search', max_uses: 2 },
      { type: 'a_type_of_tomorrow_20300101' },
      { type: 'custom', ...weather },
    ];
    expect((await post(request({ tools }))).status).toBe(200);
    const told = (await sent()).tools as { function: { name: string } }[]; // the vendor's form
    expect(told.map((tool) => tool.function.name)).toEqual([
      'bash',
      'str_replace_based_edit_tool',
      'get_weather',
    ]);
  });
});

test('every optional parameter at once is tolerated, as are those that nobody knows', async () => {
  const everything = request({
    system: [{ type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', citations: null, of_tomorrow: 1 }] },
      { role: 'system', content: [{ type: 'text', text: 'And brief.' }] },
    ],
    metadata: { user_id: 'someone' },
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
    mcp_servers: [],
    container: null,
    service_tier: 'auto',
    inference_geo: 'eu',
    speed: null,
    thread: null,
    stop_sequences: ['END'],
    temperature: 0.5,
    top_p: 0.9,
    top_k: 3,
    stream: false,
    tools: [],
    tool_choice: { type: 'auto' },
    of_tomorrow: { yes: true },
  });
  const answer = await post(everything, '/v1/messages?beta=true');
  expect(answer).toMatchObject({ status: 200, body: { content: [{ text: 'You said: Hi' }] } });
  const body = await sent();
  expect(body.messages[0]).toMatchObject({ role: 'system', content: 'Be kind.\n\nAnd brief.' });
  for (const name of ['reasoning_effort', 'top_k', 'tools', 'tool_choice', 'thinking'])
    expect(body).not.toHaveProperty(name);
});

test('an instruction may hold for one turn, or change nothing but settings', async () => {
  const once = { role: 'system', content: 'Only now.', clear_at: 'next_user_message' };
  const settings = { role: 'system', output_config: { effort: 'low' } };
  await post(request({ messages: [question, once, settings] }));
  expect((await sent()).messages[0]).toMatchObject({ role: 'system', content: 'Only now.' });
  await post(
    request({ messages: [question, once, settings, { role: 'assistant', content: 'No.' }, question] }),
  );
  expect((await sent()).messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
});

test('a choice of a tool that only the vendor runs is left out for models that do not have it', async () => {
  const search = { type: 'web_search_20250305', name: 'web_search' };
  const tool_choice = { type: 'tool', name: 'web_search' };
  expect((await post(request({ tools: [weather, search], tool_choice }))).status).toBe(200);
  expect(await sent()).not.toHaveProperty('tool_choice');
});

test('how much to think is told to a model that the settings say can reason, and its thoughts to who asked', async () => {
  await upstream.script([{ reply: { reasoning: 'Let me see.', text: 'Yes.' } }]);
  const asked = request({
    model: 'compatible:thinker-1',
    output_config: { effort: 'high' },
    thinking: { type: 'enabled', budget_tokens: 1024 },
  });
  const thinking = { type: 'thinking', thinking: 'Let me see.', signature: '' };
  expect((await post(asked)).body.content).toEqual([thinking, { type: 'text', text: 'Yes.' }]);
  expect(await sent()).toMatchObject({ reasoning_effort: 'high' });
  const events = await streamed(asked);
  const deltas = events.flatMap(({ data }) => (data.index === 0 && data.delta ? [data.delta.type] : []));
  expect([...new Set(deltas)]).toEqual(['thinking_delta', 'signature_delta']);
  const between = await post({ ...asked, thinking: { type: 'between_tools' } });
  expect(between.body.content).toMatchObject([thinking, { type: 'text' }]);
  for (const unseen of [{ type: 'disabled' }, { type: 'adaptive', display: 'omitted' }])
    expect((await post({ ...asked, thinking: unseen })).body.content).toMatchObject([{ type: 'text' }]);
});

test('results of calls that were made together may come in messages of their own', async () => {
  const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} });
  const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: `result of ${id}` });
  const user = (...content: object[]) => ({ role: 'user', content });
  const note = { type: 'text', text: 'A note.' };
  const tools = [{ name: 'look', input_schema: { type: 'object' } }];
  const asked = (...answers: object[]) =>
    request({
      tools,
      messages: [
        user({ type: 'text', text: 'Look' }),
        { role: 'assistant', content: [call('a'), call('b')] },
        ...answers,
      ],
    });
  expect((await post(asked(user(result('a'), note), user(result('b'))))).status).toBe(200);
  const { messages } = await sent();
  expect(messages.slice(-3)).toMatchObject([
    { role: 'tool', tool_call_id: 'a' },
    { role: 'tool', tool_call_id: 'b' },
    { role: 'user', content: 'A note.' },
  ]);
  for (const wrong of [
    [user(result('a'))],
    [user(result('a')), user(note)],
    [user(result('a')), { role: 'assistant', content: 'Well.' }, user(result('b'))],
  ])
    expect(await post(asked(...wrong))).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining('has no tool_result') } },
    });
});

test('what one answer says before the results of its calls may come in messages of its own', async () => {
  const say = (...content: object[]) => ({ role: 'assistant', content });
  const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} });
  const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: `result of ${id}` });
  const messages = [
    question,
    say({ type: 'text', text: 'Well.' }),
    say(call('a')),
    say({ type: 'text', text: 'And this.' }),
    say(call('b')),
    { role: 'user', content: [result('a'), result('b')] },
  ];
  const tools = [{ name: 'look', input_schema: { type: 'object' } }];
  expect((await post(request({ tools, messages }))).status).toBe(200);
  expect((await sent()).messages.slice(1)).toMatchObject([
    { role: 'assistant', content: 'Well.' },
    { role: 'assistant', content: 'And this.', tool_calls: [{ id: 'a' }, { id: 'b' }] },
    { role: 'tool', tool_call_id: 'a' },
    { role: 'tool', tool_call_id: 'b' },
  ]);
});

test('words behind a result reach a model that takes no prompt there', async () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} };
  const given = [
    { type: 'tool_result', tool_use_id: 'toolu_1', content: 'Rain.' },
    { type: 'text', text: 'Well?' },
  ];
  const messages = [question, { role: 'assistant', content: [call] }, { role: 'user', content: given }];
  const asked = request({ model: 'compatible:mistral-large', tools: [weather], messages });
  expect(await post(asked)).toMatchObject({ status: 200, body: { content: [{ text: 'You said: Well?' }] } });
  expect((await sent()).messages.slice(-3)).toMatchObject([
    { role: 'tool', content: 'Rain.' },
    { role: 'assistant', content: '[The results of the tools were read.]' },
    { role: 'user', content: 'Well?' },
  ]);
});

test('a call is taken back with an id in which a gateway has put a signature', async () => {
  const id = `call_1__thought__${'c2ln'.repeat(1000)}`;
  const call = { type: 'tool_use', id, name: 'get_weather', input: {} };
  const result = { type: 'tool_result', tool_use_id: id, content: 'Rain' };
  const messages = [question, { role: 'assistant', content: [call] }, { role: 'user', content: [result] }];
  expect((await post(request({ tools: [weather], messages }))).status).toBe(200);
  expect((await sent()).messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: id });
});

test('long numbers in arguments come as the model wrote them: whole, streamed, and repeated by key', async () => {
  const written = '{"id":12345678901234567891,"all":[-9007199254740993,{"price":0.1}]}';
  await upstream.script([{ reply: { tool_calls: [{ name: 'get_weather', arguments: written }] } }]);
  const asked = { token: ada.token, body: request({ tools: [weather] }) };
  const headers = { 'idempotency-key': 'long-numbers' };
  const ask = async () => (await app.stream('POST', '/v1/messages', { ...asked, headers })).text();
  const whole = await ask();
  expect(whole).toContain(`"input":${written}`);
  expect(await ask()).toBe(whole);
  const deltas = (await streamed(asked.body)).map(({ data }) => data.delta?.partial_json ?? '');
  expect(deltas.join('')).toBe(written);
});

test('an answer can be held to a schema', async () => {
  const schema = { type: 'object', properties: { rains: { type: 'boolean' } }, additionalProperties: false };
  await post(request({ output_config: { format: { type: 'json_schema', schema } } }));
  expect(await sent()).toMatchObject({ response_format: { type: 'json_schema', json_schema: { schema } } });
});

test('pictures and documents reach the model, as bytes and as addresses', async () => {
  const content = [
    { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: '/9j/4AAQ' } },
    { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
    {
      type: 'document',
      title: 'paper.pdf',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
    },
    {
      type: 'document',
      title: 'Notes',
      source: { type: 'text', media_type: 'text/plain', data: 'It rains.' },
    },
    {
      type: 'search_result',
      title: 'Found',
      source: 'https://example.com',
      content: [{ type: 'text', text: 'Sun.' }],
    },
    { type: 'text', text: 'Compare.' },
  ];
  expect((await post(request({ messages: [{ role: 'user', content }] }))).status).toBe(200);
  expect((await sent()).messages[0]?.content).toMatchObject([
    { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,/9j/4AAQ' } },
    { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
    { type: 'file', file: { filename: 'paper.pdf' } },
    { type: 'text', text: 'Notes\n\nIt rains.' },
    { type: 'text', text: 'Found\nhttps://example.com\nSun.' },
    { type: 'text', text: 'Compare.' },
  ]);
});

const use = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} };
const asked = [question, { role: 'assistant', content: [use] }];
const says = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] });

test.each<[string, Record<string, unknown>, string]>([
  ['a role that there is not', { messages: [{ role: 'robot', content: 'x' }] }, 'messages.0.role'],
  ['a number for a text', { messages: [{ role: 'user', content: 5 }] }, 'messages.0.content'],
  ['an unknown block', says({ type: 'hologram' }), 'messages.0.content.0.type'],
  ['a text without its text', says({ type: 'text' }), 'messages.0.content.0.text'],
  ['an image of nothing', says({ type: 'image' }), 'messages.0.content.0.source'],
  [
    'an image of a kind',
    says({ type: 'image', source: { type: 'file', file_id: 'f' } }),
    'messages.0.content.0.source.type',
  ],
  [
    'a picture in no known format',
    says({ type: 'image', source: { type: 'base64', media_type: 'image/x', data: 'AA' } }),
    'messages.0.content.0.source.media_type',
  ],
  [
    'an address that is none',
    says({ type: 'image', source: { type: 'url', url: 'file:///etc' } }),
    'messages.0.content.0.source.url',
  ],
  ['no content', { messages: [{ role: 'user' }] }, 'messages.0.content'],
  ['no block', { messages: [{ role: 'user', content: [] }] }, 'messages.0.content'],
  ['no text', { messages: [{ role: 'user', content: '' }] }, 'messages.0'],
  [
    'a result of nothing',
    says({ type: 'tool_result', tool_use_id: 'toolu_9', content: 'x' }),
    'messages.0.content.0.tool_use_id',
  ],
  [
    'an unknown block in a result',
    {
      messages: [
        ...asked,
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'x' }] }],
        },
      ],
    },
    'messages.2.content.0.content.0.type',
  ],
  ...['title', 'context'].map((name): [string, Record<string, unknown>, string] => {
    const inner = { type: 'document', source: { type: 'text', data: 'x' }, [name]: { x: 1 } };
    const block = { type: 'document', source: { type: 'content', content: [inner] } };
    return [
      `a ${name} within a block that is no text`,
      says(block),
      `messages.0.content.0.source.content.0.${name}`,
    ];
  }),
  ['a call that is not answered', { messages: [...asked, question] }, 'messages.2'],
  ['a call that nothing comes behind', { messages: asked }, 'messages.1.content'],
  ['a call by the user', says(use), 'messages.0.content.0.type'],
  ['a tool without a schema', { tools: [{ name: 'x' }] }, 'tools.0.input_schema'],
  ['a tool with a bad name', { tools: [{ name: 'no good', input_schema: {} }] }, 'tools.0.name'],
  ['two tools of one name', { tools: [weather, weather] }, 'tools'],
  [
    'a choice of a tool that is not there',
    { tools: [weather], tool_choice: { type: 'tool', name: 'x' } },
    'tool_choice.name',
  ],
  ['a choice that there is not', { tools: [weather], tool_choice: { type: 'maybe' } }, 'tool_choice.type'],
  ['a thought that there is not', { thinking: { type: 'much' } }, 'thinking.type'],
])('%s is refused with its place', async (_what, body, place) => {
  const answer = await post(request(body));
  expect(answer).toMatchObject({
    status: 400,
    body: { type: 'error', error: { type: 'invalid_request_error' } },
  });
  expect(answer.body.error.message).toContain(`${place}: `);
  expect(await upstream.requests()).toEqual([]);
});

test('a thread with what only its vendor could do is refused in the words by which its clients go on without one', async () => {
  const searches = { type: 'web_search_20250305', name: 'web_search' };
  const answer = await post(request({ thread: { type: 'create' }, tools: [searches] }));
  expect(answer).toMatchObject({
    status: 400,
    body: {
      error: { details: { error_code: 'thread_unsupported_request', unsupported: ['web_search_20250305'] } },
    },
  });
});

describe('what fails before any model is asked', () => {
  test.each<
    [
      string,
      string,
      number,
      string,
      { readonly path: string; readonly body?: unknown; readonly token?: string },
    ]
  >([
    ['an unknown path', 'GET', 404, 'not_found_error', { path: '/v1/nothing' }],
    ['a wrong method', 'PUT', 405, 'invalid_request_error', { path: '/v1/messages' }],
    ['no credential', 'GET', 401, 'authentication_error', { path: '/v1/models', token: '' }],
    ['an unknown model', 'GET', 404, 'not_found_error', { path: '/v1/models/no:such' }],
    [
      'an unknown model of a count',
      'POST',
      404,
      'not_found_error',
      { path: '/v1/messages/count_tokens', body: { model: 'no:such', messages: [question] } },
    ],
    ['broken JSON', 'POST', 400, 'invalid_request_error', { path: '/v1/messages', body: '{"model": ' }],
  ])(
    'is told in the words of this surface: %s',
    async (_what, method, status, type, { path, body, token = ada.token }) => {
      const answer = await app.request(method, path, {
        ...(token && { token }),
        ...(body !== undefined && { body }),
      });
      expect(answer).toMatchObject({ status, body: { type: 'error', error: { type } } });
      expect(answer.body.request_id).toBe(answer.headers.get('request-id'));
    },
  );
});

describe('models', () => {
  const get = (path: string) => app.request('GET', path, { token: ada.token });

  test('are listed page by page', async () => {
    const first = await get('/v1/models?limit=1');
    expect(first.body).toMatchObject({
      data: [{ type: 'model', id: 'compatible:compatible-1', max_input_tokens: 32_000, max_tokens: 4000 }],
      has_more: true,
      last_id: 'compatible:compatible-1',
    });
    const second = await get('/v1/models?limit=1&after_id=compatible:compatible-1&beta=true');
    expect(second.body).toMatchObject({ data: [{ id: 'compatible:thinker-1' }], has_more: false });
    const back = await get('/v1/models?before_id=compatible:thinker-1');
    expect(back.body).toMatchObject({ data: [{ id: 'compatible:compatible-1' }], has_more: false });
  });

  test.each(['compatible:compatible-1', 'compatible-1', 'compatible%3Acompatible-1'])(
    'are found as %s',
    async (name) => {
      expect((await get(`/v1/models/${name}`)).body).toMatchObject({
        id: 'compatible:compatible-1',
        display_name: 'compatible-1',
      });
    },
  );
});

describe('`options.model_names` says what the names mean that clients insist on', () => {
  test.each([
    ['claude-opus-5', 'compatible-1'],
    ['claude-haiku-5', 'thinker-1'],
    ['claude-haiku-4', 'compatible-1'],
    ['gpt-9-mini', 'compatible-1'],
    ['thinker-1', 'thinker-1'],
    ['compatible:anything', 'anything'],
  ])('%s is asked as %s, and the answer names what was asked for', async (model, asked) => {
    const answer = await post(request({ model }));
    expect(answer).toMatchObject({ status: 200, body: { model } });
    expect(await sent()).toMatchObject({ model: asked });
  });

  test.each(['gpt-9', 'gpt--min', 'a-claude-1'])('%s is not meant by any of them', async (model) => {
    expect((await post(request({ model }))).status).toBe(404);
  });

  test('they can be looked up', async () => {
    const { body } = await app.request('GET', '/v1/models/claude-opus-5', { token: ada.token });
    expect(body).toMatchObject({ id: 'compatible:compatible-1' });
  });
});

test('tokens are counted with the instructions and the tools, and nothing is asked or metered', async () => {
  const count = async (more: Record<string, unknown> = {}) =>
    (await post({ model: 'compatible-1', messages: [question], ...more }, '/v1/messages/count_tokens')).body
      .input_tokens as number;
  const bare = await count();
  expect(bare).toBeGreaterThan(0);
  expect(await count({ system: 'Be brief, and kind.' })).toBeGreaterThan(bare);
  expect(await count({ tools: [weather] })).toBeGreaterThan(bare);
  expect(await upstream.requests()).toEqual([]);
});
