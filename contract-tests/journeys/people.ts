/** Journeys of those who manage people: an account is made, given a role, suspended, logged out and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

export function peopleJourneys(target: () => Target): void {
  test('a person is given an account, a role, a pause, and in the end none', async () => {
    const { client, liveOnly } = target();
    const { email, name } = newAccount();
    const made = await client.POST('/api/v1/users', {
      body: { email, name, role: 'member', send_invite: true },
    });
    expect(made.response.status).toBe(201);
    expectShape('AccountCreated', made.data);
    const path = { user_id: example.person };
    await liveOnly(() => {
      path.user_id = made.data.user.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/users/${path.user_id}`);
      expect(made.data.user.memberships).toMatchObject([{ role: 'member' }]);
    });

    const { data: page } = await client.GET('/api/v1/users', { params: { query: { q: email } } });
    expectShape('AccountPage', page);
    await liveOnly(() => expect(page.data.map(({ id }) => id)).toEqual([path.user_id]));
    const read = await client.GET('/api/v1/users/{user_id}', { params: { path } });
    expectShape('Account', read.data);

    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const raised = await client.PATCH('/api/v1/users/{user_id}', {
      params: { path, header },
      body: { role: 'admin' },
    });
    expectShape('Account', raised.data);
    const stale = client.PATCH('/api/v1/users/{user_id}', {
      params: { path, header },
      body: { status: 'suspended' },
      ...preferring(412),
    });
    expect(await refusal(stale)).toMatchObject({ status: 412, code: 'precondition_failed' });

    const ended = await client.POST('/api/v1/users/{user_id}/sessions/revoke', { params: { path } });
    expect(ended.response.status).toBe(204);
    const deleted = await client.DELETE('/api/v1/users/{user_id}', { params: { path } });
    expect(deleted.response.status).toBe(204);
    const gone = client.GET('/api/v1/users/{user_id}', { params: { path }, ...preferring(404) });
    expect(await refusal(gone)).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('preferences are read, not read twice, and changed', async () => {
    const { client, liveOnly } = target();
    const { data, response } = await client.GET('/api/v1/users/me/preferences');
    expectShape('Preferences', data);
    const params = { header: { 'If-None-Match': response.headers.get('ETag') ?? '' } };
    const same = client.GET('/api/v1/users/me/preferences', { params, ...preferring(304) });
    expect(await refusal(same)).toMatchObject({ status: 304 });
    const body = { theme: 'dark' as const, timezone: 'Europe/London' };
    const { data: chosen } = await client.PATCH('/api/v1/users/me/preferences', { body });
    expectShape('Preferences', chosen);
    await liveOnly(() => expect(chosen).toMatchObject(body));
  });

  test('an API key gets a new secret, and the old one is good for a while', async () => {
    const { client, clientWith, liveOnly } = target();
    const made = await client.POST('/api/v1/auth/api-keys', { body: { name: 'Rotated' } });
    const path = { key_id: example.key };
    await liveOnly(() => {
      path.key_id = made.data.api_key.id;
    });
    const rotated = await client.POST('/api/v1/auth/api-keys/{key_id}/rotate', {
      params: { path },
      body: { grace_seconds: 3600 },
    });
    expect(rotated.response.status).toBe(201);
    expectShape('ApiKeyCreated', rotated.data);
    for (const key of [made.data.key, rotated.data.key]) await clientWith(key).GET('/api/v1/users/me');
    await liveOnly(async () => {
      await client.POST('/api/v1/auth/api-keys/{key_id}/rotate', {
        params: { path },
        body: { grace_seconds: 0 },
      });
      for (const key of [made.data.key, rotated.data.key])
        expect(await refusal(clientWith(key).GET('/api/v1/users/me'))).toMatchObject({ status: 401 });
    });
  });
}
