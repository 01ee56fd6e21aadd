/** The caller’s own account over HTTP: anonymous, wrong input, stale, happy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scopeValues } from '../contract/api.ts';
import { type Account, mergePatch, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;

const path = '/api/v1/users/me';

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
});

afterAll(() => app.close());

const get = (token: string, headers = {}) => app.request('GET', path, { token, headers });
const patch = (body: unknown, headers = {}) =>
  app.request('PATCH', path, { token: ada.token, body, headers: { ...mergePatch, ...headers } });

test('an account reads itself: where it belongs, and what this credential may do', async () => {
  const { status, body } = await get(ada.token);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    ...ada.user,
    credential: 'login',
    memberships: [{ organization_name: 'ada', role: 'owner' }],
  });
  expect(body.scopes.toSorted()).toEqual(scopeValues.toSorted());
});

test('the operator of the first start is told so', async () => {
  expect((await get(app.operatorKey)).body).toMatchObject({ operator: true, credential: 'api_key' });
});

test('a name is changed, and only by who has read it as it is', async () => {
  const before = await get(ada.token);
  const etag = before.headers.get('etag') ?? '';
  const changed = await patch({ name: 'Ada Lovelace' }, { 'if-match': etag });
  expect(changed).toMatchObject({
    status: 200,
    body: { ...before.body, name: 'Ada Lovelace', updated_at: expect.any(String) },
  });
  const stale = await patch({ name: 'Lost' }, { 'if-match': etag });
  expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
  const after = await get(ada.token);
  expect(after.body).toEqual(changed.body);
  expect(after.headers.get('etag')).toBe(changed.headers.get('etag'));
});

test('an account that has not changed is not sent again, and two credentials do not share an ETag', async () => {
  const seen = await get(ada.token);
  const etag = seen.headers.get('etag') ?? '';
  expect(await get(ada.token, { 'if-none-match': etag })).toMatchObject({ status: 304, body: null });
  expect(await get(ada.token, { 'if-none-match': `"0", W/${etag}` })).toMatchObject({
    status: 304,
    body: null,
  });
  const created = await app.request('POST', '/api/v1/auth/api-keys', {
    token: ada.token,
    body: { name: 'x' },
  });
  expect((await get(created.body.key, { 'if-none-match': etag })).status).toBe(200);
  const withKey = await app.request('PATCH', path, {
    token: created.body.key,
    body: { name: 'By key' },
    headers: { ...mergePatch, 'if-match': etag },
  });
  expect(withKey.status).toBe(200);
});

test.each([
  ['nothing', {}],
  ['an empty name', { name: '' }],
  ['no name', { name: null }],
  ['another address', { email: 'eve@example.com' }],
  ['the wish to be operator', { operator: true }],
  ['another id', { id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }],
  ['NUL', { name: 'a\0b' }],
])('an account is not changed with %s', async (_, body) => {
  const before = await get(ada.token);
  expect((await patch(body)).status).toBe(400);
  expect((await get(ada.token)).body).toEqual(before.body);
});

test('nobody is somebody without a credential', async () => {
  expect(await app.request('GET', path)).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
  const anonymous = await app.request('PATCH', path, { body: { name: 'x' }, headers: mergePatch });
  expect(anonymous).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
});

test('a key without the scope reads and changes nothing', async () => {
  const created = await app.request('POST', '/api/v1/auth/api-keys', {
    token: ada.token,
    body: { name: 'x', scopes: ['account:read'] },
  });
  const { key } = created.body;
  expect((await get(key)).status).toBe(200);
  const change = await app.request('PATCH', path, { token: key, body: { name: 'x' }, headers: mergePatch });
  expect(change).toMatchObject({ status: 403, body: { code: 'scope_required' } });
  expect(change.body.detail).toContain('account:write');
});

test('headers that claim to be somebody change nothing', async () => {
  const { user } = await app.register('eve');
  const claims = { 'x-user-id': user.id, 'x-forwarded-user': user.email, 'x-forwarded-for': '127.0.0.1' };
  expect((await get(ada.token, claims)).body.id).toBe(ada.user.id);
  expect((await app.request('GET', path, { headers: claims })).status).toBe(401);
});

test('a picture is an https address, and can be taken away', async () => {
  const avatar = 'https://example.com/ada.png';
  expect(await patch({ avatar })).toMatchObject({ status: 200, body: { avatar } });
  for (const wrong of [
    'http://example.com/a.png',
    'data:image/png;base64,AA',
    'javascript:alert(1)',
    '/a.png',
    '',
  ])
    expect((await patch({ avatar: wrong })).status, wrong).toBe(400);
  expect((await get(ada.token)).body.avatar).toBe(avatar);
  expect((await patch({ avatar: null })).body.avatar).toBeNull();
});

describe('preferences', () => {
  const own = `${path}/preferences`;
  const read = (token = ada.token, headers = {}) => app.request('GET', own, { token, headers });
  const choose = (body: unknown, headers = {}) =>
    app.request('PATCH', own, { token: ada.token, body, headers: { ...mergePatch, ...headers } });
  const defaults = {
    ...{ locale: null, timezone: null, theme: 'auto', default_model: null, updated_at: null },
    memories: true,
    notifications: { run_finished: true, question_asked: true, security: true },
  };

  test('have defaults, and keep what is not named', async () => {
    const { token } = await app.register('chooser');
    expect((await read(token)).body).toEqual(defaults);
    await choose({ theme: 'dark', locale: 'en-GB', notifications: { security: false } });
    const chosen = await choose({ timezone: 'Europe/London', locale: null });
    expect(chosen).toMatchObject({
      status: 200,
      body: {
        ...{ theme: 'dark', locale: null, timezone: 'Europe/London' },
        notifications: { run_finished: true, question_asked: true, security: false },
      },
    });
    expect((await read()).body).toEqual(chosen.body);
    expect((await read(token)).body).toEqual(defaults);
  });

  test('say which model answers where nothing names another', async () => {
    const { token } = await app.register('picky');
    const ask = () => app.request('POST', '/api/v1/query', { token, body: { prompt: 'Hello' } });
    // Among many accounts the demonstration answers only where it is named.
    expect(await ask()).toMatchObject({ status: 503, body: { code: 'no_provider_configured' } });
    const preferred = { token, body: { default_model: 'demo:demo-1' }, headers: mergePatch };
    expect((await app.request('PATCH', own, preferred)).status).toBe(200);
    const { body } = await ask();
    const run = await app.request('GET', `/api/v1/runs/${body.run_id}`, { token });
    expect(run.body).toMatchObject({ status: 'completed', model: 'demo:demo-1' });
    const other = { prompt: 'Hello', model: 'nobody:none' };
    expect((await app.request('POST', '/api/v1/query', { token, body: other })).status).toBe(503);
  });

  test('are changed only by who has read them as they are', async () => {
    const before = await read();
    const etag = before.headers.get('etag') ?? '';
    expect(await read(ada.token, { 'if-none-match': etag })).toMatchObject({ status: 304, body: null });
    const changed = await choose({ theme: 'light' }, { 'if-match': etag });
    expect(changed.status).toBe(200);
    expect((await read()).headers.get('etag')).toBe(changed.headers.get('etag'));
    const stale = await choose({ theme: 'dark' }, { 'if-match': etag });
    expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
  });

  test.each([
    ['nothing', {}],
    ['a time zone that there is not', { timezone: 'Europe/Atlantis' }],
    ['a theme that there is not', { theme: 'pink' }],
    ['a language that is none', { locale: 'en_GB; drop' }],
    ['a stray member', { user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }],
    ['a notification that there is not', { notifications: { weather: true } }],
  ])('are not changed with %s', async (_, body) => {
    const before = await read();
    expect((await choose(body)).status).toBe(400);
    expect((await read()).body).toEqual(before.body);
  });

  test('are nobody’s without a credential, and need the scope', async () => {
    expect((await app.request('GET', own)).status).toBe(401);
    expect((await app.request('PATCH', own, { body: { theme: 'dark' }, headers: mergePatch })).status).toBe(
      401,
    );
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'x', scopes: ['account:read'] },
    });
    expect((await read(body.key)).status).toBe(200);
    const sent = { token: body.key, body: { theme: 'dark' }, headers: mergePatch };
    expect(await app.request('PATCH', own, sent)).toMatchObject({
      status: 403,
      body: { code: 'scope_required' },
    });
  });
});
