/** What models write goes out with a session and comes in again, here or elsewhere, and queries go on in it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { MessagePart } from '../contract/api.ts';
import { beginRun, endRun, message, noUsage } from '../store/test-runs.ts';
import { reachOfNobody } from '../store/test-stores.ts';
import { type Account, coded, type Json, type TestApp, testApp } from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const anthropic = { type: 'anthropic' as const, base_url: `${upstream.url}/v1`, api_key: 'test-key' };
  const providers = {
    scripted: scriptedProvider(upstream, 's-1'),
    other: { ...anthropic, models: [{ id: 'claude-x' }] },
  };
  app = await testApp({ config: { providers, models: { large: { provider: 'scripted', model: 's-1' } } } });
  ada = await app.register('ada');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const post = (path: string, body: Json) => app.request('POST', path, { token: ada.token, body });
const take = (document: Json, query = '') => post(`/api/v1/sessions/import${query}`, document);
const give = async (id: string, query = '') =>
  (await app.request('GET', `/api/v1/sessions/${id}/export${query}`, { token: ada.token })).body;

const at = '2026-11-21T08:00:00.000Z';
const said = (role: string, ...parts: object[]) => ({
  ...{ role, parts, model: null, stop_reason: null, usage: null, created_at: at },
});
const text = (words: string) => ({ type: 'text', text: words });
const call = (id: string, input: object = {}) => ({ type: 'tool_use', id, name: 'view', input });
const result = (id: string) => ({
  ...{ type: 'tool_result', tool_use_id: id, name: 'view', content: 'Lines.', is_error: false },
});
const document = (messages: object[], more: object = {}): Json => ({
  ...{ format_version: 1, exported_at: at, messages },
  session: {
    ...{ title: 'Old', agent_slug: 'coder', model: null, system_prompt: null, tags: [], metadata: {} },
    ...{ created_at: at, ...more },
  },
});

const todos = (json: string) => ({ tool_calls: [{ name: 'todos', arguments: json }] });
const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

describe('a session can be exported and imported whose model wrote', () => {
  test.each<[string, object, object]>([
    ['NUL', { text: 'a\u0000b' }, text('a\ufffdb')],
    ['half a character', { text: 'a\ud800b' }, text('a\ufffdb')],
    ['half a character at its end', { text: 'a\ud83d' }, text('a\ufffd')],
    ['whole ones', { text: '👋🏽 ok' }, text('👋🏽 ok')],
    ['arguments with NUL', todos('{"a":"b\\u0000"}'), { input: { a: 'b\ufffd' } }],
    ['arguments with half a character', todos('{"a\\ud800":1}'), { input: { 'a\ufffd': 1 } }],
    [
      'arguments with names of code',
      todos('{"constructor":{"toString":1}}'),
      { input: { constructor: { toString: 1 } } },
    ],
    ['arguments that are deep', todos(`{"a":${nested(58)}}`), { input: { a: JSON.parse(nested(58)) } }],
    ['arguments that are too deep', todos(`{"a":${nested(59)}}`), { input: {} }],
    ['arguments that are absurdly deep', todos(`{"a":${nested(20_000)}}`), { input: {} }],
    ['a name with NUL', { tool_calls: [{ name: 'a\u0000', arguments: {} }] }, { name: 'a\ufffd' }],
  ])('%s', async (_, reply, kept) => {
    await upstream.script([{ when: { step: 0 }, reply }, { reply: { text: 'Done.' } }]);
    const query = await post('/api/v1/query', { prompt: 'Go.' });
    expect(query).toMatchObject({ status: 200, body: { status: 'completed' } });
    const exported = await give(query.body.session_id);
    expect(exported.messages[1].parts).toMatchObject([kept]);
    const { status, body: session } = await take(exported);
    expect(status).toBe(201);
    expect((await give(session.id)).messages[1].parts).toEqual(exported.messages[1].parts);
  });

  test('a member __proto__, which stays one', async () => {
    const json = '{"__proto__":{"polluted":1}}';
    await upstream.script([{ when: { step: 0 }, reply: todos(json) }, { reply: { text: 'Done.' } }]);
    const { body: run } = await post('/api/v1/query', { prompt: 'Go.' });
    const { status, body: session } = await take(await give(run.session_id));
    expect(status).toBe(201);
    const [, { parts }] = (await give(session.id)).messages;
    expect(JSON.stringify(parts[0].input)).toBe(json);
    expect(Object.prototype).not.toHaveProperty('polluted');
    expect((await post('/api/v1/query', { prompt: 'On.', session_id: session.id })).status).toBe(200);
  });
});

test('what an older version has stored goes in again as it would be stored today', async () => {
  const { store } = app.services;
  const run = await beginRun(store, reachOfNobody(ada.user.id), {
    sessionId: (await take(document([]))).body.id,
  });
  const nested = JSON.parse(`${'{"a":'.repeat(60)}1${'}'.repeat(60)}`);
  const old: MessagePart[] = [
    { type: 'text', text: 'a\u0000b\ud800' },
    { type: 'tool_use', id: 'call\u0000', name: 'view', input: { 'x\udc00': ['\u0000'] } },
    { type: 'tool_use', id: 'deep', name: 'view', input: nested },
    { type: 'tool_use', id: 'deep', name: 'ls', input: {} },
    { type: 'file', media_type: 'application/pdf', name: 'n'.repeat(1500) },
  ];
  const gave: MessagePart = {
    ...{ type: 'tool_result', tool_use_id: 'call\u0000', name: 'view' },
    ...{ content: 'c\ud83d', is_error: false },
  };
  const messages = [
    { ...message('assistant', ''), parts: old },
    { ...message('tool', ''), parts: [gave] },
  ];
  await store.transcript.commitStep({ ...run, messages, usage: noUsage, steps: 1, events: [] });
  await endRun(store, run);
  const exported = await give(run.sessionId);
  expect((await take(exported)).status).toBe(201);
  const parts = exported.messages.slice(-2).map((given: Json) => given.parts);
  expect(parts).toEqual([
    [
      text('a\ufffdb\ufffd'),
      call('call\ufffd', { 'x\ufffd': ['\ufffd'] }),
      { ...call('deep'), input: {} },
      { type: 'file', media_type: 'application/pdf', name: 'n'.repeat(1000) },
    ],
    [{ ...result('call\ufffd'), content: 'c\ufffd' }],
  ]);
});

describe('a file that no model takes', () => {
  const archive = (more: object) => ({
    ...{ type: 'file' as const, media_type: 'application/zip', name: 'a.zip' },
    ...more,
  });
  const data = Buffer.from('PK').toString('base64');

  test.each<[string, object]>([
    ['bytes', archive({ data })],
    ['an address', archive({ url: 'https://files.example/a.zip' })],
    ['bytes of a picture that models do not know', { ...archive({ data }), media_type: 'image/tiff' }],
  ])('is refused with %s, and told where it stands', async (_, file) => {
    const answer = await take(document([said('user', text('See?'), file)]));
    expect(coded(answer)).toEqual([422, 'broken_export']);
    expect(answer.body.errors).toMatchObject([{ in: 'body', pointer: '/messages/0/parts/1/media_type' }]);
  });

  test('goes in where it is only told of, as an export tells of one that was imported before', async () => {
    const { store } = app.services;
    const { body: session } = await take(document([]));
    const parts: MessagePart[] = [archive({ data }), { type: 'text', text: 'See?' }];
    const stored = { sessionId: session.id, parts };
    await endRun(store, await beginRun(store, reachOfNobody(ada.user.id), stored));
    const exported = await give(session.id);
    expect(exported.messages[0].parts[0]).toEqual(archive({ size: 2 }));
    const { status, body } = await take(exported);
    expect(status).toBe(201);
    await upstream.script([{ reply: { text: 'Done.' } }]);
    expect((await post('/api/v1/query', { prompt: 'On.', session_id: body.id })).status).toBe(200);
  });
});

test('what is streamed is what is stored', async () => {
  await upstream.script([{ reply: { text: 'a\u0000b \ud83d', chunk_size: 1 } }]);
  const body = { prompt: 'Go.' };
  const answer = await app.stream('POST', '/api/v1/query/stream', { token: ada.token, body });
  const events = [...(await answer.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) =>
    JSON.parse(data ?? ''),
  );
  const deltas = events.filter(({ type }) => type === 'text_delta');
  const { session_id } = events.find(({ type }) => type === 'run_started');
  const [, { parts }] = (await give(session_id)).messages;
  expect(parts).toEqual([text(deltas.map(({ text: words }) => words).join(''))]);
  expect(parts).toEqual([text('a\ufffdb \ufffd')]);
});

test.each([
  ['metadata', { metadata: JSON.parse('{"__proto__":"x"}') }, {}],
  ['a part', {}, JSON.parse('{"constructor":"x"}')],
])('names of code stay refused in %s', async (_, session, part) => {
  expect(coded(await take(document([said('user', { ...text('x'), ...part })], session)))).toEqual([
    400,
    'invalid_request',
  ]);
});

test.each([
  ['a call twice in one answer', [said('assistant', call('a'), call('a'))], '/messages/0/parts/1/id'],
  ['a call of a person', [said('user', text('x'), call('a'))], '/messages/0/parts/1/type'],
  ['a call of a tool', [said('tool', call('a'))], '/messages/0/parts/0/type'],
  ['a call without an id', [said('assistant', call('')), said('tool', result(''))], '/messages/0/parts/0/id'],
])('%s is refused, and told where it stands', async (_, messages, pointer) => {
  const answer = await take(document(messages));
  expect(coded(answer)).toEqual([422, 'broken_export']);
  expect(answer.body.errors).toMatchObject([{ in: 'body', pointer }]);
});

test.each<[string, object[]]>([
  ['begins with an answer', [said('assistant', text('Hello.')), said('assistant', text('You?'))]],
  ['begins with a call', [said('assistant', call('a')), said('tool', result('a'))]],
  [
    'gives an id again',
    [1, 2].flatMap(() => [said('user', text('x')), said('assistant', call('a')), said('tool', result('a'))]),
  ],
  [
    'has strange ids',
    [said('user', text('x')), said('assistant', call('a b/ü')), said('tool', result('a b/ü'))],
  ],
])('queries continue a session that %s', async (_, messages) => {
  await upstream.script([{ reply: { text: 'Done.' } }]);
  const { status, body: session } = await take(document(messages));
  expect(status).toBe(201);
  for (const model of ['scripted:s-1', 'other:claude-x'])
    expect((await post('/api/v1/query', { prompt: 'On.', session_id: session.id, model })).status).toBe(200);
});

test('another profile and another model take the place of those that are not here', async () => {
  const strange = document([said('user', text('x'))], { agent_slug: 'theirs', model: 'theirs:m-1' });
  const refused = await take(strange);
  expect(coded(refused)).toEqual([404, 'agent_not_found']);
  expect(refused.body.detail).toContain('agent_slug');
  const half = await take(strange, '?agent_slug=coder');
  expect(half.status).toBeGreaterThanOrEqual(400);
  expect(half.body.detail).toContain('query parameter model');
  const { status, body: session } = await take(strange, '?agent_slug=coder&model=scripted:s-1');
  expect(status).toBe(201);
  expect(session).toMatchObject({ agent_slug: 'coder', model: 'scripted:s-1' });
  expect(coded(await take(strange, '?agent_slug=nobody&model=scripted:s-1'))).toEqual([
    404,
    'agent_not_found',
  ]);
});

test('a session with more files than an import takes goes in again without them', async () => {
  const picture = (letter: string) => ({
    ...{ type: 'file', media_type: 'image/png', name: `${letter}.png` },
    data: Buffer.alloc(3_000_000, letter).toString('base64'),
  });
  const { body: session } = await take(document([said('user', picture('a'), picture('b'), text('See?'))]));
  const whole = await give(session.id);
  expect(whole.messages[0].parts[0].data).toHaveLength(4_000_000);
  const bare = await give(session.id, '?include_files=false');
  expect(bare.messages[0].parts.map(({ name, text, data }: Json) => [name ?? text, data])).toEqual([
    ['a.png', undefined],
    ['b.png', undefined],
    ['See?', undefined],
  ]);
  expect(await give(session.id, '?format=jsonl&include_files=false')).not.toContain('"data"');
  const again = await take(bare);
  expect(again.status).toBe(201);
  await upstream.script([{ reply: { text: 'Done.' } }]);
  expect((await post('/api/v1/query', { prompt: 'On.', session_id: again.body.id })).status).toBe(200);
});
