/** Prices of the operator's catalogues, of models that are asked by another way than a query. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      models: { large: { provider: 'local', model: 'm' } },
      // It lists no model but the one that answers.
      providers: { local: scriptedProvider(upstream, 'm') },
    },
    settings: { outboundAllow: [new URL(upstream.url).origin] },
  });
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

test('vectors and an order cost what the catalogue says, and count for a quota of cost', async () => {
  await untilFarFromMidnight(20_000);
  const token = app.operatorKey;
  const price = (id: string) => ({ provider: 'local', id, cost_per_1m_in: 1000, cost_per_1m_out: 5000 });
  const catalog = { name: 'Prices', models: [price('vectors'), price('ranks')] };
  const made = await app.request('POST', '/api/v1/settings/providers/catalogs', { token, body: catalog });
  expect(made.status).toBe(201);
  await upstream.script([
    { when: { task: 'embedding' }, reply: { usage: { input: 50 } } },
    { when: { task: 'rerank' }, reply: { usage: { input: 9 } } },
  ]);
  const embedder = { provider: 'local', model: 'vectors' };
  const headers = { ...mergePatch, 'if-match': '*' };
  await app.request('PATCH', '/api/v1/settings/embedder', { token, headers, body: embedder });
  const ada = await app.register('ada');
  const send = async (method: string, path: string, body?: object): Promise<Json> =>
    (await app.request(method, `/api/v1${path}`, { token: ada.token, ...(body && { body }) })).body;
  await send('POST', '/memories', { scope: 'user', content: 'Herons wait.' });
  const search = { query: 'herons', rerank: { model: 'local:ranks' } };
  expect(await send('POST', '/memories/search', search)).toMatchObject({ notice: null });
  const used = (await send('GET', '/usage?group_by=model')).data;
  expect(used.map(({ model, cost }: Json) => [model, cost])).toEqual([
    ['local:ranks', 0.009],
    ['local:vectors', 0.05],
  ]);
  const quota = `/quotas/user/${ada.user.id}`;
  await send('PUT', quota, { limits: { cost: { month: { hard: 0.01 } } } });
  expect(await send('POST', '/memories/search', { query: 'herons' })).toMatchObject({
    ...{ notice: expect.stringContaining('allows $0.01 in a month, and $0.059 are used') },
  });
});
