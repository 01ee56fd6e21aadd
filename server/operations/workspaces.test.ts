/** The workspaces family over HTTP: people in each role, wrong input, stale, missing, happy. */
import { mkdir, mkdtemp, readdir, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { scriptedSettings } from '../server-process.ts';
import {
  type Account,
  type Json,
  mergePatch,
  type RequestOptions,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { makeWorkspacePeople, type WorkspacePeople } from '../test-people.ts';

let upstream: Upstream;
let app: TestApp;
let people: WorkspacePeople;
let root = '';

const path = '/api/v1/workspaces';
const nobodys = `${path}/ws_01k9w6r3h2e7xv5q0c8m4b1tzz`;

beforeAll(async () => {
  upstream = await startUpstream();
  root = await realpath(await mkdtemp(join(tmpdir(), 'service-roots-')));
  app = await testApp({ config: scriptedSettings(upstream.url), settings: { workspaceRoots: [root] } });
  people = await makeWorkspacePeople(app);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
  await rm(root, { recursive: true });
});

const as = (account: Account | string, method: string, place: string, options: RequestOptions = {}) =>
  app.request(method, place, { token: typeof account === 'string' ? account : account.token, ...options });
const patch = (account: Account, place: string, body: unknown, headers = {}) =>
  as(account, 'PATCH', place, { body, headers: { ...mergePatch, ...headers } });

describe('a workspace', () => {
  test('is made, named by its Location, read back, and not sent again to whoever has it', async () => {
    const body = {
      name: '$(touch x)',
      organization_id: people.organizationId,
      default_model: 'scripted-1',
      permission_mode: 'accept_edits',
      permission_rules: [{ tool: 'bash', pattern: '$SERVICE_ADMIN_PASSWORD', decision: 'allow' }],
    };
    const made = await as(people.owner, 'POST', path, { body });
    expect(made).toMatchObject({ status: 201, body: { ...body, is_default: false, path: null } });
    const place = made.headers.get('location') ?? '';
    expect(place).toBe(`${path}/${made.body.id}`);
    const read = await as(people.owner, 'GET', place);
    expect(read).toMatchObject({ status: 200, body: made.body });
    const headers = { 'if-none-match': read.headers.get('etag') ?? '' };
    expect(await as(people.owner, 'GET', place, { headers })).toMatchObject({ status: 304, body: null });
  });

  test('is changed by merging, and only by who has read it as it is', async () => {
    const { path: place, etag } = await people.newWorkspace({ default_model: 'scripted-1' });
    const changed = await patch(
      people.admin,
      place,
      { default_model: null, name: 'Shop' },
      { 'if-match': etag },
    );
    expect(changed).toMatchObject({ status: 200, body: { name: 'Shop', default_model: null } });
    const stale = await patch(people.owner, place, { name: 'Lost' }, { 'if-match': etag });
    expect(stale).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    const gone = await as(people.owner, 'DELETE', place, { headers: { 'if-match': etag } });
    expect(gone).toMatchObject({ status: 412, body: { code: 'precondition_failed' } });
    expect((await as(people.viewer, 'GET', place)).body.name).toBe('Shop');
  });

  test('is in the lists of those who reach it, and in no other', async () => {
    const { workspace } = await people.newWorkspace();
    const listed = async (account: Account) => {
      const { body } = await as(account, 'GET', `${path}?limit=100&organization_id=${people.organizationId}`);
      return body.data.map(({ id }: Json) => id);
    };
    for (const account of [people.owner, people.admin, people.member, people.viewer])
      expect(await listed(account)).toContain(workspace.id);
    expect(await listed(people.colleague)).toEqual([people.workspaceId]);
    expect(await listed(people.stranger)).toEqual([]);
    const { body } = await as(people.owner, 'GET', `${path}?limit=1`);
    expect(body.data).toHaveLength(1);
    const next = await as(people.owner, 'GET', `${path}?limit=100&cursor=${body.next_cursor}`);
    expect(next.body.data.map(({ id }: Json) => id)).toContain(people.workspaceId);
    const other = await as(people.owner, 'GET', `${path}?sort=created_at&cursor=${body.next_cursor}`);
    expect(other).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } });
  });

  test('made by a member of the organization is theirs to administer', async () => {
    const body = { name: 'Side project', organization_id: people.organizationId };
    const made = await as(people.colleague, 'POST', path, { body });
    expect(made.status).toBe(201);
    const place = `${path}/${made.body.id}`;
    expect((await patch(people.colleague, place, { name: 'Main project' })).status).toBe(200);
    expect((await as(people.member, 'GET', place)).status).toBe(404);
    expect((await as(people.colleague, 'DELETE', place)).status).toBe(204);
  });

  test.each<[string, object, number, string]>([
    ['no name', {}, 400, 'invalid_request'],
    ['an empty name', { name: '' }, 400, 'invalid_request'],
    ['a name with NUL', { name: 'a\0' }, 400, 'invalid_encoding'],
    ['an id of its own', { name: 'x', id: 'ws_01k9w6r3h2e7xv5q0c8m4b1tzz' }, 400, 'invalid_request'],
    ['the wish to be the default one', { name: 'x', is_default: true }, 400, 'invalid_request'],
    [
      'an organization that is not there',
      { name: 'x', organization_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tzz' },
      404,
      'not_found',
    ],
    ['a model that nobody has', { name: 'x', default_model: 'nobody:none' }, 404, 'model_not_found'],
    ['a mode that is none', { name: 'x', permission_mode: 'yolo' }, 400, 'invalid_request'],
    ['a mode for operators', { name: 'x', permission_mode: 'bypass' }, 403, 'permission_mode_refused'],
    ['a rule that is none', { name: 'x', permission_rules: [{ tool: 'bash' }] }, 400, 'invalid_request'],
    ['a relative path', { name: 'x', path: 'src' }, 400, 'invalid_request'],
    [
      'a path that would be a variable',
      { name: 'x', path: '$SERVICE_ADMIN_PASSWORD' },
      400,
      'invalid_request',
    ],
    ['a path that would be a command', { name: 'x', path: '/$(touch x)' }, 403, 'path_refused'],
    ['a path of the system', { name: 'x', path: '/etc' }, 403, 'path_refused'],
    ['a path that is not there', { name: 'x', path: '/srv/none' }, 403, 'path_refused'],
  ])('is not made with %s', async (_, body, status, code) => {
    expect(await as(people.owner, 'POST', path, { body })).toMatchObject({ status, body: { code } });
  });

  test('bypasses permissions only where an operator says so', async () => {
    const { path: place } = await people.newWorkspace();
    const refused = await patch(people.owner, place, { permission_mode: 'bypass' });
    expect(refused).toMatchObject({ status: 403, body: { code: 'permission_mode_refused' } });
    const body = { name: 'Own', permission_mode: 'bypass' };
    expect((await as(app.operatorKey, 'POST', path, { body })).status).toBe(201);
  });
});

/** Each operation with a right body, and the least role that it is for. */
const operations: readonly (readonly [string, string, string, object | undefined, 'viewer' | 'admin'])[] = [
  ['getWorkspace', 'GET', '', undefined, 'viewer'],
  ['updateWorkspace', 'PATCH', '', { name: 'New name' }, 'admin'],
  ['listWorkspaceMembers', 'GET', '/members', undefined, 'viewer'],
  ['putWorkspaceMember', 'PUT', '/members/{member}', { role: 'member' }, 'admin'],
  ['removeWorkspaceMember', 'DELETE', '/members/{member}', undefined, 'admin'],
  ['getWorkspaceConfig', 'GET', '/config', undefined, 'viewer'],
  ['updateWorkspaceConfig', 'PATCH', '/config', { options: { debug: true } }, 'admin'],
  ['getWorkspaceTrust', 'GET', '/trust', undefined, 'viewer'],
  ['revokeWorkspaceTrust', 'DELETE', '/trust', undefined, 'admin'],
  ['deleteWorkspace', 'DELETE', '', undefined, 'admin'],
];

describe.each(operations)('%s', (_, method, below, body, role) => {
  const call = (place: string, token?: string) =>
    app.request(method, place + below.replace('{member}', people.member.user.id), {
      ...(token && { token }),
      ...(body && { body }),
      ...(method === 'PATCH' && { headers: { ...mergePatch, 'if-match': '*' } }),
    });

  test('is nothing for the anonymous, nor for who does not reach the workspace', async () => {
    const { path: place } = await people.newWorkspace();
    expect(await call(place)).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
    const missing = await call(nobodys, people.owner.token);
    expect(missing).toMatchObject({ status: 404, body: { code: 'not_found' } });
    for (const { token } of [people.stranger, people.colleague]) {
      const foreign = await call(place, token);
      expect({ ...foreign.body, instance: '', request_id: '' }).toEqual({
        ...missing.body,
        instance: '',
        request_id: '',
      });
    }
  });

  test(`is for the role ${role} and above`, async () => {
    for (const [who, account] of [
      ['viewer', people.viewer],
      ['member', people.member],
      ['admin', people.admin],
      ['owner', people.owner],
    ] as const) {
      const { path: place } = await people.newWorkspace();
      const { status, body: answer } = await call(place, account.token);
      const allowed = role === 'viewer' || who === 'admin' || who === 'owner';
      if (allowed) expect(status, who).toBeLessThan(300);
      else expect({ status, code: answer.code }, who).toEqual({ status: 403, code: 'role_required' });
    }
  });

  test('needs the scope of its family', async () => {
    const { path: place } = await people.newWorkspace();
    const wanted = method === 'GET' ? 'workspaces:read' : 'workspaces:write';
    const other = method === 'GET' ? 'workspaces:write' : 'workspaces:read';
    const key = async (scope: string) =>
      (await as(people.owner, 'POST', '/api/v1/auth/api-keys', { body: { name: 'k', scopes: [scope] } })).body
        .key;
    const refused = await call(place, await key(other));
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    expect(refused.body.detail).toContain(wanted);
    expect((await call(place, await key(wanted))).status).toBeLessThan(300);
  });
});

describe('the members of a workspace', () => {
  test('are listed with their roles, the oldest first', async () => {
    const { path: place } = await people.newWorkspace();
    const { body } = await as(people.viewer, 'GET', `${place}/members`);
    expect(body.data.map(({ email, role }: Json) => [email, role])).toEqual([
      [people.admin.email, 'admin'],
      [people.member.email, 'member'],
      [people.viewer.email, 'viewer'],
    ]);
    const first = await as(people.viewer, 'GET', `${place}/members?limit=2`);
    const rest = await as(people.viewer, 'GET', `${place}/members?cursor=${first.body.next_cursor}`);
    expect([...first.body.data, ...rest.body.data]).toEqual(body.data);
  });

  test('lose and gain what they may at their next request', async () => {
    const { path: place } = await people.newWorkspace();
    const member = `${place}/members/${people.member.user.id}`;
    expect((await patch(people.member, place, { name: 'x' })).status).toBe(403);
    const raised = await as(people.admin, 'PUT', member, { body: { role: 'admin' } });
    expect(raised).toMatchObject({ status: 200, body: { role: 'admin', type: 'user' } });
    expect((await patch(people.member, place, { name: 'x' })).status).toBe(200);
    expect((await as(people.admin, 'DELETE', member)).status).toBe(204);
    expect((await as(people.member, 'GET', place)).status).toBe(404);
    expect((await as(people.admin, 'DELETE', member)).status).toBe(404);
  });

  test.each<[string, string, object, number]>([
    ['owner', 'usr', { role: 'owner' }, 400],
    ['nothing', 'usr', {}, 400],
    ['a role of somebody who is nobody', 'usr_01k9w6r3h2e7xv5q0c8m4b1tzz', { role: 'viewer' }, 404],
    ['a role of a group that is none', 'grp_01k9w6r3h2e7xv5q0c8m4b1tzz', { role: 'viewer' }, 404],
    ['a role of what is neither', 'ses_01k9w6r3h2e7xv5q0c8m4b1tzz', { role: 'viewer' }, 404],
  ])('are not given %s', async (_, id, body, status) => {
    const { path: place } = await people.newWorkspace();
    const principal = id === 'usr' ? people.colleague.user.id : id;
    expect((await as(people.owner, 'PUT', `${place}/members/${principal}`, { body })).status).toBe(status);
  });

  test('are never strangers, who are answered like those who do not exist', async () => {
    const { path: place } = await people.newWorkspace();
    const stranger = `${place}/members/${people.stranger.user.id}`;
    const refused = await as(people.owner, 'PUT', stranger, { body: { role: 'viewer' } });
    expect(refused).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});

describe('the folder of a workspace', () => {
  const inRoot = async (name: string) => {
    const folder = join(root, name);
    await mkdir(folder);
    return folder;
  };
  const take = (account: Account, folder: string) =>
    as(account, 'POST', path, { body: { name: 'x', path: folder } });

  test('below a root of the operator is taken by its real path, and works', async () => {
    const folder = await inRoot('real');
    await symlink(folder, join(root, 'link'));
    const made = await take(people.owner, join(root, 'link'));
    expect(made).toMatchObject({ status: 201, body: { path: folder } });
    await upstream.script([
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'A' } }] },
      },
      { reply: { text: 'Done.' } },
    ]);
    const session = await as(people.owner, 'POST', '/api/v1/sessions', {
      body: { workspace_id: made.body.id, permission_rules: [{ tool: 'write', decision: 'allow' }] },
    });
    const body = { prompt: 'Go.', session_id: session.body.id };
    expect((await as(people.owner, 'POST', '/api/v1/query', { body })).status).toBe(200);
    expect(await readdir(folder)).toContain('a.txt');
    // What was there before the workspace stays there after it.
    expect((await as(people.owner, 'DELETE', `${path}/${made.body.id}`)).status).toBe(204);
    expect(await readdir(folder)).toContain('a.txt');
  });

  test('is neither a root itself, nor a file, nor what a link leads out to, nor that of another organization', async () => {
    await symlink('/etc', join(root, 'out'));
    await writeFile(join(root, 'file'), '');
    const folder = await inRoot('taken');
    await mkdir(join(folder, 'inner'));
    expect((await take(people.owner, folder)).status).toBe(201);
    for (const refused of [
      root,
      join(root, 'file'),
      join(root, 'out'),
      `${root}/../${root.split('/').at(-1)}`,
    ])
      expect(await take(people.owner, refused)).toMatchObject({
        status: 403,
        body: { code: 'path_refused' },
      });
    const [absent, taken, inner] = await Promise.all(
      [join(root, 'absent'), folder, join(folder, 'inner')].map((one) => take(people.stranger, one)),
    );
    for (const answer of [taken, inner]) expect(answer?.body.detail).toBe(absent?.body.detail);
    expect(absent).toMatchObject({ status: 403, body: { code: 'path_refused' } });
  });

  test('that leads elsewhere by now is not used any more', async () => {
    const folder = await inRoot('moving');
    const made = await take(people.owner, folder);
    await rm(folder, { recursive: true });
    await symlink('/etc', folder);
    const place = `${path}/${made.body.id}`;
    expect(await as(people.owner, 'GET', `${place}/config`)).toMatchObject({
      status: 409,
      body: { code: 'workspace_unavailable' },
    });
    const session = await as(people.owner, 'POST', '/api/v1/sessions', {
      body: { workspace_id: made.body.id },
    });
    const body = { prompt: 'Go.', session_id: session.body.id };
    expect(await as(people.owner, 'POST', '/api/v1/query', { body })).toMatchObject({
      status: 409,
      body: { code: 'workspace_unavailable' },
    });
  });
});

describe('deleting a workspace', () => {
  test('stops what is at work in it, and takes sessions and files along', async () => {
    const { workspace, path: place } = await people.newWorkspace();
    await upstream.script([{ reply: { text: 'never' }, fail: { kind: 'hang' } }]);
    const session = await as(people.owner, 'POST', '/api/v1/sessions', {
      body: { workspace_id: workspace.id },
    });
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: people.owner.token,
      body: { prompt: 'Wait.', session_id: session.body.id },
    });
    await upstream.latest(({ outcome }) => outcome === 'open');
    const folder = join(app.services.settings.workspacesDirectory, workspace.id);
    await writeFile(join(folder, 'kept.txt'), 'x');
    const hung = upstream.latest(({ outcome }) => outcome === 'aborted');
    expect((await as(people.admin, 'DELETE', place)).status).toBe(204);
    await hung;
    expect(await response.text()).toContain('interrupted');
    expect((await as(people.owner, 'GET', place)).status).toBe(404);
    expect((await as(people.owner, 'GET', `/api/v1/sessions/${session.body.id}`)).status).toBe(404);
    const left = await readdir(app.services.settings.workspacesDirectory);
    expect(left.filter((name) => name.includes(workspace.id))).toEqual([]);
  });

  test('is refused for the default one of an organization', async () => {
    const refused = await as(people.owner, 'DELETE', `${path}/${people.workspaceId}`);
    expect(refused).toMatchObject({ status: 409, body: { code: 'workspace_is_default' } });
  });
});
