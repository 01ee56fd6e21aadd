/** Searching the web over HTTP: who sets how, what is kept of it, and that a change counts at once, for agents too. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Answer, coded, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { databases, type LastingDatabase, lastingDatabase, newMasterKey } from '../test-database.ts';

const path = '/api/v1/web/search/settings';
let upstream: Upstream;
/** Knows neither what the engine of a test is, nor that it is one. */
let stranger: Server;
beforeAll(async () => {
  upstream = await startUpstream();
  stranger = createServer((_request, response) => void response.writeHead(500).end());
  await new Promise<void>((resolve) => void stranger.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  stranger.close();
  await upstream.stop();
});
const strangerUrl = () => `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`; // it listens on TCP

describe.each(databases)('on %s', (database) => {
  let app: TestApp;
  /** Another process of the same installation. */
  let node: TestApp;
  let ada: Account;
  let folder: string;
  let kept: LastingDatabase;

  beforeAll(async () => {
    const config = {
      providers: {
        scripted: {
          ...{ type: 'openai-compat' as const, base_url: `${upstream.url}/v1`, api_key: 'k' },
          models: [{ id: 'm' }],
        },
      },
    };
    folder = await mkdtemp(join(tmpdir(), 'service-web-search-'));
    kept = await lastingDatabase(database, folder);
    const settings = {
      ...{ databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder), mode: 'multi' as const },
      outboundAllow: [upstream.url, strangerUrl()],
    };
    app = await testApp({ config, settings });
    node = await testApp({ config, settings });
    ada = await app.register('ada');
  });
  afterAll(async () => {
    await Promise.all([app.close(), node.close()]);
    await kept.remove();
    await rm(folder, { recursive: true });
  });

  const read = (one = app) => one.request('GET', path, { token: app.operatorKey });
  const search = (body: object, one = app) =>
    one.request('POST', '/api/v1/web/search', { token: ada.token, body });
  async function change(body: object, ifMatch = '*'): Promise<Answer> {
    const headers = { ...mergePatch, 'if-match': ifMatch };
    return app.request('PATCH', path, { token: app.operatorKey, body, headers });
  }
  const searchToolAt = async (one: TestApp) => {
    const { body } = await one.request('GET', '/api/v1/tools?limit=100', { token: ada.token });
    return body.data.find(({ name }: { name: string }) => name === 'web_search');
  };

  test('nothing is set at first; the settings are the operator’s, and change with their ETag', async () => {
    const first = await read();
    expect(first.body).toMatchObject({ engine: null, source: 'default', max_results: 10, updated_at: null });
    expect(coded(await search({ query: 'x' }))).toEqual([501, 'web_search_not_configured']);
    expect(await searchToolAt(app)).toMatchObject({ disabled_by: 'no search engine is set' });
    expect((await app.request('GET', '/ready')).body.off).toContain(
      'tool web_search: no search engine is set',
    );
    expect(coded(await app.request('GET', path, { token: ada.token }))).toEqual([403, 'role_required']);
    const without = { token: app.operatorKey, body: { max_results: 3 }, headers: mergePatch };
    expect(coded(await app.request('PATCH', path, without))).toEqual([428, 'precondition_required']);
    const tag = first.headers.get('etag') ?? '';
    const headers = { 'if-none-match': tag };
    expect((await app.request('GET', path, { token: app.operatorKey, headers })).status).toBe(304);
    const rules = { max_results: 3, safe_search: 'strict', allow_domains: ['Example.COM', 'example.com'] };
    const changed = await change(rules, tag);
    expect(changed.body).toMatchObject({ source: 'setting', max_results: 3, allow_domains: ['example.com'] });
    expect(coded(await change({ max_results: 4 }, tag))).toEqual([412, 'precondition_failed']);
    await change({ max_results: 10, safe_search: 'moderate', allow_domains: [] });
  });

  test.each([
    [{ base_url: 'https://search.example.com' }, '/base_url'],
    [{ api_key: 'k' }, '/api_key'],
    [{ engine: 'searxng' }, '/base_url'],
    [{ engine: 'searxng', base_url: 'https://search.example.com', api_key: 'k' }, '/api_key'],
    [{ engine: 'searxng', base_url: 'http://10.0.0.1:8080' }, '/base_url'],
    [{ engine: 'searxng', base_url: 'http://localhost:8080' }, '/base_url'],
    [{ engine: 'searxng', base_url: 'https://a:b@example.com' }, '/base_url'],
    [{ engine: 'brave' }, '/api_key'],
    [{ engine: 'google' }, '/engine'],
    [{ max_results: 21 }, '/max_results'],
    [{ deny_domains: ['https://example.com'] }, '/deny_domains/0'],
  ])('%j is refused, and nothing changes', async (body, pointer) => {
    const before = (await read()).body;
    const answer = await change(body);
    expect(coded(answer)).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer }));
    expect((await read()).body).toEqual(before);
  });

  test('a change counts at the next search, on every node; a key is kept sealed, and goes to its own server alone', async () => {
    await change({
      engine: 'searxng',
      base_url: upstream.url,
      max_results: 2,
      deny_domains: ['page-1.example.com'],
    });
    const found = await search({ query: 'cats' }, node);
    expect(found.body).toMatchObject({
      engine: 'searxng',
      results: [{ title: 'Page 2' }, { title: 'Page 3' }],
    });
    expect((await search({ query: 'cats', max_results: 1 })).body.results).toHaveLength(1);
    expect(await searchToolAt(node)).toMatchObject({ disabled_by: null });
    expect((await node.request('GET', '/ready')).body.off).not.toContainEqual(
      expect.stringMatching('web_search'),
    );

    const secret = 'the-key-of-the-engine';
    const set = await change({ engine: 'brave', base_url: upstream.url, api_key: secret });
    expect(set.body).toMatchObject({
      engine: 'brave',
      api_key_set: true,
      deny_domains: ['page-1.example.com'],
    });
    expect((await search({ query: 'cats' }, node)).body).toMatchObject({ engine: 'brave' });
    const asked = (await upstream.requests()).filter(({ path }) => path.startsWith('/res/v1/'));
    expect(asked.at(-1)?.headers['x-subscription-token']).toBe(secret);
    const engines = await app.request('GET', '/api/v1/web/search/engines', { token: ada.token });
    expect(engines.body.data.map(({ name, selected }: Answer['body']) => [name, selected])).toEqual([
      ['searxng', false],
      ['brave', true],
    ]);
    const { kept } = await app.services.store.webSearchSettings.read(null);
    expect(kept.sealed_api_key).toMatch(/^v1\./);
    const { body: log } = await app.request('GET', '/api/v1/audit/logs?action=web_search.update', {
      token: app.operatorKey,
    });
    expect(JSON.stringify([set.body, (await read()).body, kept, log])).not.toContain(secret);
    expect(log.data.length).toBeGreaterThan(2);

    // Whom it was not meant for does not get it.
    const elsewhere = await change({ base_url: strangerUrl() });
    expect(coded(elsewhere)).toEqual([400, 'invalid_request']);
    expect(elsewhere.body.errors[0].pointer).toBe('/api_key');
    await change({ base_url: strangerUrl(), api_key: 'another' });
    const failed = await search({ query: 'cats' });
    expect(coded(failed)).toEqual([502, 'web_search_failed']);
    await change({ engine: null, deny_domains: [] });
    expect((await read()).body).toMatchObject({ engine: null, base_url: null, api_key_set: false });
    expect(coded(await search({ query: 'cats' }, node))).toEqual([501, 'web_search_not_configured']);
  });

  test('every workspace is told which engine is set, as a replay tells again, and nothing of what may be found', async () => {
    const place = '/api/v1/events?after=0&follow=false&types=web_search_changed';
    const told = async () => {
      const events = await (await node.stream('GET', place, { token: ada.token })).text();
      return [...events.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json).event);
    };
    const before = (await told()).length;
    await change({ engine: 'searxng', base_url: upstream.url, deny_domains: ['page-2.example.com'] });
    await change({ engine: null, deny_domains: [] });
    expect((await told()).slice(before)).toEqual([
      { type: 'web_search_changed', engine: 'searxng' },
      { type: 'web_search_changed', engine: null },
    ]);
  });

  test('an agent searches by the same settings, and has no such tool where there are none', async () => {
    await change({ engine: 'searxng', base_url: upstream.url, max_results: 1 });
    await upstream.script([
      {
        when: { step: 0, offers_tool: 'web_search' },
        reply: { tool_calls: [{ name: 'web_search', arguments: { query: 'cats' } }] },
      },
      { when: { last_tool_result: 'What page 1 has about cats' }, reply: { text: 'Found.' } },
      { reply: { text: 'Not found.' } },
    ]);
    const ask = async (one: TestApp) =>
      (
        await one.request('POST', '/api/v1/query', {
          token: app.operatorKey,
          body: { prompt: 'Search.', permission_mode: 'bypass' },
        })
      ).body.content;
    expect(await ask(node)).toMatchObject([{ text: 'Found.' }]);
    await change({ engine: null });
    expect(await ask(node)).toMatchObject([{ text: 'Not found.' }]);
  });

  test('a search is a request of whoever asked, and a quota ends it', async () => {
    await untilFarFromMidnight(20_000);
    await change({ engine: 'searxng', base_url: upstream.url });
    const { token, user } = await app.register('frugal');
    const body = { limits: { requests: { day: { hard: 1 } } } };
    const set = await app.request('PUT', `/api/v1/quotas/user/${user.id}`, { token: app.operatorKey, body });
    expect(set.status).toBe(200);
    const once = () => app.request('POST', '/api/v1/web/search', { token, body: { query: 'x' } });
    expect((await once()).status).toBe(200);
    expect(coded(await once())).toEqual([429, 'quota_exceeded']);
  });
});

test('what the environment names is asked, and not changed here; rules about results are', async () => {
  const app = await testApp({ settings: { webSearchUrl: upstream.url, mode: 'multi' } });
  const { token } = await app.register('grace');
  const headers = { ...mergePatch, 'if-match': '*' };
  const change = (body: object) => app.request('PATCH', path, { token: app.operatorKey, body, headers });
  expect(coded(await change({ engine: 'brave', api_key: 'k' }))).toEqual([409, 'set_by_environment']);
  expect(coded(await change({ engine: null }))).toEqual([409, 'set_by_environment']);
  const ruled = await change({ max_results: 1, allow_domains: ['page-4.example.com'] });
  expect(ruled.body).toMatchObject({ engine: 'searxng', source: 'environment', max_results: 1 });
  const found = await app.request('POST', '/api/v1/web/search', {
    token,
    body: { query: 'x', max_results: 9 },
  });
  expect(found.body).toMatchObject({ engine: 'searxng', results: [{ url: 'https://page-4.example.com/' }] });
  await app.close();
});
