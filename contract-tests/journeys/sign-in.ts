/** Journeys of somebody who gets in without typing a password here: by a code of a device, or through a provider. */
import { expect, test } from 'vitest';
import { Browser } from '../openid/start-openid.ts';
import { expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

export function signInJourneys(target: () => Target): void {
  test('a device asks, a person confirms its code and finds it among their logins, and ends it', async () => {
    const { visitor, clientWith, liveOnly } = target();
    const { data: person } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
    const client = clientWith(person.access_token);
    expect((await visitor.GET('/device', { parseAs: 'text' })).data).toMatch(/^<!doctype html>/);
    const start = { body: { client_name: 'service on laptop' } };
    const { data: started } = await visitor.POST('/api/v1/auth/device/code', start);
    expectShape('DeviceLoginStarted', started);
    const { device_code, user_code } = started;
    const body = { device_code };
    const early = await refusal(visitor.POST('/api/v1/auth/device/token', { body, ...preferring(400) }));
    expect(early).toMatchObject({ status: 400, code: 'authorization_pending' });

    const params = { query: { user_code } };
    expectShape('DeviceLogin', (await client.GET('/api/v1/auth/device', { params })).data);
    const reply = { body: { user_code, decision: 'allow' as const } };
    expect((await client.POST('/api/v1/auth/device/reply', reply)).response.status).toBe(204);
    const again = await refusal(client.POST('/api/v1/auth/device/reply', { ...reply, ...preferring(409) }));
    expect(again).toMatchObject({ status: 409, code: 'already_answered' });
    const { data: pair } = await visitor.POST('/api/v1/auth/device/token', { body });
    expectShape('TokenPair', pair);
    await liveOnly(() => expect(pair.user).toEqual(person.user));

    const { data: page } = await client.GET('/api/v1/auth/logins');
    expectShape('LoginPage', page);
    const path = { login_id: page.data[0]?.id ?? '' };
    await liveOnly(() =>
      expect(page.data[0]).toMatchObject({ method: 'device', device: 'service on laptop' }),
    );
    const url = '/api/v1/auth/logins/{login_id}';
    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const device = clientWith(pair.access_token);
    expect((await refusal(device.GET('/api/v1/users/me', preferring(401)))).status).toBe(401);
    const gone = await refusal(client.DELETE(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('somebody logs in through a provider: there, back with a code in the fragment, and to the tokens', async () => {
    const { visitor, clientWith, openid, url, liveOnly } = target();
    await openid?.person({ sub: 'joan', email: 'joan@corp.example', email_verified: true });
    const path = { provider: 'corp' };
    const started = await refusal(
      visitor.GET('/api/v1/auth/oidc/{provider}/authorize', { params: { path }, ...preferring(302) }),
    );
    expect(started.status).toBe(302);
    const query: { state: string; code?: string; iss?: string } = { state: 'of-the-example', code: 'c' };
    let cookie = 'service_oidc=of-the-example';
    await liveOnly(async () => {
      cookie = (started.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
      const page = started.headers.get('location') ?? '';
      const callback = await new Browser().follow(page, ({ origin }) => origin === url);
      Object.assign(query, Object.fromEntries(callback.searchParams));
    });
    const back = await refusal(
      visitor.GET('/api/v1/auth/oidc/{provider}/callback', {
        params: { path, query },
        headers: { cookie, ...preferring(302).headers },
      }),
    );
    expect(back.status).toBe(302);
    const location = back.headers.get('location') ?? '';
    const login_code = new URLSearchParams(location.split('#')[1]).get('login_code') ?? 'lc_of-the-example';
    const { data: pair } = await visitor.POST('/api/v1/auth/oidc/token', {
      body: { login_code },
      headers: { cookie },
    });
    expectShape('TokenPair', pair);
    await liveOnly(() => expect(pair.user.email).toBe('joan@corp.example'));
    const again = visitor.POST('/api/v1/auth/oidc/token', {
      body: { login_code },
      headers: { cookie, ...preferring(400).headers },
    });
    expect(await refusal(again)).toMatchObject({ status: 400, code: 'oidc_login_invalid' });

    const client = clientWith(pair.access_token);
    const link = await client.POST('/api/v1/auth/oidc/{provider}/link', { params: { path }, body: {} });
    expectShape('OidcLink', link.data);
    expect(link.response.headers.get('set-cookie')).toContain('service_oidc=');
    const linked = await client.GET('/api/v1/auth/oidc/{provider}/link', { params: { path } });
    expectShape('OidcLinked', linked.data);
    const ended = await client.DELETE('/api/v1/auth/oidc/{provider}/link', { params: { path } });
    expect(ended.response.status).toBe(204);
  });
}
