/** The auth family over HTTP: anonymous, stranger, wrong input, missing, happy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type Answer, type RequestOptions, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

const keys = '/api/v1/auth/api-keys';
const missingId = 'key_01k9w6r3h2e7xv5q0c8m4b1tza';
const mergePatch = { 'content-type': 'application/merge-patch+json' };

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(() => app.close());

const post = (path: string, body: unknown, options: RequestOptions = {}) =>
  app.request('POST', `/api/v1/auth/${path}`, { body, ...options });

async function newKey(body: Record<string, unknown> = {}, token = ada.token) {
  const { status, body: created } = await post('api-keys', { name: 'Key', ...body }, { token });
  expect(status).toBe(201);
  return { secret: created.key, id: created.api_key.id, path: `${keys}/${created.api_key.id}` };
}

function coded(answer: Answer): [number, string] {
  return [answer.status, answer.body?.code];
}

describe('registering', () => {
  const grace = { email: 'Grace@Example.com', password: 'correct-horse-battery', name: 'Grace' };

  test('makes an account that is logged in, and names it by its Location', async () => {
    const made = await post('register', grace);
    expect(made).toMatchObject({
      status: 201,
      body: { user: { email: 'grace@example.com', operator: false } },
    });
    const me = await app.request('GET', made.headers.get('location') ?? '', {
      token: made.body.access_token,
    });
    expect(me.body).toMatchObject({ id: made.body.user.id, memberships: [{ role: 'owner' }] });
  });

  test('refuses an address that is taken, in any spelling', async () => {
    const again = await post('register', { ...grace, email: 'ADA@example.com' });
    expect(coded(again)).toEqual([409, 'email_taken']);
  });

  test('lets one of eight through that come at once', async () => {
    const twin = { email: 'twin@example.com', password: 'correct-horse-battery' };
    const answers = await Promise.all(Array.from({ length: 8 }, () => post('register', twin)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array<number>(7).fill(409)]);
  });

  test.each([
    ['no body', undefined, ''],
    ['no password', { email: 'x@example.com' }, ''],
    ['a short password', { email: 'x@example.com', password: 'short' }, '/password'],
    ['a megabyte of password', { email: 'x@example.com', password: 'x'.repeat(1_048_576) }, '/password'],
    ['no address', { email: 'nowhere', password: 'correct-horse-battery' }, '/email'],
    [
      'an address with a space before it',
      { email: ' x@example.com', password: 'correct-horse-battery' },
      '/email',
    ],
    ['an address that is a list', { email: ['x@example.com'], password: 'correct-horse-battery' }, '/email'],
    ['the wish to be operator', { ...grace, operator: true }, '/operator'],
    ['a role', { ...grace, role: 'owner' }, '/role'],
    ['an organization', { ...grace, organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' }, '/organization_id'],
    ['an id', { ...grace, id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }, '/id'],
    ['NUL in the name', { email: 'x@example.com', password: 'correct-horse-battery', name: 'a\0b' }, ''],
  ])('refuses %s', async (_, body, pointer) => {
    const answer = await post('register', body);
    expect(answer.status).toBe(400);
    if (pointer) expect(answer.body.errors).toContainEqual(expect.objectContaining({ in: 'body', pointer }));
    expect(await app.services.store.users.findForLogin('x@example.com')).toBeNull();
  });

  test.each([
    ['an invented invitation', { invitation_token: 'invented' }],
    ['an invented bootstrap token', { bootstrap_token: 'invented' }],
  ])('refuses %s', async (_, token) => {
    const answer = await post('register', {
      email: 'x@example.com',
      password: 'correct-horse-battery',
      ...token,
    });
    expect(coded(answer)).toEqual([403, 'registration_refused']);
  });
});

describe('logging in', () => {
  test('gives a pair that works', async () => {
    const pair = await post('login', { email: 'Ada@Example.com', password: ada.password });
    expect(pair).toMatchObject({
      status: 200,
      body: { token_type: 'Bearer', expires_in: 900, user: ada.user },
    });
    expect((await app.request('GET', '/api/v1/users/me', { token: pair.body.access_token })).status).toBe(
      200,
    );
  });

  test('answers a wrong password and an unknown address with the same body', async () => {
    const wrong = await post('login', { email: ada.email, password: 'not the password' });
    const unknown = await post('login', { email: 'nobody@example.com', password: 'not the password' });
    expect(coded(wrong)).toEqual([401, 'login_failed']);
    expect(wrong.headers.get('www-authenticate')).toContain('Bearer');
    const { request_id: _one, ...first } = wrong.body;
    const { request_id: _other, ...second } = unknown.body;
    expect(second).toEqual(first);
  });

  test.each([
    ['a megabyte of password', { email: 'ada@example.com', password: 'x'.repeat(1_048_576) }],
    ['an operator of a query language', { email: 'ada@example.com', password: { $ne: '' } }],
    ['a stray member', { email: 'ada@example.com', password: 'correct-horse-battery', remember: true }],
  ])('refuses %s', async (_, body) => {
    expect(coded(await post('login', body))).toEqual([400, 'invalid_request']);
  });
});

describe('refreshing', () => {
  test('gives the next pair, once; the second use ends the login', async () => {
    const first = await post('login', { email: ada.email, password: ada.password });
    const second = await post('refresh', { refresh_token: first.body.refresh_token });
    expect(second.status).toBe(200);
    const reused = await post('refresh', { refresh_token: first.body.refresh_token });
    expect(coded(reused)).toEqual([401, 'refresh_token_invalid']);
    expect(reused.headers.get('www-authenticate')).toContain('Bearer');
    const robbed = await app.request('GET', '/api/v1/users/me', { token: second.body.access_token });
    expect(coded(robbed)).toEqual([401, 'credential_invalid']);
    expect(coded(await post('refresh', { refresh_token: second.body.refresh_token }))[0]).toBe(401);
  });

  test.each([
    ['an unknown token', { refresh_token: 'rt_unknown' }, 401],
    ['no token', {}, 400],
    ['an endless token', { refresh_token: 'x'.repeat(501) }, 400],
    ['a number', { refresh_token: 7 }, 400],
  ])('refuses %s', async (_, body, status) => {
    expect((await post('refresh', body)).status).toBe(status);
  });

  test('does not take an access token, nor is a refresh token one', async () => {
    const pair = await post('login', { email: ada.email, password: ada.password });
    expect((await post('refresh', { refresh_token: pair.body.access_token })).status).toBe(401);
    const me = await app.request('GET', '/api/v1/users/me', { token: pair.body.refresh_token });
    expect(coded(me)).toEqual([401, 'credential_invalid']);
  });
});

describe('logging out', () => {
  const login = async () => (await post('login', { email: mallory.email, password: mallory.password })).body;
  const statusOf = async (token: string) => (await app.request('GET', '/api/v1/users/me', { token })).status;

  test('ends this login and leaves the others', async () => {
    const [here, there] = [await login(), await login()];
    expect((await post('logout', undefined, { token: here.access_token })).status).toBe(204);
    expect(await statusOf(here.access_token)).toBe(401);
    expect((await post('refresh', { refresh_token: here.refresh_token })).status).toBe(401);
    expect(await statusOf(there.access_token)).toBe(200);
  });

  test('everywhere ends all of them, and nobody else’s', async () => {
    const [here, there] = [await login(), await login()];
    expect((await post('logout', { all_devices: true }, { token: here.access_token })).status).toBe(204);
    expect(await statusOf(there.access_token)).toBe(401);
    expect(await statusOf(ada.token)).toBe(200);
    mallory = { ...mallory, token: (await login()).access_token };
  });

  test('needs a login', async () => {
    expect(coded(await post('logout', {}))).toEqual([401, 'credential_missing']);
    const { secret } = await newKey();
    expect(coded(await post('logout', {}, { token: secret }))).toEqual([403, 'login_required']);
    expect(coded(await post('logout', { all_devices: 'yes' }, { token: ada.token }))).toEqual([
      400,
      'invalid_request',
    ]);
    expect(await statusOf(ada.token)).toBe(200);
  });
});

describe('an API key', () => {
  test('is shown once, works, and is read back without its secret', async () => {
    const body = { name: 'Build server', scopes: ['account:read'], expires_at: '2999-01-01T00:00:00+01:00' };
    const made = await post('api-keys', body, { token: ada.token });
    const { key, api_key } = made.body;
    expect(made.headers.get('location')).toBe(`${keys}/${api_key.id}`);
    expect(api_key).toMatchObject({
      ...body,
      expires_at: '2998-12-31T23:00:00.000Z',
      prefix: key.slice(0, 11),
    });
    const read = await app.request('GET', `${keys}/${api_key.id}`, { token: ada.token });
    expect(read).toMatchObject({ status: 200, body: api_key });
    expect(JSON.stringify(read.body)).not.toContain(key.slice(11));
    const me = await app.request('GET', '/api/v1/users/me', { token: key });
    expect(me.body).toMatchObject({ id: ada.user.id, credential: 'api_key', scopes: ['account:read'] });
  });

  test('stands in the list of its owner, the newest first, page by page', async () => {
    const { token } = await app.register('lister');
    const made = [];
    for (const name of ['first', 'second', 'third']) made.push((await newKey({ name }, token)).id);
    const one = await app.request('GET', `${keys}?limit=2`, { token });
    expect(one.body.data.map((key: { id: string }) => key.id)).toEqual([made[2], made[1]]);
    const two = await app.request('GET', `${keys}?limit=2&cursor=${one.body.next_cursor}`, { token });
    expect(two.body).toMatchObject({ data: [{ id: made[0] }], next_cursor: null });
    const stolen = await app.request('GET', `${keys}?limit=2&cursor=${one.body.next_cursor}`, {
      token: ada.token,
    });
    expect(coded(stolen)).toEqual([400, 'invalid_cursor']);
  });

  test('shows when it was last used, and a reader who has it all is told so', async () => {
    const { secret, path } = await newKey();
    const unused = await app.request('GET', path, { token: ada.token });
    const tag = { 'if-none-match': unused.headers.get('etag') ?? '' };
    const same = await app.request('GET', path, { token: ada.token, headers: tag });
    expect(same).toMatchObject({ status: 304, body: null });
    await app.request('GET', '/api/v1/users/me', { token: secret });
    await app.services.identity.settled();
    const used = await app.request('GET', path, { token: ada.token, headers: tag });
    expect(used).toMatchObject({ status: 200, body: { last_used_at: expect.stringMatching(/Z$/) } });
    const change = {
      token: ada.token,
      body: { name: 'Used' },
      headers: { ...mergePatch, 'if-match': tag['if-none-match'] },
    };
    expect((await app.request('PATCH', path, change)).status).toBe(200);
  });

  test('is changed by merging, and only by who has read it as it is', async () => {
    const { path } = await newKey({ name: 'Old', scopes: ['query'] });
    const read = await app.request('GET', path, { token: ada.token });
    const patch = (body: unknown, tag: string) =>
      app.request('PATCH', path, { token: ada.token, body, headers: { ...mergePatch, 'if-match': tag } });
    const changed = await patch({ name: 'New' }, read.headers.get('etag') ?? '');
    expect(changed).toMatchObject({ status: 200, body: { name: 'New', scopes: ['query'] } });
    expect(coded(await patch({ name: 'Lost' }, read.headers.get('etag') ?? ''))).toEqual([
      412,
      'precondition_failed',
    ]);
    const now = await app.request('GET', path, { token: ada.token });
    expect(now).toMatchObject({ body: { name: 'New' } });
    expect(now.headers.get('etag')).toBe(changed.headers.get('etag'));
    const stale = { token: ada.token, headers: { 'if-match': read.headers.get('etag') ?? '' } };
    expect(coded(await app.request('DELETE', path, stale))).toEqual([412, 'precondition_failed']);
    const fresh = { token: ada.token, headers: { 'if-match': now.headers.get('etag') ?? '' } };
    expect((await app.request('DELETE', path, fresh)).status).toBe(204);
  });

  test('is refused from the next request on when it is disabled, and when it is revoked', async () => {
    const { secret, path } = await newKey();
    const withKey = () => app.request('GET', '/api/v1/users/me', { token: secret });
    const disable = (disabled: boolean) =>
      app.request('PATCH', path, { token: ada.token, body: { disabled }, headers: mergePatch });
    expect((await withKey()).status).toBe(200);
    await disable(true);
    expect(coded(await withKey())).toEqual([401, 'credential_invalid']);
    await disable(false);
    expect((await withKey()).status).toBe(200);
    expect((await app.request('DELETE', path, { token: ada.token })).status).toBe(204);
    expect(coded(await withKey())).toEqual([401, 'credential_invalid']);
    expect(coded(await app.request('DELETE', path, { token: ada.token }))).toEqual([404, 'not_found']);
  });

  test('does only what its scopes say, and the answer names the missing one', async () => {
    const { secret, path } = await newKey({ scopes: ['keys:read'] });
    expect((await app.request('GET', path, { token: secret })).status).toBe(200);
    const me = await app.request('GET', '/api/v1/users/me', { token: secret });
    expect(me).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    expect(me.body.detail).toContain('account:read');
  });

  test('gives no key what it lacks', async () => {
    const { secret, path } = await newKey({ scopes: ['keys:write'] });
    const wider = await post(
      'api-keys',
      { name: 'Wider', scopes: ['keys:write', 'query'] },
      { token: secret },
    );
    expect(wider).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    expect(wider.body.detail).toContain('query');
    const widened = { token: secret, body: { scopes: ['query'] }, headers: mergePatch };
    expect(coded(await app.request('PATCH', path, widened))).toEqual([403, 'scope_required']);
    const child = await post('api-keys', { name: 'Child' }, { token: secret });
    expect(child).toMatchObject({ status: 201, body: { api_key: { scopes: ['keys:write'] } } });
  });

  test.each([
    ['an end in the past', { name: 'x', expires_at: '2001-01-01T00:00:00Z' }, '/expires_at'],
    ['an end that is no time', { name: 'x', expires_at: 'soon' }, '/expires_at'],
    ['an end in a leap second', { name: 'x', expires_at: '2999-12-31T23:59:60Z' }, '/expires_at'],
    ['an end beyond the years', { name: 'x', expires_at: '9999-12-31T23:59:59-23:59' }, '/expires_at'],
    ['an unknown scope', { name: 'x', scopes: ['everything'] }, '/scopes/0'],
    ['no scope at all', { name: 'x', scopes: [] }, '/scopes'],
    ['a scope twice', { name: 'x', scopes: ['query', 'query'] }, '/scopes'],
    ['an empty name', { name: '' }, '/name'],
    ['an owner', { name: 'x', user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }, '/user_id'],
    ['a secret of one’s own', { name: 'x', key: 'sk-mine' }, '/key'],
  ])('is not made with %s', async (_, body, pointer) => {
    const answer = await post('api-keys', body, { token: ada.token });
    expect(coded(answer)).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ in: 'body', pointer }));
  });

  test('is not changed by nothing, by a stray member, or by an end in the past', async () => {
    const { path } = await newKey();
    for (const body of [{}, { prefix: 'sk-mine' }, { expires_at: '2001-01-01T00:00:00Z' }, { name: null }]) {
      const answer = await app.request('PATCH', path, { token: ada.token, body, headers: mergePatch });
      expect(coded(answer)).toEqual([400, 'invalid_request']);
    }
  });
});

describe('somebody else’s key is answered as one that does not exist', () => {
  test.each([
    ['GET', undefined, {}],
    ['PATCH', { name: 'Mine now' }, mergePatch],
    ['PATCH', { disabled: false }, mergePatch],
    ['PATCH', { name: 'Mine now' }, { ...mergePatch, 'if-match': '"999"' }],
    ['DELETE', undefined, {}],
    ['DELETE', undefined, { 'if-match': '"999"' }],
  ])('%s %j %j', async (method, body, headers) => {
    const { secret, path } = await newKey();
    const stranger = await app.request(method, path, { token: mallory.token, body, headers });
    const missing = await app.request(method, `${keys}/${missingId}`, {
      token: mallory.token,
      body,
      headers,
    });
    expect(coded(stranger)).toEqual([404, 'not_found']);
    expect(stranger.body.detail).toBe(missing.body.detail);
    expect(coded(missing)).toEqual([404, 'not_found']);
    expect((await app.request('GET', '/api/v1/users/me', { token: secret })).status).toBe(200);
  });
});

describe('without a credential', () => {
  test.each([
    ['GET', keys, undefined, {}],
    ['POST', keys, { name: 'x' }, {}],
    ['GET', `${keys}/${missingId}`, undefined, {}],
    ['PATCH', `${keys}/${missingId}`, { name: 'x' }, mergePatch],
    ['DELETE', `${keys}/${missingId}`, undefined, {}],
    ['POST', '/api/v1/auth/logout', undefined, {}],
  ])('%s %s is refused', async (method, path, body, headers) => {
    const answer = await app.request(method, path, { body, headers });
    expect(coded(answer)).toEqual([401, 'credential_missing']);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="service"');
  });
});

describe('where registration is by invitation', () => {
  let closed: TestApp;
  beforeAll(async () => {
    closed = await testApp({ settings: { registration: 'invite' } });
  });
  afterAll(() => closed.close());

  test('nobody registers without one', async () => {
    const body = { email: 'grace@example.com', password: 'correct-horse-battery' };
    const answer = await closed.request('POST', '/api/v1/auth/register', { body });
    expect(coded(answer)).toEqual([403, 'registration_refused']);
    expect(answer.body.detail).toContain('invitation_token');
    expect(await closed.services.store.users.count()).toBe(1);
  });
});
