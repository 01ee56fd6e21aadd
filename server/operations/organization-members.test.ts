/** The members of organizations over HTTP: roles given and taken, and how people leave. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type Answer, type Json, type TestApp, testApp } from '../test-app.ts';
import { bringIn, makePeople, type People, registerIn } from '../test-people.ts';
import { revokedWithinMs } from '../test-revocation.ts';
import { waitingRun } from '../test-runs.ts';

let app: TestApp;
let people: People;

beforeAll(async () => {
  app = await testApp();
  people = await makePeople(app);
});
afterAll(() => app.close());

const path = '/api/v1/organizations';
let made = 0;

/** A new organization, with somebody in each role. */
async function another(): Promise<People> {
  made += 1;
  return makePeople(app, `team-${made}`);
}

function remove(place: string, { token }: Account, etag?: string): Promise<Answer> {
  return app.request('DELETE', place, { token, headers: etag === undefined ? {} : { 'if-match': etag } });
}

describe('the role of a member', () => {
  test.each([
    ['owner', 'admin', 'owner', 200],
    ['owner', 'member', 'admin', 200],
    ['owner', 'viewer', 'member', 200],
    ['admin', 'member', 'admin', 200],
    ['admin', 'viewer', 'member', 200],
    ['admin', 'admin', 'viewer', 200],
    ['admin', 'member', 'owner', 403],
    ['admin', 'admin', 'owner', 403],
    ['admin', 'owner', 'admin', 403],
    ['admin', 'owner', 'owner', 403],
    ['member', 'viewer', 'member', 403],
    ['member', 'member', 'admin', 403],
    ['viewer', 'viewer', 'owner', 403],
    ['owner', 'owner', 'viewer', 409],
  ] as const)('by the %s: of the %s to %s is %i', async (who, whose, role, status) => {
    const team = await another();
    const place = `${path}/${team.organizationId}/members/${team[whose].user.id}`;
    const answer = await app.request('PUT', place, { token: team[who].token, body: { role } });
    expect(answer.status).toBe(status);
    const { body } = await app.request('GET', `${path}/${team.organizationId}/members`, team.owner);
    const now = body.data.find(({ user_id }: Json) => user_id === team[whose].user.id).role;
    expect(now).toBe(status === 200 ? role : whose);
    if (status === 200) expect(answer.body).toMatchObject({ role, email: team[whose].email });
    else expect(answer.body.code).toBe(status === 403 ? 'role_required' : 'last_owner');
  });

  test('is changed only as it was read, and says so where somebody was faster', async () => {
    const team = await another();
    const place = `${path}/${team.organizationId}/members/${team.viewer.user.id}`;
    const put = (role: string, headers = {}) =>
      app.request('PUT', place, { token: team.owner.token, body: { role }, headers });
    const etag = (await put('member')).headers.get('etag') ?? '';
    expect((await put('admin', { 'if-match': etag })).status).toBe(200);
    expect(await put('viewer', { 'if-match': etag })).toMatchObject({ status: 412 });
    expect(await remove(place, team.owner, etag)).toMatchObject({ status: 412 });
  });

  test.each([[{}], [{ role: 'operator' }], [{ role: 'member', user_id: 'x' }]])('is not %o', async (body) => {
    const place = `${path}/${people.organizationId}/members/${people.viewer.user.id}`;
    const answer = await app.request('PUT', place, { token: people.owner.token, body });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('is given to nobody who was not invited', async () => {
    const place = `${path}/${people.organizationId}/members/${people.stranger.user.id}`;
    const answer = await app.request('PUT', place, { token: people.owner.token, body: { role: 'member' } });
    expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('counts from the next request', async () => {
    const team = await another();
    const ask = () => app.request('GET', `${path}/${team.organizationId}/invitations`, team.member);
    expect((await ask()).status).toBe(403);
    const place = `${path}/${team.organizationId}/members/${team.member.user.id}`;
    await app.request('PUT', place, { token: team.owner.token, body: { role: 'admin' } });
    expect((await ask()).status).toBe(200);
    await app.request('PUT', place, { token: team.owner.token, body: { role: 'viewer' } });
    expect((await ask()).status).toBe(403);
    const session = { token: team.member.token, body: {} };
    expect((await app.request('POST', '/api/v1/sessions', session)).status).toBe(403);
  });
});

describe('the end of a membership', () => {
  test.each([
    ['owner', 'admin', 204],
    ['owner', 'owner', 409],
    ['admin', 'viewer', 204],
    ['admin', 'admin', 204],
    ['admin', 'owner', 403],
    ['member', 'viewer', 403],
    ['member', 'member', 204],
    ['viewer', 'viewer', 204],
    ['viewer', 'owner', 403],
  ] as const)('by the %s: that of the %s is %i', async (who, whose, status) => {
    const team = await another();
    const place = `${path}/${team.organizationId}/members/${team[whose].user.id}`;
    expect((await remove(place, team[who])).status).toBe(status);
    const seen = await app.request('GET', `${path}/${team.organizationId}`, team[whose]);
    expect(seen.status).toBe(status === 204 ? 404 : 200);
  });

  test('is open to the owner of a personal organization once another owner stands', async () => {
    const team = await another();
    const place = (whose: 'owner' | 'admin') =>
      `${path}/${team.organizationId}/members/${team[whose].user.id}`;
    expect(await remove(place('owner'), team.owner)).toMatchObject({ body: { code: 'last_owner' } });
    await app.request('PUT', place('admin'), { token: team.owner.token, body: { role: 'owner' } });
    expect((await remove(place('owner'), team.owner)).status).toBe(204);
    expect(await remove(place('admin'), team.admin)).toMatchObject({ body: { code: 'last_owner' } });
    // Whoever belongs nowhere makes a place of their own.
    expect(
      (await app.request('POST', '/api/v1/sessions', { token: team.owner.token, body: {} })).status,
    ).toBe(404);
    await app.request('POST', path, { token: team.owner.token, body: { name: 'New' } });
    expect(
      (await app.request('POST', '/api/v1/sessions', { token: team.owner.token, body: {} })).status,
    ).toBe(201);
  });

  test('takes groups along, which do not come back with a new membership', async () => {
    const team = await another();
    const { body: group } = await app.request('POST', '/api/v1/groups', {
      token: team.owner.token,
      body: { organization_id: team.organizationId, name: 'Readers' },
    });
    const inGroup = `/api/v1/groups/${group.id}/members`;
    await app.request('PUT', `${inGroup}/${team.member.user.id}`, team.owner);
    const place = `${path}/${team.organizationId}/members/${team.member.user.id}`;
    expect((await remove(place, team.owner)).status).toBe(204);
    await bringIn(app, team, team.member, 'member');
    expect((await app.request('GET', inGroup, team.owner)).body.data).toEqual([]);
  });

  test('ends the streams that were open by it within five seconds, and its runs', async () => {
    const team = await another();
    const leave = new AbortController();
    const response = await fetch(`${app.url}/api/v1/events?workspace_id=${team.workspaceId}`, {
      headers: { authorization: `Bearer ${team.member.token}` },
      signal: leave.signal,
    });
    expect(response.status).toBe(200);
    const { body: session } = await app.request('POST', '/api/v1/sessions', {
      token: team.member.token,
      body: {},
    });
    const run = await waitingRun(app, team.member, session.id);
    const began = Date.now();
    const place = `${path}/${team.organizationId}/members/${team.member.user.id}`;
    expect((await remove(place, team.admin)).status).toBe(204);
    expect(await response.text()).toContain('credential_invalid');
    expect(Date.now() - began).toBeLessThan(revokedWithinMs);
    await expect
      .poll(async () => (await app.request('GET', `/api/v1/runs/${run}`, team.owner)).body.status)
      .toBe('interrupted');
  });
});

describe('the list of members', () => {
  test('is in the order in which they came, by role where asked, page after page', async () => {
    const team = await another();
    const late = await registerIn(app, team, `${made}-late`, 'viewer');
    const list = async (query: string) =>
      (await app.request('GET', `${path}/${team.organizationId}/members${query}`, team.viewer)).body;
    const everyone = await list('');
    expect(everyone.data.map(({ role }: Json) => role)).toEqual([
      'owner',
      'admin',
      'member',
      'viewer',
      'viewer',
    ]);
    const first = await list('?role=viewer&limit=1');
    const second = await list(`?role=viewer&limit=1&cursor=${first.next_cursor}`);
    expect([...first.data, ...second.data].map(({ email }: Json) => email)).toEqual([
      team.viewer.email,
      late.email,
    ]);
    expect(second.next_cursor).toBeNull();
    expect(await list(`?role=member&cursor=${first.next_cursor}`)).toMatchObject({ code: 'invalid_cursor' });
  });
});
