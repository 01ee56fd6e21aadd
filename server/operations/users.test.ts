/** The people of an organization over HTTP: who sees and manages them, and what becomes of those who are suspended or deleted. */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Account,
  type Answer,
  coded,
  type Json,
  mergePatch,
  readEvents,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { type Mailbox, startMailbox } from '../test-mailbox.ts';
import { homeOf, logIn, logInOperator } from '../test-people.ts';
import { revokedWithinMs } from '../test-revocation.ts';

let app: TestApp;
let mailbox: Mailbox;
let boss: Account;
let stranger: Account;
let admin: Account;
let member: Account;
let viewer: Account;
let organizationId: string;
let workspaceId: string;

const users = '/api/v1/users';
const missing = `${users}/usr_01k9w6r3h2e7xv5q0c8m4b1tza`;

const get = (path: string, token: string, headers = {}) => app.request('GET', path, { token, headers });
const post = (path: string, token: string, body?: unknown) => app.request('POST', path, { token, body });
const remove = (path: string, token: string, headers = {}) => app.request('DELETE', path, { token, headers });
const patch = (path: string, token: string, body: unknown, headers = {}) =>
  app.request('PATCH', path, { token, body, headers: { ...mergePatch, ...headers } });
const pathOf = ({ user }: Account) => `${users}/${user.id}`;
const whoAmI = (token: string) => get(`${users}/me`, token);

let made = 0;

/** Somebody whose account was made in the boss's organization, and who has chosen a password since. */
async function employ(role: string, by = boss): Promise<Account> {
  made += 1;
  const [email, password] = [`${role}-${made}@example.com`, `the password of ${made}`];
  const created = await post(users, by.token, { email, role, name: `The ${role}`, send_invite: false });
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  const { token } = created.body.password_link;
  const chosen = await app.request('POST', '/api/v1/auth/password/reset', { body: { token, password } });
  if (chosen.status !== 204) throw new Error(JSON.stringify(chosen.body));
  return logIn(app, { email, password });
}

async function keyOf({ token }: Account, more = {}): Promise<string> {
  return (await post('/api/v1/auth/api-keys', token, { name: 'k', ...more })).body.key;
}

beforeAll(async () => {
  mailbox = await startMailbox();
  app = await testApp({ settings: { smtpUrl: mailbox.url, mailFrom: 'service@example.com' } });
  [boss, stranger] = [await app.register('boss'), await app.register('stranger')];
  const { body } = await whoAmI(boss.token);
  organizationId = body.memberships[0].organization_id;
  workspaceId = body.memberships[0].default_workspace_id;
  [admin, member, viewer] = [await employ('admin'), await employ('member'), await employ('viewer')];
});

afterAll(async () => {
  await app.close();
  await mailbox.close();
});

describe('who may', () => {
  const people = () =>
    ({
      anonymous: '',
      stranger: stranger.token,
      viewer: viewer.token,
      member: member.token,
      admin: admin.token,
      boss: boss.token,
      operator: app.operatorKey,
    }) as const;
  const forbidden = [403, 'role_required'];
  const unknown = [404, 'not_found'];
  const unnamed = [401, 'credential_missing'];
  const all = (answer: Json) => ({ viewer: answer, member: answer });

  test.each([
    ['see the people', { ...all(forbidden), stranger: [200, null] }, (token: string) => get(users, token)],
    [
      'see the people of the organization',
      { ...all(forbidden), stranger: unknown },
      (token: string) => get(`${users}?organization_id=${organizationId}`, token),
    ],
    [
      'read somebody',
      { ...all(forbidden), stranger: unknown },
      (token: string) => get(pathOf(member), token),
    ],
    [
      'give a role',
      { ...all(forbidden), stranger: unknown },
      (token: string) => patch(pathOf(member), token, { role: 'member' }),
    ],
    [
      'say that somebody is active',
      { ...all(forbidden), stranger: unknown },
      (token: string) => patch(pathOf(member), token, { status: 'active' }),
    ],
  ])('%s', async (_, refused, ask) => {
    const seen: Record<string, unknown> = {};
    for (const [who, token] of Object.entries(people())) seen[who] = coded(await ask(token));
    const good = [200, null];
    expect(seen).toEqual({ anonymous: unnamed, admin: good, boss: good, operator: good, ...refused });
  });

  test('make accounts, log people out and delete them', async () => {
    const seen: Record<string, unknown> = {};
    for (const [who, token] of Object.entries(people())) {
      const doomed = await employ('member');
      const asked = { email: `by-${who}@example.com`, role: 'member', organization_id: organizationId };
      const answers = [
        await post(users, token, asked),
        await post(`${pathOf(doomed)}/sessions/revoke`, token),
        await remove(pathOf(doomed), token),
      ];
      seen[who] = answers.map((answer) => coded(answer).findLast(Boolean));
    }
    const can = [201, 204, 204];
    expect(seen).toEqual({
      anonymous: Array(3).fill('credential_missing'),
      stranger: Array(3).fill('not_found'),
      viewer: Array(3).fill('role_required'),
      member: Array(3).fill('role_required'),
      admin: can,
      boss: can,
      operator: can,
    });
  });

  test('what is out of reach is answered exactly as what does not exist', async () => {
    for (const ask of [
      (path: string) => get(path, stranger.token),
      (path: string) => patch(path, stranger.token, { role: 'viewer' }, { 'if-match': '"9"' }),
      (path: string) => remove(`${path}?transfer_to=${stranger.user.id}`, stranger.token),
      (path: string) => post(`${path}/sessions/revoke`, stranger.token),
    ]) {
      const [foreign, none] = [await ask(pathOf(member)), await ask(missing)];
      expect(coded(foreign)).toEqual([404, 'not_found']);
      expect(foreign.body.detail).toBe(none.body.detail);
    }
  });

  test('a key needs the scope besides', async () => {
    const [reads, none] = [
      await keyOf(boss, { scopes: ['users:read'] }),
      await keyOf(boss, { scopes: ['query'] }),
    ];
    expect(coded(await get(users, reads))).toEqual([200, null]);
    expect(coded(await get(users, none))).toEqual([403, 'scope_required']);
    expect(coded(await patch(pathOf(member), reads, { role: 'viewer' }))).toEqual([403, 'scope_required']);
  });
});

describe('an account that is made for somebody', () => {
  test('belongs to the organization alone, and is managed by it', async () => {
    const someone = await employ('viewer');
    const me = await whoAmI(someone.token);
    const role = { organization_id: organizationId, role: 'viewer', default_workspace_id: workspaceId };
    expect(me.body).toMatchObject({
      status: 'active',
      memberships: [role],
      workspaces: [{ workspace_id: workspaceId, role: 'viewer' }],
    });
    expect(me.body.memberships).toHaveLength(1);
    const seen = await get(pathOf(someone), boss.token);
    expect(seen.body).toMatchObject({ name: 'The viewer', managed_by: organizationId, memberships: [role] });
    expect(JSON.stringify(seen.body)).not.toMatch(/password|hash/);
  });

  test('gets its link by mail, and then nobody else sees it', async () => {
    const answer = await post(users, boss.token, { email: 'mailed@example.com' });
    expect(answer).toMatchObject({ status: 201, body: { password_link: null, user: { name: 'mailed' } } });
    expect(answer.headers.get('location')).toBe(`${users}/${answer.body.user.id}`);
    const { text } = await mailbox.next('mailed@example.com');
    const token = /#token=([\w-]+)/.exec(text)?.[1];
    const password = 'chosen by themselves';
    expect(
      (await app.request('POST', '/api/v1/auth/password/reset', { body: { token, password } })).status,
    ).toBe(204);
    expect((await logIn(app, { email: 'mailed@example.com', password })).token).toBeTruthy();
  });

  test.each([
    ['an address that is taken', { email: 'boss@example.com' }, [409, 'email_taken']],
    ['an address that is taken, spelled otherwise', { email: 'BOSS@example.com' }, [409, 'email_taken']],
    ['a role above the giver’s', { email: 'x1@example.com', role: 'owner' }, [403, 'role_required']],
    ['a role that there is not', { email: 'x2@example.com', role: 'king' }, [400, 'invalid_request']],
    ['the wish to be operator', { email: 'x3@example.com', operator: true }, [400, 'invalid_request']],
    ['an id', { email: 'x4@example.com', id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }, [400, 'invalid_request']],
    ['a status', { email: 'x5@example.com', status: 'suspended' }, [400, 'invalid_request']],
    ['a password', { email: 'x6@example.com', password: 'correct-horse-battery' }, [400, 'invalid_request']],
    ['no address', { name: 'x' }, [400, 'invalid_request']],
    [
      'an organization that is not there',
      { email: 'x7@example.com', organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' },
      [404, 'not_found'],
    ],
  ])('is not made with %s', async (_, body, expected) => {
    expect(coded(await post(users, admin.token, body))).toEqual(expected);
  });
});

describe('the list', () => {
  const emailsOf = ({ body }: Answer) => body.data.map(({ email }: Json) => email);

  test('is by address, and found by the beginning of address or name', async () => {
    const all = emailsOf(await get(`${users}?limit=100`, boss.token));
    expect(all).toEqual(all.toSorted());
    expect(all).toContain(boss.email);
    expect(all).not.toContain(stranger.email);
    expect(emailsOf(await get(`${users}?q=BOSS`, boss.token))).toEqual([boss.email]);
    expect(emailsOf(await get(`${users}?q=the%20ad`, boss.token))).toEqual([admin.email]);
    expect(emailsOf(await get(`${users}?q=%25`, boss.token))).toEqual([]);
    expect(emailsOf(await get(`${users}?role=owner`, boss.token))).toEqual([boss.email]);
    expect(emailsOf(await get(`${users}?status=suspended`, boss.token))).toEqual([]);
  });

  test('shows the operator everybody, page by page, and takes no cursor of another', async () => {
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const next: Answer = await get(`${users}?limit=3${cursor && `&cursor=${cursor}`}`, app.operatorKey);
      seen.push(...emailsOf(next));
      cursor = next.body.next_cursor;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toEqual(seen.toSorted());
    for (const { email } of [boss, stranger, member]) expect(seen).toContain(email);
    const { body } = await get(`${users}?limit=1`, boss.token);
    expect(coded(await get(`${users}?limit=1&cursor=${body.next_cursor}`, admin.token))).toEqual([
      400,
      'invalid_cursor',
    ]);
  });
});

describe('a role', () => {
  test('counts from the next request on, up and down', async () => {
    const someone = await employ('member');
    expect((await get(users, someone.token)).status).toBe(403);
    const raised = await patch(pathOf(someone), boss.token, { role: 'admin' });
    expect(raised.body.memberships).toMatchObject([{ role: 'admin' }]);
    expect((await get(users, someone.token)).status).toBe(200);
    await patch(pathOf(someone), boss.token, { role: 'viewer' });
    expect((await get(users, someone.token)).status).toBe(403);
    expect(coded(await post('/api/v1/sessions', someone.token, {}))).toEqual([403, 'role_required']);
  });

  test('is not given by those below it, nor to themselves, nor taken from the last owner', async () => {
    for (const [who, path, body] of [
      [admin, pathOf(member), { role: 'owner' }],
      [admin, pathOf(admin), { role: 'owner' }],
      [admin, pathOf(boss), { role: 'member' }],
      [member, pathOf(member), { role: 'admin' }],
    ] as const)
      expect(coded(await patch(path, who.token, body))).toEqual([403, 'role_required']);
    expect(coded(await patch(pathOf(boss), boss.token, { role: 'admin' }))).toEqual([409, 'last_owner']);
    expect(coded(await patch(pathOf(boss), app.operatorKey, { role: 'admin' }))).toEqual([409, 'last_owner']);
  });

  test.each([
    ['nothing', {}],
    ['the wish to be operator', { operator: true }],
    ['another address', { email: 'eve@example.com' }],
    ['another manager', { managed_by: null }],
    ['an organization alone', { organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' }],
    ['no status', { status: null }],
  ])('an account is not changed with %s', async (_, body) => {
    const before = await get(pathOf(member), boss.token);
    expect(coded(await patch(pathOf(member), boss.token, body))).toEqual([400, 'invalid_request']);
    expect((await get(pathOf(member), boss.token)).body).toEqual(before.body);
  });

  test('is changed only by who has read it as it is', async () => {
    const someone = await employ('member');
    const read = await get(pathOf(someone), boss.token);
    const etag = read.headers.get('etag') ?? '';
    expect((await get(pathOf(someone), boss.token, { 'if-none-match': etag })).status).toBe(304);
    const changed = await patch(pathOf(someone), boss.token, { role: 'viewer' }, { 'if-match': etag });
    expect(changed.status).toBe(200);
    expect((await get(pathOf(someone), boss.token)).headers.get('etag')).toBe(changed.headers.get('etag'));
    for (const stale of [
      await patch(pathOf(someone), boss.token, { role: 'admin' }, { 'if-match': etag }),
      await remove(pathOf(someone), boss.token, { 'if-match': etag }),
    ])
      expect(coded(stale)).toEqual([412, 'precondition_failed']);
  });

  test('is not given another role, nor deleted, by who does not know the one it was given meanwhile', async () => {
    const someone = await employ('member');
    const etag = (await get(pathOf(someone), boss.token)).headers.get('etag') ?? '';
    const place = `/api/v1/organizations/${organizationId}/members/${someone.user.id}`;
    const given = await app.request('PUT', place, { token: boss.token, body: { role: 'admin' } });
    expect(given.status).toBe(200);
    for (const stale of [
      await patch(pathOf(someone), boss.token, { role: 'viewer' }, { 'if-match': etag }),
      await remove(pathOf(someone), boss.token, { 'if-match': etag }),
    ])
      expect(coded(stale)).toEqual([412, 'precondition_failed']);
  });
});

/** A run that waits for an answer, and the stream that tells of it. */
async function askingRun(token: string): Promise<{ response: Response; runId: string }> {
  const body = { prompt: 'Ask me: what is your name?', model: 'demo:demo-1' };
  const response = await app.stream('POST', '/api/v1/query/stream', { token, body });
  return { response, runId: response.headers.get('x-run-id') ?? '' };
}

async function lastEventOf(response: Response): Promise<Json> {
  let last: Json = null;
  for await (const event of readEvents(response)) last = event;
  return last;
}

describe('a suspended person', () => {
  test('gets in by no way, has no stream and no run left; and is back when active again', async () => {
    const someone = await employ('member');
    const key = await keyOf(someone);
    const { response, runId } = await askingRun(key);
    const ended = lastEventOf(response);
    const suspended = await patch(pathOf(someone), admin.token, { status: 'suspended' });
    expect(suspended).toMatchObject({ status: 200, body: { status: 'suspended' } });
    const since = Date.now();
    expect(coded(await whoAmI(someone.token))).toEqual([401, 'credential_invalid']);
    expect(coded(await whoAmI(key))).toEqual([403, 'account_suspended']);
    const refreshed = await app.request('POST', '/api/v1/auth/refresh', {
      body: { refresh_token: someone.refreshToken },
    });
    expect(coded(refreshed)).toEqual([401, 'refresh_token_invalid']);
    const { email, password } = someone;
    const login = (given: string) =>
      app.request('POST', '/api/v1/auth/login', { body: { email, password: given } });
    expect(coded(await login(password))).toEqual([403, 'account_suspended']);
    expect(coded(await login('another password'))).toEqual([401, 'login_failed']);
    await ended;
    expect(Date.now() - since).toBeLessThan(revokedWithinMs);
    await expect
      .poll(async () => (await get(`/api/v1/runs/${runId}`, boss.token)).body.status)
      .toBe('interrupted');
    expect((await get(`${users}?status=suspended`, boss.token)).body.data).toMatchObject([
      { id: someone.user.id },
    ]);

    await patch(pathOf(someone), admin.token, { status: 'active' });
    expect((await whoAmI(key)).status).toBe(200);
    expect((await login(password)).status).toBe(200);
  });

  test('is not oneself, nor somebody whom another organization or nobody manages', async () => {
    const suspend = (path: string, token: string) => patch(path, token, { status: 'suspended' });
    expect(coded(await suspend(pathOf(admin), admin.token))).toEqual([409, 'own_account']);
    expect(coded(await suspend(pathOf(boss), admin.token))).toEqual([403, 'role_required']);
    const me = await whoAmI(app.operatorKey);
    expect(coded(await suspend(`${users}/${me.body.id}`, app.operatorKey))).toEqual([409, 'own_account']);
    expect(coded(await remove(`${users}/${me.body.id}`, app.operatorKey))).toEqual([409, 'own_account']);
    expect((await whoAmI(app.operatorKey)).body.operator).toBe(true);
    expect((await suspend(pathOf(stranger), app.operatorKey)).status).toBe(200);
    expect((await patch(pathOf(stranger), app.operatorKey, { status: 'active' })).status).toBe(200);
    stranger = await logIn(app, stranger);
  });
});

test('the operator is nobody’s to suspend, log out or delete, though they belong to an organization of others', async () => {
  const operator = await logInOperator(app);
  const invitation = { email: operator.email, role: 'member' };
  await post(`/api/v1/organizations/${organizationId}/invitations`, boss.token, invitation);
  const told = () => mailbox.mails.filter(({ to }) => to.includes(operator.email)).map(({ text }) => text);
  await expect.poll(() => told().join()).toMatch(/#token=inv_/);
  const [, token] = /#token=(inv_[\w-]+)/.exec(told().join()) ?? [];
  expect((await post('/api/v1/invitations/accept', operator.token, { token })).status).toBe(200);
  const attempts = [
    await patch(pathOf(operator), boss.token, { status: 'suspended' }),
    await post(`${pathOf(operator)}/sessions/revoke`, boss.token),
    await remove(pathOf(operator), boss.token),
  ];
  expect(attempts.map(coded)).toEqual(Array(3).fill([403, 'role_required']));
  // The organization is theirs, and with it what the operator is in it.
  expect((await patch(pathOf(operator), boss.token, { role: 'viewer' })).status).toBe(200);
  const member = `/api/v1/organizations/${organizationId}/members/${operator.user.id}`;
  expect((await remove(member, boss.token)).status).toBe(204);
  expect((await whoAmI(operator.token)).body).toMatchObject({ operator: true, status: 'active' });
});

test('logins that are revoked end at once, with their streams; keys go on', async () => {
  const someone = await employ('member');
  const key = await keyOf(someone);
  const { response } = await askingRun(someone.token);
  const ended = lastEventOf(response);
  expect((await post(`${pathOf(someone)}/sessions/revoke`, boss.token)).status).toBe(204);
  expect(coded(await whoAmI(someone.token))).toEqual([401, 'credential_invalid']);
  expect((await whoAmI(key)).status).toBe(200);
  expect(await ended).toMatchObject({
    event: 'error',
    data: { error: expect.stringContaining('credential_invalid') },
  });
});

test('a role that was lowered stops the runs that it allowed, and ends the streams that were begun with it', async () => {
  const someone = await employ('member');
  const { runId } = await askingRun(someone.token);
  const ended = lastEventOf(await app.stream('GET', '/api/v1/events', { token: someone.token }));
  expect((await patch(pathOf(someone), boss.token, { role: 'viewer' })).status).toBe(200);
  const run = async () => (await get(`/api/v1/runs/${runId}`, boss.token)).body.status;
  await expect.poll(run).toBe('interrupted');
  expect(await ended).toMatchObject({
    event: 'error',
    data: { error: expect.stringContaining('credential_invalid') },
  });
});

describe('a deleted account', () => {
  test('is gone with its logins and keys; what it began for the organization stays', async () => {
    const someone = await employ('member');
    const key = await keyOf(someone);
    const session = await post('/api/v1/sessions', key, { title: 'Kept' });
    expect((await remove(pathOf(someone), admin.token)).status).toBe(204);
    expect(coded(await whoAmI(someone.token))).toEqual([401, 'credential_invalid']);
    expect(coded(await whoAmI(key))).toEqual([401, 'credential_invalid']);
    expect(coded(await get(pathOf(someone), boss.token))).toEqual([404, 'not_found']);
    expect((await get(`/api/v1/sessions/${session.body.id}`, boss.token)).body.title).toBe('Kept');
    expect((await post(users, boss.token, { email: someone.email, send_invite: false })).status).toBe(201);
  });

  test('takes along what nobody shares, unless somebody gets it', async () => {
    const [leaving, staying] = [await app.register('leaving'), await app.register('staying')];
    const kept = await post('/api/v1/sessions', leaving.token, { title: 'Handed on' });
    const { body } = await whoAmI(leaving.token);
    const path = `${pathOf(leaving)}?transfer_to=`;
    expect(coded(await remove(path + leaving.user.id, app.operatorKey))).toEqual([400, 'invalid_request']);
    expect(coded(await remove(`${path}usr_01k9w6r3h2e7xv5q0c8m4b1tza`, app.operatorKey))).toEqual([
      404,
      'not_found',
    ]);
    expect((await remove(path + staying.user.id, app.operatorKey)).status).toBe(204);
    const after = await whoAmI(staying.token);
    expect(after.body.memberships).toContainEqual(body.memberships[0]);
    expect((await get(`/api/v1/sessions/${kept.body.id}`, staying.token)).body.title).toBe('Handed on');
    expect((await remove(pathOf(staying), app.operatorKey)).status).toBe(204);
    expect(coded(await get(`/api/v1/sessions/${kept.body.id}`, app.operatorKey))).toEqual([404, 'not_found']);
  });

  test('takes along the folder that the server made for it', async () => {
    const alone = await app.register('alone');
    const { workspaceId: id } = await homeOf(app, alone);
    const folder = join(app.services.settings.workspacesDirectory, id);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'notes.txt'), 'mine');
    expect((await remove(pathOf(alone), app.operatorKey)).status).toBe(204);
    await expect(stat(folder)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('leaves no organization without an owner', async () => {
    const owner = await app.register('owner');
    const worker = await employ('member', owner);
    expect(coded(await remove(pathOf(owner), app.operatorKey))).toEqual([409, 'last_owner']);
    const { organizationId } = await homeOf(app, owner);
    const asMember = `/api/v1/organizations/${organizationId}/members/${worker.user.id}`;
    const put = (token: string, role: string, headers = {}) =>
      app.request('PUT', asMember, { token, body: { role }, headers });
    const changed = await put(owner.token, 'viewer');
    const before = { 'if-match': changed.headers.get('etag') ?? '' };
    const handed = `${pathOf(owner)}?transfer_to=${worker.user.id}`;
    expect((await remove(handed, app.operatorKey)).status).toBe(204);
    expect((await whoAmI(worker.token)).body.memberships).toMatchObject([{ role: 'owner' }]);
    const late = await put(worker.token, 'owner', before);
    expect(coded(late)).toEqual([412, 'precondition_failed']);
  });
});
