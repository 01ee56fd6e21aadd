/** The TypeScript client follows a workspace of a real server: through cuts, with filters, to the end of its key. */

import { once } from 'node:events';
import { createServer, type Socket, connect as tcpConnect } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createServiceClient, type ServiceClient } from '../clients/typescript/client.ts';
import { type StreamedEvent, streamEvents } from '../clients/typescript/events.ts';
import { replyPermission } from '../clients/typescript/reply.ts';
import { type Account, readEvents, type TestApp, testApp } from './test-app.ts';

let app: TestApp;
let ada: Account;
beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
});
afterAll(() => app.close());

/** A way to the server that can be cut. */
async function startProxy() {
  const { port } = new URL(app.url);
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = tcpConnect(Number(port), '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('close', () => [near, far].map((one) => one.destroy()));
      socket.on('error', () => socket.destroy());
    }
    near.pipe(far).pipe(near);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  onTestFinished(() => {
    cut();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port.');
  return { url: `http://127.0.0.1:${address.port}`, cut };
}

const clientAt = (url: string, token: string): ServiceClient =>
  createServiceClient({ baseUrl: url, token, retries: { limit: 2, baseDelayMs: 1, maxDelayMs: 50 } });

/** Asks the demonstration, which asks for leave to write. */
async function ask(client: ServiceClient, sessionId: string): Promise<string> {
  const body = {
    prompt: `Please write a file named ${sessionId}.txt`,
    session_id: sessionId,
    model: 'demo:demo-1',
  };
  const { response } = await client.POST('/api/v1/query/stream', { body, parseAs: 'stream' });
  await response.body?.cancel();
  return response.headers.get('X-Run-Id') ?? '';
}

const newSession = async (client: ServiceClient) =>
  (await client.POST('/api/v1/sessions', { body: {} })).data.id;
const typeOf = (event: StreamedEvent) => (event.event === 'workspace' ? event.data.event.type : event.event);

test('each event once and in order, across cuts, and a question is answered by who watches the workspace alone', async () => {
  const proxy = await startProxy();
  const direct = clientAt(app.url, ada.token);
  const sessionId = await newSession(direct);
  const seen: StreamedEvent[] = [];
  const signal = AbortSignal.timeout(50_000);
  for await (const event of streamEvents(clientAt(proxy.url, ada.token), { sessionId, signal })) {
    seen.push(event);
    if (event.event === 'opened') await ask(direct, sessionId);
    if (event.event !== 'workspace') continue;
    const happened = event.data.event;
    if (happened.type === 'run_started' || happened.type === 'permission_resolved') proxy.cut();
    if (happened.type === 'permission_requested')
      await replyPermission(direct, happened.request, { decision: 'allow_once' });
    if (happened.type === 'run_ended') break;
  }
  expect(seen.map(typeOf)).toEqual(
    expect.arrayContaining([
      'opened',
      'run_queued',
      'permission_requested',
      'permission_resolved',
      'run_ended',
    ]),
  );
  const ids = seen.map(({ id }) => id ?? 0);
  expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
  const [first] = ids;
  const replayed = streamEvents(direct, { sessionId, after: first ?? 0, follow: false });
  const told = await Array.fromAsync(replayed);
  expect(told.slice(0, seen.length - 1)).toEqual(seen.slice(1));
  const types = ['run_ended', 'not_yet_known'];
  const ends = await Array.fromAsync(streamEvents(direct, { sessionId, types, after: 0, follow: false }));
  expect(ends.map(typeOf)).toEqual(['run_ended']);
});

test('a key that is revoked ends it with that error, and opens no other', async () => {
  const { data: key } = await clientAt(app.url, ada.token).POST('/api/v1/auth/api-keys', {
    body: { name: 'watcher', scopes: ['sessions:read'] },
  });
  const client = clientAt(app.url, key.key);
  const seen: StreamedEvent[] = [];
  for await (const event of streamEvents(client, { signal: AbortSignal.timeout(50_000) })) {
    seen.push(event);
    const path = { key_id: key.api_key.id };
    if (event.event === 'opened')
      await clientAt(app.url, ada.token).DELETE('/api/v1/auth/api-keys/{key_id}', { params: { path } });
  }
  expect(seen.map(typeOf)).toEqual(['opened', 'error']);
  expect(seen.at(-1)?.data).toMatchObject({ error: expect.stringMatching(/^credential_invalid: /) });
  await expect(streamEvents(client).next()).rejects.toMatchObject({ code: 'credential_invalid' });
});

test('a workspace of others is not there, nor is a number that does not exist yet', async () => {
  const mallory = clientAt(app.url, (await app.register('mallory')).token);
  const { data: me } = await clientAt(app.url, ada.token).GET('/api/v1/users/me');
  const workspaceId = me.memberships[0]?.default_workspace_id ?? '';
  await expect(streamEvents(mallory, { workspaceId }).next()).rejects.toMatchObject({ code: 'not_found' });
  await expect(streamEvents(mallory, { after: 10_000 }).next()).rejects.toMatchObject({
    code: 'invalid_request',
  });
});

test('who listens for what seldom happens can go on though all but the newest events have expired', async () => {
  let ahead = 0;
  const turned = await testApp({ clock: { now: () => new Date(Date.now() + ahead) } });
  onTestFinished(turned.close);
  const { token } = await turned.register('grace');
  const connect = async (headers = {}) => {
    const path = '/api/v1/events?types=skills_changed';
    const response = await turned.stream('GET', path, { token, headers });
    return { status: response.status, events: readEvents(response) };
  };
  const { events } = await connect();
  const opened = (await events.next()).value;
  for (let time = 0; time < 3; time += 1)
    await turned.request('POST', '/api/v1/sessions', { token, body: {} });
  ahead = 61_000;
  const passed = (await events.next()).value;
  expect(passed).toMatchObject({ id: String(Number(opened?.id) + 3), event: 'passed', data: opened?.data });
  await turned.services.store.runs.pruneEvents(new Date(Date.now() + 2 * ahead));
  expect((await connect({ 'Last-Event-ID': opened?.id })).status).toBe(410);
  const again = await connect({ 'Last-Event-ID': passed?.id });
  expect(again.status).toBe(200);
  await Promise.all([events.return(undefined), again.events.return(undefined)]);
});
