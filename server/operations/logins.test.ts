/** Where an account is logged in, over HTTP: seen and ended by its owner, on every node. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type TestApp, testApp } from '../test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

const logins = '/api/v1/auth/logins';

beforeAll(async () => {
  app = await testApp();
  [ada, mallory] = [await app.register('ada'), await app.register('mallory')];
});
afterAll(() => app.close());

const list = async (token = ada.token) => (await app.request('GET', logins, { token })).body.data;
const logIn = async (agent: string) =>
  (
    await app.request('POST', '/api/v1/auth/login', {
      body: { email: ada.email, password: ada.password },
      headers: { 'user-agent': agent },
    })
  ).body.access_token as string;

describe('the list', () => {
  test('shows each login with its device, its address and when it was seen', async () => {
    const token = await logIn('Firefox on a borrowed machine');
    const [newest, first] = await list(token);
    expect(newest).toEqual({
      id: expect.stringMatching(/^lgn_/),
      ...{ method: 'password', device: 'Firefox on a borrowed machine', address: '127.0.0.1', current: true },
      created_at: expect.any(String),
      last_seen_at: newest.created_at,
      expires_at: expect.any(String),
    });
    expect(first).toMatchObject({ method: 'registration', current: false });
  });

  test('is everybody’s own', async () => {
    expect((await app.request('GET', logins)).status).toBe(401);
    const foreign = await list(mallory.token);
    expect(foreign).toHaveLength(1);
    expect(JSON.stringify(foreign)).not.toContain((await list())[0].id);
  });

  test('comes page by page', async () => {
    for (const agent of ['a', 'b', 'c']) await logIn(agent);
    const all = await list();
    const { body: page } = await app.request('GET', `${logins}?limit=2`, { token: ada.token });
    const next = `${logins}?limit=2&cursor=${page.next_cursor}`;
    const { body: rest } = await app.request('GET', next, { token: ada.token });
    expect([...page.data, ...rest.data]).toEqual(all.slice(0, 4));
    const stolen = await app.request('GET', next, { token: mallory.token });
    expect([stolen.status, stolen.body.code]).toEqual([400, 'invalid_cursor']);
  });

  test('needs the scope, of a key', async () => {
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'k', scopes: ['sessions:read'] },
    });
    const answer = await app.request('GET', logins, { token: body.key });
    expect([answer.status, answer.body.code]).toEqual([403, 'scope_required']);
  });
});

describe('ending one', () => {
  test('refuses its tokens from the next request on, and leaves the others', async () => {
    const token = await logIn('lost phone');
    const [{ id }] = await list(token);
    expect((await app.request('DELETE', `${logins}/${id}`, { token: ada.token })).status).toBe(204);
    const lost = await app.request('GET', '/api/v1/users/me', { token });
    expect([lost.status, lost.body.code]).toEqual([401, 'credential_invalid']);
    expect((await list()).map((one: { id: string }) => one.id)).not.toContain(id);
    expect((await app.request('DELETE', `${logins}/${id}`, { token: ada.token })).status).toBe(404);
  });

  test('of somebody else is as ending none, and changes nothing', async () => {
    const [{ id }] = await list();
    const before = await list();
    const foreign = await app.request('DELETE', `${logins}/${id}`, { token: mallory.token });
    const missing = await app.request('DELETE', `${logins}/lgn_01k9w6r3h2e7xv5q0c8m4b1tza`, {
      token: mallory.token,
    });
    expect([foreign.status, foreign.body.code, foreign.body.detail]).toEqual([
      404,
      'not_found',
      missing.body.detail,
    ]);
    expect((await app.request('DELETE', `${logins}/${id}`)).status).toBe(401);
    expect(await list()).toEqual(before);
  });
});
