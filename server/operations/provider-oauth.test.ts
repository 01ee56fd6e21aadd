/** Provider settings that are opened by OAuth, with a real token server on loopback: connected, renewed, refused, taken away. */
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { createSealing } from '../identity/identity.ts';
import { createLog } from '../log.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { createProviderOauths } from '../provider-settings/provider-settings.ts';
import type { Reach } from '../store/store.ts';
import { type Answer, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';

type Form = Readonly<Record<string, string>>;

/** What the token server was asked, and what it answers: a status and the members of a body. */
const tokens = {
  url: '',
  asked: [] as Form[],
  answer: (_form: Form): [number, object] | Promise<[number, object]> => [500, {}],
};

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const form = Object.fromEntries(new URLSearchParams(text));
  tokens.asked.push({ ...form, path: request.url ?? '', authorization: request.headers.authorization ?? '' });
  const [status, body] = await tokens.answer(form);
  response
    .writeHead(status, { 'content-type': 'application/json', connection: 'close' })
    .end(JSON.stringify(body));
});

const base = '/api/v1/settings/providers';
let app: TestApp;
let now = Date.now();
const clock = { now: () => new Date(now) };
let made = 0;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  tokens.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // it listens on TCP
  app = await testApp({ clock });
});

afterAll(async () => {
  await app?.close();
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  tokens.asked.length = 0;
});

function ask(method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
  return app.request(method, path, { token: app.operatorKey, headers, ...(body !== undefined && { body }) });
}

function client(more = {}) {
  const urls = { auth_url: 'https://auth.example.com/authorize', token_url: `${tokens.url}/token` };
  return { client_id: 'service', ...urls, device_url: `${tokens.url}/device`, ...more };
}

/** A setting without a key, which waits for its connection. */
async function waiting(more: object = {}): Promise<string> {
  made += 1;
  const body = { scope: 'user', provider_id: 'anthropic', name: `Waiting ${made}`, disable: true, ...more };
  const answer = await ask('POST', base, body);
  expect(answer).toMatchObject({ status: 201, body: { usable: false, api_key_set: false } });
  return answer.body.id;
}

function start(id: string, body: object): Promise<Answer> {
  return ask('POST', `${base}/${id}/oauth/start`, body);
}

function complete(id: string, body: object): Promise<Answer> {
  return ask('POST', `${base}/${id}/oauth/complete`, body);
}

function shown(id: string): Promise<Answer> {
  return ask('GET', `${base}/${id}/oauth`);
}

/** Connected by a code, with this answer of the token server. */
async function connected(answer: object, more: object = {}, setting: object = {}): Promise<string> {
  const id = await waiting(setting);
  const { body } = await start(id, { flow: 'code', client: client(more) });
  tokens.answer = () => [200, answer];
  expect((await complete(id, { state: body.state, code: 'a-code' })).status).toBe(200);
  tokens.asked.length = 0;
  return id;
}

test('a code that comes back is traded once, with proof of who went; the setting can then be enabled without a key', async () => {
  const id = await waiting();
  const enabled = { disable: false };
  expect((await ask('PATCH', `${base}/${id}`, enabled, mergePatch)).body.errors[0].pointer).toBe('/api_key');
  const begun = await start(id, {
    flow: 'code',
    client: client({ client_secret: 'hidden' }),
    scopes: ['inference', 'profile'],
    redirect_uri: 'https://service.example.com/connected',
  });
  expect(begun).toMatchObject({ status: 201, body: { flow: 'code', user_code: null, interval: null } });
  const query = Object.fromEntries(new URL(begun.body.authorize_url).searchParams);
  expect(query).toMatchObject({
    response_type: 'code',
    client_id: 'service',
    scope: 'inference profile',
    state: begun.body.state,
    code_challenge_method: 'S256',
    redirect_uri: 'https://service.example.com/connected',
  });

  tokens.answer = () => [
    200,
    { access_token: 'first', refresh_token: 'r1', expires_in: 3600, scope: 'inference' },
  ];
  const done = { state: begun.body.state, code: 'the-code' };
  const answers = await Promise.all([complete(id, done), complete(id, done)]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400]);
  expect(tokens.asked).toHaveLength(1);
  const [form] = tokens.asked;
  expect(form).toMatchObject({
    grant_type: 'authorization_code',
    code: 'the-code',
    redirect_uri: query.redirect_uri,
  });
  expect(
    createHash('sha256')
      .update(form?.code_verifier ?? '')
      .digest('base64url'),
  ).toBe(query.code_challenge);
  expect(form?.authorization).toBe(`Basic ${btoa('service:hidden')}`);

  const state = await shown(id);
  expect(state.body).toMatchObject({ connected: true, scopes: ['inference'], fault: null });
  expect(Date.parse(state.body.expires_at)).toBe(now + 3_600_000);
  const patched = await ask('PATCH', `${base}/${id}`, enabled, mergePatch);
  expect(patched.body).toMatchObject({ usable: true, api_key_set: false, diagnostics: [] });
  expect(await app.services.providerOauth.token(id)).toBe('first');
  const { tokens: sealed } = (await app.services.store.providerOauth.find(id)) ?? {};
  expect(sealed).toMatch(/^v1\./);

  expect((await ask('DELETE', `${base}/${id}/oauth`)).status).toBe(204);
  expect((await shown(id)).body).toEqual({ connected: false, expires_at: null, scopes: [], fault: null });
  expect((await ask('GET', `${base}/${id}`)).body.usable).toBe(false);
  await expect(app.services.providerOauth.token(id)).rejects.toMatchObject({ code: 'provider_refused' });
});

test.each([
  ['no client', { flow: 'code' }, '/client'],
  [
    'no place for the person',
    { flow: 'code', client: { client_id: 'x', token_url: 'https://a.example/t' } },
    '/client/auth_url',
  ],
  [
    'no place for the device',
    { flow: 'device', client: { client_id: 'x', token_url: 'https://a.example/t' } },
    '/client/device_url',
  ],
  [
    'a secret in the open',
    {
      flow: 'code',
      client: { client_id: 'x', auth_url: 'https://a.example/a', token_url: 'http://a.example/t' },
    },
    '/client/token_url',
  ],
  [
    'the credentials of a cloud',
    {
      flow: 'code',
      client: { client_id: 'x', auth_url: 'https://a.example/a', token_url: 'https://169.254.169.254/t' },
    },
    '/client/token_url',
  ],
])('an attempt with %s does not begin', async (_what, body, pointer) => {
  const refused = await start(await waiting(), body);
  expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_request', errors: [{ pointer }] } });
});

test('a state of nobody, of another setting, or too old connects nothing', async () => {
  const [one, other] = [await waiting(), await waiting()];
  const { body } = await start(one, { flow: 'code', client: client() });
  const code = 'a-code';
  for (const [id, state] of [
    [one, 'nobodys'],
    [other, body.state],
  ] as const)
    expect((await complete(id, { state, code })).body.code).toBe('oauth_invalid');
  now += 16 * 60_000;
  expect((await complete(one, { state: body.state, code })).body.code).toBe('oauth_invalid');
  expect(tokens.asked).toEqual([]);
});

test('a code that the provider refuses is told without its words', async () => {
  const id = await waiting();
  const { body } = await start(id, { flow: 'code', client: client() });
  tokens.answer = () => [400, { error: 'invalid_grant', error_description: 'canary' }];
  const refused = await complete(id, { state: body.state, code: 'wrong' });
  expect(refused.body.code).toBe('oauth_invalid');
  expect(JSON.stringify(refused.body)).not.toContain('canary');
  expect((await shown(id)).body.connected).toBe(false);
});

test('a device is told to wait, not to hurry, and is connected once the person has typed the code', async () => {
  const id = await waiting();
  tokens.answer = () => [
    200,
    {
      device_code: 'dc',
      user_code: 'ABCD-EFGH',
      verification_uri: 'https://auth.example.com/device',
      interval: 5,
      expires_in: 600,
    },
  ];
  const begun = await start(id, { flow: 'device', client: client(), scopes: ['inference'] });
  expect(begun.body).toMatchObject({ user_code: 'ABCD-EFGH', interval: 5, authorize_url: null });
  expect(JSON.stringify(begun.body)).not.toContain('"dc"');
  const { state } = begun.body;
  tokens.answer = () => [400, { error: 'authorization_pending' }];
  expect((await complete(id, { state })).body.code).toBe('authorization_pending');
  expect((await complete(id, { state })).body.code).toBe('slow_down');
  expect(tokens.asked).toHaveLength(2);
  now += 5000;
  tokens.answer = () => [400, { error: 'slow_down' }];
  expect((await complete(id, { state })).body.code).toBe('slow_down');
  now += 5000;
  expect((await complete(id, { state })).body.code).toBe('slow_down');
  now += 5000;
  tokens.answer = () => [200, { access_token: 'of the device'.replaceAll(' ', '-') }];
  expect(await complete(id, { state })).toMatchObject({
    status: 200,
    body: { connected: true, expires_at: null, scopes: ['inference'] },
  });
  expect(tokens.asked.at(-1)).toMatchObject({
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    device_code: 'dc',
  });
});

test.each(['access_denied', 'expired_token'])(
  'a device that is told %s has to begin again',
  async (error) => {
    const id = await waiting();
    tokens.answer = () => [
      200,
      { device_code: 'dc', user_code: 'X', verification_uri: 'https://a.example/d' },
    ];
    const { state } = (await start(id, { flow: 'device', client: client() })).body;
    tokens.answer = () => [400, { error }];
    expect((await complete(id, { state })).body.code).toBe(error);
    expect((await complete(id, { state })).body.code).toBe('oauth_invalid');
  },
);

test('a token that has ended is renewed by one of all nodes, and what the answer brings is what the next one asks with', async () => {
  const id = await waiting();
  const sealing = createSealing(randomBytes(32));
  const outbound = createOutbound({ shared: () => false });
  const node = () =>
    createProviderOauths<Reach>({
      records: app.services.store.providerOauth,
      sealing,
      fetch: outbound.fetchFor('account'),
      refusalOf: () => null,
      apart: app.services.store.keptRequests.apart,
      clock,
      log: createLog('silent'),
    });
  const nodes = [node(), node(), node()];
  const [first] = nodes;
  const { body: me } = await ask('GET', '/api/v1/users/me');
  const who = { userId: me.id, organizationIds: [], memberships: [], workspaces: [] };
  tokens.answer = () => [200, { access_token: 'first', refresh_token: 'r1', expires_in: 60 }];
  const begun = await first?.start(who, id, { flow: 'code', client: client() });
  await first?.complete(who, id, { state: begun?.state ?? '', code: 'a-code' });
  tokens.asked.length = 0;
  for (const turn of [1, 2]) {
    now += 60_000;
    tokens.answer = ({ refresh_token }) =>
      refresh_token === `r${turn}`
        ? [200, { access_token: `renewed-${turn}`, refresh_token: `r${turn + 1}`, expires_in: 60 }]
        : [400, { error: 'invalid_grant' }];
    const given = await Promise.all([...nodes, ...nodes].map((one) => one.token(id)));
    expect(given).toEqual(given.map(() => `renewed-${turn}`));
    expect(tokens.asked).toHaveLength(turn);
  }
  await outbound.close();
});

test('what a node that died was to renew, another one does', async () => {
  const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
  now += 60_000;
  const { revision = 0 } = (await app.services.store.providerOauth.find(id)) ?? {};
  expect(await app.services.store.providerOauth.claim(id, revision, now + 30_000)).toBe(true);
  tokens.answer = () => [200, { access_token: 'second', expires_in: 60 }];
  const token = app.services.providerOauth.token(id);
  now += 31_000;
  expect(await token).toBe('second');
  expect(tokens.asked).toHaveLength(1);
});

test('what a renewal has brought stays, also where the request that needed it is undone', async () => {
  const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
  now += 60_000;
  tokens.answer = () => [200, { access_token: 'second', refresh_token: 'r2', expires_in: 60 }];
  const { providerOauth, store } = app.services;
  const undone = store.transaction(async () => {
    expect(await providerOauth.token(id)).toBe('second');
    throw new Error('undone');
  });
  await expect(undone).rejects.toThrow('undone');
  expect(await providerOauth.token(id)).toBe('second');
  expect(tokens.asked).toHaveLength(1);
});

test('a token server that is down is asked again; one that refuses is told of as "connect again", until somebody does', async () => {
  const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
  await ask('PATCH', `${base}/${id}`, { disable: false }, mergePatch);
  now += 60_000;
  tokens.answer = () => [503, {}];
  const { token } = app.services.providerOauth;
  await expect(token(id)).rejects.toMatchObject({ code: 'provider_failed' });
  expect((await shown(id)).body).toMatchObject({ connected: true, fault: null });
  tokens.answer = () => [400, { error: 'invalid_grant' }];
  await expect(token(id)).rejects.toThrow('has to be connected again');
  expect((await shown(id)).body).toMatchObject({ connected: false, fault: expect.stringContaining('400') });
  const read = await ask('GET', `${base}/${id}`);
  expect(read.body).toMatchObject({ usable: false });
  expect(read.body.diagnostics[0].remedy).toContain('startProviderOauth');
  const before = tokens.asked.length;
  await expect(token(id)).rejects.toMatchObject({ code: 'provider_refused' });
  expect(tokens.asked).toHaveLength(before);

  // The client is known from before.
  const { body } = await start(id, { flow: 'code' });
  tokens.answer = () => [200, { access_token: 'again', expires_in: 60 }];
  expect((await complete(id, { state: body.state, code: 'a-code' })).body).toMatchObject({ connected: true });
  expect(await token(id)).toBe('again');
  expect((await ask('GET', `${base}/${id}`)).body.usable).toBe(true);
});

test('a setting that is opened by a token is tried with it, renewed where it has ended, and told what is refused', async () => {
  const upstream = await startUpstream();
  const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
  const lead = (base_url: string) => ask('PATCH', `${base}/${id}`, { base_url }, mergePatch);
  const tried = async () => {
    const { status, body } = await ask('POST', `${base}/${id}/test`);
    return [status, body.ok ?? body.code, body.models_seen ?? body.error?.code ?? null];
  };
  const sent = async () => (await upstream.requests()).map(({ headers }) => headers.authorization);
  expect((await lead(`${upstream.url}/v1`)).status).toBe(200);
  await upstream.script([], ['one', 'two']);
  expect([await tried(), await sent()]).toEqual([[200, true, 2], ['Bearer first']]);
  now += 60_000;
  tokens.answer = () => [200, { access_token: 'second', refresh_token: 'r2', expires_in: 60 }];
  await upstream.script([], undefined, { fail: { kind: 'status', status: 401 } });
  expect(await tried()).toEqual([200, false, 'provider_refused']);
  expect((await sent())[0]).toBe('Bearer second');
  // Where the token server refuses, the provider is not asked.
  now += 60_000;
  tokens.answer = () => [400, { error: 'invalid_grant' }];
  await upstream.script([], ['one']);
  expect(await tried()).toEqual([200, false, 'provider_refused']);
  expect(await sent()).toEqual([]);
  expect(await tried()).toEqual([200, false, 'setting_unusable']);
  await upstream.stop();
});

test('the deployments of a project on Azure are told to the token, page by page, which goes nowhere else', async () => {
  const upstream = await startUpstream();
  const place = '/api/projects/ours';
  const azure = { provider_id: 'azure', type: 'azure', base_url: upstream.url + place };
  const id = await connected({ access_token: 'of-entra', expires_in: 3600 }, {}, azure);
  const tried = async () => (await ask('POST', `${base}/${id}/test`)).body;
  await upstream.script([], ['one', 'two', 'three'], { page_size: 2 });
  expect(await tried()).toMatchObject({ ok: true, models_seen: 3 });
  const [first, second, ...others] = await upstream.requests();
  expect(first?.path).toBe(`${place}/deployments?api-version=v1`);
  for (const one of [first, second]) expect(one?.headers.authorization).toBe('Bearer of-entra');
  expect(others).toEqual([]);
  const away = await startUpstream();
  const body = JSON.stringify({ value: [{ name: 'one' }], nextLink: `${away.url}${place}/deployments` });
  const fail = { kind: 'status', status: 200, body, content_type: 'application/json' };
  await upstream.script([], undefined, { fail });
  expect(await tried()).toMatchObject({ ok: true, models_seen: 1 });
  expect(await away.requests()).toEqual([]);
  // A key is told those of the resource, by the version that tells them; where that is gone, there is no list.
  await ask('PATCH', `${base}/${id}`, { api_key: 'k' }, mergePatch);
  await upstream.script([], ['one', 'two']);
  expect(await tried()).toMatchObject({ ok: true, models_seen: 2 });
  expect((await upstream.requests())[0]?.path).toBe('/openai/deployments?api-version=2023-03-15-preview');
  const gone = {
    error: { code: 'InvalidApiVersionParameter', message: 'The api-version is not supported.' },
  };
  const refusal = { kind: 'status', status: 400, body: JSON.stringify(gone) };
  await upstream.script([], undefined, { fail: refusal });
  expect(await tried()).toMatchObject({ ok: false, error: { message: expect.stringContaining('no list') } });
  await Promise.all([upstream.stop(), away.stop()]);
});

test('a setting whose provider is not reached is a 502 when it is tried, without its key', async () => {
  const dead = await startUpstream();
  await dead.stop();
  const body = { scope: 'user', provider_id: 'dead', type: 'openai-compat', api_key: 'the-key-of-it' };
  const made = await ask('POST', base, { ...body, base_url: `${dead.url}/v1`, models: [{ id: 'x' }] });
  const answer = await ask('POST', `${base}/${made.body.id}/test`);
  expect([answer.status, answer.body.code]).toEqual([502, 'provider_failed']);
  expect(answer.body.detail).toMatch(/refused|reach/i);
  expect(JSON.stringify(answer.body)).not.toContain('the-key-of-it');
});

describe('a renewal whose answer nobody has heard', () => {
  const refusesOld = () => {
    tokens.answer = () => [400, { error: 'invalid_grant' }];
  };
  const lost = 'The answer to a renewal before it never arrived';

  test('is told of where the old refresh token is good no more, and not where it still is', async () => {
    for (const [isGood, told] of [
      [false, lost],
      [true, null],
    ] as const) {
      const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
      now += 60_000;
      const { revision = 0 } = (await app.services.store.providerOauth.find(id)) ?? {};
      // As a node does that is killed before it has stored what it was answered.
      expect(await app.services.store.providerOauth.claim(id, revision, now + 30_000)).toBe(true);
      now += 31_000;
      if (isGood) tokens.answer = () => [200, { access_token: 'again', refresh_token: 'r2', expires_in: 60 }];
      else refusesOld();
      const token = app.services.providerOauth.token(id).catch((error: Error) => error.message);
      expect(await token).toMatch(isGood ? /^again$/ : new RegExp(lost));
      const { fault } = (await shown(id)).body;
      if (told === null) expect(fault).toBeNull();
      else expect(fault).toContain(told);
      expect(tokens.asked.map(({ refresh_token }) => refresh_token)).toEqual(['r1']);
    }
  });

  test('was cut by the network: the next one tries, and says so', async () => {
    const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
    now += 60_000;
    tokens.answer = () => [200, {}];
    const { token } = app.services.providerOauth;
    await expect(token(id)).rejects.toMatchObject({ code: 'provider_failed' });
    refusesOld();
    await expect(token(id)).rejects.toThrow(lost);
  });

  test('was refused for now, so that nothing was lost', async () => {
    const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
    now += 60_000;
    tokens.answer = () => [503, {}];
    const { token } = app.services.providerOauth;
    await expect(token(id)).rejects.toMatchObject({ code: 'provider_failed' });
    refusesOld();
    await expect(token(id)).rejects.not.toThrow(lost);
  });

  test('is waited for by a server that is told to stop', async () => {
    const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
    now += 60_000;
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const { providerOauth, store } = app.services;
    const { revision = 0 } = (await store.providerOauth.find(id)) ?? {};
    tokens.answer = async () => {
      asked.resolve();
      await answered.promise;
      return [200, { access_token: 'second', refresh_token: 'r2', expires_in: 60 }];
    };
    const token = providerOauth.token(id);
    await asked.promise;
    let settled = false;
    const settling = providerOauth.settled().then(() => {
      settled = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).toBe(false);
    answered.resolve();
    await settling;
    expect((await store.providerOauth.find(id))?.revision).toBe(revision + 1);
    expect(await token).toBe('second');
  });
});

describe('a setting that is disconnected', () => {
  const place = () => ({ revocation_url: `${tokens.url}/revoke`, client_secret: 'hidden' });
  const revoked = () =>
    tokens.asked.map(({ path, token, token_type_hint }) => [path, token_type_hint, token]);

  test.each([
    ['disconnected', (id: string) => ask('DELETE', `${base}/${id}/oauth`)],
    ['deleted', (id: string) => ask('DELETE', `${base}/${id}`)],
  ])('has its tokens taken back by the provider when it is %s (RFC 7009)', async (_how, end) => {
    const id = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 }, place());
    tokens.answer = () => [200, {}];
    expect((await end(id)).status).toBe(204);
    expect(revoked()).toEqual([
      ['/revoke', 'refresh_token', 'r1'],
      ['/revoke', 'access_token', 'first'],
    ]);
    expect(tokens.asked[0]?.authorization).toBe(`Basic ${btoa('service:hidden')}`);
    expect(await app.services.store.providerOauth.find(id)).toBeNull();
  });

  test('is so whatever the provider answers, and asks nobody where no place is named', async () => {
    const refused = await connected({ access_token: 'first', expires_in: 60 }, place());
    tokens.answer = () => [503, {}];
    expect((await ask('DELETE', `${base}/${refused}/oauth`)).status).toBe(204);
    expect((await shown(refused)).body.connected).toBe(false);
    expect(new Set(revoked().map(([, , token]) => token))).toEqual(new Set(['first']));
    const silent = await connected({ access_token: 'first', refresh_token: 'r1', expires_in: 60 });
    expect((await ask('DELETE', `${base}/${silent}/oauth`)).status).toBe(204);
    expect(tokens.asked).toEqual([]);
  });

  test('names a place that is reached safely, or none', async () => {
    const wrong = { flow: 'code', client: client({ revocation_url: 'http://auth.example.com/revoke' }) };
    expect((await start(await waiting(), wrong)).body.errors[0].pointer).toBe('/client/revocation_url');
  });
});

describe('a run of several steps', () => {
  const questions = [{ id: 'colour', type: 'free_text', text: 'Which colour?' }];
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream();
  });
  afterAll(() => upstream.stop());

  /** Connected, and asked by a run that stops at a question, where something happens. */
  async function during(
    type: 'anthropic' | 'openai-compat',
    before: object,
    work: () => void,
  ): Promise<{ readonly ended: string; readonly sent: readonly unknown[] }> {
    made += 1;
    const provider_id = `${type}-${made}`;
    const { body } = await ask('POST', base, {
      ...{ scope: 'user', provider_id, name: provider_id, type, disable: true },
      ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'm' }] },
    });
    const begun = await start(body.id, { flow: 'code', client: client() });
    tokens.answer = () => [200, before];
    expect((await complete(body.id, { state: begun.body.state, code: 'a-code' })).status).toBe(200);
    expect((await ask('PATCH', `${base}/${body.id}`, { disable: false }, mergePatch)).status).toBe(200);
    tokens.asked.length = 0;
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: app.operatorKey,
      body: { prompt: 'Ask.', model: `${provider_id}:m` },
    });
    let ended = '';
    for await (const { event, data } of readEvents(response)) {
      ended = event === 'error' ? data.error : event;
      if (data.type !== 'prompt_requested') continue;
      work();
      const answers = [{ question_id: 'colour', fill_in_text: 'green' }];
      await ask('POST', data.request.reply_path, { answers });
    }
    const sent = (await upstream.requests()).map(({ headers }) => headers.authorization);
    await ask('DELETE', `${base}/${body.id}`);
    return { ended, sent };
  }

  const asks = { when: { step: 0 }, reply: { tool_calls: [{ name: 'ask_user', arguments: { questions } }] } };
  const old = { access_token: 'first', refresh_token: 'r1', expires_in: 3600 };
  const second = { access_token: 'second', refresh_token: 'r2', expires_in: 3600 };

  test.each(['anthropic', 'openai-compat'] as const)(
    'on %s goes on with a new token where the first one ends in its middle',
    async (type) => {
      await upstream.script([asks, { reply: { text: 'Yes.' } }]);
      const { ended, sent } = await during(type, { ...old, expires_in: 600 }, () => {
        now += 590_000;
        tokens.answer = ({ refresh_token }) => (refresh_token === 'r1' ? [200, second] : [400, {}]);
      });
      expect(ended).toBe('done');
      expect(sent).toEqual(['Bearer first', 'Bearer second']);
      expect(tokens.asked).toHaveLength(1);
    },
  );

  test.each(['anthropic', 'openai-compat'] as const)(
    'on %s goes on with a new token where the first one is taken back before its time',
    async (type) => {
      const refused = { when: { step: 1, api_key: 'first' }, fail: { kind: 'status', status: 401 } };
      await upstream.script([asks, refused, { reply: { text: 'Yes.' } }]);
      const { ended, sent } = await during(type, old, () => {
        now += 120_000;
        tokens.answer = ({ refresh_token }) => (refresh_token === 'r1' ? [200, second] : [400, {}]);
      });
      expect(ended).toBe('done');
      expect(sent).toEqual(['Bearer first', 'Bearer first', 'Bearer second']);
      expect(tokens.asked).toHaveLength(1);
    },
  );

  test('fails with what to do where the provider has ended the connection', async () => {
    const refused = { when: { step: 1 }, fail: { kind: 'status', status: 401 } };
    await upstream.script([asks, refused, { reply: { text: 'Yes.' } }]);
    const { ended } = await during('anthropic', old, () => {
      now += 120_000;
      tokens.answer = () => [400, { error: 'invalid_grant' }];
    });
    expect(ended).toMatch(/^provider_refused: .*connected again \(startProviderOauth\)/);
  });

  test('does not ask for a new token at each call of a provider that refuses them all', async () => {
    await upstream.script([asks, { when: { step: 1 }, fail: { kind: 'status', status: 401 } }]);
    const fresh = await during('anthropic', old, () => {
      now += 20_000;
    });
    expect(fresh.ended).toMatch(/^provider_refused: .*credential/);
    expect(tokens.asked).toEqual([]);
  });
});
