/** The embedder's settings over HTTP: for the operator, with a provider that is played and the model of this machine. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { coded, type Json, mergePatch, type RequestOptions, type TestApp, testApp } from '../test-app.ts';
import { modelsDirectory } from '../test-embedder.ts';

let upstream: Upstream;
let app: TestApp;
let bare: TestApp;

beforeAll(async () => {
  upstream = await startUpstream();
  await upstream.script([{ when: { task: 'embedding' }, reply: { usage: { input: 7 } } }]);
  const provider = (type: 'openai-compat' | 'anthropic') => ({
    type,
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'm' }],
  });
  const providers = { local: provider('openai-compat'), claude: provider('anthropic') };
  app = await testApp({
    config: { providers },
    settings: { modelsDirectory, outboundAllow: ['127.0.0.1'] },
  });
  bare = await testApp();
});
afterAll(async () => {
  await Promise.all([app.close(), bare.close()]);
  await upstream.stop();
});

const url = '/api/v1/settings/embedder';

const ask = (method: string, path = url, more: RequestOptions = {}) =>
  app.request(method, path, { token: app.operatorKey, ...more });

const change = (body: object, { query = '', headers = {} } = {}) =>
  ask('PATCH', `${url}${query}`, { body, headers: { ...mergePatch, 'if-match': '*', ...headers } });

test('without anything set the model of the machine embeds, and its settings say so', async () => {
  const { status, body, headers } = await ask('GET');
  expect([status, body]).toEqual([
    200,
    {
      ...{
        provider_setting_id: null,
        provider: null,
        model: 'all-minilm-l6-v2',
        dimensions: 384,
        batch_size: 64,
      },
      identity: 'embedded:all-minilm-l6-v2:int8-per-channel:1',
      ...{ ready: true, reason: null, corpora: { stale: 0, error: null }, updated_at: null },
    },
  ]);
  const again = await ask('GET', url, { headers: { 'if-none-match': headers.get('etag') ?? '' } });
  expect(again.status).toBe(304);
  const tested = await ask('POST', `${url}/test`);
  expect(tested.body).toMatchObject({ ok: true, model: 'all-minilm-l6-v2', dimensions: 384 });
});

test('without the model on the machine there is none, which the settings and the test say plainly', async () => {
  const token = bare.operatorKey;
  const reason = 'The embedding model is not on this machine: run `service embedder install`.';
  expect((await bare.request('GET', url, { token })).body).toMatchObject({ ready: false, reason });
  const tested = await bare.request('POST', `${url}/test`, { token });
  expect(coded(tested)).toEqual([502, 'embedder_failed']);
  expect(tested.body.detail).toBe(reason);
});

test('nobody but the operator reads or changes it', async () => {
  const { token } = await app.register('ada');
  expect(coded(await ask('GET', url, { token }))).toEqual([403, 'role_required']);
  expect(coded(await ask('POST', `${url}/test`, { token }))).toEqual([403, 'role_required']);
  const headers = { ...mergePatch, 'if-match': '*' };
  expect(coded(await ask('PATCH', url, { token, body: { batch_size: 1 }, headers }))).toEqual([
    403,
    'role_required',
  ]);
});

test.each([
  ['a provider that is none', { provider: 'nobody', model: 'm' }, 422, 'embedder_unsuited'],
  ['one whose vendor has no vectors', { provider: 'claude', model: 'm' }, 422, 'embedder_unsuited'],
  [
    'a setting that is none',
    { provider_setting_id: 'pset_01k9w6r3h2e7xv5q0c8m4b1tza', model: 'm' },
    404,
    'not_found',
  ],
  ['a provider without its model', { provider: 'local' }, 400, 'invalid_request'],
  [
    'two providers at once',
    { provider: 'local', provider_setting_id: 'pset_01k9w6r3h2e7xv5q0c8m4b1tza', model: 'm' },
    400,
    'invalid_request',
  ],
  ['another model for the machine', { model: 'bge-small' }, 400, 'invalid_request'],
  ['another size for the machine', { dimensions: 512 }, 400, 'invalid_request'],
])('%s is refused', async (_name, body, status, code) => {
  expect(coded(await change(body))).toEqual([status, code]);
  expect((await ask('GET')).body.updated_at).toBeNull();
});

test('a change needs the ETag of what was read', async () => {
  const headers = mergePatch;
  const without = await ask('PATCH', url, { body: { batch_size: 32 }, headers });
  expect(coded(without)).toEqual([428, 'precondition_required']);
  const late = await change({ batch_size: 32 }, { headers: { 'if-match': '"another"' } });
  expect(coded(late)).toEqual([412, 'precondition_failed']);
});

test('a provider of the settings file embeds once it has shown how long its vectors are', async () => {
  const changed = await change({ provider: 'local', model: 'nomic', batch_size: 2 });
  expect([changed.status, changed.body]).toMatchObject([
    200,
    { provider: 'local', model: 'nomic', dimensions: 64, identity: 'provider:local:nomic:64', ready: true },
  ]);
  expect((await ask('POST', `${url}/test`)).body).toMatchObject({ model: 'nomic', dimensions: 64 });
  // Many models take no wish, not even for the length that they have.
  for (const { body } of (await upstream.requests()).slice(-2)) expect(body).not.toHaveProperty('dimensions');
  const shorter = await change({ dimensions: 16 });
  expect(shorter.body).toMatchObject({ model: 'nomic', dimensions: 16, identity: 'provider:local:nomic:16' });
  const { embedder } = await app.services.embedders.current();
  const vectors = (await embedder?.embed(['one', 'two', 'three'], AbortSignal.timeout(60_000))) ?? [];
  expect(vectors.map((vector) => Math.hypot(...vector).toFixed(5))).toEqual([
    '1.00000',
    '1.00000',
    '1.00000',
  ]);
  // Two and one, as the batches are.
  const asked = (await upstream.requests())
    .slice(-2)
    .map(({ body }) => body as { input: string[]; dimensions?: number });
  expect(asked.map(({ input, dimensions }) => [input.length, dimensions])).toEqual([
    [2, 16],
    [1, 16],
  ]);
  expect((await change({ dimensions: null })).body).toMatchObject({ model: 'nomic', dimensions: 64 });
});

test('a moment of a provider is waited for, and what it says for good is told', async () => {
  const fail = { kind: 'status', status: 429 };
  await upstream.script([
    { times: 1, fail },
    { when: { task: 'embedding' }, reply: {} },
  ]);
  expect((await ask('POST', `${url}/test`)).status).toBe(200);
  await upstream.script([{ fail: { kind: 'status', status: 401 } }]);
  expect(coded(await ask('POST', `${url}/test`))).toEqual([502, 'provider_refused']);
  expect(coded(await change({ provider: 'local', model: 'other' }))).toEqual([502, 'provider_refused']);
  await upstream.script([{ when: { task: 'embedding' }, reply: {} }]);
});

test('a provider that is kept on the server embeds, too, and no longer than it is there', async () => {
  const made = await ask('POST', '/api/v1/settings/providers', {
    body: {
      ...{ scope: 'user', provider_id: 'openai', name: 'Vectors', type: 'openai' },
      ...{ base_url: `${upstream.url}/v1`, api_key: 'k' },
    },
  });
  const { id } = made.body;
  const changed = await change({ provider_setting_id: id, model: 'text-embedding-3-small', dimensions: 32 });
  expect(changed.body).toMatchObject({
    ...{ provider_setting_id: id, provider: null, dimensions: 32, ready: true },
    identity: `provider:${id}:text-embedding-3-small:32`,
  });
  await ask('DELETE', `/api/v1/settings/providers/${id}`, { headers: { 'if-match': '*' } });
  expect((await ask('GET')).body).toMatchObject({
    ready: false,
    reason: expect.stringContaining('provider setting'),
  });
  const back = await change({ provider_setting_id: null, provider: null });
  expect(back.body).toMatchObject({ model: 'all-minilm-l6-v2', ready: true, batch_size: 2 });
});

test('a search in corpora of several embedders asks each of them, and says what that means for its order', async () => {
  const embedding = { when: { task: 'embedding' }, reply: {} };
  const stuck = { when: { task: 'embedding', last_user: 'lynxes' }, fail: { kind: 'status', status: 500 } };
  await upstream.script([stuck, embedding]);
  const filled = async (name: string, text: string) => {
    const { body: corpus } = await ask('POST', '/api/v1/corpora', { body: { name } });
    const texts = [{ title: name, text }];
    await ask('POST', `/api/v1/corpora/${corpus.id}/documents`, { body: { texts } });
    const read = async () => (await ask('GET', `/api/v1/corpora/${corpus.id}`)).body;
    await expect.poll(async () => (await read()).embedder, { timeout: 60_000 }).not.toBeNull();
    return { id: corpus.id, read };
  };
  const before = await filled('Before', 'About lynxes.');
  const changed = await change({ provider: 'local', model: 'nomic' }, { query: '?reindex=true' });
  expect(changed.status).toBe(202);
  const after = await filled('After', 'About otters.');
  expect([(await before.read()).embedder, (await after.read()).embedder]).toEqual([
    expect.stringMatching(/^embedded:/),
    'provider:local:nomic:64',
  ]);
  const found = async (mode: string) => {
    const body = { corpus_ids: [after.id, before.id], query: 'animals', mode, min_score: 1.5 };
    const { data, notice, ...answer } = (await ask('POST', '/api/v1/corpora/search', { body })).body;
    expect(answer.mode).toBe(mode);
    const hits = data.map((hit: Json) => [hit.corpus_id, hit.vector_rank, hit.score]);
    return { hits, notice };
  };
  expect(await found('vector')).toEqual({
    hits: [
      [before.id, 1, 1],
      [after.id, 2, 1],
    ],
    notice: expect.stringMatching(/^Ranked by places instead of cosines: /),
  });
  await upstream.script([stuck, { ...embedding, reply: undefined, fail: { kind: 'status', status: 401 } }]);
  expect((await found('vector')).notice).toMatch(/^Some of these corpora are not searched by meaning: /);
});

test('an estimate asks no model for vectors', async () => {
  await upstream.script([{ when: { task: 'embedding' }, reply: {} }]);
  await change({ provider: 'local', model: 'nomic' }, { query: '?reindex=true' });
  await ask('POST', '/api/v1/memories', { body: { content: 'The cat is called Mimi.', scope: 'user' } });
  const body = { prompt: 'Which pets live here?', model: 'local:m' };
  expect((await ask('POST', '/api/v1/query/estimate', { body })).status).toBe(200);
  const asked = (await upstream.requests()).map((one) => JSON.stringify(one.body));
  expect(asked.filter((one) => one.includes(body.prompt))).toEqual([]);
});
