/** How the server stops: told once it lets work end, tells every stream, and leaves; told twice it leaves at once. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Run } from './contract/api.ts';
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
    { when: { last_user: '^write' }, reply: { tool_calls: [writeCall] } },
    { reply: { text: 'You said: {{last_user}}' } },
  ]);
});

const writeCall = { name: 'write', arguments: { file_path: 'a.txt', content: 'a' } };

async function serverWith(variables: Readonly<Record<string, string>>): Promise<ServerProcess> {
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  return await startServer({ folder, variables: { SERVICE_STREAMS_PER_USER: '1000', ...variables } });
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
  expect(performance.now() - startedAt).toBeLessThan(5000);
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

test('a run that hangs on its provider is interrupted, and its stream ends in a done that says why', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '1' });
  const stream = await openStream(clientOf(server, server.key), 'hang');
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(8000);
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({
    name: 'done',
    data: { status: 'interrupted', stop_reason: 'interrupted', interrupt_reason: 'shutdown' },
  });
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

test('a run that waits for a permission is told, and the question is cancelled', async () => {
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const server = await startServer({ folder, variables: { SERVICE_DRAIN_SECONDS: '0' } });
  const { key } = server;
  const stream = await clientOf(server, key).stream('/api/v1/query/stream', { prompt: 'write' });
  const asked = await stream.until(({ data }) => 'type' in data && data.type === 'permission_requested');
  expect(await server.stop()).toBe(0);
  await stream.ended;
  expect(stream.events.at(-1)).toMatchObject({ name: 'done', data: { interrupt_reason: 'shutdown' } });
  if (!('request' in asked.data)) throw new Error('The event holds no request.');
  const again = await startServer({ folder });
  const late = await clientOf(again, key).post(asked.data.request.reply_path, { decision: 'allow_once' });
  expect(late).toMatchObject({ status: 409, body: { code: 'already_answered' } });
});

test('each of 150 streams gets its done, and the process ends in time', async () => {
  const server = await serverWith({ SERVICE_DRAIN_SECONDS: '1' });
  const client = clientOf(server, server.key);
  const streams = await Promise.all(Array.from({ length: 150 }, () => openStream(client, 'hang')));
  const startedAt = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(15_000);
  await Promise.all(streams.map(({ ended }) => ended));
  const ends = streams.map(({ events }) => events.at(-1)).map((last) => last?.name);
  expect(ends).toEqual(Array(150).fill('done'));
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
  expect(performance.now() - startedAt).toBeLessThan(8000);
});

async function untilDraining(client: Client): Promise<void> {
  while ((await client.get('/ready')).status === 200) await sleep(5);
}

async function sessionCount(client: Client): Promise<number> {
  return (await client.get<{ data: readonly unknown[] }>('/api/v1/sessions?limit=100')).body.data.length;
}
