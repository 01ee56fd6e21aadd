/** What limits an API key besides its scopes, over HTTP: addresses, a workspace, rules, a rate; and a new secret. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startMcp } from '../../contract-tests/mcp/start-mcp.ts';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import {
  type Account,
  type Answer,
  coded,
  type Json,
  mergePatch,
  readEvents,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';

let app: TestApp;
let upstream: Upstream;
let ada: Account;
let workspaceId: string;
let now = new Date();

const keys = '/api/v1/auth/api-keys';
const here = ['127.0.0.0/8', '::1'];
const elsewhere = ['192.0.2.0/24'];

const post = (path: string, token: string, body?: unknown) => app.request('POST', path, { token, body });
const whoAmI = (token: string) => app.request('GET', '/api/v1/users/me', { token });
const change = (path: string, body: unknown, token = ada.token) =>
  app.request('PATCH', path, { token, body, headers: mergePatch });

async function newKey(body = {}, token = ada.token) {
  const answer = await post(keys, token, { name: 'k', ...body });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  const { key, api_key } = answer.body;
  return { key, id: api_key.id, shown: api_key, path: `${keys}/${api_key.id}` };
}

beforeAll(async () => {
  upstream = await startUpstream();
  const scripted = scriptedProvider(upstream, 'm');
  const settings = { outboundAllow: ['127.0.0.1'] };
  app = await testApp({ config: { providers: { scripted } }, clock: { now: () => now }, settings });
  ada = await app.register('ada');
  workspaceId = (await whoAmI(ada.token)).body.memberships[0].default_workspace_id;
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

/** A stream that waits for an answer. */
async function openStream(token: string): Promise<{ readonly ended: Promise<Json> }> {
  const body = { prompt: 'Ask me: what is your name?', model: 'demo:demo-1' };
  const response = await app.stream('POST', '/api/v1/query/stream', { token, body });
  expect(response.status).toBe(200);
  const read = async () => {
    let last: Json = null;
    for await (const event of readEvents(response)) last = event;
    return last;
  };
  return { ended: read() };
}

const revoked = { event: 'error', data: { error: expect.stringContaining('credential_invalid') } };

describe('addresses', () => {
  test('are where a key may be used from, from the next request on', async () => {
    const { key, path, shown } = await newKey({ ip_allow: here });
    expect(shown.ip_allow).toEqual(here);
    expect((await whoAmI(key)).status).toBe(200);
    await change(path, { ip_allow: elsewhere });
    expect(coded(await whoAmI(key))).toEqual([403, 'address_refused']);
    const forged = { token: key, headers: { 'x-forwarded-for': '192.0.2.7' } };
    expect(coded(await app.request('GET', '/api/v1/users/me', forged))).toEqual([403, 'address_refused']);
    await change(path, { ip_allow: [] });
    expect((await whoAmI(key)).status).toBe(200);
  });

  test('that are taken away end open streams', async () => {
    const { key, path } = await newKey({ ip_allow: here });
    const { ended } = await openStream(key);
    await change(path, { ip_allow: elsewhere });
    expect(await ended).toMatchObject(revoked);
  });

  test.each(['300.0.0.1', '10.0.0.0/33', '::/129', '10.0.0', '1.2.3.4/', ':::', '10.0.0.1/8/8'])(
    'are written as such: %s is refused',
    async (range) => {
      const answer = await post(keys, ada.token, { name: 'k', ip_allow: ['10.0.0.1', range] });
      expect(coded(answer)).toEqual([400, 'invalid_request']);
      expect(answer.body.errors).toMatchObject([{ in: 'body', pointer: '/ip_allow/1' }]);
    },
  );
});

describe('a key that is bound to a workspace', () => {
  test('reaches that alone, with its owner’s role in it', async () => {
    const { key } = await newKey({ workspace_id: workspaceId });
    const me = await whoAmI(key);
    expect(me.body).toMatchObject({
      workspace_id: workspaceId,
      memberships: [],
      workspaces: [{ workspace_id: workspaceId, role: 'owner' }],
    });
    const session = await post('/api/v1/sessions', key, {});
    expect(session).toMatchObject({ status: 201, body: { workspace_id: workspaceId } });
    expect((await app.request('GET', '/api/v1/sessions', { token: key })).body.data.length).toBeGreaterThan(
      0,
    );
    const agent = { slug: 'for-all', description: 'x', instructions: 'x' };
    expect(coded(await post('/api/v1/agents', key, agent))).toEqual([403, 'role_required']);
    expect(coded(await app.request('GET', '/api/v1/users', { token: key }))).toEqual([403, 'role_required']);
  });

  test('does not run the installation, though its owner does', async () => {
    const me = await whoAmI(app.operatorKey);
    const own = me.body.memberships[0].default_workspace_id;
    const { key } = await newKey({ workspace_id: own }, app.operatorKey);
    expect((await whoAmI(key)).body.operator).toBe(false);
    const bypassed = await post('/api/v1/query', key, { prompt: 'x', permission_mode: 'bypass' });
    expect(coded(bypassed)).toEqual([403, 'permission_mode_refused']);
  });

  test('is bound to one that its maker reaches', async () => {
    const mallory = await app.register('mallory');
    const [foreign, none] = await Promise.all(
      [workspaceId, 'ws_01k9w6r3h2e7xv5q0c8m4b1tza'].map((workspace_id) =>
        post(keys, mallory.token, { name: 'k', workspace_id }),
      ),
    );
    expect(coded(foreign as Answer)).toEqual([404, 'not_found']);
    expect(foreign?.body.detail).toBe(none?.body.detail);
  });
});

test('a limited key makes no other key, and changes, renews and ends none', async () => {
  const wide = await newKey();
  for (const limit of [
    { workspace_id: workspaceId },
    { ip_allow: here },
    { permission_rules: [{ tool: 'bash', decision: 'deny' }] },
    { rate_limit: 1000 },
    { expires_at: new Date(now.getTime() + 3_600_000).toISOString() },
  ]) {
    const { key, path } = await newKey(limit);
    for (const answer of [
      await post(keys, key, { name: 'wider' }),
      await change(path, { ip_allow: [], permission_rules: [], rate_limit: null }, key),
      await change(path, { expires_at: null }, key),
      await change(wide.path, { name: 'x' }, key),
      await post(`${wide.path}/rotate`, key),
      await app.request('DELETE', wide.path, { token: key }),
    ])
      expect(coded(answer)).toEqual([403, 'login_required']);
    const rotated = await post(`${path}/rotate`, key);
    expect(rotated.status).toBe(201);
    expect((await app.request('DELETE', path, { token: rotated.body.key })).status).toBe(204);
  }
});

describe('the rules of a key', () => {
  const ran = async (token: string, body = {}) => {
    await upstream.script([
      {
        when: { step: 0 },
        reply: {
          tool_calls: [{ name: 'write', arguments: { file_path: `${Math.random()}.txt`, content: 'x' } }],
        },
      },
      { reply: { text: 'Done.' } },
    ]);
    const answer = await post('/api/v1/query', token, { prompt: 'x', model: 'scripted:m', ...body });
    return answer.body.tool_results[0].content as string; // one call was made
  };

  test('allow what nobody could be asked, and deny what the session allows', async () => {
    const rule = (decision: string) => ({ permission_rules: [{ tool: 'write', decision }] });
    expect(await ran(ada.token)).toContain('Permission denied');
    expect(await ran((await newKey(rule('allow'))).key)).not.toContain('Permission denied');
    const session = await post('/api/v1/sessions', ada.token, rule('allow'));
    const inIt = { session_id: session.body.id };
    expect(await ran(ada.token, inIt)).not.toContain('Permission denied');
    expect(await ran((await newKey(rule('deny'))).key, inIt)).toContain('Permission denied');
  });

  test('say which tools there are behind the Messages API, where the session has none', async () => {
    const ask = async (token: string, rules: object[]) => {
      const session = await post('/api/v1/sessions', ada.token, { permission_rules: rules });
      await upstream.script([{ reply: { text: 'Done.' } }]);
      await app.request('POST', '/v1/messages', {
        token,
        body: { model: 'scripted:m', max_tokens: 10, messages: [{ role: 'user', content: 'x' }] },
        headers: { 'x-service-session-id': session.body.id },
      });
      const sent: Json = (await upstream.requests()).at(-1);
      return (sent.body.tools ?? []).map((tool: Json) => tool.function.name);
    };
    const { key } = await newKey({ permission_rules: [{ tool: 'view', decision: 'allow' }] });
    expect(await ask(ada.token, [])).toEqual([]);
    expect(await ask(key, [])).toEqual(['view']);
    expect(await ask(key, [{ tool: 'ls', decision: 'allow' }])).toEqual(['ls']);
  });
});

test('a key may be used so often in a minute, and is told when it may again', async () => {
  const { key, path } = await newKey({ rate_limit: 3 });
  for (let count = 0; count < 3; count += 1) expect((await whoAmI(key)).status).toBe(200);
  const refused = await whoAmI(key);
  expect(coded(refused)).toEqual([429, 'rate_limited']);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await whoAmI(ada.token)).status).toBe(200);
  await change(path, { rate_limit: null });
  expect((await whoAmI(key)).status).toBe(200);
});

test('the operator cannot lock themselves out with the last of their keys', async () => {
  const token = app.operatorKey;
  const { body } = await app.request('GET', keys, { token });
  for (const key of body.data.slice(0, -1)) await app.request('DELETE', `${keys}/${key.id}`, { token });
  const path = `${keys}/${body.data.at(-1).id}`;
  for (const answer of [
    await change(path, { disabled: true }, token),
    await change(path, { expires_at: '2999-01-01T00:00:00Z' }, token),
    await change(path, { scopes: ['query'] }, token),
    await change(path, { ip_allow: elsewhere }, token),
    await app.request('DELETE', path, { token }),
  ])
    expect(coded(answer)).toEqual([409, 'last_key']);
  expect((await change(path, { name: 'First' }, token)).status).toBe(200);
  expect((await whoAmI(token)).body.operator).toBe(true);
  const { key: spare } = await newKey({}, token);
  expect((await app.request('DELETE', path, { token })).status).toBe(204);
  expect((await whoAmI(spare)).body.operator).toBe(true);
});

describe('a new secret', () => {
  test('takes the place of the old one at once, with its streams, unless there is grace', async () => {
    const { key, path, shown } = await newKey();
    const { ended } = await openStream(key);
    const rotated = await post(`${path}/rotate`, ada.token, {});
    expect(rotated.status).toBe(201);
    const { key: next, api_key } = rotated.body;
    expect(api_key).toMatchObject({
      id: shown.id,
      name: shown.name,
      scopes: shown.scopes,
      prefix: next.slice(0, 11),
    });
    expect(api_key.old_secret_expires_at).toBeNull();
    expect(next).not.toBe(key);
    expect(coded(await whoAmI(key))).toEqual([401, 'credential_invalid']);
    expect((await whoAmI(next)).status).toBe(200);
    expect(await ended).toMatchObject(revoked);
  });

  test('leaves the old one good for the time that was asked for, and only that one', async () => {
    const { key: first, path } = await newKey();
    const second = (await post(`${path}/rotate`, ada.token, { grace_seconds: 3600 })).body;
    const left = Date.parse(second.api_key.old_secret_expires_at) - now.getTime();
    expect(Math.abs(left - 3_600_000)).toBeLessThan(300_000);
    for (const good of [first, second.key]) expect((await whoAmI(good)).status).toBe(200);
    const third = (await post(`${path}/rotate`, ada.token, { grace_seconds: 3600 })).body;
    expect(coded(await whoAmI(first))).toEqual([401, 'credential_invalid']);
    for (const good of [second.key, third.key]) expect((await whoAmI(good)).status).toBe(200);
    now = new Date(now.getTime() + 4_000_000);
    ada = {
      ...ada,
      token: (
        await app.request('POST', '/api/v1/auth/login', {
          body: { email: ada.email, password: ada.password },
        })
      ).body.access_token,
    };
    expect(coded(await whoAmI(second.key))).toEqual([401, 'credential_invalid']);
    expect((await whoAmI(third.key)).status).toBe(200);
    const read = await app.request('GET', path, { token: ada.token });
    expect(read.body.old_secret_expires_at).toBeNull();
  });

  test('takes from the old one, in its grace, all that keys are made, renewed, changed and ended with', async () => {
    const { key: old, path } = await newKey();
    const other = await newKey();
    const { key: next } = (await post(`${path}/rotate`, ada.token, { grace_seconds: 3600 })).body;
    for (const answer of [
      await post(keys, old, { name: 'another' }),
      await post(`${path}/rotate`, old, { grace_seconds: 3600 }),
      await change(path, { name: 'x' }, old),
      await app.request('DELETE', path, { token: old }),
      await post(`${other.path}/rotate`, old),
      await change(other.path, { name: 'x' }, old),
      await app.request('DELETE', other.path, { token: old }),
    ])
      expect(coded(answer)).toEqual([403, 'login_required']);
    for (const good of [old, next, other.key]) expect((await whoAmI(good)).status).toBe(200);
    expect((await post(keys, next, { name: 'another' })).status).toBe(201);
    expect((await change(other.path, { name: 'x' }, next)).status).toBe(200);
    expect((await app.request('DELETE', path, { token: next })).status).toBe(204);
  });

  test('that a key gave itself is not lost with its answer', async () => {
    const { key: old, path } = await newKey();
    const renewal = { token: old, headers: { 'idempotency-key': 'renewal' } };
    const renew = () => app.request('POST', `${path}/rotate`, renewal);
    const lost = await renew();
    const again = await renew();
    expect(again.status).toBe(201);
    expect(again.body).toEqual(lost.body);
    expect((await whoAmI(again.body.key)).status).toBe(200);
    expect(coded(await post(`${path}/rotate`, old))).toEqual([403, 'login_required']);
    now = new Date(now.getTime() + 301_000);
    expect(coded(await renew())).toEqual([401, 'credential_invalid']);
    expect((await whoAmI(again.body.key)).status).toBe(200);
  });

  test('that a key gave itself ends the old one when it is used to renew the key', async () => {
    const { key: old, path } = await newKey();
    const { key: next } = (await post(`${path}/rotate`, old)).body;
    expect((await post(`${path}/rotate`, next)).status).toBe(201);
    expect(coded(await whoAmI(old))).toEqual([401, 'credential_invalid']);
  });

  test('is given to nobody who lacks what the key may do, nor with a stale ETag', async () => {
    const wide = await newKey();
    const { key } = await newKey({ scopes: ['keys:read', 'keys:write'] });
    expect(coded(await post(`${wide.path}/rotate`, key))).toEqual([403, 'scope_required']);
    const stale = { token: ada.token, headers: { 'if-match': '"0"' } };
    expect(coded(await app.request('POST', `${wide.path}/rotate`, stale))).toEqual([
      412,
      'precondition_failed',
    ]);
    expect(coded(await app.request('POST', `${wide.path}/rotate`))).toEqual([401, 'credential_missing']);
    for (const body of [{ grace_seconds: -1 }, { grace_seconds: 604_801 }, { key: 'sk-mine' }])
      expect(coded(await post(`${wide.path}/rotate`, ada.token, body))).toEqual([400, 'invalid_request']);
    expect((await whoAmI(wide.key)).status).toBe(200);
  });
});

test('what is done with a key is told: requests, from where, tokens and cost', async () => {
  const { key, path } = await newKey();
  await upstream.script([{ reply: { text: 'Done.', usage: { input: 7, output: 3 } } }]);
  const answer = await post('/api/v1/query', key, { prompt: 'x', model: 'scripted:m' });
  for (let count = 0; count < 3; count += 1) await whoAmI(key);
  await app.services.identity.settled();
  const { body } = await app.request('GET', path, { token: ada.token });
  const { input_tokens, output_tokens } = answer.body.usage;
  expect(body.usage).toEqual({ requests: 4, tokens: input_tokens + output_tokens, cost: 0 });
  expect(input_tokens).toBe(7);
  expect(body.last_used_ip).toMatch(/^(127\.0\.0\.1|::1)$/);
});

test('what is one’s own stays out of the runs of a key that is bound to a workspace: skills, MCP servers, providers', async () => {
  // Whoever logged in above may have a new secret by now.
  const { email, password } = ada;
  const { body: login } = await post('/api/v1/auth/login', '', { email, password });
  const token = login.access_token;
  const tracker = await startMcp();
  const form = new FormData();
  form.append('scope', 'user');
  form.append('file', new Blob(['---\nname: own-skill\ndescription: Mine alone.\n---\nDo it.\n']), 'skill');
  const made = [
    await post('/api/v1/skills', token, form),
    await post('/api/v1/mcp/servers', token, { scope: 'user', name: 'mine', type: 'http', url: tracker.url }),
    await post('/api/v1/settings/providers', token, {
      ...{ scope: 'user', provider_id: 'mine', name: 'Mine', type: 'openai-compat', api_key: 'k' },
      ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'big' }] },
    }),
  ];
  expect(made.map(({ status }) => status)).toEqual([201, 201, 201]);
  const [bound, whole] = [await newKey({ workspace_id: workspaceId }, token), await newKey({}, token)];

  const told = async ({ key }: { readonly key: string }, ask: () => Promise<unknown>) => {
    await upstream.script([{ reply: { text: 'Done.' } }]);
    await ask();
    const sent = JSON.stringify(await upstream.requests());
    const tools = await app.request('GET', '/api/v1/tools?limit=100', { token: key });
    const estimate = await post('/api/v1/query/estimate', key, { prompt: 'x', model: 'mine:big' });
    return {
      ...{ skill: sent.includes('own-skill'), tool: sent.includes('mcp_mine_list_issues') },
      listed: tools.body.data.some(({ name }: Json) => name === 'mcp_mine_list_issues'),
      model: estimate.status,
    };
  };
  const query = (key: string) => () => post('/api/v1/query', key, { prompt: 'x', model: 'scripted:m' });
  const job = (key: string) => async () => {
    const body = { name: 'x', prompt: 'x', cron: '0 0 29 2 *', model: 'scripted:m' };
    const url = `/api/v1/scheduler/jobs/${(await post('/api/v1/scheduler/jobs', key, body)).body.id}`;
    await post(`${url}/run`, key);
    const ended = async () => (await app.request('GET', url, { token: key })).body.last_run?.status;
    await expect.poll(ended).toBe('completed');
  };
  const [all, none] = [
    { skill: true, tool: true, listed: true, model: 200 },
    { skill: false, tool: false, listed: false, model: 404 },
  ];
  for (const work of [query, job]) {
    expect(await told(whole, work(whole.key))).toEqual(all);
    expect(await told(bound, work(bound.key))).toEqual(none);
  }
  const body = { scope: 'user', name: 'other', type: 'http', url: tracker.url };
  expect(coded(await post('/api/v1/mcp/servers', bound.key, body))).toEqual([403, 'role_required']);
  await tracker.stop();
});
