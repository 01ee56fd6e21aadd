/** The server's own tools behind the Messages API: who allows them, and what a client sees of them, which is nothing but the answer. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import {
  type Account,
  type Json,
  mergePatch,
  readEvents,
  type StreamedEvent,
  type TestApp,
  testApp,
} from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let workspace: string;

beforeAll(async () => {
  upstream = await startUpstream();
  const provider = { base_url: `${upstream.url}/v1`, api_key: 'k', models: [{ id: 'm' }] };
  app = await testApp({
    config: {
      providers: {
        anthropic: { type: 'anthropic', ...provider },
        compatible: { type: 'openai-compat', ...provider },
      },
    },
  });
  ada = await app.register('ada');
  workspace = (await send('GET', '/api/v1/workspaces')).body.data[0].id;
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const send = (method: string, path: string, body?: object, headers = {}) =>
  app.request(method, path, { token: ada.token, headers, ...(body && { body }) });

/** An answer in one form for both ways that it comes. */
interface Answer {
  readonly content: Json[];
  readonly stopReason: string;
  readonly usage: Json;
  readonly session: string | null;
}

interface Asked {
  readonly model: string;
  readonly stream: boolean;
  readonly token?: string;
  readonly headers?: Record<string, string>;
}

async function ask({ model, stream, token = ada.token, headers = {} }: Asked, more: object): Promise<Answer> {
  const body = { model: `${model}:m`, max_tokens: 200, stream, ...more };
  const sent = { token, body, headers };
  if (stream) return assembled(await app.stream('POST', '/v1/messages', sent));
  const { body: message, headers: told } = await app.request('POST', '/v1/messages', sent);
  expect(message.error).toBeUndefined();
  const { content, stop_reason: stopReason, usage } = message;
  return { content, stopReason, usage, session: told.get('x-service-session-id') };
}

/** What a client makes of the events, which have to be those of one message, block after block. */
async function assembled(response: Response): Promise<Answer> {
  const all = await Array.fromAsync(readEvents(response));
  const events = all.filter(({ event }) => event !== 'ping');
  const of = (type: string) => events.filter(({ event }) => event === type);
  expect(events[0]?.event).toBe('message_start');
  expect(events.slice(-2).map(({ event }) => event)).toEqual(['message_delta', 'message_stop']);
  expect([of('message_start'), of('message_delta'), of('message_stop')].map(({ length }) => length)).toEqual([
    1, 1, 1,
  ]);
  const starts = of('content_block_start');
  expect(starts.map(({ data }) => data.index)).toEqual(starts.map((_, index) => index));
  const content = starts.map(({ data }) => blockOf(data.index, data.content_block, events));
  const { delta, usage } = of('message_delta')[0]?.data ?? {};
  return {
    ...{ content, stopReason: delta.stop_reason, usage },
    session: response.headers.get('x-service-session-id'),
  };
}

/** Its pieces stand between its start and its stop, and nothing else does. */
function blockOf(index: number, block: Json, events: readonly StreamedEvent[]): Json {
  const at = (type: string) => events.findIndex(({ event, data }) => event === type && data.index === index);
  const pieces = events
    .slice(at('content_block_start') + 1, at('content_block_stop'))
    .map(({ data }) => data);
  expect(pieces.every((data) => data.type === 'content_block_delta' && data.index === index)).toBe(true);
  const joined = (member: string) => pieces.map(({ delta }) => delta[member] ?? '').join('');
  if (block.type === 'text') return { ...block, text: joined('text') };
  return { ...block, input: JSON.parse(joined('partial_json') || '{}') };
}

const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
const allow = (...tools: string[]) => tools.map((tool) => ({ tool, decision: 'allow' }));
const newSession = async (rules: readonly object[] = []): Promise<string> =>
  (await send('POST', '/api/v1/sessions', { permission_rules: rules })).body.id;
const inSession = (session: string) => ({ headers: { 'x-service-session-id': session } });

/** What the upstream was offered, request by request. */
async function offered(): Promise<string[][]> {
  return (await upstream.requests()).map(({ body }) =>
    ((body as Json).tools ?? []).map((tool: Json) => tool.name ?? tool.function.name),
  );
}

const looks = { when: { step: 0 }, reply: { text: 'I look. ', tool_calls: [{ name: 'ls', arguments: {} }] } };
const usage = { input: 100, output: 10 };

const ways = ['anthropic', 'compatible'].flatMap((model) =>
  [false, true].map((stream) => ({ model, stream })),
);

describe.each(ways)('with $model, streamed: $stream', (way) => {
  test('run on the server, and what is said before and after them is one message', async () => {
    await upstream.script([
      { ...looks, reply: { ...looks.reply, usage } },
      {
        when: { step: 1 },
        reply: { text: 'Again. ', tool_calls: [{ name: 'glob', arguments: { pattern: '*' } }], usage },
      },
      { reply: { text: 'Seen.', usage } },
    ]);
    const session = await newSession(allow('ls', 'glob'));
    const answer = await ask({ ...way, ...inSession(session) }, user('Look'));
    expect(answer).toMatchObject({
      content: [{ type: 'text', text: 'I look. Again. Seen.' }],
      stopReason: 'end_turn',
      usage: { input_tokens: 300, output_tokens: 30 },
    });
    expect(new Set((await offered()).map((names) => names.join()))).toEqual(new Set(['ls,glob']));
    // The client repeats what it has seen: that is the history of the session, whatever stands between.
    const repeated = await ask(
      { ...way, ...inSession(session) },
      {
        messages: [
          { role: 'user', content: 'Look' },
          { role: 'assistant', content: answer.content },
          { role: 'user', content: 'And now?' },
        ],
      },
    );
    expect(repeated.session).toBe(session);
    const told = JSON.stringify((await upstream.latest(() => true)).body);
    expect(told).toMatch(/"ls"[\s\S]*"glob"[\s\S]*And now\?/);
  });

  test('run beside the tools of the client, which are handed over, and the results make the history whole', async () => {
    const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
    const calls = [
      { name: 'get_weather', arguments: { place: 'Rome' } },
      { name: 'ls', arguments: {} },
      { name: 'get_weather', arguments: { place: 'Oslo' } },
    ];
    await upstream.script([
      looks,
      { when: { step: 1 }, reply: { text: 'Both. ', tool_calls: calls } },
      { when: { last_tool_result: 'Rain in Oslo' }, reply: { text: 'It rains.' } },
    ]);
    const session = await newSession(allow('ls'));
    const asked = { ...way, ...inSession(session) };
    const first = await ask(asked, { ...user('Look'), tools });
    expect(first.stopReason).toBe('tool_use');
    expect(first.content).toEqual([
      { type: 'text', text: 'I look. Both. ' },
      { type: 'tool_use', id: expect.any(String), name: 'get_weather', input: { place: 'Rome' } },
      { type: 'tool_use', id: expect.any(String), name: 'get_weather', input: { place: 'Oslo' } },
    ]);
    const results = first.content
      .filter(({ type }) => type === 'tool_use')
      .map(({ id, input }) => ({ type: 'tool_result', tool_use_id: id, content: `Rain in ${input.place}` }));
    const answered = { role: 'assistant', content: first.content };
    const messages = [...user('Look').messages, answered, ...user(results).messages];
    const last = await ask(asked, { tools, messages });
    expect(last).toMatchObject({ content: [{ text: 'It rains.' }], stopReason: 'end_turn', session });
    const { body } = await send('GET', `/api/v1/sessions/${session}/messages?limit=100`);
    const parts = body.data.flatMap((message: Json) => message.parts);
    const ids = (type: string, member: string) =>
      parts.filter((part: Json) => part.type === type).map((part: Json) => part[member]);
    expect(ids('tool_use', 'id')).toHaveLength(4);
    expect(ids('tool_result', 'tool_use_id').toSorted()).toEqual(ids('tool_use', 'id').toSorted());
    // The model reads each call with its result, ours and theirs.
    const told = JSON.stringify((await upstream.latest(() => true)).body);
    for (const id of ids('tool_use', 'id')) expect(told.split(`"${id}"`).length - 1).toBe(2);
  });

  test('do not hide from the client that its own call was cut off by the largest size of the answer', async () => {
    const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
    const cut = { name: 'get_weather', arguments: '{}' };
    await upstream.script([
      looks,
      { when: { step: 1 }, reply: { tool_calls: [cut], stop_reason: 'max_tokens' } },
    ]);
    const asked = { ...way, ...inSession(await newSession(allow('ls'))) };
    expect((await ask(asked, { ...user('Look'), tools })).stopReason).toBe('max_tokens');
  });

  test('are none in a session that allows none, nor without a session', async () => {
    await upstream.script([{ reply: { text: 'Hello.' } }]);
    await ask({ ...way, ...inSession(await newSession()) }, user('Hi'));
    await ask(way, user('Hi'));
    expect(await offered()).toEqual([[], []]);
  });
});

describe('are allowed', () => {
  const way = { model: 'compatible', stream: true };
  const key = async (rules: readonly object[]): Promise<string> =>
    (await send('POST', '/api/v1/auth/api-keys', { name: 'k', permission_rules: rules })).body.key;

  test('by the session, else by the key, else by the workspace, and by one of them alone', async () => {
    const patch = { permission_rules: allow('glob') };
    expect((await send('PATCH', `/api/v1/workspaces/${workspace}`, patch, mergePatch)).status).toBe(200);
    await upstream.script([{ reply: { text: 'Hello.' } }]);
    const token = await key(allow('grep'));
    const [ruled, bare] = [await newSession(allow('ls')), await newSession()];
    await ask({ ...way, token, ...inSession(ruled) }, user('Hi'));
    await ask({ ...way, token, ...inSession(bare) }, user('Hi'));
    await ask({ ...way, ...inSession(bare) }, user('Hi'));
    const thread = { thread: { type: 'create' }, ...user('Hi') };
    await ask({ ...way, headers: { 'anthropic-beta': 'message-threads-2026-08-12' } }, thread);
    expect(await offered()).toEqual([['ls'], ['grep'], ['glob'], ['glob']]);
    const none = { permission_rules: [] };
    await send('PATCH', `/api/v1/workspaces/${workspace}`, none, mergePatch);
  });

  test('as far as the rule goes: what it does not cover is denied at once, and nobody is asked', async () => {
    const commands = ['echo allowed', 'touch denied'];
    const bash = (command: string) => ({ name: 'bash', arguments: { command } });
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: commands.map(bash) } },
      { reply: { text: 'Done.' } },
    ]);
    const rules = [{ tool: 'bash', decision: 'allow', pattern: 'echo *' }];
    const session = await newSession(rules);
    const answer = await ask({ ...way, ...inSession(session) }, user('Try'));
    expect(answer.content).toEqual([{ type: 'text', text: 'Done.' }]);
    const { body } = await send('GET', `/api/v1/sessions/${session}/messages?limit=100`);
    const results = body.data
      .flatMap(({ parts }: Json) => parts)
      .filter(({ type }: Json) => type === 'tool_result');
    expect(results.map(({ is_error }: Json) => is_error)).toEqual([false, true]);
    expect((await send('GET', `/api/v1/sessions/${session}/permissions`)).body.data).toEqual([]);
  });

  test('but not in the place of a tool that the client calls the same', async () => {
    const tools = [{ name: 'ls', description: 'Mine.', input_schema: { type: 'object' } }];
    await upstream.script([looks]);
    const session = await newSession(allow('ls'));
    const answer = await ask({ ...way, ...inSession(session) }, { ...user('Look'), tools });
    expect(answer.content).toMatchObject([{ text: 'I look. ' }, { type: 'tool_use', name: 'ls' }]);
    expect(await offered()).toEqual([['ls']]);
  });
});
