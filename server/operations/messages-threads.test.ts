/** Threads of the Messages surface where something fails: they go on as if it had never been asked. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';
import { createMessage } from './messages.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const chat = { ...scriptedProvider(upstream, 'm'), type: 'openai-compat' as const };
  const hooks = { pre_tool_use: [{ matcher: '^ls$', command: `echo '{"halt": true}'` }] };
  app = await testApp({ config: { providers: { chat }, hooks } });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

function post(body: Json, { token } = ada) {
  return app.request('POST', '/v1/messages', { token, body: { model: 'chat:m', max_tokens: 100, ...body } });
}

const weather = { name: 'get_weather', input_schema: { type: 'object', properties: {} } };
const added = { type: 'tool_addition', tool: { type: 'definition', definition: weather } };
const more = [
  { role: 'user', content: 'More.' },
  { role: 'system', content: [{ type: 'text', text: 'Speak of herons.' }, added] },
];

async function begunThread(): Promise<string> {
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  const thread = { type: 'create' };
  const { body } = await post({ thread, system: 'Be brief.', messages: [{ role: 'user', content: 'Hi' }] });
  return body.id;
}

const goOn = (previous_message_id: string, messages: Json = more, stream = false) => ({
  ...{ thread: { type: 'continue', previous_message_id }, messages, stream },
});

test('tools and instructions of a request that failed count once it succeeds, and once', async () => {
  const first = await begunThread();
  await upstream.script([{ fail: { kind: 'status', status: 400 } }]);
  for (const stream of [false, true, false])
    expect(await post(goOn(first, more, stream))).toMatchObject({ status: 400, body: { error: {} } });
  await upstream.script([{ reply: { text: 'Herons, then.' } }]);
  const second = await post(goOn(first));
  expect(second).toMatchObject({ status: 200 });
  const told = JSON.stringify((await upstream.latest(() => true)).body);
  expect(told.split('Speak of herons.')).toHaveLength(2);
  expect(told.split('"get_weather"')).toHaveLength(2);
  // They stay with the thread.
  expect(await post(goOn(second.body.id, [{ role: 'user', content: 'And?' }]))).toMatchObject({
    status: 200,
  });
  const later = JSON.stringify((await upstream.latest(() => true)).body);
  expect(later.split('Speak of herons.')).toHaveLength(2);
  expect(later.split('"get_weather"')).toHaveLength(2);
});

test('what was said with an answer that came as a stream stays with the thread', async () => {
  const first = await begunThread();
  const response = await app.stream('POST', '/v1/messages', {
    token: ada.token,
    body: { model: 'chat:m', max_tokens: 100, ...goOn(first, more, true) },
  });
  const events = await Array.fromAsync(readEvents(response));
  const { id } = events.find(({ event }) => event === 'message_start')?.data.message ?? {};
  expect(await post(goOn(id, [{ role: 'user', content: 'And?' }]))).toMatchObject({ status: 200 });
  expect(JSON.stringify((await upstream.latest(() => true)).body)).toContain('Speak of herons.');
});

test('a thread that is refused before anybody was asked leaves no session', async () => {
  const grace = await app.register('grace');
  const limits = { requests: { day: { hard: 0 } } };
  const path = `/api/v1/quotas/user/${grace.user.id}`;
  const set = await app.request('PUT', path, { token: app.operatorKey, body: { limits } });
  expect(set).toMatchObject({ status: 200 });
  const thread = { type: 'create' };
  const refused = await post({ thread, messages: [{ role: 'user', content: 'Hi' }] }, grace);
  expect(refused).toMatchObject({ status: 429 });
  const { body } = await app.request('GET', '/api/v1/sessions', { token: grace.token });
  expect(body.data).toEqual([]);
});

test('a thread whose client left before it read anything of the answer goes on from the one before', async () => {
  const first = await begunThread();
  await upstream.script([
    { reply: { text: 'A long enough answer to hang.' }, fail: { kind: 'hang', after_chunks: 4 } },
  ]);
  const controller = new AbortController();
  const call = {
    principal: await app.services.identity.authenticate(ada.token),
    headers: {},
    body: { model: 'chat:m', max_tokens: 100, ...goOn(first, more, true) },
    signal: controller.signal,
  } as unknown as Parameters<typeof createMessage>[0]; // all that the handler reads
  const { body } = (await createMessage(call, app.services)) as { body: AsyncIterable<unknown> };
  controller.abort();
  await body[Symbol.asyncIterator]().return?.();
  await upstream.script([{ reply: { text: 'Herons, then.' } }]);
  // 409 as long as the run is still ending.
  const goesOn = async () => (await post(goOn(first))).status;
  await expect.poll(goesOn).toBe(200);
});

test('a thread whose client left before it had read an answer that was complete goes on from the one before', async () => {
  const question = { role: 'user', content: 'What is the weather in Rome?' };
  await upstream.script([{ reply: { tool_calls: [{ name: 'get_weather', arguments: {} }] } }]);
  const thread = { type: 'create' };
  const first = await post({ thread, tools: [weather], messages: [question] });
  const result = { type: 'tool_result', tool_use_id: first.body.content[0].id, content: 'Rain' };
  const results = [{ role: 'user', content: [result] }];

  await upstream.script([{ reply: { text: 'An answer that nobody reads.' } }]);
  const call = {
    principal: await app.services.identity.authenticate(ada.token),
    headers: {},
    body: { model: 'chat:m', max_tokens: 100, ...goOn(first.body.id, results, true) },
    signal: new AbortController().signal,
  } as unknown as Parameters<typeof createMessage>[0]; // all that the handler reads
  const { body } = (await createMessage(call, app.services)) as { body: AsyncIterable<unknown> };
  const events = body[Symbol.asyncIterator]();
  await events.next();
  const path = `/api/v1/sessions/${first.headers.get('x-service-session-id')}`;
  const status = async () => (await app.request('GET', path, { token: ada.token })).body.status;
  await expect.poll(status).toBe('idle');
  await events.return?.();

  await upstream.script([{ reply: { text: 'It rains in Rome.' } }]);
  const again = await post(goOn(first.body.id, results));
  expect(again).toMatchObject({ status: 200, body: { content: [{ text: 'It rains in Rome.' }] } });
  const told = JSON.stringify((await upstream.latest(() => true)).body);
  expect(told).not.toContain('nobody reads');
  expect(told.split('"Rain"')).toHaveLength(2);
  // What the client has read stays.
  await post(goOn(again.body.id, [{ role: 'user', content: 'And?' }]));
  expect(JSON.stringify((await upstream.latest(() => true)).body)).toContain('It rains in Rome.');
});

test('what a hook has ended stays with its thread: the client has the answer', async () => {
  const permission_rules = [{ tool: 'ls', decision: 'allow' }];
  const { body: workspaces } = await app.request('GET', '/api/v1/workspaces', { token: ada.token });
  const path = `/api/v1/workspaces/${workspaces.data[0].id}`;
  const rules = (rules: object[]) =>
    app.request('PATCH', path, { token: ada.token, headers: mergePatch, body: { permission_rules: rules } });
  expect(await rules(permission_rules)).toMatchObject({ status: 200 });
  onTestFinished(async () => {
    await rules([]);
  });
  await upstream.script([
    { when: { step: 0 }, reply: { text: 'I look.', tool_calls: [{ name: 'ls', arguments: { path: '.' } }] } },
    { reply: { text: 'Done.' } },
  ]);
  const thread = { type: 'create' };
  const first = await post({ thread, messages: [{ role: 'user', content: 'Where are the herons?' }] });
  expect(first).toMatchObject({ status: 200, body: { stop_reason: 'end_turn' } });
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  const next = await post(goOn(first.body.id, [{ role: 'user', content: 'And now?' }]));
  expect(next).toMatchObject({ status: 200 });
  const sent = JSON.stringify((await upstream.latest(() => true)).body);
  expect(sent).toContain('Where are the herons?');
  expect(sent).toContain('I look.');
});
