/** Quotas and usage over HTTP: set, read, and held on every surface that uses models. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, readEvents, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let names = 0;

const answer = { text: 'Done.', usage: { input: 100, output: 20 } };
const lists = { tool_calls: [{ name: 'ls', arguments: {} }], usage: { input: 100, output: 20 } };

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      providers: {
        scripted: {
          ...{ type: 'openai-compat', base_url: `${upstream.url}/v1`, api_key: 'k' },
          models: [{ id: 'm', cost_per_1m_in: 1000, cost_per_1m_out: 5000 }],
        },
      },
    },
  });
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});
// Each test has an account of its own, whose day is fresh.
beforeEach(async () => {
  await untilFarFromMidnight(20_000);
  names += 1;
  ada = await app.register(`spender-${names}`);
  await upstream.script([{ reply: answer }]);
});

const send = (method: string, path: string, body?: object, token = ada.token) =>
  app.request(method, path, { token, ...(body && { body }) });
const own = (account = ada) => `/api/v1/quotas/user/${account.user.id}`;
const limit = async (limits: object, path = own()) => {
  const put = await send('PUT', path, { limits });
  expect(put.status, JSON.stringify(put.body)).toBe(200);
  return put;
};
const query = (body: object = {}, token = ada.token) =>
  send('POST', '/api/v1/query', { prompt: 'x', ...body }, token);
const say = (headers: Record<string, string> = {}, body: object = {}, token = ada.token) =>
  app.request('POST', '/v1/messages', {
    ...{ token, headers },
    body: { model: 'scripted:m', max_tokens: 100, messages: [{ role: 'user', content: 'x' }], ...body },
  });
const stream = async (body: object = {}): Promise<Json[]> => {
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token: ada.token,
    body: { prompt: 'x', ...body },
  });
  const events: Json[] = [];
  for await (const { data } of readEvents(response)) events.push(data);
  return events;
};
const used = async (): Promise<Json> => (await send('GET', '/api/v1/quotas')).body.data;
const total = async (): Promise<Json> => (await send('GET', '/api/v1/usage?group_by=user')).body.data[0];

describe('a quota', () => {
  test('is set, read with what is used of it, read anew only when it changes, changed and removed', async () => {
    expect(await send('GET', own())).toMatchObject({ status: 404, body: { code: 'not_found' } });
    const put = await limit({ tokens: { day: { soft: 500, hard: 1000 } }, storage: { hard: 5 } });
    expect(put.body).toMatchObject({
      subject_type: 'user',
      organization_id: ada.user.memberships?.[0]?.organization_id ?? put.body.organization_id,
      limits: { tokens: { day: { soft: 500, hard: 1000 } }, storage: { hard: 5 } },
    });
    await query();
    const got = await send('GET', own());
    expect(got.body.use).toMatchObject([
      { resource: 'tokens', window: 'day', soft: 500, hard: 1000, used: 120 },
      { resource: 'storage', window: null, soft: null, hard: 5, used: 0, resets_at: null },
    ]);
    expect(await used()).toEqual(got.body.use);
    const headers = { 'if-none-match': got.headers.get('etag') ?? '' };
    expect((await app.request('GET', own(), { token: ada.token, headers })).status).toBe(304);
    await query();
    expect((await app.request('GET', own(), { token: ada.token, headers })).status).toBe(200);
    const ifMatch = { 'if-match': put.headers.get('etag') ?? '' };
    const body = { limits: { jobs: { hard: 1 } } };
    const changed = await app.request('PUT', own(), { token: ada.token, headers: ifMatch, body });
    expect(changed).toMatchObject({ status: 200, body: { limits: { jobs: { hard: 1 } } } });
    const stale = await app.request('DELETE', own(), { token: ada.token, headers: ifMatch });
    expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    expect((await send('DELETE', own())).status).toBe(204);
    expect(await used()).toEqual([]);
  });

  test.each<[string, object]>([
    ['without limits', {}],
    ['with none', { limits: {} }],
    ['with an empty one', { limits: { tokens: {} } }],
    ['with a limit of nothing', { limits: { tokens: { day: {} } } }],
    ['with another window', { limits: { tokens: { week: { hard: 1 } } } }],
    ['with a fraction of a token', { limits: { tokens: { day: { hard: 0.5 } } } }],
    ['below zero', { limits: { cost: { day: { hard: -1 } } } }],
    ['of something else', { limits: { patience: { day: { hard: 1 } } } }],
    [
      'with more members',
      { limits: { jobs: { hard: 1 } }, organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' },
    ],
  ])('%s is refused', async (_, body) => {
    expect(await send('PUT', own(), body)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('is nothing for strangers, keys without the scope, and the quotas of others do not exist', async () => {
    const mallory = await app.register(`mallory-${names}`);
    const body = { limits: { jobs: { hard: 1 } } };
    await limit(body.limits);
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const sent = method === 'PUT' ? body : undefined;
      expect(await send(method, own(), sent, '')).toMatchObject({ status: 401 });
      const foreign = await send(method, own(), sent, mallory.token);
      expect(foreign).toMatchObject({ status: 404, body: { code: 'not_found' } });
    }
    const made = await send('POST', '/api/v1/auth/api-keys', { name: 'k', scopes: ['quotas:read'] });
    const key = made.body.key;
    expect((await send('GET', own(), undefined, key)).status).toBe(200);
    const refused = await send('PUT', own(), body, key);
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    expect(await send('GET', '/api/v1/quotas', undefined, '')).toMatchObject({ status: 401 });
    expect((await send('GET', '/api/v1/quotas', undefined, mallory.token)).body.data).toEqual([]);
    expect((await send('GET', own(), undefined, app.operatorKey)).status).toBe(404);
    const organization = `?organization_id=${(await send('GET', own())).body.organization_id}`;
    expect((await send('GET', own() + organization, undefined, app.operatorKey)).status).toBe(200);
  });
});

describe('a hard limit that is used up', () => {
  const refusal = (told: object) => ({ status: 429, body: { code: 'quota_exceeded', ...told } });

  test('of a workspace is told to whoever works in it by the role that they have in its organization', async () => {
    const { body: second } = await send('POST', '/api/v1/workspaces', { name: 'Second' });
    await limit({ requests: { day: { hard: 1 } } }, `/api/v1/quotas/workspace/${second.id}`);
    const bound = (uses: readonly Json[]) => uses.map(({ subject_id, used }) => [subject_id, used]);
    expect(bound(await used())).toEqual([[second.id, 0]]);
    const { body: session } = await send('POST', '/api/v1/sessions', { workspace_id: second.id });
    expect((await query({ session_id: session.id })).status).toBe(200);
    expect((await query({ session_id: session.id })).status).toBe(429);
    expect(bound(await used())).toEqual([[second.id, 1]]);
    const stranger = await app.register(`stranger-${names}`);
    expect((await send('GET', '/api/v1/quotas', undefined, stranger.token)).body.data).toEqual([]);
  });

  test('refuses queries, streams, summaries, messages with and without a session, and stores nothing of them', async () => {
    const { body: first } = await query();
    await limit({ requests: { day: { hard: 1 } } });
    const sessions = (await send('GET', '/api/v1/sessions')).body.data.length;
    const refused = await query();
    expect(refused).toMatchObject(
      refusal({ quota: { resource: 'requests', window: 'day', hard: 1, used: 1 } }),
    );
    expect(refused.body.detail).toMatch(/allows 1 requests in a day, and 1 are used\. It resets at \d{4}-/);
    const wait = Number(refused.headers.get('retry-after'));
    const reset = Date.parse(refused.body.quota.resets_at);
    expect(Math.abs(Date.now() + wait * 1000 - reset)).toBeLessThan(30_000);
    const streamed = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'x' },
    });
    expect([streamed.status, await streamed.json()]).toMatchObject([429, { code: 'quota_exceeded' }]);
    const inSession = { session_id: first.session_id };
    expect(await query(inSession)).toMatchObject(refusal({}));
    expect(await send('POST', `/api/v1/sessions/${first.session_id}/summarize`, {})).toMatchObject(
      refusal({}),
    );
    for (const headers of [{}, { 'x-service-session-id': first.session_id }])
      expect(await say(headers)).toMatchObject({
        status: 429,
        body: { error: { type: 'rate_limit_error', message: expect.stringContaining('allows 1 requests') } },
      });
    expect((await send('GET', '/api/v1/sessions')).body.data).toHaveLength(sessions);
    expect(await total()).toMatchObject({ requests: 1, usage: { input_tokens: 100 } });
  });

  test('ends a run in the middle, before its next step, and says why', async () => {
    await upstream.script([
      { when: { step: 0 }, reply: lists },
      { when: { step: 1 }, reply: lists },
      { reply: answer },
    ]);
    await limit({ tokens: { day: { hard: 200 } } });
    const events = await stream();
    expect(events.at(-1)).toMatchObject({ status: 'completed', stop_reason: 'quota_exceeded' });
    const notices = events.filter(({ type }) => type === 'notice_given').map(({ message }) => message);
    expect(notices).toEqual([
      expect.stringMatching(/allows 200 tokens in a day, and 240 are used\. It resets at/),
    ]);
    expect(events.filter(({ type }) => type === 'step_finished')).toHaveLength(2);
    // Each call has its result: the session can go on tomorrow.
    expect(events.filter(({ type }) => type === 'tool_finished')).toHaveLength(2);
    expect(await query()).toMatchObject(refusal({ quota: { used: 240 } }));
  });

  test('that is set while a run is at work ends it', async () => {
    await upstream.script([
      { when: { step: 0 }, reply: { ...lists, text: 'Slow and steady.', hold_after_chunks: 2 } },
      { reply: answer },
    ]);
    const events = stream();
    await upstream.latest(() => true);
    await limit({ cost: { month: { hard: 0 } } });
    await upstream.releaseHeld();
    expect((await events).at(-1)).toMatchObject({ stop_reason: 'quota_exceeded' });
  });

  test('holds sub-agents with the run that started them', async () => {
    const agent = { name: 'agent', arguments: { description: 'Errand', prompt: 'Errand.' } };
    await upstream.script([
      {
        when: { step: 0, last_user: '^Go' },
        reply: { tool_calls: [agent], usage: { input: 100, output: 20 } },
      },
      { when: { step: 0, last_user: '^Errand' }, reply: lists },
      { reply: answer },
    ]);
    await limit({ tokens: { day: { hard: 200 } } });
    const events = await stream({ prompt: 'Go.' });
    expect(events.at(-1)).toMatchObject({ stop_reason: 'quota_exceeded' });
    const { data } = (await send('GET', '/api/v1/runs?trigger=agent')).body;
    expect(data).toMatchObject([{ stop_reason: 'quota_exceeded', steps: 1 }]);
    expect(await total()).toMatchObject({ requests: 1, usage: { input_tokens: 200, output_tokens: 40 } });
  });

  test('of runs at a time refuses the next one until another has ended', async () => {
    await upstream.script([{ reply: { text: 'Slow and steady.', hold_after_chunks: 2 } }]);
    await limit({ concurrent_runs: { hard: 1 } });
    const first = query();
    await upstream.latest(() => true);
    expect(await query()).toMatchObject(refusal({ quota: { resource: 'concurrent_runs', window: null } }));
    await upstream.releaseHeld();
    expect((await first).status).toBe(200);
    await upstream.script([{ reply: answer }]);
    expect((await query()).status).toBe(200);
  });

  test('of runs at a time counts calls without a session, however they end', async () => {
    await limit({ concurrent_runs: { hard: 1 } });
    await upstream.script([{ reply: { text: 'Slow and steady.', hold_after_chunks: 2 } }]);
    const first = say();
    await upstream.latest(() => true);
    expect((await used())[0]).toMatchObject({ resource: 'concurrent_runs', used: 1 });
    expect(await query()).toMatchObject(refusal({ quota: { resource: 'concurrent_runs', window: null } }));
    expect((await say()).status).toBe(429);
    await upstream.releaseHeld();
    expect((await first).status).toBe(200);
    await upstream.script([{ reply: answer, fail: { kind: 'status', status: 401 } }]);
    expect((await say()).status).toBe(502);
    expect((await used())[0]).toMatchObject({ used: 0 });
    // Whoever leaves is at work no more.
    await upstream.script([{ reply: { text: 'Slow and steady.', hold_after_chunks: 2 } }]);
    const leaving = new AbortController();
    const left = fetch(`${app.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'scripted:m', max_tokens: 99 },
        messages: [{ role: 'user', content: 'x' }],
      }),
      signal: leaving.signal,
    });
    await expect.poll(async () => (await used())[0].used).toBe(1);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await expect.poll(async () => (await used())[0].used).toBe(0);
  });

  test('of a key refuses that key alone', async () => {
    const made = await send('POST', '/api/v1/auth/api-keys', { name: 'k' });
    const { key, api_key } = made.body;
    await limit({ requests: { month: { hard: 1 } } }, `/api/v1/quotas/api_key/${api_key.id}`);
    expect((await say({}, {}, key)).status).toBe(200);
    expect((await query({}, key)).body).toMatchObject({
      quota: { subject_type: 'api_key', window: 'month' },
    });
    expect((await query()).status).toBe(200);
    const byKey = (await send('GET', '/api/v1/usage?group_by=key')).body.data;
    expect(byKey).toMatchObject([
      { api_key_id: null, requests: 1 },
      { api_key_id: api_key.id, requests: 1, usage: { input_tokens: 100, output_tokens: 20 } },
    ]);
  });
});

describe('a soft limit that is passed', () => {
  test('is told by an event once, and by a header on every surface, and refuses nobody', async () => {
    await limit({ tokens: { day: { soft: 100 } } });
    await upstream.script([
      { when: { step: 0 }, reply: lists },
      { when: { step: 1 }, reply: lists },
      { reply: answer },
    ]);
    const events = await stream();
    const notices = events.filter(({ type }) => type === 'notice_given').map(({ message }) => message);
    expect(notices).toEqual([
      expect.stringMatching(/^The soft limit of the account .* of 100 tokens in a day is passed/),
    ]);
    expect(events.at(-1)).toMatchObject({ stop_reason: 'end_turn' });
    await upstream.script([{ reply: answer }]);
    const plain = await query();
    expect(plain.headers.get('x-quota-notice')).toContain('100 tokens in a day is passed: 360 are used');
    const headers = { 'x-service-session-id': plain.body.session_id };
    for (const sent of [{}, headers])
      expect((await say(sent)).headers.get('x-quota-notice')).toContain('The soft limit');
    const streamed = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'x' },
    });
    expect(streamed.headers.get('x-quota-notice')).toContain('The soft limit');
    await streamed.text();
  });
});

describe('one meter', () => {
  test('stands behind queries, streams, summaries and messages, with and without a session', async () => {
    const { body: first } = await query();
    await stream({ session_id: first.session_id });
    await say({ 'x-service-session-id': first.session_id });
    await say();
    await (
      await app.stream('POST', '/v1/messages', {
        token: ada.token,
        body: {
          model: 'scripted:m',
          max_tokens: 9,
          stream: true,
          messages: [{ role: 'user', content: 'x' }],
        },
      })
    ).text();
    const { body: run } = await send('POST', `/api/v1/sessions/${first.session_id}/summarize`, {});
    await expect.poll(async () => (await send('GET', `/api/v1/runs/${run.id}`)).body.ended_at).not.toBeNull();
    expect(await total()).toMatchObject({
      ...{ requests: 6, cost: 1.2 },
      usage: { input_tokens: 600, output_tokens: 120, cached_input_tokens: 0 },
    });
  });

  test('counts an answer that nobody waits for any more as far as it came', async () => {
    await upstream.script([{ reply: { text: 'One two three four five six seven.', hold_after_chunks: 4 } }]);
    const leaving = new AbortController();
    const response = await fetch(`${app.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'scripted:m', max_tokens: 99, stream: true },
        messages: [{ role: 'user', content: 'x' }],
      }),
      signal: leaving.signal,
    });
    // Before that a busy machine may have sent no more than a sign of life.
    for await (const { data } of readEvents(response)) if (data.type === 'content_block_delta') break;
    leaving.abort();
    await expect.poll(async () => (await total())?.usage.output_tokens).toBeGreaterThan(0);
    expect((await total()).requests).toBe(1);
  });

  test('counts a model call that was interrupted in the middle of its answer, for the run as for all', async () => {
    const text = 'One two three four five six seven eight nine ten.';
    await upstream.script([{ reply: { text, hold_after_chunks: 4 } }]);
    // With a title of its own no model is asked for one.
    const { body: made } = await send('POST', '/api/v1/sessions', { title: 'Named' });
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'x', session_id: made.id },
    });
    const runId = response.headers.get('x-run-id') ?? '';
    for await (const { data } of readEvents(response))
      if (data.type === 'text_delta') await send('POST', `/api/v1/runs/${runId}/interrupt`);
    const { body: run } = await send('GET', `/api/v1/runs/${runId}`);
    expect(run).toMatchObject({ status: 'interrupted', steps: 0 });
    // At most four pieces of eight characters; the instructions and tools are thousands.
    expect(run.usage.output_tokens).toBeGreaterThanOrEqual(2);
    expect(run.usage.output_tokens).toBeLessThan(20);
    expect(run.usage.input_tokens).toBeGreaterThan(1000);
    expect(run.cost).toBeCloseTo((run.usage.input_tokens + 5 * run.usage.output_tokens) / 1000);
    expect(await total()).toMatchObject({ requests: 1, usage: run.usage, cost: run.cost });
    const { body: session } = await send('GET', `/api/v1/sessions/${run.session_id}`);
    expect(session).toMatchObject({ usage: run.usage, cost: run.cost });
    const { body: messages } = await send('GET', `/api/v1/sessions/${run.session_id}/messages`);
    expect(messages.data.at(-1)).toMatchObject({ stop_reason: 'interrupted', usage: run.usage });
  });

  test('counts an answer that its provider cut off, and was asked for again, once as far as it came and once whole', async () => {
    const cut = { reply: { text: 'One two three four five six.' }, fail: { kind: 'cut', after_chunks: 2 } };
    await upstream.script([{ ...cut, times: 1 }, { reply: answer }]);
    await stream();
    const { usage } = await total();
    expect(usage.output_tokens).toBeGreaterThan(20);
    expect(usage.output_tokens).toBeLessThan(40);
    expect(usage.input_tokens).toBeGreaterThan(1000);
  });

  test('tells nobody what others used, and refuses what is no period', async () => {
    await query();
    const mallory = await app.register(`other-${names}`);
    expect((await send('GET', '/api/v1/usage', undefined, mallory.token)).body).toEqual({
      data: [],
      next_cursor: null,
    });
    expect(await send('GET', '/api/v1/usage', undefined, '')).toMatchObject({ status: 401 });
    for (const wrong of [
      'group_by=color',
      'from=2026-02-30',
      'from=2026-11-22&to=2026-11-21',
      'from=1999-01-01',
    ])
      expect(await send('GET', `/api/v1/usage?${wrong}`), wrong).toMatchObject({ status: 400 });
    const today = new Date().toISOString().slice(0, 10);
    const { data } = (await send('GET', `/api/v1/usage?from=${today}&to=${today}`)).body;
    expect(data).toMatchObject([{ day: today, model: null, requests: 1, cost: 0.2 }]);
  });
});
