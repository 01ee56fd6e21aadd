/** Device logins over HTTP: a device asks, a person confirms, and whoever tries codes is held up. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, coded, type RequestOptions, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
/** It stands still but for what a test lets pass: a device that asks again at once does so within its five seconds. */
let now = Date.now();

beforeAll(async () => {
  const clock = { now: () => new Date(now) };
  app = await testApp({ clock, settings: { trustedProxies: ['loopback'] } });
  ada = await app.register('ada');
});
afterAll(() => app.close());

const device = '/api/v1/auth/device';
const start = async (body?: object) =>
  (await app.request('POST', `${device}/code`, { body: body ?? {} })).body;
const poll = (device_code: string) => app.request('POST', `${device}/token`, { body: { device_code } });
const look = (user_code: string, token = ada.token) =>
  app.request('GET', `${device}?user_code=${encodeURIComponent(user_code)}`, { token });
const reply = (user_code: string, decision: string, token = ada.token, options: RequestOptions = {}) =>
  app.request('POST', `${device}/reply`, { token, body: { user_code, decision }, ...options });
const pass = (seconds: number) => {
  now += seconds * 1000;
};

describe('a device', () => {
  test('is told its codes, the page, and how often to ask', async () => {
    const { status, body, headers } = await app.request('POST', `${device}/code`, {
      body: { client_name: 'x' },
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      device_code: expect.stringMatching(/^dc_[\w-]{43}$/),
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: `${app.url}/device`,
      verification_uri_complete: `${app.url}/device?user_code=${body.user_code}`,
      expires_in: 600,
      interval: 5,
    });
    expect(headers.get('cache-control')).toBe('no-store');
    expect((await app.request('POST', `${device}/code`)).status).toBe(200);
  });

  test('that was allowed before a new password gets no login after it', async () => {
    const owner = await app.register('owner');
    const { device_code, user_code } = await start();
    expect((await reply(user_code, 'allow', owner.token)).status).toBe(204);
    const body = { current_password: owner.password, new_password: 'an entirely new password' };
    const changed = await app.request('POST', '/api/v1/auth/password/change', { token: owner.token, body });
    expect(changed.status).toBe(204);
    expect(coded(await poll(device_code))).toEqual([400, 'expired_token']);
  });

  test('that was allowed by a login that was ended gets none, and one whose owner logged out gets its own', async () => {
    const owner = await app.register('owner-of-two');
    const body = { email: owner.email, password: owner.password };
    const logIn = async (): Promise<string> =>
      (await app.request('POST', '/api/v1/auth/login', { body })).body.access_token;
    const allow = async (token: string): Promise<string> => {
      const { device_code, user_code } = await start();
      expect((await reply(user_code, 'allow', token)).status).toBe(204);
      return device_code;
    };
    const stolen = await logIn();
    const waiting = await allow(stolen);
    const { data } = (await app.request('GET', '/api/v1/auth/logins', { token: stolen })).body;
    const { id } = data.find(({ current }: { current: boolean }) => current);
    const revoked = await app.request('DELETE', `/api/v1/auth/logins/${id}`, { token: owner.token });
    expect(revoked.status).toBe(204);
    expect(coded(await poll(waiting))).toEqual([400, 'expired_token']);
    const own = await logIn();
    const meant = await allow(own);
    expect((await app.request('POST', '/api/v1/auth/logout', { token: own })).status).toBe(204);
    expect((await poll(meant)).status).toBe(200);
  });

  test('is logged in as who allowed it, once', async () => {
    const { device_code, user_code } = await start({ client_name: 'service on laptop' });
    expect(coded(await poll(device_code))).toEqual([400, 'authorization_pending']);
    const typed = user_code.toLowerCase().replace('-', ' ');
    expect((await look(typed)).body).toMatchObject({
      ...{ user_code, client_name: 'service on laptop', address: '127.0.0.1' },
    });
    expect((await reply(typed, 'allow')).status).toBe(204);
    const pair = await poll(device_code);
    expect(pair).toMatchObject({ status: 200, body: { token_type: 'Bearer', user: ada.user } });
    expect(coded(await poll(device_code))).toEqual([400, 'expired_token']);
    const { body } = await app.request('GET', '/api/v1/auth/logins', { token: pair.body.access_token });
    expect(body.data[0]).toMatchObject({ method: 'device', device: 'service on laptop', current: true });
  });

  test('of many polls at once one gets the tokens', async () => {
    const { device_code, user_code } = await start();
    await reply(user_code, 'allow');
    const answers = await Promise.all(Array.from({ length: 8 }, () => poll(device_code)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array<number>(7).fill(400)]);
  });

  test('that asks too often is slowed down, five seconds more each time', async () => {
    const { device_code, user_code } = await start();
    expect(coded(await poll(device_code))).toEqual([400, 'authorization_pending']);
    expect(coded(await poll(device_code))).toEqual([400, 'slow_down']);
    pass(6);
    expect(coded(await poll(device_code))).toEqual([400, 'slow_down']);
    pass(15);
    expect(coded(await poll(device_code))).toEqual([400, 'authorization_pending']);
    await reply(user_code, 'allow');
    expect((await poll(device_code)).status).toBe(200);
  });

  test('that was refused is told so; one that is unknown or late has to begin again', async () => {
    const refused = await start();
    await reply(refused.user_code, 'deny');
    expect(coded(await poll(refused.device_code))).toEqual([400, 'access_denied']);
    const late = await start();
    pass(601);
    expect(coded(await poll(late.device_code))).toEqual([400, 'expired_token']);
    expect(coded(await reply(late.user_code, 'allow'))).toEqual([404, 'not_found']);
    expect(coded(await poll('dc_invented'))).toEqual([400, 'expired_token']);
    // What a person types is no secret of a device.
    expect(coded(await poll(refused.user_code))).toEqual([400, 'expired_token']);
  });

  test('from an address where twenty wait has to wait too', async () => {
    pass(601);
    for (let opened = 0; opened < 20; opened += 1) await start();
    const one = await app.request('POST', `${device}/code`, { body: {} });
    expect(coded(one)).toEqual([429, 'too_many_attempts']);
    expect(Number(one.headers.get('retry-after'))).toBeGreaterThan(0);
    pass(601);
    expect((await app.request('POST', `${device}/code`, { body: {} })).status).toBe(200);
  });

  test('from a network of IPv6 where twenty wait has to wait too', async () => {
    const from = async (address: string) => {
      const headers = { 'x-forwarded-for': address };
      return (await app.request('POST', `${device}/code`, { body: {}, headers })).status;
    };
    for (let opened = 0; opened < 20; opened += 1)
      expect(await from(`2001:db8::${opened.toString(16)}`)).toBe(200);
    expect(await from('2001:db8::ffff')).toBe(429);
    expect(await from('2001:db8:0:1::1')).toBe(200);
  });

  test.each([
    ['a name with a line end', `${device}/code`, { client_name: 'a\r\nb' }],
    ['an endless name', `${device}/code`, { client_name: 'x'.repeat(101) }],
    ['a stray member', `${device}/code`, { scope: 'everything' }],
    ['no device code', `${device}/token`, {}],
    ['a user who is named', `${device}/token`, { device_code: 'dc_x', user_id: 'usr_x' }],
  ])('that sends %s is refused', async (_, path, body) => {
    expect(coded(await app.request('POST', path, { body }))).toEqual([400, 'invalid_request']);
  });
});

describe('a person', () => {
  test('has to be logged in: a key could give more than it has', async () => {
    const { user_code, device_code } = await start();
    expect((await app.request('GET', `${device}?user_code=${user_code}`)).status).toBe(401);
    expect(
      (await app.request('POST', `${device}/reply`, { body: { user_code, decision: 'allow' } })).status,
    ).toBe(401);
    expect(coded(await look(user_code, app.operatorKey))).toEqual([403, 'login_required']);
    expect(coded(await reply(user_code, 'allow', app.operatorKey))).toEqual([403, 'login_required']);
    pass(6);
    expect(coded(await poll(device_code))).toEqual([400, 'authorization_pending']);
  });

  test('replies once, whoever is first', async () => {
    const { user_code, device_code } = await start();
    const [bob, eve] = [await app.register('bob'), await app.register('eve')];
    const answers = await Promise.all([eve, bob].map(({ token }) => reply(user_code, 'allow', token)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 409]);
    expect(coded(await reply(user_code, 'deny', bob.token))).toEqual([409, 'already_answered']);
    const first = answers[0]?.status === 204 ? eve : bob;
    expect((await poll(device_code)).body.user.id).toBe(first.user.id);
  });

  test('cannot be made to reply by another site: no cookie counts, and no form is taken', async () => {
    const { user_code } = await start();
    const crossSite = await app.request('POST', `${device}/reply`, {
      body: `user_code=${user_code}&decision=allow`,
      headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: `service_oidc=${ada.token}` },
    });
    expect(crossSite.status).toBe(401);
  });

  test('who tries codes is held up for all of them, the right one too, and nobody else is', async () => {
    const [mallory, carol] = [await app.register('mallory'), await app.register('carol')];
    const { user_code } = await start();
    const wrong = Array.from({ length: 30 }, (_, index) => {
      const letter = 'BCDFGHJKLM'[index % 10] ?? 'B';
      return index % 2
        ? look(`${letter}ZZZ-ZZZZ`, mallory.token)
        : reply(`ZZZZ-ZZZ${letter}`, 'allow', mallory.token);
    });
    const answers = await Promise.all(wrong);
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
    const held = await look(user_code, mallory.token);
    expect(coded(held)).toEqual([429, 'too_many_attempts']);
    expect(Number(held.headers.get('retry-after'))).toBeGreaterThan(500);
    expect((await look(user_code, carol.token)).status).toBe(200);
    pass(601);
    const fresh = await start();
    expect((await look(fresh.user_code, mallory.token)).status).toBe(200);
  });
});

describe('the page', () => {
  test('runs its own script and no other, and may be framed by nobody', async () => {
    const { status, headers, body } = await app.request('GET', '/device?user_code=BCDF-GHJK');
    expect(status).toBe(200);
    const policy = headers.get('content-security-policy') ?? '';
    for (const directive of [
      "default-src 'none'",
      "frame-ancestors 'none'",
      "form-action 'none'",
      "base-uri 'none'",
    ])
      expect(policy).toContain(directive);
    expect(policy).not.toContain('unsafe-inline');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(body).not.toContain('BCDF-GHJK');
    const again = await app.request('GET', '/device', {
      headers: { 'if-none-match': headers.get('etag') ?? '' },
    });
    expect(again.status).toBe(304);
  });
});
