/** Requests with an Idempotency-Key, over HTTP: the same one has one effect, another one is refused. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { scriptedSettings } from '../server-process.ts';
import {
  type Account,
  type Json,
  readEvents,
  type StreamedEvent,
  type TestApp,
  testApp,
} from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;
let keys = 0;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({ config: scriptedSettings(upstream.url) });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const newKey = () => {
  keys += 1;
  return `key-${keys}`;
};

const post = (path: string, body: unknown, key: string, token = ada.token) =>
  app.request('POST', path, { token, body, headers: { 'idempotency-key': key } });

const idOf = (body: Json): string => body.id ?? body.api_key.id;

const sessionsOf = async (tag: string, token = ada.token) =>
  (await app.request('GET', `/api/v1/sessions?tag=${tag}`, { token })).body.data;

/** A session with one message in it. */
const talkedSession = async () => {
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  return { id: (await post('/api/v1/query', { prompt: 'Hi' }, newKey())).body.session_id };
};

describe('the same request again gets the same answer, and has no second effect', () => {
  test.each<[string, () => Promise<[path: string, body: unknown]>]>([
    ['createSession', async () => ['/api/v1/sessions', { title: 'Once' }]],
    ['createApiKey', async () => ['/api/v1/auth/api-keys', { name: 'Once', scopes: ['sessions:read'] }]],
    [
      'createAgent',
      async () => [
        '/api/v1/agents',
        { slug: `once-${keys}`, name: 'Once', description: 'Once.', instructions: 'Be brief.' },
      ],
    ],
    ['forkSession', async () => [`/api/v1/sessions/${(await talkedSession()).id}/fork`, {}]],
    [
      'importSession',
      async () => {
        const { id } = await talkedSession();
        const { body } = await app.request('GET', `/api/v1/sessions/${id}/export?format=json`, {
          token: ada.token,
        });
        return ['/api/v1/sessions/import', body];
      },
    ],
    ['createQuery', async () => ['/api/v1/query', { prompt: 'Once.' }]],
    ['summarizeSession', async () => [`/api/v1/sessions/${(await talkedSession()).id}/summarize`, {}]],
    [
      'createMessage',
      async () => [
        '/v1/messages',
        { model: 'scripted:scripted-1', max_tokens: 50, messages: [{ role: 'user', content: 'Once.' }] },
      ],
    ],
  ])('%s', async (_operation, prepare) => {
    await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
    const [path, body] = await prepare();
    const key = newKey();
    const first = await post(path, body, key);
    expect([200, 201, 202], JSON.stringify(first.body)).toContain(first.status);
    const again = await post(path, body, key);
    expect([again.status, again.body]).toEqual([first.status, first.body]);
    for (const name of ['location', 'etag', 'content-type'])
      expect(again.headers.get(name)).toBe(first.headers.get(name));
    expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
    const other = await post(path, body, newKey());
    if (path.endsWith('/agents')) expect(other.status).toBe(409);
    else if (!path.endsWith('/summarize')) expect(idOf(other.body)).not.toBe(idOf(first.body));
  });
});

test('one resource is made, whatever order its members are sent in; and a key of somebody else is another', async () => {
  const key = newKey();
  const first = await post('/api/v1/sessions', { title: 'A', tags: ['order'] }, key);
  const turned = await post('/api/v1/sessions', { tags: ['order'], title: 'A' }, key);
  expect(turned.body).toEqual(first.body);
  expect(await sessionsOf('order')).toHaveLength(1);
  const others = await post('/api/v1/sessions', { title: 'A', tags: ['order'] }, key, mallory.token);
  expect(others.status).toBe(201);
  expect(others.body.id).not.toBe(first.body.id);
  expect(await sessionsOf('order', mallory.token)).toHaveLength(1);
});

test('each API key has keys of its own, and whoever logs in again is the same', async () => {
  const key = newKey();
  const body = { title: 'A' };
  const first = await post('/api/v1/sessions', body, key);
  const login = await app.request('POST', '/api/v1/auth/login', {
    body: { email: ada.email, password: ada.password },
  });
  expect((await post('/api/v1/sessions', body, key, login.body.access_token)).body).toEqual(first.body);
  const apiKey = await post('/api/v1/auth/api-keys', { name: 'k', scopes: ['sessions:write'] }, newKey());
  const byKey = await post('/api/v1/sessions', body, key, apiKey.body.key);
  expect(byKey.status).toBe(201);
  expect(byKey.body.id).not.toBe(first.body.id);
});

test.each([
  ['another body', '/api/v1/sessions', { title: 'B' }],
  ['another operation', '/api/v1/auth/api-keys', { name: 'x', scopes: ['sessions:read'] }],
])('%s under the same key is refused with 422', async (_title, path, body) => {
  const key = newKey();
  expect((await post('/api/v1/sessions', { title: 'A' }, key)).status).toBe(201);
  const answer = await post(path, body, key);
  expect([answer.status, answer.body.code]).toEqual([422, 'idempotency_key_reused']);
});

test('while the first request is being answered, the same one is refused with 409 and another one with 422', async () => {
  await upstream.script([{ reply: { text: 'Slowly.', hold_after_chunks: 1 } }]);
  const key = newKey();
  const asked = (await upstream.requests()).length;
  const first = post('/api/v1/query', { prompt: 'Slow' }, key);
  // Not before it is at work: a second one that came sooner would be the first.
  await expect.poll(async () => (await upstream.requests()).length).toBeGreaterThan(asked);
  const again = await post('/api/v1/query', { prompt: 'Slow' }, key);
  expect([again.status, again.body.code]).toEqual([409, 'idempotency_key_in_use']);
  const other = await post('/api/v1/query', { prompt: 'Other' }, key);
  expect([other.status, other.body.code]).toEqual([422, 'idempotency_key_reused']);
  await upstream.releaseHeld();
  const { status, body } = await first;
  expect(status).toBe(200);
  expect((await post('/api/v1/query', { prompt: 'Slow' }, key)).body).toEqual(body);
});

test('of twenty at once one is done', async () => {
  const key = newKey();
  const body = { title: 'Twenty', tags: ['twenty'] };
  const answers = await Promise.all(Array.from({ length: 20 }, () => post('/api/v1/sessions', body, key)));
  expect([...new Set(answers.map(({ status }) => status))].sort()).toEqual([201, 409]);
  expect(await sessionsOf('twenty')).toHaveLength(1);
});

test('what was refused leaves its key free, and nothing else', async () => {
  const key = newKey();
  const refused = await post('/api/v1/query', { prompt: 'x', model: 'nobody:none' }, key);
  expect(refused.status).toBe(404);
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  const path = '/api/v1/query';
  expect((await post(path, { prompt: 'x', model: 'scripted:scripted-1' }, key)).status).toBe(200);
});

test.each(['', ' ', 'a b', 'é', 'x'.repeat(256)])('the key %j is none', async (key) => {
  const answer = await post('/api/v1/sessions', {}, encodeURIComponent(key) === '%C3%A9' ? 'a\u00e9' : key);
  // An empty header is no header to some clients: then it is not there at all.
  expect(key.trim() === '' ? [201, 400] : [400]).toContain(answer.status);
});

describe('a stream that is asked for again', () => {
  const streamed = async (key: string, leaveAt?: string) => {
    const leave = new AbortController();
    const response = await fetch(`${app.url}/api/v1/query/stream`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${ada.token}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify({ prompt: 'Stream' }),
      signal: leave.signal,
    });
    const events: StreamedEvent[] = [];
    if (response.status !== 200) return { status: response.status, runId: null, events };
    for await (const event of readEvents(response)) {
      events.push(event);
      if (event.event === leaveAt) {
        leave.abort();
        break;
      }
    }
    return { status: response.status, runId: response.headers.get('x-run-id'), events };
  };

  test('is the stream of the same run, from its first event', async () => {
    await upstream.script([{ reply: { text: 'Word by word. ', repeat: 5, chunk_delay_ms: 20 } }]);
    const key = newKey();
    const first = await streamed(key, 'message');
    await expect.poll(async () => (await streamed(key, 'message')).status).toBe(200);
    await expect.poll(async () => (await streamed(key)).events.at(-1)?.event).toBe('done');
    const whole = await streamed(key);
    expect(whole.runId).toBe(first.runId);
    expect(whole.events.slice(0, first.events.length)).toEqual(first.events);
    expect(whole.events[0]).toMatchObject({ id: '1' });
  });

  test('is refused once the events of that run are no longer kept', async () => {
    const key = newKey();
    expect((await streamed(key)).events.at(-1)?.event).toBe('done');
    await forgetEvents();
    const gone = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'Stream' },
      headers: { 'idempotency-key': key },
    });
    expect(gone.status).toBe(410);
    expect(await gone.json()).toMatchObject({ code: 'events_expired' });
  });
});

/** As housekeeping does a week later. */
const forgetEvents = () => app.services.store.runs.pruneEvents(new Date(Date.now() + 60_000));

test('a query whose caller went away is refused once its answer is no longer kept, and fails as before if it failed', async () => {
  await upstream.script([
    { when: { last_user: '^Fail' }, fail: { kind: 'status', status: 401 } },
    { reply: { text: 'Yes, in the end.', hold_after_chunks: 1 } },
  ]);
  const [answered, failed] = [newKey(), newKey()];
  const leave = new AbortController();
  const left = fetch(`${app.url}/api/v1/query`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ada.token}`,
      'content-type': 'application/json',
      'idempotency-key': answered,
    },
    body: JSON.stringify({ prompt: 'Answer.' }),
    signal: leave.signal,
  });
  await upstream.latest(({ outcome }) => outcome === 'open');
  leave.abort();
  await expect(left).rejects.toThrow('abort');
  await upstream.releaseHeld();
  const newest = async () =>
    (await app.request('GET', '/api/v1/runs?limit=1', { token: ada.token })).body.data[0];
  await expect.poll(async () => (await newest()).status).toBe('completed');
  const ask = (prompt: string, key: string) => post('/api/v1/query', { prompt }, key);
  const { status, body } = await ask('Fail.', failed);
  expect(status).toBe(502);
  await forgetEvents();
  const asked = (await upstream.requests()).length;
  const gone = await ask('Answer.', answered);
  expect([gone.status, gone.body.code]).toEqual([410, 'events_expired']);
  const again = await ask('Fail.', failed);
  expect(again).toMatchObject({ status, body: { code: body.code, detail: body.detail } });
  expect(await upstream.requests()).toHaveLength(asked);
});

test('a key that is shown once is kept sealed', async () => {
  const { body } = await post(
    '/api/v1/auth/api-keys',
    { name: 'sealed', scopes: ['sessions:read'] },
    'sealed-key',
  );
  const kept = await app.services.store.keptRequests.find({ principalId: ada.user.id, key: 'sealed-key' });
  expect(kept?.reply).toMatch(/^v1\./);
  expect(kept?.reply).not.toContain(body.key);
  expect(Buffer.from(kept?.reply?.split('.')[3] ?? '', 'base64url').toString('latin1')).not.toContain(
    body.key,
  );
});

test('what was kept is forgotten in time, and then the key is free', async () => {
  const key = newKey();
  const first = await post('/api/v1/sessions', {}, key);
  await app.services.store.keptRequests.prune(new Date(Date.now() - 60_000));
  expect((await post('/api/v1/sessions', {}, key)).body.id).toBe(first.body.id);
  await app.services.store.keptRequests.prune(new Date(Date.now() + 1000));
  expect((await post('/api/v1/sessions', {}, key)).body.id).not.toBe(first.body.id);
});
