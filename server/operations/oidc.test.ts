/** Logging in through a real OpenID Connect provider: there and back, and whatever somebody might send in between. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  Browser,
  type OpenId,
  openIdVariables,
  startOpenId,
} from '../../contract-tests/openid/start-openid.ts';
import { createLog } from '../log.ts';
import { readServerSettings, type ServerSettings } from '../server-settings/server-settings.ts';
import { type Account, type Answer, type TestApp, testApp } from '../test-app.ts';

let openid: OpenId;
let app: TestApp;
let browser: Browser;
let ahead = 0;

type Provider = ServerSettings['oidcProviders'][number];

const providerSettings = (changes: Partial<Provider> = {}, name = 'corp'): Provider => {
  const { settings } = readServerSettings([], openIdVariables(openid.url, name));
  const [provider] = settings.oidcProviders;
  if (!provider) throw new Error('there is no provider');
  return { ...provider, ...changes };
};

const clock = { now: () => new Date(Date.now() + ahead) };

beforeAll(async () => {
  openid = await startOpenId();
  app = await testApp({
    settings: { oidcProviders: [providerSettings(), providerSettings({ registration: 'invite' }, 'other')] },
    clock,
  });
});

afterAll(async () => {
  await app?.close();
  await openid?.stop();
});

beforeEach(() => {
  browser = new Browser();
});

const auth = '/api/v1/auth/oidc';
const grace = { sub: 'grace', email: 'grace@corp.example', email_verified: true, name: 'Grace Hopper' };

/** The address on which the browser comes back to the server, unvisited. */
async function backFrom(name = 'corp', { query = '', on = app, by = browser } = {}): Promise<URL> {
  return by.follow(`${on.url}${auth}/${name}/authorize${query}`, ({ pathname }) =>
    pathname.endsWith('/callback'),
  );
}

/** Where the server sends the browser in the end. */
async function outcomeOf(
  callback: URL,
  by = browser,
): Promise<{ status: number; location: string; code: string }> {
  const response = await by.visit(callback.href);
  const { code = '' } = response.status === 302 ? {} : ((await response.json()) as { code?: string });
  return { status: response.status, location: response.headers.get('location') ?? '', code };
}

async function redeem(location: string, by = browser, on = app): Promise<Answer> {
  const login_code = new URLSearchParams(location.split('#')[1]).get('login_code') ?? 'lc_none';
  const response = await by.visit(`${on.url}${auth}/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ login_code }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function logIn(person: object, name = 'corp', on = app): Promise<Answer> {
  await openid.person(person);
  const by = new Browser();
  const { location } = await outcomeOf(await backFrom(name, { on, by }), by);
  return redeem(location, by, on);
}

describe('a login through a provider', () => {
  test('makes an account whose tokens work, and finds it again whatever the e-mail address is then', async () => {
    const first = await logIn(grace);
    expect(first).toMatchObject({
      status: 200,
      body: {
        token_type: 'Bearer',
        user: { email: 'grace@corp.example', name: 'Grace Hopper', operator: false },
      },
    });
    const me = await app.request('GET', '/api/v1/users/me', { token: first.body.access_token });
    expect(me.body).toMatchObject({ id: first.body.user.id, memberships: [{ role: 'owner' }] });
    const again = await logIn({ ...grace, email: 'hopper@corp.example' });
    expect(again.body.user.id).toBe(first.body.user.id);
    const logins = await app.request('GET', '/api/v1/auth/logins', { token: again.body.access_token });
    expect(logins.body.data.map(({ method }: { method: string }) => method)).toEqual(['oidc', 'oidc']);
  });

  test('goes out with PKCE, a state and a nonce, and nothing that the provider could use', async () => {
    const response = await browser.visit(`${app.url}${auth}/corp/authorize`);
    expect(response.status).toBe(302);
    const page = new URL(response.headers.get('location') ?? '');
    expect(page.origin).toBe(openid.url);
    const sent = Object.fromEntries(page.searchParams);
    expect(sent).toMatchObject({
      ...{ response_type: 'code', client_id: 'corp', code_challenge_method: 'S256' },
      redirect_uri: `${app.url}${auth}/corp/callback`,
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    });
    const [cookie = ''] = response.headers.getSetCookie();
    expect(cookie).toMatch(/^service_oidc=[\w-]{43}; Path=\/; Max-Age=660; HttpOnly; SameSite=Lax$/);
    expect(page.href).not.toContain(browser.cookiesFor(app.url).get('service_oidc') ?? 'none');
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  test.each([
    ['one address', ['twin@corp.example', 'twin@corp.example']],
    ['another address by then', ['old@corp.example', 'new@corp.example']],
  ])('makes one account where two of somebody new come back at once, with %s', async (sub, emails) => {
    const logins: { readonly by: Browser; readonly callback: URL }[] = [];
    for (const email of emails) {
      const by = new Browser();
      await openid.person({ ...grace, sub, email });
      logins.push({ by, callback: await backFrom('corp', { by }) });
    }
    const answers = await Promise.all(
      logins.map(async ({ by, callback }) => redeem((await outcomeOf(callback, by)).location, by)),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(new Set(answers.map(({ body }) => body.user.id)).size).toBe(1);
  });

  test('comes back to where the person was, with the code in the fragment alone', async () => {
    await openid.person(grace);
    const back = encodeURIComponent('/device?user_code=BCDF-GHJK');
    const { status, location } = await outcomeOf(await backFrom('corp', { query: `?return_to=${back}` }));
    expect(status).toBe(302);
    expect(location).toMatch(/^\/device\?user_code=BCDF-GHJK#login_code=lc_[\w-]{43}$/);
  });

  test('is known under a name that no neighbour can set where the server has TLS', async () => {
    const secure = await testApp({
      settings: { oidcProviders: [providerSettings()], publicUrl: 'https://service.example.com' },
    });
    try {
      const response = await browser.visit(`${secure.url}${auth}/corp/authorize`);
      const [cookie = ''] = response.headers.getSetCookie();
      expect(cookie).toMatch(/^__Host-service_oidc=[\w-]{43}; Path=\/; .*HttpOnly; SameSite=Lax; Secure$/);
      const page = new URL(response.headers.get('location') ?? '');
      expect(page.searchParams.get('redirect_uri')).toBe(`https://service.example.com${auth}/corp/callback`);
    } finally {
      await secure.close();
    }
  });
});

describe('an answer that proves nothing is refused', () => {
  const invalid = { status: 400, code: 'oidc_login_invalid' };

  test('without the cookie of the browser that began it, as a link that somebody was sent', async () => {
    await openid.person({ ...grace, sub: 'mallory', email: 'mallory@corp.example' });
    const callback = await backFrom();
    expect(await outcomeOf(callback, new Browser())).toMatchObject(invalid);
    const victim = new Browser();
    await openid.person(grace);
    await backFrom('corp', { by: victim });
    expect(await outcomeOf(callback, victim)).toMatchObject(invalid);
  });

  test('a second time', async () => {
    await openid.person(grace);
    const callback = await backFrom();
    expect((await outcomeOf(callback)).status).toBe(302);
    expect(await outcomeOf(callback)).toMatchObject(invalid);
  });

  test('of two at once one gets through', async () => {
    await openid.person(grace);
    const callback = await backFrom();
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => outcomeOf(callback)));
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual([302, ...Array<number>(7).fill(400)]);
  });

  test('after ten minutes', async () => {
    await openid.person(grace);
    const callback = await backFrom();
    ahead = 601_000;
    try {
      expect(await outcomeOf(callback)).toMatchObject(invalid);
    } finally {
      ahead = 0;
    }
  });

  test('with the code of another login: PKCE and the nonce hold it to its browser', async () => {
    await openid.person({ ...grace, sub: 'thief', email: 'thief@corp.example' });
    const stolen = await backFrom('corp', { by: new Browser() });
    await openid.person(grace);
    const callback = await backFrom();
    callback.searchParams.set('code', stolen.searchParams.get('code') ?? '');
    expect(await outcomeOf(callback)).toMatchObject(invalid);
  });

  test.each([
    ['an invented code', (url: URL) => url.searchParams.set('code', 'invented')],
    ['an invented state', (url: URL) => url.searchParams.set('state', 'invented')],
    ['no code', (url: URL) => url.searchParams.delete('code')],
    ['the name of another issuer', (url: URL) => url.searchParams.set('iss', 'https://evil.example.com')],
    ['no issuer, where the provider always names itself', (url: URL) => url.searchParams.delete('iss')],
  ])('with %s', async (_, change) => {
    await openid.person(grace);
    const callback = await backFrom();
    change(callback);
    expect(await outcomeOf(callback)).toMatchObject(invalid);
  });

  test('at the callback of another provider (mix-up)', async () => {
    await openid.person(grace);
    const callback = await backFrom();
    callback.pathname = callback.pathname.replace('corp', 'other');
    expect(await outcomeOf(callback)).toMatchObject(invalid);
  });

  test('without a state it does not even match the contract, and what providers add does no harm', async () => {
    await openid.person(grace);
    const callback = await backFrom();
    const bare = new URL(callback);
    bare.searchParams.delete('state');
    expect(await outcomeOf(bare)).toMatchObject({ status: 400, code: 'invalid_request' });
    callback.searchParams.set('session_state', 'x');
    callback.searchParams.set('hd', 'corp.example');
    expect((await outcomeOf(callback)).status).toBe(302);
  });
});

describe('the browser is sent nowhere else', () => {
  test.each([
    ['another site', 'https://evil.example.com/'],
    ['another site without a scheme', '//evil.example.com'],
    ['another site with a backslash', '/\\evil.example.com'],
    ['another site behind a tab', '/\t/evil.example.com'],
    ['another site with three slashes', '///evil.example.com'],
    ['a script', 'javascript:alert(1)'],
    ['a fragment of the caller', '/device#login_code=lc_mine'],
    ['a user part', '/@evil.example.com'],
    ['a header of its own', '/device\r\nSet-Cookie: a=b'],
    ['a path that is none', 'device'],
    ['dots', '/../../evil'],
    ['a host behind dots', '/a/..//evil.example.com'],
    ['two slashes further on', '/a//evil.example.com'],
  ])('%s is refused', async (_, to) => {
    const path = `${auth}/corp/authorize?return_to=${encodeURIComponent(to)}`;
    const response = await browser.visit(app.url + path);
    expect([response.status, response.headers.get('location')]).toEqual([400, null]);
  });
});

describe('the code for the tokens', () => {
  test('is good for one use, by one browser, within a minute', async () => {
    await openid.person(grace);
    const { location } = await outcomeOf(await backFrom());
    const refused = { status: 400, body: { code: 'oidc_login_invalid' } };
    expect(await redeem(location, new Browser())).toMatchObject(refused);
    const stranger = new Browser();
    await backFrom('corp', { by: stranger });
    expect(await redeem(location, stranger)).toMatchObject(refused);
    const pair = await redeem(location);
    expect(pair.status).toBe(200);
    expect(pair.headers.get('set-cookie')).toContain('Max-Age=0');
    expect(await redeem(location)).toMatchObject(refused);
    const { location: late } = await outcomeOf(await backFrom());
    ahead = 61_000;
    try {
      expect(await redeem(late)).toMatchObject(refused);
    } finally {
      ahead = 0;
    }
  });
});

describe('who gets an account', () => {
  const errorOf = async (person: object, name = 'corp', on = app) => {
    await openid.person(person);
    const by = new Browser();
    return (await outcomeOf(await backFrom(name, { on, by }), by)).location;
  };

  test('not who refuses at the provider', async () => {
    expect(await errorOf({ ...grace, deny: true })).toBe('/device#login_error=access_denied');
  });

  test.each([
    ['has no e-mail address', { email: undefined }],
    ['has one that the provider has not verified', { email_verified: false }],
    ['has one of which the provider says nothing', { email_verified: undefined }],
    ['has one that is none', { email: 'nowhere' }],
    ['has one with a letter of another script', { email: 'gr\u0430ce@corp.example' }],
    ['has one with a letter that becomes another in lower case', { email: 'hi\u212A@corp.example' }],
    ['has one with a character that nobody sees', { email: 'ada\u200b@corp.example' }],
  ])('not who %s', async (_, change) => {
    const person = { ...grace, sub: `no-${JSON.stringify(change)}`, email: 'fresh@corp.example', ...change };
    expect(await errorOf(person)).toBe('/device#login_error=registration_refused');
  });

  test('not who has the address of somebody here: it is never what links two people', async () => {
    const ada = await app.register('ada');
    const person = { ...grace, sub: 'not-ada', email: 'Ada@Example.com' };
    expect(await errorOf(person)).toBe('/device#login_error=email_taken');
    const { body } = await app.request('GET', '/api/v1/auth/logins', { token: ada.token });
    expect(body.data).toHaveLength(1);
  });

  test('nobody new where the provider lets in linked accounts alone', async () => {
    const location = await errorOf({ ...grace, sub: 'new', email: 'new@corp.example' }, 'other');
    expect(location).toBe('/device#login_error=registration_refused');
  });

  test('who belongs to the organization of the operator joins it in the role that the operator set', async () => {
    const providers = [
      providerSettings({ organizationId: 'org_01k9w6r3h2e7xv5q0c8m4b1tza', trustEmail: true }),
    ];
    const joined = await testApp({ settings: { oidcProviders: providers } });
    const person = { ...grace, sub: 'joiner', email: 'joiner@corp.example', email_verified: undefined };
    try {
      expect(await errorOf(person, 'corp', joined)).toBe('/device#login_error=registration_refused');
      const { body: operator } = await joined.request('GET', '/api/v1/users/me', {
        token: joined.operatorKey,
      });
      const [{ organization_id }] = operator.memberships;
      // The operator corrects the setting; only a test need not start anew for it.
      providers[0] = providerSettings({ organizationId: organization_id, role: 'viewer', trustEmail: true });
      const { body } = await logIn(person, 'corp', joined);
      const { body: newcomer } = await joined.request('GET', '/api/v1/users/me', {
        token: body.access_token,
      });
      expect(newcomer.memberships).toEqual([expect.objectContaining({ organization_id, role: 'viewer' })]);
    } finally {
      await joined.close();
    }
  });
});

describe('linking', () => {
  const link = async (
    account: Pick<Account, 'token'>,
    person: object,
    meanwhile: () => Promise<void> = () => Promise.resolve(),
  ) => {
    await openid.person(person);
    const by = new Browser();
    const response = await by.visit(`${app.url}${auth}/other/link`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ return_to: '/device' }),
    });
    const { authorization_url } = (await response.json()) as { authorization_url: string };
    const callback = await by.follow(authorization_url, ({ pathname }) => pathname.endsWith('/callback'));
    await meanwhile();
    const { status, location, code } = await outcomeOf(callback, by);
    return status === 302 ? location : code;
  };

  test('lets the same person in either way from then on, and no other account have them', async () => {
    const [lin, eve] = [await app.register('lin'), await app.register('eve')];
    const person = { sub: 'lin-at-other', email: 'somebody@else.example' };
    expect(await link(lin, person)).toBe('/device#linked=other');
    expect(await link(lin, person)).toBe('/device#linked=other');
    expect(await link(eve, person)).toBe('/device#login_error=identity_taken');
    const pair = await logIn(person, 'other');
    expect(pair.body.user).toEqual(lin.user);
  });

  test('that was begun before a new password links nobody after it', async () => {
    const lou = await app.register('lou');
    const person = { sub: 'mallory-at-other', email: 'mallory@else.example' };
    const body = { current_password: lou.password, new_password: 'an entirely new password' };
    const meanwhile = async () => {
      const { status } = await app.request('POST', '/api/v1/auth/password/change', {
        token: lou.token,
        body,
      });
      expect(status).toBe(204);
    };
    expect(await link(lou, person, meanwhile)).toBe('oidc_login_invalid');
    const { body: linked } = await app.request('GET', `${auth}/other/link`, { token: lou.token });
    expect(linked.identities).toEqual([]);
  });

  test('that a login has begun that is over by then links nobody', async () => {
    const leo = await app.register('leo');
    const person = { sub: 'eve-at-other', email: 'eve@else.example' };
    const { body } = await app.request('POST', `/api/v1/auth/login`, {
      body: { email: leo.email, password: leo.password },
    });
    const meanwhile = async () => {
      const logins = await app.request('GET', '/api/v1/auth/logins', { token: body.access_token });
      const { id } = logins.body.data.find(({ current }: { current: boolean }) => current);
      const ended = await app.request('DELETE', `/api/v1/auth/logins/${id}`, { token: leo.token });
      expect(ended.status).toBe(204);
    };
    expect(await link({ token: body.access_token }, person, meanwhile)).toBe('oidc_login_invalid');
  });

  test('is seen and ended by who did it, and by nobody else; the way is closed at once', async () => {
    const [pat, eve] = [await app.register('pat'), await app.register('eve-too')];
    const person = { sub: 'pat-at-other', email: 'pat@else.example' };
    await link(pat, person);
    const path = `${auth}/other/link`;
    const linkedTo = async ({ token }: Pick<Account, 'token'>) =>
      (await app.request('GET', path, { token })).body.identities;
    expect(await linkedTo(pat)).toMatchObject([{ subject: 'pat-at-other' }]);
    expect(await linkedTo(eve)).toEqual([]);
    expect((await app.request('DELETE', path, { token: eve.token })).status).toBe(204);
    expect(await linkedTo(pat)).toHaveLength(1);
    for (const _ of ['at once', 'and again'])
      expect((await app.request('DELETE', path, { token: pat.token })).status).toBe(204);
    expect(await linkedTo(pat)).toEqual([]);
    await openid.person(person);
    const by = new Browser();
    const { location } = await outcomeOf(await backFrom('other', { by }), by);
    expect(location).toBe('/device#login_error=registration_refused');
    const entries = await app.request('GET', '/api/v1/audit/logs?action=oidc_identity.delete', {
      token: pat.token,
    });
    expect(entries.body.data).toMatchObject([{ actor: { id: pat.user.id } }]);
  });

  test('is for logins: no key and no stranger begins it', async () => {
    const path = `${auth}/other/link`;
    expect((await app.request('POST', path, { body: {} })).status).toBe(401);
    const keyed = await app.request('POST', path, { token: app.operatorKey, body: {} });
    expect([keyed.status, keyed.body.code]).toEqual([403, 'login_required']);
  });
});

describe('a provider that is not there', () => {
  test('is not found where nobody set it up, on every path', async () => {
    const { token } = await app.register('nobodys');
    const paths = ['authorize', 'callback?state=x&code=y'].map((path) => ['GET', path] as const);
    for (const [method, path] of [
      ...paths,
      ...(['GET', 'POST', 'DELETE'] as const).map((one) => [one, 'link'] as const),
    ]) {
      const answer = await app.request(method, `${auth}/unknown/${path}`, { token });
      expect([answer.status, answer.body.code]).toEqual([404, 'not_found']);
    }
  });

  test.each([
    ['is not asked', [], 0],
    ['is asked, where the operator lists them', ['127.0.0.1'], 1],
  ])(
    'for its tokens %s at addresses of the own network that only it has named',
    async (_, outboundAllow, asked) => {
      // The provider itself is what the operator named, and may be anywhere.
      let requests = 0;
      const neighbour = await answering((response) => {
        requests += 1;
        response.writeHead(500).end();
      });
      const issuer = await answering((response, url) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(
          JSON.stringify({
            issuer: url,
            authorization_endpoint: `${url}/authorize`,
            token_endpoint: `${neighbour}/token`,
            jwks_uri: `${url}/keys`,
            response_types_supported: ['code'],
          }),
        ),
      );
      const log = createLog('silent');
      const warn = vi.spyOn(log, 'warn');
      const oidcProviders = [providerSettings({ issuer })];
      const many = await testApp({ settings: { mode: 'multi', oidcProviders, outboundAllow }, log });
      onTestFinished(() => many.close());
      const page = await browser.visit(`${many.url}${auth}/corp/authorize`);
      const { origin, searchParams } = new URL(page.headers.get('location') ?? '');
      expect(origin).toBe(issuer);
      const query = new URLSearchParams({ code: 'a-code', state: searchParams.get('state') ?? '' });
      const answer = await outcomeOf(new URL(`${many.url}${auth}/corp/callback?${query}`));
      expect([answer.status, answer.code]).toEqual([502, 'oidc_provider_failed']);
      expect(requests).toBe(asked);
      expect(JSON.stringify(warn.mock.calls).includes('SERVICE_OUTBOUND_ALLOW')).toBe(asked === 0);
    },
  );

  test('is told as such where it does not answer, or calls itself otherwise', async () => {
    const gone = providerSettings({ issuer: 'http://127.0.0.1:1' });
    const liar = { ...providerSettings({ issuer: `${openid.url}/` }), name: 'liar' };
    const away = await testApp({ settings: { oidcProviders: [gone, liar] } });
    try {
      for (const name of ['corp', 'liar']) {
        // Those who ask at the same time wait for one answer of the provider.
        const asked = Array.from({ length: 3 }, () => away.request('GET', `${auth}/${name}/authorize`));
        for (const answer of await Promise.all(asked)) {
          expect([answer.status, answer.body.code]).toEqual([502, 'oidc_provider_failed']);
          expect(JSON.stringify(answer.body)).not.toMatch(/127\.0\.0\.1|ECONN/);
        }
      }
    } finally {
      await away.close();
    }
  });
});

/** A server that goes with the test; its address. */
async function answering(answer: (response: ServerResponse, url: string) => void): Promise<string> {
  const server = createServer((_request, response) => answer(response, url));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // it listens on a port
  return url;
}
