/** Links to new passwords that are shown to whoever makes them, and how long these keep them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { type Mailbox, startMailbox } from '../test-mailbox.ts';
import { makePeople, type People } from '../test-people.ts';

let mailbox: Mailbox;
/** Sends mail. */
let mailing: TestApp;
/** Sends none, so that invitations are shown. */
let app: TestApp;
let accounts = 0;

beforeAll(async () => {
  mailbox = await startMailbox();
  const settings = {
    smtpUrl: mailbox.url,
    mailFrom: 'S <s@example.com>',
    publicUrl: 'https://s.example.com',
  };
  mailing = await testApp({ settings });
  app = await testApp();
});
afterAll(async () => {
  await Promise.all([app.close(), mailing.close()]);
  await mailbox.close();
});

const linkOf = async (email: string, on: TestApp): Promise<string> => {
  const sent = { token: on.operatorKey, body: { email } };
  return (await on.request('POST', '/api/v1/auth/password/links', sent)).body.token;
};
const use = async (token: string, on = app) =>
  coded(
    await on.request('POST', '/api/v1/auth/password/reset', {
      body: { token, password: 'an entirely new password' },
    }),
  );
const gone = [410, 'reset_link_expired'];
const works = [204, null];

describe('a link that the operator makes', () => {
  test('ends those before it', async () => {
    const { email } = await app.register('ada');
    const [first, second] = [await linkOf(email, app), await linkOf(email, app)];
    expect(await use(first)).toEqual(gone);
    expect(await use(second)).toEqual(works);
  });

  test('is not ended by anybody who says that they forgot the password', async () => {
    const { email } = await mailing.register('grace');
    const shown = await linkOf(email, mailing);
    await mailing.request('POST', '/api/v1/auth/password/forgot', { body: { email } });
    await mailbox.next(email);
    expect(await use(shown, mailing)).toEqual(works);
  });
});

describe('the link to a new account', () => {
  const memberPath = ({ organizationId, admin }: People) =>
    `/api/v1/organizations/${organizationId}/members/${admin.user.id}`;
  const userPath = ({ admin }: People) => `/api/v1/users/${admin.user.id}`;

  /** Made by the admin of new people. */
  async function made(name: string, role = 'member') {
    const people = await makePeople(app, name);
    accounts += 1;
    const create = (token: string) =>
      app.request('POST', '/api/v1/users', {
        token,
        body: { email: `new-${accounts}@example.com`, role, organization_id: people.organizationId },
        headers: { 'idempotency-key': 'one' },
      });
    const { body } = await create(people.admin.token);
    return { people, token: body.password_link.token as string, again: () => create(people.admin.token) };
  }

  test.each<[string, (people: People) => Promise<{ readonly status: number }>]>([
    [
      'a viewer',
      (people) =>
        app.request('PUT', memberPath(people), { token: people.owner.token, body: { role: 'viewer' } }),
    ],
    [
      'a viewer by way of the account',
      (people) =>
        app.request('PATCH', userPath(people), {
          ...{ token: people.owner.token, headers: mergePatch, body: { role: 'viewer' } },
        }),
    ],
    ['removed', (people) => app.request('DELETE', memberPath(people), { token: people.owner.token })],
    [
      'suspended',
      (people) =>
        app.request('PATCH', userPath(people), {
          ...{ token: people.owner.token, headers: mergePatch, body: { status: 'suspended' } },
        }),
    ],
    ['deleted', (people) => app.request('DELETE', userPath(people), { token: people.owner.token })],
  ])('ends with the admin who is %s, and is shown by no repeated request', async (name, act) => {
    const { people, token, again } = await made(name.replaceAll(' ', '-'));
    expect((await again()).body.password_link.token).toBe(token);
    expect((await act(people)).status).toBeLessThan(300);
    expect(await use(token)).toEqual(gone);
    const repeated = await again();
    expect(repeated.status).toBeGreaterThanOrEqual(400);
    expect(JSON.stringify(repeated.body)).not.toContain(token);
  });

  test('goes with its organization', async () => {
    const { people, token } = await made('closed');
    const { organizationId, owner } = people;
    await app.request('POST', '/api/v1/organizations', { token: owner.token, body: { name: 'Another' } });
    const path = `/api/v1/organizations/${organizationId}`;
    const etag = (await app.request('GET', path, { token: owner.token })).headers.get('etag') ?? '';
    const ended = await app.request('DELETE', path, { token: owner.token, headers: { 'if-match': etag } });
    expect(ended.status).toBe(204);
    expect(await use(token)).toEqual(gone);
  });

  test('lasts as long as its maker may manage the account', async () => {
    const { people, token } = await made('kept');
    const { owner, viewer, organizationId } = people;
    const path = `/api/v1/organizations/${organizationId}/members/${viewer.user.id}`;
    expect((await app.request('DELETE', path, { token: owner.token })).status).toBe(204);
    expect(await use(token)).toEqual(works);
  });

  test('does not reach an account that has risen above its maker', async () => {
    const { people, token, again } = await made('risen');
    const { user }: Json = (await again()).body;
    const path = `/api/v1/organizations/${people.organizationId}/members/${user.id}`;
    const raised = await app.request('PUT', path, { token: people.owner.token, body: { role: 'owner' } });
    expect(raised.status).toBe(200);
    expect(await use(token)).toEqual(gone);
  });
});
