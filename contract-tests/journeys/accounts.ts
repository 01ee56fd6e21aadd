/** Journeys of an account: it registers, logs in, stays logged in, makes keys, and leaves. */
import { expect, test } from 'vitest';
import { example, expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

export function accountJourneys(target: () => Target): void {
  test('an account registers, logs in and renews its tokens, each refresh token once', async () => {
    const { visitor, liveOnly } = target();
    const account = newAccount();
    const registered = await visitor.POST('/api/v1/auth/register', { body: account });
    expect(registered.response.status).toBe(201);
    expect(registered.response.headers.get('Location')).toBeTruthy();
    expectShape('TokenPair', registered.data);
    await liveOnly(() =>
      expect(registered.data.user).toMatchObject({ email: account.email, operator: false }),
    );

    const { email, password } = account;
    const pair = await visitor.POST('/api/v1/auth/login', { body: { email, password } });
    expect(pair.response.status).toBe(200);
    expectShape('TokenPair', pair.data);

    const body = { refresh_token: pair.data.refresh_token };
    const next = await visitor.POST('/api/v1/auth/refresh', { body });
    expectShape('TokenPair', next.data);
    await liveOnly(async () => {
      expect(next.data.refresh_token).not.toBe(pair.data.refresh_token);
    });
    const again = await refusal(visitor.POST('/api/v1/auth/refresh', { body, ...preferring(401) }));
    expect(again).toMatchObject({ status: 401, code: 'refresh_token_invalid' });
    await liveOnly(async () => {
      const late = visitor.POST('/api/v1/auth/refresh', { body: { refresh_token: next.data.refresh_token } });
      expect(await refusal(late)).toMatchObject({ status: 401, code: 'refresh_token_invalid' });
    });
  });

  test('a taken address and a wrong password are refused', async () => {
    const { visitor } = target();
    const body = newAccount();
    await visitor.POST('/api/v1/auth/register', { body });
    const taken = await refusal(visitor.POST('/api/v1/auth/register', { body, ...preferring(409) }));
    expect(taken).toMatchObject({ status: 409, code: 'email_taken' });
    const wrong = { email: body.email, password: 'another-password' };
    const failed = await refusal(visitor.POST('/api/v1/auth/login', { body: wrong, ...preferring(401) }));
    expect(failed).toMatchObject({ status: 401, code: 'login_failed' });
    expect(failed.headers.get('WWW-Authenticate')).toMatch(/^Bearer/);
  });

  test('the own account is read, not read twice, and changed by who has read it', async () => {
    const { client, liveOnly } = target();
    const { data: me, response } = await client.GET('/api/v1/users/me');
    expectShape('Me', me);
    const etag = response.headers.get('ETag') ?? '';
    const params = { header: { 'If-None-Match': etag } };
    const same = await refusal(client.GET('/api/v1/users/me', { params, ...preferring(304) }));
    expect(same).toMatchObject({ status: 304, code: 'not_modified' });
    const change = { params: { header: { 'If-Match': etag } }, body: { name: 'Grace Hopper' } };
    const { data: changed } = await client.PATCH('/api/v1/users/me', change);
    expectShape('Me', changed);
    await liveOnly(() => expect(changed.name).toBe('Grace Hopper'));
    const stale = await refusal(client.PATCH('/api/v1/users/me', { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
  });

  test('an API key is made, shown once, used, changed, disabled and revoked', async () => {
    const { client, clientWith, liveOnly } = target();
    const scopes = ['sessions:read' as const];
    const made = await client.POST('/api/v1/auth/api-keys', { body: { name: 'Build server', scopes } });
    expect(made.response.status).toBe(201);
    expectShape('ApiKeyCreated', made.data);
    const path = { key_id: example.key };
    await liveOnly(() => {
      path.key_id = made.data.api_key.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/auth/api-keys/${path.key_id}`);
    });

    const { data: page } = await client.GET('/api/v1/auth/api-keys');
    expectShape('ApiKeyPage', page);
    await liveOnly(() => expect(JSON.stringify(page)).not.toContain(made.data.key));
    const read = await client.GET('/api/v1/auth/api-keys/{key_id}', { params: { path } });
    expectShape('ApiKey', read.data);
    expect(read.response.headers.get('ETag')).toMatch(/^".+"$/);

    const user = clientWith(made.data.key);
    await user.GET('/api/v1/sessions');
    await liveOnly(async () => {
      const beyond = await refusal(user.POST('/api/v1/sessions', { body: {} }));
      expect(beyond).toMatchObject({ status: 403, code: 'scope_required' });
      expect(beyond.detail).toContain('sessions:write');
    });

    const url = '/api/v1/auth/api-keys/{key_id}';
    const { data: disabled } = await client.PATCH(url, { params: { path }, body: { disabled: true } });
    expectShape('ApiKey', disabled);
    await liveOnly(async () => {
      expect(disabled.disabled).toBe(true);
      expect(await refusal(user.GET('/api/v1/sessions'))).toMatchObject({ status: 401 });
      await client.PATCH(url, { params: { path }, body: { disabled: false } });
      await user.GET('/api/v1/sessions');
    });

    const revoked = await client.DELETE(url, { params: { path } });
    expect(revoked.response.status).toBe(204);
    const refused = await refusal(user.GET('/api/v1/sessions', preferring(401)));
    expect(refused.status).toBe(401);
    await liveOnly(() => expect(refused.code).toBe('credential_invalid'));
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('after a logout the tokens of that login are refused', async () => {
    const { visitor, clientWith } = target();
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
    const client = clientWith(pair.access_token);
    expect((await client.POST('/api/v1/auth/logout', { body: {} })).response.status).toBe(204);
    expect(await refusal(client.GET('/api/v1/users/me', preferring(401)))).toMatchObject({ status: 401 });
    const body = { refresh_token: pair.refresh_token };
    const renewal = visitor.POST('/api/v1/auth/refresh', { body, ...preferring(401) });
    expect(await refusal(renewal)).toMatchObject({ code: 'refresh_token_invalid' });
  });
}
