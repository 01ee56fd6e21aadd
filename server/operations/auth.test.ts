/** The auth family over HTTP: anonymous, stranger, wrong input, missing, happy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, coded, type RequestOptions, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(() => app.close());

const post = (path: string, body: unknown, options: RequestOptions = {}) =>
  app.request('POST', `/api/v1/auth/${path}`, { body, ...options });

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
    const anonymous = await post('logout', undefined);
    expect(coded(anonymous)).toEqual([401, 'credential_missing']);
    expect(anonymous.headers.get('www-authenticate')).toBe('Bearer realm="service"');
    const { body } = await post('api-keys', { name: 'Key' }, { token: ada.token });
    expect(coded(await post('logout', {}, { token: body.key }))).toEqual([403, 'login_required']);
    expect(coded(await post('logout', { all_devices: 'yes' }, { token: ada.token }))).toEqual([
      400,
      'invalid_request',
    ]);
    expect(await statusOf(ada.token)).toBe(200);
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
