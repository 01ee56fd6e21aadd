/** Groups over HTTP, with real people in each role. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { bringIn, everybody, makePeople, type People } from '../test-people.ts';

let app: TestApp;
let people: People;

beforeAll(async () => {
  app = await testApp();
  people = await makePeople(app);
});
afterAll(() => app.close());

const path = '/api/v1/groups';
let made = 0;

async function newGroup(
  more: object = {},
  team = people,
): Promise<{ place: string; group: Json; etag: string }> {
  made += 1;
  const body = { organization_id: team.organizationId, name: `Group ${made}`, ...more };
  const answer = await app.request('POST', path, { token: team.admin.token, body });
  expect(answer.status).toBe(201);
  const place = answer.headers.get('location') ?? '';
  return { place, group: answer.body, etag: answer.headers.get('etag') ?? '' };
}

describe('a group', () => {
  test('is made, named by its Location, read back, and not sent again to whoever has it', async () => {
    const { place, group } = await newGroup({ external_id: 'cn=engineers' });
    expect(place).toBe(`${path}/${group.id}`);
    const read = await app.request('GET', place, people.owner);
    expect(read.body).toEqual(group);
    const headers = { 'if-none-match': read.headers.get('etag') ?? '' };
    expect((await app.request('GET', place, { token: people.owner.token, headers })).status).toBe(304);
  });

  test('has a name and an external id that no other of its organization has', async () => {
    const { place, group } = await newGroup({ external_id: 'cn=once' });
    const taken = { status: 409, body: { code: 'name_taken' } };
    const { organization_id, name } = group;
    for (const body of [
      { organization_id, name },
      { organization_id, name: 'Other', external_id: 'cn=once' },
    ])
      expect(await app.request('POST', path, { token: people.owner.token, body })).toMatchObject(taken);
    const { place: other } = await newGroup();
    const rename = { token: people.owner.token, headers: mergePatch, body: { name } };
    expect(await app.request('PATCH', other, rename)).toMatchObject(taken);
    expect((await app.request('PATCH', place, rename)).status).toBe(200);
    const elsewhere = await makePeople(app, 'twin');
    await newGroup({ name, external_id: 'cn=once' }, elsewhere);
  });

  test('is changed by merging and deleted, only by who has read it as it is', async () => {
    const { place, etag } = await newGroup({ external_id: 'cn=changing' });
    const patch = (body: object, tag: string) =>
      app.request('PATCH', place, {
        token: people.admin.token,
        body,
        headers: { ...mergePatch, 'if-match': tag },
      });
    const changed = await patch({ external_id: null }, etag);
    expect(changed.body).toMatchObject({ external_id: null, name: `Group ${made}` });
    expect(await patch({ name: 'Lost' }, etag)).toMatchObject({ status: 412 });
    const remove = (tag: string) =>
      app.request('DELETE', place, { token: people.admin.token, headers: { 'if-match': tag } });
    expect((await remove(etag)).status).toBe(412);
    expect((await remove(changed.headers.get('etag') ?? '')).status).toBe(204);
    expect((await app.request('GET', place, people.owner)).status).toBe(404);
  });

  test('has members of its organization, each once, and nobody else', async () => {
    const { place } = await newGroup();
    const put = (userId: string) => app.request('PUT', `${place}/members/${userId}`, people.admin);
    for (const account of [people.viewer, people.member, people.viewer])
      expect((await put(account.user.id)).status).toBe(204);
    for (const nobody of [people.stranger.user.id, 'usr_01k9w6r3h2e7xv5q0c8m4b1tzz'])
      expect(await put(nobody)).toMatchObject({ status: 404, body: { code: 'not_found' } });
    const list = async (query = '') =>
      (await app.request('GET', `${place}/members${query}`, people.owner)).body;
    expect((await list()).data.map(({ email }: Json) => email)).toEqual([
      people.viewer.email,
      people.member.email,
    ]);
    const first = await list('?limit=1');
    expect((await list(`?cursor=${first.next_cursor}`)).data).toHaveLength(1);
    const gone = () => app.request('DELETE', `${place}/members/${people.viewer.user.id}`, people.admin);
    expect((await gone()).status).toBe(204);
    expect((await gone()).status).toBe(404);
    expect((await list()).data.map(({ email }: Json) => email)).toEqual([people.member.email]);
  });

  test.each([
    [{ name: 'x' }],
    [{ name: '' }],
    [{ name: 'x', external_id: '' }],
    [{ name: 'x', id: 'grp_01k9w6r3h2e7xv5q0c8m4b1tza' }],
    [{ name: 'x', members: [] }],
  ])('is not made from %o', async (body) => {
    const whole = 'external_id' in body || 'id' in body || 'members' in body || body.name === '';
    const given = whole ? { organization_id: people.organizationId, ...body } : body;
    const answer = await app.request('POST', path, { token: people.owner.token, body: given });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });
});

describe('who may do what with a group', () => {
  const cases: readonly [string, string, string, readonly number[], object?][] = [
    ['read it', 'GET', '', [200, 200, 403, 403, 404]],
    ['change it', 'PATCH', '', [200, 200, 403, 403, 404], { external_id: null }],
    ['list its members', 'GET', '/members', [200, 200, 403, 403, 404]],
    ['add a member', 'PUT', '/members/VIEWER', [204, 204, 403, 403, 404]],
    ['remove a member', 'DELETE', '/members/NOBODY', [404, 404, 403, 403, 404]],
    ['delete it', 'DELETE', '', [204, 404, 404, 404, 404]],
  ];

  test.each(cases)('%s', async (_title, method, rest, statuses, body) => {
    const { place } = await newGroup();
    const target = (from: string) =>
      from +
      rest.replace('VIEWER', people.viewer.user.id).replace('NOBODY', 'usr_01k9w6r3h2e7xv5q0c8m4b1tzz');
    const headers = method === 'PATCH' ? mergePatch : {};
    const ask = (from: string, token?: string): Promise<Answer> =>
      app.request(method, target(from), { ...(token && { token }), ...(body && { body }), headers });
    expect((await ask(place)).status).toBe(401);
    const missing = await ask(`${path}/grp_01k9w6r3h2e7xv5q0c8m4b1tzz`, people.stranger.token);
    const foreign = await ask(place, people.stranger.token);
    const plain = ({ status, body: said }: Answer) => ({ status, ...said, instance: '', request_id: '' });
    expect(plain(foreign)).toEqual(plain(missing));
    for (const [index, who] of everybody.entries()) {
      const answer = await ask(place, people[who].token);
      expect(answer.status, who).toBe(statuses[index]);
      if (answer.status === 403) expect(answer.body).toMatchObject({ code: 'role_required' });
    }
  });
});

describe('the list of groups', () => {
  test('is of the organizations that one manages, and of one of them where asked', async () => {
    const [one, two] = [await makePeople(app, 'one'), await makePeople(app, 'two')];
    await bringIn(app, two, one.owner, 'admin');
    await newGroup({ name: 'Of one' }, one);
    await newGroup({ name: 'Of two' }, two);
    const names = async (query: string, token = one.owner.token) =>
      (await app.request('GET', `${path}${query}`, { token })).body.data.map(({ name }: Json) => name);
    expect(await names('')).toEqual(['Of one', 'Of two']);
    expect(await names(`?organization_id=${two.organizationId}`)).toEqual(['Of two']);
    expect(await names('', two.admin.token)).toEqual(['Of two']);
    const first = await app.request('GET', `${path}?limit=1`, one.owner);
    expect(await names(`?limit=1&cursor=${first.body.next_cursor}`)).toEqual(['Of two']);
    for (const who of [one.member, one.viewer])
      expect(await app.request('GET', path, who)).toMatchObject({
        status: 403,
        body: { code: 'role_required' },
      });
    expect(await names('', one.stranger.token)).toEqual([]);
  });
});

test('a group of another organization is no principal of it: nobody is added across', async () => {
  const other = await makePeople(app, 'across');
  const { place } = await newGroup();
  const answer = await app.request('PUT', `${place}/members/${other.member.user.id}`, people.owner);
  expect(answer.status).toBe(404);
  expect((await app.request('PUT', `${place}/members/${people.member.user.id}`, other.owner)).status).toBe(
    404,
  );
});
