/** The settings files of a workspace over HTTP: what they say, who may change them, and who trusts them. */
import { createHash } from 'node:crypto';
import { access, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
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
import { logInOperator, makeWorkspacePeople, type WorkspacePeople } from '../test-people.ts';

let upstream: Upstream;
let app: TestApp;
let people: WorkspacePeople;
let operator: Account | undefined;

const guard = { hooks: { pre_tool_use: [{ matcher: '^bash$', command: './guard.sh' }] } };
const password = 'the-password-of-the-operator';

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      ...scriptedSettings(upstream.url),
      options: { debug: true, disabled_tools: ['corpus_search'] },
    },
    environment: { SERVICE_ADMIN_PASSWORD: password },
  });
  people = await makeWorkspacePeople(app);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const as = (account: Account | string, method: string, place: string, options: RequestOptions = {}) =>
  app.request(method, place, { token: typeof account === 'string' ? account : account.token, ...options });
const change = (account: Account | string, place: string, body: unknown, ifMatch = '*') =>
  as(account, 'PATCH', `${place}/config`, { body, headers: { ...mergePatch, 'if-match': ifMatch } });

/** A workspace that the operator administers, with these files in its folder. */
async function workspaceWith(files: Readonly<Record<string, string | object>> = {}) {
  const made = await people.newWorkspace();
  const folder = join(app.services.settings.workspacesDirectory, made.workspace.id);
  // The folder is made at its first use.
  await as(people.owner, 'GET', `${made.path}/config`);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return { ...made, folder, file: join(folder, '.service/service.json') };
}

const read = async (place: string, account: Account | string = people.owner): Promise<Json> =>
  (await as(account, 'GET', `${place}/config`)).body;
const settingOf = (config: Json, key: string) => config.settings.find((one: Json) => one.key === key);
const statesOf = async (place: string): Promise<Record<string, string>> => {
  const { body } = await as(people.owner, 'GET', `${place}/trust`);
  return Object.fromEntries(body.files.map(({ path, state }: Json) => [path, state]));
};
const trust = (
  account: Account | string,
  place: string,
  files: readonly { path: string; sha256: string }[],
) => as(account, 'POST', `${place}/trust`, { body: { files } });
const hashOf = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
async function trustAll(place: string): Promise<void> {
  const { body } = await as(people.owner, 'GET', `${place}/trust`);
  const files = body.files.map(({ path, sha256 }: Json) => ({ path, sha256 }));
  expect((await trust(app.operatorKey, place, files)).status).toBe(200);
}

describe('the settings of a workspace', () => {
  test('are merged, each with the file that says so, and those that do not count are told', async () => {
    const { path: place } = await workspaceWith({
      'service.json': {
        models: { large: { provider: 'a', model: 'far' } },
        options: { disabled_tools: ['bash'] },
      },
      '.service/service.json': `{\n  "models": { "large": { "provider": "a", "model": "near" } },\n  "hooks": ${JSON.stringify(guard.hooks)}\n}`,
    });
    const config = await read(place);
    expect(settingOf(config, 'models.large.model')).toMatchObject({
      value: 'near',
      origin: { scope: 'workspace', path: '.service/service.json', line: 2 },
    });
    expect(settingOf(config, 'options.disabled_tools')).toMatchObject({
      origin: { scope: 'project', path: 'service.json' },
    });
    expect(settingOf(config, 'options.debug')).toMatchObject({
      value: true,
      origin: { scope: 'global', path: null },
    });
    expect(config.settings.filter(({ key }: Json) => key.startsWith('hooks'))).toEqual([]);
    expect(config.files).toEqual([
      expect.objectContaining({ path: 'service.json', state: 'untrusted', restricted_keys: [] }),
      expect.objectContaining({
        path: '.service/service.json',
        state: 'untrusted',
        restricted_keys: ['/hooks'],
      }),
    ]);
    expect(config.notices).toContain(
      '.service/service.json: /hooks does not count, since the file is not trusted.',
    );
  });

  test('switch no tool on that the installation has switched off for all', async () => {
    for (const disabled_tools of [[], ['todos', 'skill']]) {
      const { workspace, path: place } = await workspaceWith({
        'service.json': { options: { disabled_tools } },
      });
      expect(settingOf(await read(place), 'options.disabled_tools')?.value ?? []).toEqual(disabled_tools);
      const { body } = await as(people.owner, 'GET', `/api/v1/tools?limit=100&workspace_id=${workspace.id}`);
      const off = body.data.filter((tool: Json) => tool.disabled_by === 'options.disabled_tools');
      expect(off.map((tool: Json) => tool.name)).toEqual(expect.arrayContaining(['corpus_search']));
    }
  });

  test('show what the installation keeps for itself to its operator alone, and its secrets to nobody', async () => {
    const own = await read(`/api/v1/workspaces/${people.workspaceId}`);
    expect(JSON.stringify(own)).not.toMatch(/scripted-1.*base_url|127\.0\.0\.1|the-key-of-the-upstream/);
    expect(own.settings.filter(({ key }: Json) => key.startsWith('providers'))).toEqual([]);
    const me = await as(app.operatorKey, 'GET', '/api/v1/users/me');
    const operators = await read(
      `/api/v1/workspaces/${me.body.memberships[0].default_workspace_id}`,
      app.operatorKey,
    );
    expect(settingOf(operators, 'providers.scripted.base_url').value).toBe(`${upstream.url}/v1`);
    expect(JSON.stringify(operators)).not.toContain('the-key-of-the-upstream');
  });

  test('are not sent again to whoever has them, and are again once a file changed', async () => {
    const { path: place, folder } = await workspaceWith({ 'service.json': {} });
    const first = await as(people.viewer, 'GET', `${place}/config`);
    const headers = { 'if-none-match': first.headers.get('etag') ?? '' };
    expect((await as(people.viewer, 'GET', `${place}/config`, { headers })).status).toBe(304);
    await writeFile(join(folder, 'service.json'), '{ "options": {} }');
    expect((await as(people.viewer, 'GET', `${place}/config`, { headers })).status).toBe(200);
  });

  test('are readable although one of their files is not, which is told', async () => {
    const { path: place } = await workspaceWith({
      'service.json': '{ broken',
      '.service.json': { options: { debug: false } },
    });
    const config = await read(place);
    expect(config.files[1]).toMatchObject({ path: 'service.json', state: 'unusable', sha256: null });
    expect(config.notices[0]).toMatch(/^service\.json:1: /);
    expect(settingOf(config, 'options.debug').value).toBe(false);
  });

  test('say nothing of what lies outside of the folder', async () => {
    const { path: place, folder } = await workspaceWith();
    await symlink('/etc/passwd', join(folder, 'service.json'));
    const { files, notices } = await read(place);
    expect(files).toEqual([]);
    expect(notices.join()).toContain('symbolic link to outside');
    expect(notices.join()).not.toContain(folder);
  });
});

describe('a change of the settings', () => {
  test('writes the file of the workspace, and leaves comments', async () => {
    const {
      path: place,
      file,
      workspace,
    } = await workspaceWith({
      '.service/service.json': '{\n  // by hand\n  "options": { "debug": false }\n}\n',
    });
    const changed = await change(people.admin, place, {
      options: { debug: null, disabled_tools: ['fetch'] },
    });
    expect(changed).toMatchObject({ status: 200, body: { workspace_id: workspace.id } });
    expect(settingOf(changed.body, 'options.disabled_tools').value).toEqual(['fetch']);
    expect(await readFile(file, 'utf8')).toContain('// by hand');
    expect(changed.headers.get('etag')).toBe(
      (await as(people.admin, 'GET', `${place}/config`)).headers.get('etag'),
    );
  });

  test('needs the ETag that was read, and loses nothing that was written since', async () => {
    const { path: place, file } = await workspaceWith({
      '.service/service.json': { options: { debug: false } },
    });
    const body = { options: { disabled_tools: ['fetch'] } };
    const bare = await as(people.owner, 'PATCH', `${place}/config`, { body, headers: mergePatch });
    expect(bare).toMatchObject({ status: 428, body: { code: 'precondition_required' } });
    const etag = (await as(people.owner, 'GET', `${place}/config`)).headers.get('etag') ?? '';
    await writeFile(file, '{ "options": { "debug": true } }');
    expect(await change(people.owner, place, body, etag)).toMatchObject({ status: 412 });
    expect(await readFile(file, 'utf8')).toBe('{ "options": { "debug": true } }');
    const now = (await as(people.owner, 'GET', `${place}/config`)).headers.get('etag') ?? '';
    const outcomes = await Promise.all(
      ['a', 'b'].map((tool) => change(people.owner, place, { options: { disabled_tools: [tool] } }, now)),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual([200, 412]);
  });

  test.each<[string, object, string]>([
    ['a value of another type', { options: { debug: 'yes' } }, '/options/debug'],
    ['a key that is none', { options: { nonsense: 1 } }, '/options/nonsense'],
    ['a model without its provider', { models: { large: { model: 'm' } } }, '/models/large'],
  ])('with %s is refused with the place', async (_, body, pointer) => {
    const { path: place, file } = await workspaceWith();
    const answer = await change(people.owner, place, body);
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(answer.body.errors.map((error: Json) => error.pointer)).toContain(pointer);
    await expect(access(file)).rejects.toThrow();
  });

  test.each<[string, object]>([
    ['nothing', {}],
    ['a section that there is not', { nonsense: {} }],
    ['a section that is no object', { models: [] }],
  ])('that says %s is refused by the contract', async (_, body) => {
    const { path: place } = await workspaceWith();
    expect(await change(people.owner, place, body)).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
  });

  test.each<[string, object]>([
    ['hooks', guard],
    ['permissions', { permissions: { allowed_tools: ['bash'] } }],
    ['providers', { providers: { p: { type: 'openai-compat', base_url: 'http://x', api_key: 'k' } } }],
    ['mcp', { mcp: { m: { command: 'x' } } }],
    ['mcpServers', { mcpServers: { m: { command: 'x' } } }],
    ['lsp', { lsp: { l: { command: 'x' } } }],
    ['image_generation', { image_generation: { provider: 'p' } }],
    ['options.context_paths', { options: { context_paths: ['x'] } }],
    ['options.skills_paths', { options: { skills_paths: ['x'] } }],
    ['the end of hooks', { hooks: null }],
  ])('in %s is for the operator, whether or not the file is trusted', async (_, body) => {
    const { path: place, file } = await workspaceWith({ '.service/service.json': guard });
    for (const account of [people.owner, people.admin]) {
      expect(await change(account, place, body)).toMatchObject({
        status: 403,
        body: { code: 'restricted_section' },
      });
      expect(await readFile(file, 'utf8')).toBe(JSON.stringify(guard));
    }
  });

  test('into a trusted file keeps its guards: only the operator changes it, and it stays trusted then', async () => {
    const { path: place, workspace } = await workspaceWith({ '.service/service.json': guard });
    await trustAll(place);
    const body = { options: { disabled_tools: ['fetch'] } };
    const refused = await change(people.owner, place, body);
    expect(refused).toMatchObject({ status: 403, body: { code: 'restricted_section' } });
    expect(await statesOf(place)).toEqual({ '.service/service.json': 'trusted' });
    // The operator's own right to the workspace counts as well.
    expect((await change(app.operatorKey, place, body)).status).toBe(404);
    await makeAdmin(workspace.id);
    const changed = await change(app.operatorKey, place, {
      ...body,
      hooks: { pre_tool_use: [{ command: './other.sh' }] },
    });
    expect(changed.status).toBe(200);
    expect(changed.body.files).toEqual([
      expect.objectContaining({ state: 'trusted', restricted_keys: ['/hooks'] }),
    ]);
  });

  test('by the operator trusts nothing that was not trusted before', async () => {
    const { path: place, workspace } = await workspaceWith();
    await makeAdmin(workspace.id);
    expect((await change(app.operatorKey, place, guard)).status).toBe(200);
    expect(await statesOf(place)).toEqual({ '.service/service.json': 'untrusted' });
  });

  test('writes `$(touch x)` and `$SERVICE_ADMIN_PASSWORD` as what they are, whoever trusts the file then', async () => {
    const { path: place, folder, file, workspace } = await workspaceWith();
    await makeAdmin(workspace.id);
    for (const value of ['$(touch x)', '$SERVICE_ADMIN_PASSWORD']) {
      const providers = {
        p: { type: 'openai-compat', base_url: 'http://x', api_key: value, models: [{ id: 'm' }] },
      };
      const body = { providers, models: { large: { provider: 'p', model: value } } };
      expect((await change(app.operatorKey, place, body)).status).toBe(200);
      await trustAll(place);
      expect(settingOf(await read(place), 'models.large.model').value).toBe(value);
      expect(JSON.parse(await readFile(file, 'utf8')).providers.p.api_key).toBe(
        value.replaceAll('$', String.raw`\$`),
      );
      await expect(access(join(folder, 'x'))).rejects.toThrow();
      expect(JSON.stringify(await read(place))).not.toContain(password);
    }
  });

  test('leads nowhere else through a link in the folder', async () => {
    const { path: place, folder } = await workspaceWith();
    await symlink('/tmp', join(folder, '.service'));
    expect(await change(people.owner, place, { options: { debug: true } })).toMatchObject({ status: 400 });
    await expect(access('/tmp/service.json')).rejects.toThrow();
  });
});

/** The operator belongs to no organization but their own. */
async function makeAdmin(workspaceId: string): Promise<void> {
  operator ??= await logInOperator(app);
  await people.admit(operator, workspaceId);
}

describe('trust', () => {
  test('is given by the operator, to the bytes that were looked at, and ends with them', async () => {
    const { path: place, file } = await workspaceWith({ '.service/service.json': guard });
    const { body } = await as(people.viewer, 'GET', `${place}/trust`);
    expect(body.files).toEqual([
      {
        path: '.service/service.json',
        sha256: await hashOf(file),
        state: 'untrusted',
        restricted_keys: ['/hooks'],
        review: 'hooks.pre_tool_use[0].matcher = "^bash$"\nhooks.pre_tool_use[0].command = "./guard.sh"\n',
        diff: null,
        trusted_at: null,
      },
    ]);
    const files = body.files.map(({ path, sha256 }: Json) => ({ path, sha256 }));
    const trusted = await trust(app.operatorKey, place, files);
    expect(trusted).toMatchObject({
      status: 200,
      body: { files: [{ state: 'trusted', trusted_at: expect.any(String) }] },
    });
    const hooks = (await read(place)).settings.filter(({ pointer }: Json) => pointer.startsWith('/hooks/'));
    expect(hooks.length).toBeGreaterThan(0);
    for (const { origin } of hooks) expect(origin).toMatchObject({ scope: 'workspace' });
    await writeFile(file, JSON.stringify(guard).replace('./guard.sh', './guard.sh; rm -rf ~'));
    const after = await as(people.viewer, 'GET', `${place}/trust`);
    expect(after.body.files[0]).toMatchObject({ state: 'untrusted', trusted_at: null });
    expect(after.body.files[0].diff).toContain('rm -rf ~');
    expect(await trust(app.operatorKey, place, files)).toMatchObject({
      status: 409,
      body: { code: 'trust_conflict' },
    });
  });

  test('is not for anybody who is not the operator', async () => {
    const { path: place, file } = await workspaceWith({ '.service/service.json': guard });
    const files = [{ path: '.service/service.json', sha256: await hashOf(file) }];
    for (const account of [people.owner, people.admin, people.member, people.viewer, people.stranger])
      expect(await trust(account, place, files)).toMatchObject({
        status: 403,
        body: { code: 'role_required' },
      });
    expect(await app.request('POST', `${place}/trust`, { body: { files } })).toMatchObject({ status: 401 });
    const missing = '/api/v1/workspaces/ws_01k9w6r3h2e7xv5q0c8m4b1tzz';
    expect(await trust(app.operatorKey, missing, files)).toMatchObject({ status: 404 });
    expect(await statesOf(place)).toEqual({ '.service/service.json': 'untrusted' });
  });

  test.each<[string, { path: string; sha256?: string }, number]>([
    ['of other bytes', { path: 'service.json', sha256: 'a'.repeat(64) }, 409],
    ['that is not there', { path: '.service.json' }, 409],
    ['outside of the folder', { path: '../service.json' }, 409],
    ['of the installation', { path: '/etc/passwd' }, 409],
    ['without a hash', { path: 'service.json', sha256: 'x' }, 400],
  ])('of several files is given to none where one is a file %s', async (_, wrong, status) => {
    const {
      path: place,
      file,
      folder,
    } = await workspaceWith({ '.service/service.json': guard, 'service.json': guard });
    const sha256 = await hashOf(join(folder, 'service.json'));
    const right = { path: '.service/service.json', sha256: await hashOf(file) };
    expect((await trust(app.operatorKey, place, [right, { sha256, ...wrong }])).status).toBe(status);
    expect(Object.values(await statesOf(place))).toEqual(['untrusted', 'untrusted']);
  });

  test('of one file leaves that of another, and all of it is taken back at once', async () => {
    const {
      path: place,
      folder,
      file,
    } = await workspaceWith({ '.service/service.json': guard, 'service.json': guard });
    for (const [path, at] of [
      ['service.json', join(folder, 'service.json')],
      ['.service/service.json', file],
    ] as const)
      expect((await trust(app.operatorKey, place, [{ path, sha256: await hashOf(at) }])).status).toBe(200);
    expect(await statesOf(place)).toEqual({ 'service.json': 'trusted', '.service/service.json': 'trusted' });
    expect((await as(people.admin, 'DELETE', `${place}/trust`)).status).toBe(204);
    expect(await statesOf(place)).toEqual({
      'service.json': 'untrusted',
      '.service/service.json': 'untrusted',
    });
    // There is nothing left to take back, which is no failure.
    expect((await as(people.admin, 'DELETE', `${place}/trust`)).status).toBe(204);
  });

  test('is the operator’s to see and to take back in every workspace', async () => {
    const { path: place } = await workspaceWith({ '.service/service.json': guard });
    await trustAll(place);
    expect((await as(app.operatorKey, 'GET', `${place}/trust`)).status).toBe(200);
    expect((await as(app.operatorKey, 'DELETE', `${place}/trust`)).status).toBe(204);
    expect(await statesOf(place)).toEqual({ '.service/service.json': 'untrusted' });
  });
});
