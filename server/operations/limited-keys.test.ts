/** What an API key that is limited cannot do about its limits, over HTTP: by links, by other keys, by the account. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, coded, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { bringIn, homeOf, registerIn } from '../test-people.ts';

let app: TestApp;
let ada: Account;

const keys = '/api/v1/auth/api-keys';
const here = ['127.0.0.0/8', '::1'];
const later = new Date(Date.now() + 86_400_000).toISOString();

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
});

afterAll(() => app.close());

const get = (path: string, token: string) => app.request('GET', path, { token });
const post = (path: string, token: string, body?: unknown) => app.request('POST', path, { token, body });
const remove = (path: string, token: string) => app.request('DELETE', path, { token });
const change = (path: string, token: string, body: unknown) =>
  app.request('PATCH', path, { token, body, headers: mergePatch });
const whoAmI = (token: string) => get('/api/v1/users/me', token);

async function newKey(token: string, limits = {}) {
  const answer = await post(keys, token, { name: 'k', ...limits });
  expect(answer.status).toBe(201);
  const { key, api_key } = answer.body;
  return { key, path: `${keys}/${api_key.id}` };
}

describe('a key of the operator that is limited', () => {
  test('makes no link to the password of the operator, with which it would do what they may', async () => {
    const { email: operator } = (await whoAmI(app.operatorKey)).body;
    const link = (token: string, email: string) => post('/api/v1/auth/password/links', token, { email });
    for (const limit of [
      { scopes: ['users:write'] },
      { ip_allow: here },
      { rate_limit: 1000 },
      { expires_at: later },
    ]) {
      const { key } = await newKey(app.operatorKey, limit);
      expect(coded(await link(key, operator))).toEqual([403, 'login_required']);
      expect(coded(await link(key, operator.toUpperCase()))).toEqual([403, 'login_required']);
      expect((await link(key, ada.email)).status).toBe(201);
    }
    expect((await link(app.operatorKey, operator)).status).toBe(201);
  });
});

describe('the way in of the operator', () => {
  test('is left open by each key that is less, whatever it does to the others', async () => {
    const token = app.operatorKey;
    const first = `${keys}/${(await get(keys, token)).body.data.at(-1).id}`;
    const { default_workspace_id } = (await whoAmI(token)).body.memberships[0];
    const less = [
      (await newKey(token, { workspace_id: default_workspace_id })).key,
      (await newKey(token, { scopes: ['keys:write'] })).key,
    ];
    const answers = [];
    for (const key of less) {
      answers.push(await remove(first, key));
      for (const patch of [{ disabled: true }, { scopes: ['keys:write'] }])
        answers.push(await change(first, key, patch));
    }
    expect(answers.map(({ status }) => status)).toEqual([...Array(3).fill(403), ...Array(3).fill(409)]);
    expect(new Set(answers.slice(3).map(({ body }) => body.code))).toEqual(new Set(['last_key']));
    expect((await whoAmI(token)).body.operator).toBe(true);
    const another = await newKey(token);
    expect((await remove(another.path, less[1] ?? '')).status).toBe(204);
    expect((await whoAmI(token)).status).toBe(200);
  });
});

test('a key that is bound to a workspace changes nothing of its person, and sees no other organization', async () => {
  const other = await post('/api/v1/organizations', ada.token, { name: 'Another' });
  expect(other.status).toBe(201);
  const { organization_id, default_workspace_id } = (await whoAmI(ada.token)).body.memberships[0];
  const { key } = await newKey(ada.token, { workspace_id: default_workspace_id });
  const login = (await get('/api/v1/auth/logins', ada.token)).body.data[0].id;
  for (const answer of [
    await post('/api/v1/organizations', key, { name: 'Third' }),
    await change('/api/v1/users/me', key, { name: 'Mallory' }),
    await change('/api/v1/users/me/preferences', key, { theme: 'dark' }),
    await remove(`/api/v1/auth/logins/${login}`, key),
  ])
    expect(coded(answer)).toEqual([403, 'role_required']);
  const listed = (await get('/api/v1/organizations', key)).body.data;
  expect(listed.map(({ id }: { id: string }) => id)).toEqual([organization_id]);
  expect((await get('/api/v1/organizations', ada.token)).body.data).toHaveLength(2);
});

test('a key with a quota makes none without, from the next request on, and for as long as it has one', async () => {
  const { token } = await app.register('quota');
  const { key, path } = await newKey(token);
  const id = path.slice(keys.length + 1);
  expect((await post(keys, key, { name: 'before' })).status).toBe(201);
  const quota = { token, body: { limits: { requests: { day: { hard: 1000 } } } } };
  expect((await app.request('PUT', `/api/v1/quotas/api_key/${id}`, quota)).status).toBe(200);
  expect(coded(await post(keys, key, { name: 'wider' }))).toEqual([403, 'login_required']);
  const renewed = await post(`${path}/rotate`, key, { grace_seconds: 60 });
  expect(renewed.status).toBe(201);
  expect((await remove(`/api/v1/quotas/api_key/${id}`, token)).status).toBe(204);
  expect((await post(keys, renewed.body.key, { name: 'after' })).status).toBe(201);
});

describe('a quota on the key of a person', () => {
  const quota = { limits: { requests: { day: { hard: 1000 } } } };
  const put = (token: string, id: string) =>
    app.request('PUT', `/api/v1/quotas/api_key/${id}`, { token, body: quota });

  test('by an organization that they were brought into limits nothing that the key does at home', async () => {
    const owner = await app.register('foreign-owner');
    const { organizationId } = await homeOf(app, owner);
    const { token, ...member } = await app.register('visitor');
    await bringIn(app, { organizationId, owner }, { token, ...member }, 'member');
    const { key, path } = await newKey(token);
    const id = path.slice(keys.length + 1);
    expect((await put(owner.token, id)).status).toBe(200);
    expect((await post(keys, key, { name: 'at home' })).status).toBe(201);
    expect((await put(app.operatorKey, id)).status).toBe(200);
    expect(coded(await post(keys, key, { name: 'wider' }))).toEqual([403, 'login_required']);
  });

  test('by the organization that manages their account limits it', async () => {
    const owner = await app.register('home-owner');
    const { organizationId } = await homeOf(app, owner);
    const { token } = await registerIn(app, { organizationId, owner }, 'managed', 'member');
    const { key, path } = await newKey(token);
    expect((await put(owner.token, path.slice(keys.length + 1))).status).toBe(200);
    expect(coded(await post(keys, key, { name: 'wider' }))).toEqual([403, 'login_required']);
  });
});
