/** Invitations over HTTP: who may send them, what they are good for, and for whom. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Account,
  type Answer,
  coded,
  type Json,
  mergePatch,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { databases, lastingDatabase, newMasterKey } from '../test-database.ts';
import { startMailbox } from '../test-mailbox.ts';
import { invite, makePeople, type People, registerIn } from '../test-people.ts';

let app: TestApp;
let people: People;
let now = new Date();

beforeAll(async () => {
  app = await testApp({ clock: { now: () => now } });
  people = await makePeople(app);
});
afterAll(() => app.close());

const place = ({ organizationId }: People) => `/api/v1/organizations/${organizationId}/invitations`;
let made = 0;

function send(body: object, who: Account = people.owner, team = people): Promise<Answer> {
  return app.request('POST', place(team), { token: who.token, body });
}

function accept(token: string, account: Account): Promise<Answer> {
  return app.request('POST', '/api/v1/invitations/accept', { token: account.token, body: { token } });
}

function newPerson(): Promise<Account> {
  made += 1;
  return app.register(`person-${made}`);
}

async function membershipsOf(account: Account): Promise<Json[]> {
  return (await app.request('GET', '/api/v1/users/me', account)).body.memberships;
}

const gone = { status: 410, body: { code: 'invitation_gone' } };
const day = 86_400_000;

describe('an invitation', () => {
  test('is answered with its token, once, and listed without', async () => {
    const answer = await send({ email: 'Guest@Example.com', role: 'viewer' });
    expect(answer).toMatchObject({ status: 201, body: { sent: false } });
    const { invitation, token } = answer.body;
    expect(invitation).toMatchObject({
      organization_id: people.organizationId,
      email: 'guest@example.com',
      role: 'viewer',
      status: 'pending',
      invited_by: people.owner.user.id,
    });
    expect(Date.parse(invitation.expires_at) - Date.parse(invitation.created_at)).toBe(7 * day);
    expect(answer.headers.get('location')).toBe(`${place(people)}/${invitation.id}`);
    const list = await app.request('GET', place(people), people.admin);
    expect(list.body.data[0]).toEqual(invitation);
    expect(JSON.stringify(list.body)).not.toContain(token);
  });

  test('brings somebody who has an account in, beside the organizations that they had', async () => {
    const account = await newPerson();
    const { body } = await send({ email: account.email.toUpperCase() });
    const before = await membershipsOf(account);
    const answer = await accept(body.token, account);
    expect(answer).toMatchObject({
      status: 200,
      body: {
        organization_id: people.organizationId,
        role: 'member',
        default_workspace_id: people.workspaceId,
      },
    });
    const after = await membershipsOf(account);
    expect(after).toHaveLength(2);
    expect(after).toEqual(expect.arrayContaining([...before, answer.body]));
    const list = await app.request('GET', place(people), people.admin);
    expect(list.body.data[0]).toMatchObject({ email: account.email, status: 'accepted' });
    expect(await accept(body.token, account)).toMatchObject(gone);
  });

  test('brings somebody who registers with it into that organization and into no other', async () => {
    const token = await invite(app, people, 'newcomer@example.com', 'admin');
    const wrong = { email: 'other@example.com', password: 'long enough', invitation_token: token };
    expect(await app.request('POST', '/api/v1/auth/register', { body: wrong })).toMatchObject({
      status: 403,
      body: { code: 'registration_refused' },
    });
    const account = await app.register('newcomer', { invitation_token: token });
    expect(await membershipsOf(account)).toMatchObject([
      { organization_id: people.organizationId, role: 'admin', default_workspace_id: people.workspaceId },
    ]);
    expect(account.user.operator).toBe(false);
    const session = await app.request('POST', '/api/v1/sessions', { token: account.token, body: {} });
    expect(session.body).toMatchObject({ workspace_id: people.workspaceId });
  });

  test('is good for the one address that it names', async () => {
    const { body } = await send({ email: 'meant@example.com' });
    expect(await accept(body.token, people.stranger)).toMatchObject(gone);
    expect(await accept('inv_invented', people.stranger)).toMatchObject(gone);
    const account = await app.register('meant');
    expect((await accept(body.token, account)).status).toBe(200);
  });

  test('is good once, however many use it at once', async () => {
    const account = await newPerson();
    const { body } = await send({ email: account.email });
    const answers = await Promise.all(Array.from({ length: 20 }, () => accept(body.token, account)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(19).fill(410)]);
    expect(await membershipsOf(account)).toHaveLength(2);
  });

  test('is accepted after a login, not with a key', async () => {
    const account = await newPerson();
    const { body } = await send({ email: account.email });
    const { body: key } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: account.token,
      body: { name: 'k' },
    });
    expect(await accept(body.token, { ...account, token: key.key })).toMatchObject({
      status: 403,
      body: { code: 'login_required' },
    });
    const anonymous = await app.request('POST', '/api/v1/invitations/accept', {
      body: { token: body.token },
    });
    expect(anonymous.status).toBe(401);
  });

  test('is good no more once it was revoked, by whoever may', async () => {
    const account = await newPerson();
    const { body } = await send({ email: account.email });
    const target = `${place(people)}/${body.invitation.id}`;
    for (const [who, status] of [
      ['stranger', 404],
      ['viewer', 403],
      ['member', 403],
      ['admin', 204],
      ['owner', 404],
    ] as const)
      expect((await app.request('DELETE', target, people[who])).status, who).toBe(status);
    expect(await accept(body.token, account)).toMatchObject(gone);
    expect((await send({ email: account.email })).status).toBe(201);
  });

  test('is good no more once it has expired, and then another can be sent', async () => {
    const account = await newPerson();
    const soon = new Date(now.getTime() + 60_000).toISOString();
    const { body } = await send({ email: account.email, expires_at: soon });
    expect(await send({ email: account.email })).toMatchObject({
      status: 409,
      body: { code: 'already_invited' },
    });
    now = new Date(now.getTime() + 61_000);
    expect(await accept(body.token, account)).toMatchObject(gone);
    const { body: list } = await app.request('GET', place(people), people.owner);
    expect(list.data[0]).toMatchObject({ id: body.invitation.id, status: 'expired' });
    expect((await send({ email: account.email })).status).toBe(201);
  });

  test('is sent to nobody who belongs to the organization', async () => {
    expect(await send({ email: people.viewer.email })).toMatchObject({
      status: 409,
      body: { code: 'already_member' },
    });
  });

  test('is listed page after page, the newest first', async () => {
    const team = await makePeople(app, 'listed');
    for (const name of ['one', 'two', 'three'])
      await send({ email: `${name}@example.com` }, team.owner, team);
    const found: Json[] = [];
    for (let cursor = ''; ; ) {
      const { body } = await app.request('GET', `${place(team)}?limit=2${cursor}`, team.admin);
      found.push(...body.data);
      if (body.next_cursor === null) break;
      cursor = `&cursor=${body.next_cursor}`;
    }
    expect(found.slice(0, 3).map(({ email }) => email)).toEqual([
      'three@example.com',
      'two@example.com',
      'one@example.com',
    ]);
    expect(found).toHaveLength(6);
  });
});

describe('the role of an invitation', () => {
  test.each([
    ['owner', 'owner', 201],
    ['owner', 'admin', 201],
    ['admin', 'admin', 201],
    ['admin', 'viewer', 201],
    ['admin', 'owner', 403],
    ['member', 'viewer', 403],
    ['viewer', 'viewer', 403],
    ['stranger', 'viewer', 404],
  ] as const)('by the %s: %s is %i', async (who, role, status) => {
    made += 1;
    const answer = await send({ email: `role-${made}@example.com`, role }, people[who]);
    expect(answer.status).toBe(status);
    if (status === 403) expect(answer.body.code).toBe('role_required');
  });

  test.each(['removed', 'made a member', 'has left'])(
    'is worth nothing once the inviter was %s',
    async (how) => {
      made += 1;
      const team = await makePeople(app, `inviter-${made}`);
      const account = await newPerson();
      const { body } = await send({ email: account.email, role: 'admin' }, team.admin, team);
      const member = `/api/v1/organizations/${team.organizationId}/members/${team.admin.user.id}`;
      const by = how === 'has left' ? team.admin : team.owner;
      if (how === 'made a member')
        await app.request('PUT', member, { token: by.token, body: { role: 'member' } });
      else await app.request('DELETE', member, by);
      expect(await accept(body.token, account)).toMatchObject(gone);
      const { body: list } = await app.request('GET', place(team), team.owner);
      expect(list.data.filter(({ status }: Json) => status === 'pending')).toEqual([]);
    },
  );

  test('is, with its days and its domains, what the organization has set', async () => {
    const team = await makePeople(app, 'set');
    await app.request('PATCH', `/api/v1/organizations/${team.organizationId}`, {
      token: team.owner.token,
      headers: { 'content-type': 'application/merge-patch+json' },
      body: { settings: { invitation_role: 'viewer', invitation_days: 2, email_domains: ['example.com'] } },
    });
    const { body } = await send({ email: 'guest@example.com' }, team.admin, team);
    expect(body.invitation.role).toBe('viewer');
    expect(Date.parse(body.invitation.expires_at) - now.getTime()).toBe(2 * day);
    for (const email of ['guest@example.org', 'guest@sub.example.com', 'guest@evil-example.com'])
      expect(await send({ email }, team.owner, team)).toMatchObject({
        status: 403,
        body: { code: 'email_domain_refused', detail: expect.stringContaining('example.com') },
      });
  });

  test('that was given before the domains were set is not taken up by an address of another', async () => {
    const team = await makePeople(app, 'narrowed');
    const account = await newPerson();
    const { body } = await send({ email: account.email }, team.owner, team);
    await app.request('PATCH', `/api/v1/organizations/${team.organizationId}`, {
      token: team.owner.token,
      headers: { 'content-type': 'application/merge-patch+json' },
      body: { settings: { email_domains: ['example.org'] } },
    });
    expect(await accept(body.token, account)).toMatchObject(gone);
  });
});

test('an invitation goes to its address by mail, with a link, which then stands nowhere else', async () => {
  const mailbox = await startMailbox();
  const settings = {
    smtpUrl: mailbox.url,
    mailFrom: 'service@example.com',
    publicUrl: 'https://service.example.com',
  };
  const mailing = await testApp({ settings });
  try {
    const owner = await mailing.register('owner');
    const account = await mailing.register('guest');
    const { body: me } = await mailing.request('GET', '/api/v1/users/me', owner);
    const target = `/api/v1/organizations/${me.memberships[0].organization_id}/invitations`;
    const body = { email: account.email };
    const answer = await mailing.request('POST', target, { token: owner.token, body });
    expect(answer).toMatchObject({ status: 201, body: { sent: true, link: null, token: null } });
    const { text } = await mailbox.next(account.email);
    expect(text).toContain('https://service.example.com');
    expect(text).toContain(`Invited by: ${owner.email}`);
    const [, token] =
      /^https:\/\/service\.example\.com\/invitation#token=(inv_[\w-]{43})&email=/m.exec(text) ?? [];
    const accepted = await mailing.request('POST', '/api/v1/invitations/accept', {
      token: account.token,
      body: { token },
    });
    expect(accepted.status).toBe(200);
    await mailbox.close();
    const again = await mailing.request('POST', target, {
      token: owner.token,
      body: { email: 'late@example.com' },
    });
    const { sent, link, token: given } = again.body;
    expect({ sent, link }).toEqual({
      sent: false,
      link: `https://service.example.com/invitation#token=${given}&email=late%40example.com`,
    });
  } finally {
    await mailing.close();
  }
});

test.each([
  [{}],
  [{ email: 'nobody' }],
  [{ email: 'a@example.com\r\nBcc: everybody@example.com' }],
  [{ email: 'a@example.com', role: 'operator' }],
  [{ email: 'a@example.com', organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' }],
  [{ email: 'a@example.com', invited_by: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }],
  [{ email: 'a@example.com', expires_at: '2020-01-01T00:00:00.000Z' }],
  [{ email: 'a@example.com', expires_at: '2999-01-01T00:00:00.000Z' }],
])('no invitation is made of %o', async (body) => {
  expect(await send(body)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
});

test("an invitation of nobody's organization is for those who have no account", async () => {
  const hash = createHash('sha256').update('inv_plain').digest('hex');
  const expiresAt = new Date(now.getTime() + day);
  await app.services.store.invitations.add({ kind: 'invitation', hash, expiresAt });
  expect(await accept('inv_plain', people.stranger)).toMatchObject(gone);
  const account = await app.register('plain', { invitation_token: 'inv_plain' });
  expect(await membershipsOf(account)).toMatchObject([{ role: 'owner' }]);
});

test('somebody who was invited twice belongs to the organization once', async () => {
  const account = await newPerson();
  const first = await send({ email: account.email });
  expect((await accept(first.body.token, account)).status).toBe(200);
  const member = `/api/v1/organizations/${people.organizationId}/members/${account.user.id}`;
  await app.request('DELETE', member, people.owner);
  const second = await send({ email: account.email, role: 'viewer' });
  expect((await accept(second.body.token, account)).body.role).toBe('viewer');
  await registerIn(app, people, `again-${made}`, 'viewer');
});

describe.each(databases)('while a mail server takes its time, on %s,', (database) => {
  test('an invitation with an Idempotency-Key holds nobody up', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'service-invitations-'));
    const kept = await lastingDatabase(database, folder);
    const slow = await startSlowMailbox();
    const mailing = await testApp({
      settings: {
        ...{ databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder), smtpUrl: slow.url },
        ...{ mailFrom: 'service@example.com', publicUrl: 'https://service.example.com' },
      },
    });
    try {
      const { token } = await mailing.register('owner');
      const { body: me } = await mailing.request('GET', '/api/v1/users/me', { token });
      const organization = `/api/v1/organizations/${me.memberships[0].organization_id}`;
      const headers = { 'idempotency-key': 'one' };
      const body = { email: 'guest@example.com' };
      const ask = () => mailing.request('POST', `${organization}/invitations`, { token, body, headers });
      let answered = false;
      const asked = ask().finally(() => {
        answered = true;
      });
      await slow.connected;
      expect((await mailing.request('POST', '/api/v1/sessions', { token, body: {} })).status).toBe(201);
      const name = { token, body: { name: 'Renamed' }, headers: mergePatch };
      expect((await mailing.request('PATCH', organization, name)).status).toBe(200);
      expect(coded(await ask())).toEqual([409, 'idempotency_key_in_use']);
      expect(answered).toBe(false);
      slow.goOn();
      const answer = await asked;
      expect(answer).toMatchObject({ status: 201, body: { sent: true, token: null } });
      expect((await ask()).body).toEqual(answer.body);
      expect(slow.mails).toHaveLength(1);
    } finally {
      slow.goOn();
      await mailing.close();
      await slow.close();
      await kept.remove();
      await rm(folder, { recursive: true });
    }
  });
});

test('an address is not filled with invitations and accounts: beyond five letters a day the link is shown instead', async () => {
  const mailbox = await startMailbox();
  const settings = {
    smtpUrl: mailbox.url,
    mailFrom: 'service@example.com',
    publicUrl: 'https://service.example.com',
  };
  const mailing = await testApp({ settings });
  try {
    const owners = [await mailing.register('one'), await mailing.register('two')];
    const sent: unknown[] = [];
    for (let time = 0; time < 8; time += 1) {
      const { token } = owners[time % 2] ?? expect.fail();
      const { body: me } = await mailing.request('GET', '/api/v1/users/me', { token });
      const target = `/api/v1/organizations/${me.memberships[0].organization_id}/invitations`;
      const made = await mailing.request('POST', target, { token, body: { email: 'victim@example.com' } });
      sent.push([made.status, made.body.sent, made.body.link !== null]);
      await mailing.request('DELETE', `${target}/${made.body.invitation.id}`, { token });
    }
    expect(sent).toEqual([...Array(5).fill([201, true, false]), ...Array(3).fill([201, false, true])]);
    const { token } = owners[0] ?? expect.fail();
    const person = { email: 'victim@example.com', name: 'V' };
    const made = await mailing.request('POST', '/api/v1/users', { token, body: person });
    expect(made).toMatchObject({ status: 201, body: { password_link: { email: person.email } } });
    await mailing.services.identity.settled();
    expect(mailbox.mails.filter(({ to }) => to.includes(person.email))).toHaveLength(5);
  } finally {
    await mailing.close();
    await mailbox.close();
  }
});

/** A mailbox that takes connections and says nothing, until it is told to go on. */
async function startSlowMailbox() {
  const mailbox = await startMailbox();
  const { promise: connected, resolve: tellConnected } = Promise.withResolvers<void>();
  const { promise: going, resolve: goOn } = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    tellConnected();
    socket.on('error', () => undefined);
    void going.then(() => {
      const inner = connect(Number(new URL(mailbox.url).port), '127.0.0.1');
      inner.on('error', () => socket.destroy());
      socket.pipe(inner).pipe(socket);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has no other kind of address
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails: mailbox.mails,
    connected,
    goOn,
    async close() {
      server.close();
      await mailbox.close();
    },
  };
}
