/** Provider settings that are opened by OAuth, with a real token server on loopback: connected, renewed, refused, taken away. */
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createSealing } from '../identity/identity.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { createProviderOauths } from '../provider-settings/provider-settings.ts';
import type { Reach } from '../store/store.ts';
import { type Answer, mergePatch, type TestApp, testApp } from '../test-app.ts';

type Form = Readonly<Record<string, string>>;

/** What the token server was asked, and what it answers: a status and the members of a body. */
const tokens = {
  url: '',
  asked: [] as Form[],
  answer: (_form: Form): [number, object] => [500, {}],
};

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const form = Object.fromEntries(new URLSearchParams(text));
  tokens.asked.push({ ...form, path: request.url ?? '', authorization: request.headers.authorization ?? '' });
  const [status, body] = tokens.answer(form);
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
async function waiting(): Promise<string> {
  made += 1;
  const body = { scope: 'user', provider_id: 'anthropic', name: `Waiting ${made}`, disable: true };
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
async function connected(answer: object): Promise<string> {
  const id = await waiting();
  const { body } = await start(id, { flow: 'code', client: client() });
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
      clock,
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
