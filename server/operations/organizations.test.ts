/** Organizations and their members over HTTP, with real people in each role. */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type Answer, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { bringIn, everybody, homeOf, makePeople, type People } from '../test-people.ts';
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

/** A second organization of somebody. */
async function secondOf(
  { token }: Account,
  body: object = {},
): Promise<{ place: string; etag: string; body: Json }> {
  const answer = await app.request('POST', path, { token, body: { name: 'Second', ...body } });
  expect(answer.status).toBe(201);
  return {
    place: answer.headers.get('location') ?? '',
    etag: answer.headers.get('etag') ?? '',
    body: answer.body,
  };
}

function remove(place: string, { token }: Account, etag?: string): Promise<Answer> {
  return app.request('DELETE', place, { token, headers: etag === undefined ? {} : { 'if-match': etag } });
}

describe('an organization', () => {
  test('is made with its maker as owner and a default workspace to work in, and read back', async () => {
    const { owner } = people;
    const { place, body } = await secondOf(owner, { name: 'Difference Engines', slug: 'engines' });
    expect(body).toMatchObject({
      name: 'Difference Engines',
      slug: 'engines',
      role: 'owner',
      settings: {
        invitation_role: 'member',
        invitation_days: 7,
        email_domains: [],
        memory_retention_days: null,
      },
    });
    const read = await app.request('GET', place, { token: owner.token });
    expect(read.body).toEqual(body);
    const headers = { 'if-none-match': read.headers.get('etag') ?? '' };
    expect((await app.request('GET', place, { token: owner.token, headers })).status).toBe(304);
    const session = { token: owner.token, body: { workspace_id: body.default_workspace_id } };
    expect((await app.request('POST', '/api/v1/sessions', session)).status).toBe(201);
    const { body: me } = await app.request('GET', '/api/v1/users/me', { token: owner.token });
    expect(me.memberships).toContainEqual(
      expect.objectContaining({ organization_id: body.id, role: 'owner' }),
    );
  });

  test('has a slug of its own, made from the name where none is given, also in another alphabet', async () => {
    const { owner } = people;
    const slugs: string[] = [];
    for (const name of ['Ünïcödé & Söhne', 'Ünïcödé & Söhne', '計算機', '--'])
      slugs.push((await secondOf(owner, { name })).body.slug);
    expect(slugs[0]).toBe('unicode-sohne');
    expect(slugs[1]).toMatch(/^unicode-sohne-[0-9a-z]{8}$/);
    expect(slugs[2]).toBe('organization');
    expect(slugs[3]).toMatch(/^organization-[0-9a-z]{8}$/);
    await secondOf(owner, { slug: 'taken' });
    const again = { token: owner.token, body: { name: 'x', slug: 'taken' } };
    expect(await app.request('POST', path, again)).toMatchObject({
      status: 409,
      body: { code: 'slug_taken' },
    });
  });

  test.each([
    [{}],
    [{ name: '' }],
    [{ name: 'x', slug: 'Big Letters' }],
    [{ name: 'x', slug: '-x' }],
    [{ name: 'x', id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' }],
    [{ name: 'x', role: 'owner' }],
    [{ name: 'x', owner_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }],
    [{ name: 'x', settings: { invitation_role: 'owner' } }],
    [{ name: 'x', settings: { unknown: 1 } }],
    [{ name: 'x', settings: { invitation_days: 91 } }],
  ])('is not made from %o', async (body) => {
    const answer = await app.request('POST', path, { token: people.owner.token, body });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('is listed for those who belong to it, page after page, in the order in which they came', async () => {
    const account = await app.register('many');
    const ids = [
      ...(await app.request('GET', path, account)).body.data.map(({ id }: Json) => id),
      (await secondOf(account)).body.id,
      (await secondOf(account)).body.id,
    ];
    await bringIn(app, people, account, 'viewer');
    ids.push(people.organizationId);
    const found: Json[] = [];
    for (let cursor = ''; ; ) {
      const { body } = await app.request('GET', `${path}?limit=3${cursor}`, account);
      found.push(...body.data);
      if (body.next_cursor === null) break;
      cursor = `&cursor=${body.next_cursor}`;
    }
    expect(found.map(({ id }) => id)).toEqual(ids);
    expect(found.map(({ role }) => role)).toEqual(['owner', 'owner', 'owner', 'viewer']);
    const { body: others } = await app.request('GET', path, people.stranger);
    expect(others.data).toHaveLength(1);
  });

  test('is changed by merging; a setting that is null returns to its default', async () => {
    const { place, etag } = await secondOf(people.owner, { settings: { invitation_days: 30 } });
    const patch = (body: object, tag: string) =>
      app.request('PATCH', place, {
        token: people.owner.token,
        body,
        headers: { ...mergePatch, 'if-match': tag },
      });
    const changed = await patch({ name: 'New', settings: { email_domains: ['example.com'] } }, etag);
    expect(changed.body).toMatchObject({
      name: 'New',
      settings: { invitation_days: 30, email_domains: ['example.com'] },
    });
    const stale = await patch({ name: 'Lost' }, etag);
    expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    const back = await patch({ settings: { invitation_days: null } }, changed.headers.get('etag') ?? '');
    expect(back.body).toMatchObject({
      name: 'New',
      settings: { invitation_days: 7, email_domains: ['example.com'] },
    });
    const { body } = await secondOf(people.owner, { slug: 'first-come' });
    expect(await patch({ slug: body.slug }, '*')).toMatchObject({
      status: 409,
      body: { code: 'slug_taken' },
    });
  });

  test('loses no change of those who change it at once', async () => {
    const { place, etag } = await secondOf(people.owner);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        app.request('PATCH', place, {
          token: people.owner.token,
          body: { name: `Name ${n}` },
          headers: { ...mergePatch, 'if-match': etag },
        }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(412)]);
    const winner = answers.find(({ status }) => status === 200);
    expect((await app.request('GET', place, people.owner)).body).toEqual(winner?.body);
  });

  test('is deleted by its owner who has read it, with all that it owns, and nothing else goes', async () => {
    const { owner } = people;
    const { place, etag, body } = await secondOf(owner);
    const group = { token: owner.token, body: { organization_id: body.id, name: 'Doomed' } };
    const { body: doomed } = await app.request('POST', '/api/v1/groups', group);
    const session = { token: owner.token, body: { workspace_id: body.default_workspace_id } };
    const { body: inside } = await app.request('POST', '/api/v1/sessions', session);
    const folder = join(app.services.settings.workspacesDirectory, body.default_workspace_id);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'kept.txt'), 'x');
    const { body: outside } = await app.request('POST', '/api/v1/sessions', { token: owner.token, body: {} });
    expect(await remove(place, owner)).toMatchObject({
      status: 428,
      body: { code: 'precondition_required' },
    });
    expect(await remove(place, owner, '"0"')).toMatchObject({
      status: 412,
      body: { code: 'precondition_failed' },
    });
    expect((await remove(place, owner, etag)).status).toBe(204);
    await expect(stat(folder)).rejects.toThrow(/ENOENT/);
    for (const gone of [place, `/api/v1/groups/${doomed.id}`, `/api/v1/sessions/${inside.id}`])
      expect((await app.request('GET', gone, owner)).status, gone).toBe(404);
    expect((await app.request('GET', `/api/v1/sessions/${outside.id}`, owner)).status).toBe(200);
    expect((await remove(place, owner, etag)).status).toBe(404);
  });

  test('stays while a run is at work in it, and where its owner has no other', async () => {
    const { owner, place } = {
      owner: people.stranger,
      place: `${path}/${(await homeOf(app, people.stranger)).organizationId}`,
    };
    const { headers } = await app.request('GET', place, owner);
    const only = await remove(place, owner, headers.get('etag') ?? '');
    expect(only).toMatchObject({ status: 409, body: { code: 'only_organization' } });
    const { place: second, etag, body } = await secondOf(owner);
    const { body: session } = await app.request('POST', '/api/v1/sessions', {
      token: owner.token,
      body: { workspace_id: body.default_workspace_id },
    });
    const run = await waitingRun(app, owner, session.id);
    expect(await remove(second, owner, etag)).toMatchObject({ status: 409, body: { code: 'runs_active' } });
    await app.request('POST', `/api/v1/runs/${run}/interrupt`, owner);
    await expect.poll(async () => (await remove(second, owner, etag)).status).toBe(204);
  });
});

describe('who may do what', () => {
  const cases: readonly [
    string,
    string,
    (at: People) => readonly [path: string, body?: Json],
    readonly number[],
  ][] = [
    ['read it', 'GET', ({ organizationId: id }) => [`${path}/${id}`], [200, 200, 200, 200, 404]],
    [
      'change it',
      'PATCH',
      ({ organizationId: id }) => [`${path}/${id}`, { name: 'x' }],
      [200, 200, 403, 403, 404],
    ],
    ['delete it', 'DELETE', ({ organizationId: id }) => [`${path}/${id}`], [428, 403, 403, 403, 404]],
    [
      'list its members',
      'GET',
      ({ organizationId: id }) => [`${path}/${id}/members`],
      [200, 200, 200, 200, 404],
    ],
    [
      'give the viewer a role',
      'PUT',
      ({ organizationId: id, viewer }) => [`${path}/${id}/members/${viewer.user.id}`, { role: 'viewer' }],
      [200, 200, 403, 403, 404],
    ],
    [
      'remove somebody who is not in it',
      'DELETE',
      ({ organizationId: id, stranger }) => [`${path}/${id}/members/${stranger.user.id}`],
      [404, 404, 403, 403, 404],
    ],
    [
      'list its invitations',
      'GET',
      ({ organizationId: id }) => [`${path}/${id}/invitations`],
      [200, 200, 403, 403, 404],
    ],
    [
      'invite',
      'POST',
      ({ organizationId: id }) => [`${path}/${id}/invitations`, { email: `i${made++}@example.com` }],
      [201, 201, 403, 403, 404],
    ],
    [
      'revoke an invitation that is not there',
      'DELETE',
      ({ organizationId: id }) => [`${path}/${id}/invitations/ivt_01k9w6r3h2e7xv5q0c8m4b1tza`],
      [404, 404, 403, 403, 404],
    ],
    [
      'list its groups',
      'GET',
      ({ organizationId: id }) => [`/api/v1/groups?organization_id=${id}`],
      [200, 200, 403, 403, 404],
    ],
    [
      'make a group',
      'POST',
      ({ organizationId: id }) => ['/api/v1/groups', { organization_id: id, name: `g${made++}` }],
      [201, 201, 403, 403, 404],
    ],
  ];

  test.each(cases)('%s', async (_title, method, request, statuses) => {
    const [target, body] = request(people);
    const headers: Record<string, string> = method === 'PATCH' ? mergePatch : {};
    for (const [index, who] of everybody.entries()) {
      const sent = method === 'POST' ? request(people)[1] : body;
      const answer = await app.request(method, target, { token: people[who].token, body: sent, headers });
      expect(answer.status, who).toBe(statuses[index]);
      if (answer.status === 403) expect(answer.body).toMatchObject({ code: 'role_required' });
    }
    expect((await app.request(method, target, { body, headers })).status).toBe(401);
  });

  test.each(cases)(
    'a stranger who would %s gets what one gets of none',
    async (_title, method, request, statuses) => {
      expect(statuses.at(-1)).toBe(404);
      const [target, body] = request(people);
      const headers = { ...(method === 'PATCH' && mergePatch), 'if-match': '"17"' };
      const { token } = people.stranger;
      const missing = (text: string) =>
        text.replaceAll(people.organizationId, 'org_01k9w6r3h2e7xv5q0c8m4b1tzz');
      const [foreign, none] = [
        await app.request(method, target, { token, body, headers }),
        await app.request(method, missing(target), {
          token,
          body: body && JSON.parse(missing(JSON.stringify(body))),
          headers,
        }),
      ];
      const plain = ({ status, body: said }: Answer) => ({ status, ...said, instance: '', request_id: '' });
      expect(plain(foreign)).toEqual(plain(none));
    },
  );

  test('a key needs the scope', async () => {
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: people.owner.token,
      body: { name: 'k', scopes: ['organizations:read'] },
    });
    expect((await app.request('GET', path, { token: body.key })).status).toBe(200);
    expect(await app.request('POST', path, { token: body.key, body: { name: 'x' } })).toMatchObject({
      status: 403,
      body: { code: 'scope_required' },
    });
  });
});
