/** For whom vectors of questions count: who asks, with which key, where, and as a part of what. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { bringIn, makePeople } from '../test-people.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;

const embedding = { when: { task: 'embedding' }, reply: { usage: { input: 50 } } };
const looks = {
  when: { tool_results: 0 },
  reply: {
    tool_calls: [{ name: 'corpus_search', arguments: { query: 'herons' } }],
    usage: { input: 10, output: 2 },
  },
};
const answer = { reply: { text: 'Done.', usage: { input: 10, output: 2 } } };

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      models: { large: { provider: 'local', model: 'm' } },
      providers: { local: scriptedProvider(upstream, 'm') },
    },
    settings: { outboundAllow: [new URL(upstream.url).origin] },
  });
  await upstream.script([embedding, answer]);
  const chosen = await app.request('PATCH', '/api/v1/settings/embedder', {
    ...{ token: app.operatorKey, headers: { ...mergePatch, 'if-match': '*' } },
    body: { provider: 'local', model: 'vectors' },
  });
  expect(chosen.status, JSON.stringify(chosen.body)).toBe(200);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

beforeEach(() => untilFarFromMidnight(20_000));

const asking =
  (token: string) =>
  async (method: string, path: string, body?: object): Promise<Json> =>
    (await app.request(method, `/api/v1${path}`, { token, ...(body && { body }) })).body;

type Ask = ReturnType<typeof asking>;

/** A corpus with one document, whose vectors count 50 tokens. */
async function corpusOf(ask: Ask, more: object = {}): Promise<string> {
  const { id } = await ask('POST', '/corpora', { name: 'Water', ...more });
  const texts = [{ title: 'Herons', text: '# Herons\n\nWater herons wait.' }];
  const job = await ask('POST', `/corpora/${id}/documents`, { texts });
  const state = async () => (await ask('GET', `/corpora/${id}/ingestion-jobs/${job.id}`)).status;
  await expect.poll(state).toBe('completed');
  return id;
}

const usageOf = async (ask: Ask, query: string): Promise<[string | null, number, number][]> =>
  (await ask('GET', `/usage?${query}`)).data.map(({ model, api_key_id, requests, usage }: Json) => [
    model ?? api_key_id,
    requests,
    usage.input_tokens,
  ]);

const usesOf = (uses: readonly Json[]) => uses.map(({ resource, used }) => [resource, used]);

test('the vector of a search counts for the key that asks, until its quota is used up, and is no request', async () => {
  const ask = asking((await app.register('ada')).token);
  const corpus = await corpusOf(ask);
  await ask('POST', '/memories', { scope: 'user', content: 'Herons wait.' });
  const { key, api_key } = await ask('POST', '/auth/api-keys', {
    ...{ name: 'k', scopes: ['corpora:read', 'memories:read'] },
  });
  const quota = `/quotas/api_key/${api_key.id}`;
  await ask('PUT', quota, { limits: { requests: { month: { hard: 1 } }, tokens: { month: { hard: 120 } } } });
  const withKey = asking(key);
  const search = () => withKey('POST', `/corpora/${corpus}/search`, { query: 'herons' });
  expect((await search()).notice).toBeNull();
  // The memory is read with the question.
  expect((await withKey('POST', '/memories/search', { query: 'herons' })).notice).toBeNull();
  expect((await search()).notice).toBeNull();
  expect(usesOf((await ask('GET', quota)).use)).toEqual([
    ['requests', 0],
    ['tokens', 150],
  ]);
  expect((await search()).notice).toContain(`The quota of the API key ${api_key.id} allows 120 tokens`);
  expect(await usageOf(ask, 'group_by=key')).toContainEqual([api_key.id, 0, 150]);
});

test('what a run looks up is a part of it: no request and no run of its own, for the key that asked', async () => {
  const bob: Account = await app.register('bob');
  const ask = asking(bob.token);
  const corpus = await corpusOf(ask);
  const { key, api_key } = await ask('POST', '/auth/api-keys', {
    name: 'k',
    scopes: ['query', 'corpora:read'],
  });
  const limits = { concurrent_runs: { hard: 1 }, requests: { month: { hard: 1 } } };
  await ask('PUT', `/quotas/user/${bob.user.id}`, { limits });
  await upstream.script([embedding, looks, answer]);
  const done = await asking(key)('POST', '/query', { prompt: 'x', corpus_id: corpus });
  expect(done.tool_results, JSON.stringify(done)).toMatchObject([
    { is_error: false, content: expect.not.stringContaining('Searched by words alone') },
  ]);
  expect(usesOf((await ask('GET', `/quotas/user/${bob.user.id}`)).use)).toEqual([
    ['requests', 1],
    ['concurrent_runs', 0],
  ]);
  expect(await usageOf(ask, 'group_by=model')).toContainEqual(['local:vectors', 0, 150]);
  // Its prompt, its own search, and what it read of its two steps.
  expect(await usageOf(ask, 'group_by=key')).toContainEqual([api_key.id, 1, 120]);
  // What would be refused asks no model for a vector.
  const refused = await asking(key)('POST', '/query', {
    ...{ prompt: 'x', corpus_id: corpus, session_id: done.session_id },
  });
  expect(refused.code).toBe('quota_exceeded');
  expect(await usageOf(ask, 'group_by=model')).toContainEqual(['local:vectors', 0, 150]);
});

test('vectors count where the question is asked, and not where its person is at home', async () => {
  const [home, there] = [await makePeople(app, 'acme'), await makePeople(app, 'beta')];
  const eve = home.member;
  await bringIn(app, there, eve, 'member');
  const login = { email: eve.email, password: eve.password };
  const { access_token } = (await app.request('POST', '/api/v1/auth/login', { body: login })).body;
  const [ask, owner] = [asking(access_token), asking(there.owner.token)];
  const corpus = await corpusOf(owner, { workspace_id: there.workspaceId });
  await upstream.script([embedding, looks, answer]);
  const session = await ask('POST', '/sessions', { workspace_id: there.workspaceId });
  const done = await ask('POST', '/query', { prompt: 'x', session_id: session.id, corpus_id: corpus });
  expect(done.tool_results, JSON.stringify(done)).toHaveLength(1);
  expect((await ask('POST', `/corpora/${corpus}/search`, { query: 'herons' })).notice).toBeNull();
  const models = (organizationId: string) => `group_by=model&organization_id=${organizationId}`;
  expect(await usageOf(owner, models(there.organizationId))).toContainEqual(['local:vectors', 0, 200]);
  expect(await usageOf(asking(home.owner.token), models(home.organizationId))).toEqual([]);
});
