/** How the server stops: told once it lets work end, tells every stream, and leaves; told twice it leaves at once. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, Run } from './contract/api.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  writeSettings,
} from './server-process.ts';
import { type Client, clientOf, type TestStream, textOf } from './test-client.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(async () => {
  await upstream.stop();
});
beforeEach(async () => {
  await upstream.script([
    { when: { last_user: '^hang' }, reply: { text: 'It begins.' }, fail: { kind: 'hang', after_chunks: 2 } },
    { when: { last_user: '^hold' }, reply: { text: 'Held, and let go.', hold_after_chunks: 2 } },
    { when: { last_user: '^write', step: 0 }, reply: { tool_calls: [writeCall] } },
    { reply: { text: 'You said: {{last_user}}' } },
  ]);
});

const writeCall = { name: 'write', arguments: { file_path: 'a.txt', content: 'a' } };

async function serverWith(variables: Readonly<Record<string, string>>): Promise<ServerProcess> {
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  return await startServer({ folder, variables: { SERVICE_STREAMS_PER_USER: '1000', ...variables } });
}

/** A server, and another one with the same data. */
async function restartable(variables: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const startAgain = () => startServer({ folder, variables });
  return { server: await startAgain(), startAgain };
}

/** A stream whose answer has begun. */
async function openStream(client: Client, prompt: string): Promise<TestStream> {
  const stream = await client.stream('/api/v1/query/stream', { prompt });
  await stream.until(({ name }) => name === 'message');
  return stream;
}

test('with nothing at work it ends at once, with the code 0', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '20' });
  await clientOf(server, server.key).post('/api/v1/query', { prompt: 'hello' });
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
});

test('while work ends it is not ready, takes no new query, stores nothing of one, and still answers the rest', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '15' });
  const client = clientOf(server, server.key);
  const stream = await openStream(client, 'hold on');
  const sessionsBefore = await sessionCount(client);
  server.signal('SIGTERM');
  await untilDraining(client);
  const ready = await client.get('/ready');
  expect(ready).toMatchObject({ status: 503, body: { code: 'draining' } });
  expect(ready.headers.get('retry-after')).toMatch(/^\d+$/);
  expect((await client.get('/health')).status).toBe(200);
  const refusals = await Promise.all([
    client.post('/api/v1/query', { prompt: 'hello' }),
    client.post('/api/v1/query/stream', { prompt: 'hello' }),
  ]);
  for (const refusal of refusals) expect(refusal).toMatchObject({ status: 503, body: { code: 'draining' } });
  const messages = await client.post<{ type: string }>('/v1/messages', {
    model: 'scripted:scripted-1',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'hello' }],
  });
  expect(messages).toMatchObject({ status: 503, body: { type: 'error' } });
  expect(await sessionCount(client)).toBe(sessionsBefore);
  expect((await client.get<Run>(`/api/v1/runs/${stream.runId}`)).body.status).toBe('running');

  await upstream.releaseHeld();
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({ name: 'done', data: { status: 'completed' } });
  expect(textOf(stream.events)).toBe('Held, and let go.');
  expect(await server.exited).toBe(0);
});

test('a run that hangs on its provider goes on where the server is started again, behind what was told', async () => {
  const { server, startAgain } = await restartable({ SERVICE_DRAIN_SECONDS: '1' });
  const stream = await openStream(clientOf(server, server.key), 'hang once');
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({ name: 'error', data: { error: /^draining: / } });
  await upstream.script([{ reply: { text: 'It goes on.' } }]);
  const again = await startAgain();
  const rest = await eventsBehind(clientOf(again, server.key), stream);
  expect(rest.find(({ data }) => 'type' in data && data.type === 'run_resumed')).toMatchObject({
    data: { reason: 'shutdown', resumptions: 1 },
  });
  expect(rest.at(-1)).toMatchObject({ name: 'done', data: { status: 'completed' } });
  const { session_id: sessionId } = await runOf(again, server.key, stream);
  const { body } = await clientOf(again, server.key).get<{ data: readonly Message[] }>(
    `/api/v1/sessions/${sessionId}/messages`,
  );
  const said = body.data.map(({ role, stop_reason, parts }) => [role, stop_reason, parts]);
  expect(said).toEqual([
    ['user', null, [{ type: 'text', text: 'hang once' }]],
    ['assistant', 'interrupted', [{ type: 'text', text: textOf(stream.events) }]],
    ['assistant', 'end_turn', [{ type: 'text', text: 'It goes on.' }]],
  ]);
});

test('a plain query that hangs is answered before the end', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '0' });
  const client = clientOf(server, server.key);
  const answer = client.post('/api/v1/query', { prompt: 'hang' });
  await upstream.latest(({ chunks_written }) => chunks_written > 0);
  expect(await server.stop()).toBe(0);
  expect(await answer).toMatchObject({
    status: 200,
    body: { status: 'interrupted', interrupt_reason: 'shutdown' },
  });
});

test('a question stays open over a stop, the prompts behind it stay in their order, and another server takes them over', async () => {
  const { server, startAgain } = await restartable({ SERVICE_DRAIN_SECONDS: '0' });
  const client = clientOf(server, server.key);
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'write' });
  const asked = await stream.until(({ data }) => 'type' in data && data.type === 'permission_requested');
  const { session_id } = await runOf(server, server.key, stream);
  const queued = [];
  for (const prompt of ['second', 'third'])
    queued.push(await client.stream('/api/v1/query/stream', { prompt, session_id }));
  const other = await startAgain();
  expect(await server.stop()).toBe(0);
  await Promise.all([stream.ended, ...queued.map(({ ended }) => ended)]);
  for (const { events } of [stream, ...queued])
    expect(events.at(-1)).toMatchObject({ name: 'error', data: { error: /^draining: / } });
  if (!('request' in asked.data)) throw new Error('The event holds no request.');
  const { id, reply_path } = asked.data.request;

  const caller = clientOf(other, server.key);
  const pending = await caller.get<{ data: readonly { readonly id: string }[] }>(
    `/api/v1/sessions/${session_id}/permissions`,
  );
  expect(pending.body.data).toMatchObject([{ id, status: 'pending' }]);
  expect(await caller.post(reply_path, { decision: 'allow_once' })).toMatchObject({ status: 200 });
  const rest = await eventsBehind(caller, stream);
  expect(rest.filter(({ data }) => 'type' in data && data.type === 'permission_requested')).toEqual([]);
  expect(rest.at(-1)).toMatchObject({
    name: 'done',
    data: { status: 'completed', tool_results: [{ is_error: false }] },
  });
  const answers = await Promise.all(queued.map((waiting) => eventsBehind(caller, waiting)));
  expect(answers.map((events) => textOf(events))).toEqual(['You said: second', 'You said: third']);
});

test('a call of `/v1/messages` in a session is answered before the end', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '0' });
  const client = clientOf(server, server.key);
  const session = await client.post('/api/v1/sessions', { title: 'Hanging' });
  const answer = fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      'x-service-session-id': session.body.id,
    },
    body: JSON.stringify({
      model: 'scripted:scripted-1',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'hang' }],
    }),
  });
  await upstream.latest(({ chunks_written }) => chunks_written > 0);
  expect(await server.stop()).toBe(0);
  // What there is of the answer is not all of it, and must not be taken for that.
  expect((await answer).status).toBe(503);
  const error = {
    type: 'api_error',
    message: expect.stringMatching(/^The server stopped.*; try again later\.$/),
  };
  expect(await (await answer).json()).toMatchObject({ type: 'error', error });
});

test('each of 150 streams is told to connect again, and the process ends in time', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '1' });
  const client = clientOf(server, server.key);
  const streams = await Promise.all(Array.from({ length: 150 }, () => openStream(client, 'hang')));
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
  await Promise.all(streams.map(({ ended }) => ended));
  for (const { events } of streams)
    expect(events.at(-1)).toMatchObject({ name: 'error', data: { error: /^draining: / } });
});

test('a second signal ends it now, with the code 1', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '25' });
  const client = clientOf(server, server.key);
  await openStream(client, 'hang');
  server.signal('SIGTERM');
  await untilDraining(client);
  const startedAt = performance.now();
  server.signal('SIGTERM');
  expect(await server.exited).toBe(1);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

test('SIGINT, as from a terminal, is heeded alike', async () => {
  const server = await serverWith({});
  server.signal('SIGINT');
  expect(await server.exited).toBe(0);
});

test('a connection that says nothing does not hold the stop', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '0' });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write('POST /api/v1/query HTTP/1.1\r\nHost: x\r\n');
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
});

async function untilDraining(client: Client): Promise<void> {
  while ((await client.get('/ready')).status === 200) await sleep(5);
}

async function sessionCount(client: Client): Promise<number> {
  return (await client.get<{ data: readonly unknown[] }>('/api/v1/sessions?limit=100')).body.data.length;
}

async function runOf(server: ServerProcess, key: string, { runId }: TestStream): Promise<Run> {
  return (await clientOf(server, key).get<Run>(`/api/v1/runs/${runId}`)).body;
}

/** To the end of the run, from where the stream broke off. */
async function eventsBehind(client: Client, { runId, events }: TestStream): Promise<TestStream['events']> {
  const after = Math.max(...events.map(({ seq }) => seq || 0));
  const rest = await client.stream(`/api/v1/runs/${runId}/events?after=${after}`);
  await rest.ended;
  return rest.events;
}
