/** The API keys family over HTTP: anonymous, stranger, wrong input, missing, happy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, coded, mergePatch, type RequestOptions, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

const keys = '/api/v1/auth/api-keys';
const missingId = 'key_01k9w6r3h2e7xv5q0c8m4b1tza';

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
  ])('%s %s is refused', async (method, path, body, headers) => {
    const answer = await app.request(method, path, { body, headers });
    expect(coded(answer)).toEqual([401, 'credential_missing']);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="service"');
  });
});
