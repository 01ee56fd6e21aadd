/** Provider settings over HTTP: who may see and change which, what is refused when written, and what is never told. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { makePeople, type People } from '../test-people.ts';

let app: TestApp;
let people: People;

beforeAll(async () => {
  app = await testApp({ settings: { mode: 'multi', outboundAllow: ['10.1.2.3'] } });
  people = await makePeople(app);
});
afterAll(() => app.close());

const path = '/api/v1/settings/providers';
const gateway = {
  provider_id: 'gateway',
  type: 'openai-compat',
  base_url: 'https://llm.example.com/v1',
  models: [{ id: 'big' }],
};
let made = 0;

type Who = keyof Pick<People, 'owner' | 'admin' | 'member' | 'viewer' | 'stranger'>;

function ask(who: Who, method: string, place: string, body?: unknown, headers = {}): Promise<Answer> {
  const type = method === 'PATCH' ? mergePatch : {};
  return app.request(method, place, {
    token: people[who].token,
    headers: { ...type, ...headers },
    ...(body !== undefined && { body }),
  });
}

function create(who: Who, more: object = {}): Promise<Answer> {
  made += 1;
  return ask(who, 'POST', path, { scope: 'user', name: `Number ${made}`, ...gateway, ...more });
}

async function madeBy(who: Who, more: object = {}): Promise<{ place: string; etag: string; setting: Json }> {
  const answer = await create(who, more);
  expect(answer.body).toMatchObject({ usable: true });
  const place = answer.headers.get('location') ?? '';
  return { place, etag: answer.headers.get('etag') ?? '', setting: answer.body };
}

async function listed(who: Who, query = ''): Promise<string[]> {
  const { body } = await ask(who, 'GET', `${path}?limit=100${query}`);
  return body.data.map(({ id }: Json) => id);
}

describe('a provider setting', () => {
  test('is made, named by its Location, and read back without its secrets', async () => {
    const { place, etag, setting } = await madeBy('member', {
      api_key: 'the-key-of-it',
      extra_headers: { 'X-Team': 'the-word-of-the-team' },
      extra_body: { safe_prompt: true },
      system_prompt_prefix: 'Be brief.',
      provider_options: { store: false },
      type: 'vendor-a-compat',
      flat_rate: true,
      priority: 3,
    });
    expect(setting).toMatchObject({
      ...{ scope: 'user', organization_id: null, workspace_id: null, type: 'openai-compat' },
      ...{ api_key_set: true, extra_header_names: ['X-Team'], extra_body: { safe_prompt: true } },
      ...{ system_prompt_prefix: 'Be brief.', provider_options: { store: false }, flat_rate: true },
      ...{ disable: false, priority: 3, models: [{ id: 'big' }], usable: true, diagnostics: [] },
    });
    const read = await ask('member', 'GET', place);
    expect(read.body).toEqual(setting);
    expect(JSON.stringify(read.body)).not.toMatch(/the-key-of-it|the-word-of-the-team/);
    expect((await ask('member', 'GET', place, undefined, { 'if-none-match': etag })).status).toBe(304);
  });

  test('is changed by merging, secrets that are not named stay, and only by who has read it as it is', async () => {
    const headers = { 'X-One': '1', 'X-Two': '2' };
    const { place, etag } = await madeBy('member', {
      api_key: 'k',
      extra_headers: headers,
      extra_body: { a: { b: 1 } },
    });
    const patch = (body: object, tag: string) => ask('member', 'PATCH', place, body, { 'if-match': tag });
    const changed = await patch(
      { name: 'Renamed', extra_headers: { 'X-One': null, 'X-Three': '3' }, extra_body: { a: { c: 2 } } },
      etag,
    );
    expect(changed.body).toMatchObject({
      ...{ name: 'Renamed', api_key_set: true, extra_header_names: ['X-Two', 'X-Three'] },
      extra_body: { a: { b: 1, c: 2 } },
    });
    expect(coded(await patch({ name: 'Lost' }, etag))).toEqual([412, 'precondition_failed']);
    const bare = await ask('member', 'PATCH', place, {
      api_key: null,
      extra_headers: null,
      extra_body: null,
    });
    expect(bare.body).toMatchObject({ api_key_set: false, extra_header_names: [], extra_body: null });
  });

  test('is gone when it is deleted, with what was sealed of it', async () => {
    const { place, etag } = await madeBy('member', { api_key: 'k' });
    expect(coded(await ask('member', 'DELETE', place, undefined, { 'if-match': '"9"' }))).toEqual([
      412,
      'precondition_failed',
    ]);
    expect((await ask('member', 'DELETE', place, undefined, { 'if-match': etag })).status).toBe(204);
    expect(coded(await ask('member', 'GET', place))).toEqual([404, 'not_found']);
  });

  test('is made once for one Idempotency-Key, and one owner has one of a name for a provider', async () => {
    const body = { scope: 'user', ...gateway, name: 'Once' };
    const key = { 'idempotency-key': 'once' };
    const [first, second] = [
      await ask('member', 'POST', path, body, key),
      await ask('member', 'POST', path, body, key),
    ];
    expect(second.body).toEqual(first.body);
    expect(coded(await ask('member', 'POST', path, body))).toEqual([409, 'name_taken']);
    const { place } = await madeBy('member');
    expect(coded(await ask('member', 'PATCH', place, { name: 'Once' }))).toEqual([409, 'name_taken']);
    expect((await ask('admin', 'POST', path, body)).status).toBe(201);
  });

  test('is told of in the audit log, without its secrets', async () => {
    const { place, setting } = await madeBy('admin', { scope: 'organization', api_key: 'secret-of-the-log' });
    await ask('admin', 'PATCH', place, { api_key: 'another-secret', priority: 5 });
    await ask('admin', 'DELETE', place);
    const { body } = await ask('owner', 'GET', '/api/v1/audit/logs?limit=100');
    const entries = body.data.filter(({ target }: Json) => target.id === setting.id);
    expect(entries.map(({ action }: Json) => action)).toEqual([
      ...['provider_setting.delete', 'provider_setting.update', 'provider_setting.create'],
    ]);
    const change = await ask('owner', 'GET', `/api/v1/audit/logs/${entries[1].id}`);
    expect(change.body).toMatchObject({
      before: { priority: 0, secrets: '[masked]' },
      after: { priority: 5, secrets: '[masked]' },
    });
    expect(JSON.stringify(body)).not.toMatch(/secret-of-the-log|another-secret/);
  });

  test('keeps its secrets sealed, each for its own row', async () => {
    const { setting } = await madeBy('member', { api_key: 'written-nowhere' });
    const reach = { userId: people.member.user.id, memberships: [], organizationIds: [], workspaces: [] };
    const stored = await app.services.store.providerSettings.find(reach, setting.id);
    expect(stored?.secrets).toMatch(/^v1\./);
    expect(JSON.stringify(stored)).not.toContain('written-nowhere');
    const unknown = { ...setting, ...stored, id: 'pset_of_another_row' };
    expect(await app.services.providerSettings.show(unknown)).toMatchObject({
      usable: false,
      diagnostics: [{ severity: 'error', message: expect.stringContaining('cannot be opened') }],
    });
  });
});

describe('what is refused when it is written', () => {
  const cases: readonly [string, object, string][] = [
    ['a private address on a server for many', { base_url: 'http://192.168.1.1/v1' }, '/base_url'],
    ['this machine', { base_url: 'http://localhost:8080/v1' }, '/base_url'],
    ['the metadata of a cloud', { base_url: 'http://169.254.169.254/v1' }, '/base_url'],
    ['a password in the address', { base_url: 'https://me:secret@llm.example.com/v1' }, '/base_url'],
    ['no address', { base_url: undefined }, '/base_url'],
    ['a built-in provider without a key', { provider_id: 'openai', type: undefined }, '/api_key'],
    ['no models', { models: [] }, '/models'],
    [
      'a body where none is sent',
      { provider_id: 'openai', type: 'openai', api_key: 'k', extra_body: {} },
      '/extra_body',
    ],
    ['a header with a line break', { extra_headers: { 'X-A': 'a\nb' } }, '/extra_headers/X-A'],
    ['a key that no header can hold', { api_key: 'k\u2028y' }, '/api_key'],
    ['a workspace of another scope', { workspace_id: 'ws_01k9w6r3h2e7xv5q0c8m4b1tza' }, '/workspace_id'],
    [
      'azure without its address',
      { provider_id: 'azure', type: 'azure', base_url: undefined, api_key: 'k' },
      '/base_url',
    ],
  ];
  test.each(cases)('%s is refused, and nothing is stored', async (_, more, pointer) => {
    const before = await listed('member');
    const answer = await create('member', more);
    expect(coded(answer)).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toMatchObject([{ in: 'body', pointer }]);
    expect(JSON.stringify(answer.body)).not.toContain('secret');
    expect(await listed('member')).toEqual(before);
  });

  test('a change that would break it, which leaves it as it was', async () => {
    const { place, setting } = await madeBy('member', { api_key: 'k' });
    for (const body of [
      { base_url: 'http://10.0.0.1/v1' },
      { models: [] },
      { type: 'anthropic', api_key: null },
    ])
      expect(coded(await ask('member', 'PATCH', place, body))).toEqual([400, 'invalid_request']);
    expect((await ask('member', 'GET', place)).body).toEqual(setting);
  });

  test('nothing that the operator lists, and no value that looks like a variable or a command', async () => {
    await madeBy('member', { base_url: 'http://10.1.2.3/v1', api_key: '$OPENAI_API_KEY' });
    await madeBy('member', { api_key: '$(cat /etc/passwd)', extra_headers: { 'X-A': '$HOME' } });
  });
});

describe('a setting that this version cannot read', () => {
  const { provider_id: _provider, ...entry } = gateway;

  /** Past every check, as another version could have done. */
  async function store(id: string, content: unknown): Promise<void> {
    const { providerSettings } = app.services.store;
    const reach = { userId: people.member.user.id, memberships: [], organizationIds: [], workspaces: [] };
    const read = await providerSettings.find(reach, id);
    if (!read) throw new Error('it is there');
    await providerSettings.replace(reach, read, { ...read, entry: content as typeof read.entry });
  }

  test.each([
    ['a type that is not known', { ...entry, type: 'vendor-of-tomorrow' }, 'type', { type: 'anthropic' }],
    ['models that are none', { ...entry, models: 'all' }, 'models', { models: [{ id: 'big' }] }],
    ['an address that is none', { ...entry, base_url: 7 }, 'base_url', { base_url: gateway.base_url }],
    [
      'an unknown member of a model',
      { ...entry, models: [{ id: 'x', colour: 1 }] },
      'models',
      { models: [{ id: 'x' }] },
    ],
    ['nothing at all', null, '', null],
  ])(
    'because of %s is shown, breaks nothing else, and is written again',
    async (_what, stored, member, mended) => {
      const { place, setting } = await madeBy('member', { provider_id: 'odd', api_key: 'k' });
      const fine = await madeBy('member', { provider_id: 'fine', api_key: 'k' });
      await store(setting.id, stored);
      const { status, body } = await ask('member', 'GET', `${path}?provider_id=odd`);
      expect([status, body.data.map(({ id }: Json) => id)]).toEqual([200, [setting.id]]);
      expect(body.data[0]).toMatchObject({
        usable: false,
        diagnostics: [{ severity: 'error', message: expect.stringContaining(`cannot read ${member}`) }],
      });
      for (const [method, at] of [
        ['GET', place],
        ['GET', `${place}/models`],
        ['POST', `${place}/test`],
        ['GET', `${path}/default-models`],
        ['GET', '/v1/models'],
      ] as const)
        expect([at, (await ask('member', method, at)).status]).toEqual([at, 200]);
      const estimate = { prompt: 'x', model: 'fine:big' };
      expect((await ask('member', 'POST', '/api/v1/query/estimate', estimate)).status).toBe(200);
      expect(coded(await ask('member', 'PATCH', place, { name: 'Another' }))).toEqual([
        400,
        'invalid_request',
      ]);
      if (mended) {
        const answer = await ask('member', 'PATCH', place, { models: gateway.models, ...mended });
        expect(answer.body).toMatchObject({ usable: true, diagnostics: [] });
      }
      for (const at of [place, fine.place]) expect((await ask('member', 'DELETE', at)).status).toBe(204);
    },
  );

  test('because a newer one knows more members works without them', async () => {
    const { place, setting } = await madeBy('member', { provider_id: 'newer', api_key: 'k' });
    await store(setting.id, { ...entry, region: 'north' });
    expect((await ask('member', 'GET', place)).body).toMatchObject({ usable: true, diagnostics: [] });
    await ask('member', 'DELETE', place);
  });
});

describe('who sees and changes it', () => {
  test('their own is theirs alone, whatever the role of others', async () => {
    const { place, setting } = await madeBy('viewer', { api_key: 'k' });
    for (const who of ['owner', 'admin', 'member', 'stranger'] as const) {
      expect(await listed(who)).not.toContain(setting.id);
      for (const [method, body] of [['GET'], ['PATCH', { name: 'Mine' }], ['DELETE']] as const)
        expect(coded(await ask(who, method, place, body))).toEqual([404, 'not_found']);
    }
    expect(await listed('viewer')).toEqual([setting.id]);
    expect((await ask('viewer', 'DELETE', place)).status).toBe(204);
  });

  test.each(['organization', 'workspace'] as const)(
    'that of the %s is read by members and changed by admins',
    async (scope) => {
      for (const who of ['member', 'viewer'] as const)
        expect(coded(await create(who, { scope }))).toEqual([403, 'role_required']);
      const { place, setting } = await madeBy('admin', { scope });
      expect(setting).toMatchObject({
        organization_id: people.organizationId,
        workspace_id: scope === 'workspace' ? people.workspaceId : null,
      });
      const seen: Json = {};
      for (const who of ['owner', 'admin', 'member', 'viewer', 'stranger'] as const)
        seen[who] = [
          (await listed(who)).includes(setting.id),
          (await ask(who, 'GET', place)).status,
          (await ask(who, 'PATCH', place, { priority: 1 })).status,
        ];
      expect(seen).toEqual({
        owner: [true, 200, 200],
        admin: [true, 200, 200],
        member: [true, 200, 403],
        viewer: [false, 403, 403],
        stranger: [false, 404, 404],
      });
      expect(coded(await ask('member', 'DELETE', place))).toEqual([403, 'role_required']);
      expect((await ask('owner', 'DELETE', place)).status).toBe(204);
    },
  );

  test('nobody makes one for an organization or a workspace that is not theirs', async () => {
    const { organizationId: organization_id, workspaceId: workspace_id } = people;
    expect(coded(await create('stranger', { scope: 'organization', organization_id }))).toEqual([
      404,
      'not_found',
    ]);
    expect(coded(await create('stranger', { scope: 'workspace', workspace_id }))).toEqual([404, 'not_found']);
  });

  test('a key that is bound to a workspace sees those of the workspace, and makes none for its person', async () => {
    const { place, setting } = await madeBy('admin', { scope: 'workspace' });
    await madeBy('admin');
    const body = { name: 'Bound', workspace_id: people.workspaceId };
    const { api_key, key } = (await ask('admin', 'POST', '/api/v1/auth/api-keys', body)).body;
    expect(api_key.workspace_id).toBe(people.workspaceId);
    const bound = (method: string, where: string, sent?: unknown) =>
      app.request(method, where, { token: key, ...(sent !== undefined && { body: sent }) });
    expect((await bound('GET', path)).body.data.map(({ id }: Json) => id)).toEqual([setting.id]);
    expect((await bound('GET', place)).status).toBe(200);
    expect(coded(await bound('POST', path, { scope: 'user', ...gateway }))).toEqual([403, 'role_required']);
    await ask('admin', 'DELETE', place);
  });

  test('a list is filtered, and goes on where it ended', async () => {
    const { setting } = await madeBy('admin', { scope: 'workspace', provider_id: 'filtered' });
    await madeBy('admin', { scope: 'organization', provider_id: 'filtered' });
    expect(await listed('owner', '&provider_id=filtered&scope=workspace')).toEqual([setting.id]);
    expect(await listed('owner', `&provider_id=filtered&workspace_id=${people.workspaceId}`)).toEqual([
      setting.id,
    ]);
    const page = await ask('owner', 'GET', `${path}?provider_id=filtered&limit=1`);
    const next = `${path}?provider_id=filtered&limit=1&cursor=${page.body.next_cursor}`;
    expect((await ask('owner', 'GET', next)).body).toMatchObject({
      data: [{ id: setting.id }],
      next_cursor: null,
    });
  });
});
