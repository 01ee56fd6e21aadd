/** The models of providers over HTTP: chosen as defaults, on both databases, against the vendors' own lists. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Answer, coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { createDatabase, newMasterKey } from '../test-database.ts';
import { makePeople, type People } from '../test-people.ts';

const path = '/api/v1/settings/providers';
const defaults = `${path}/default-models`;

describe.each(['SQLite', 'PostgreSQL'])('on %s', (engine) => {
  const onPostgres = engine === 'PostgreSQL';
  const absent = onPostgres && inject('postgresUrl') === null;
  const endings: (() => Promise<unknown>)[] = [];
  let upstream: Upstream;
  let app: TestApp;
  let people: People;
  let made = 0;

  beforeAll(async () => {
    if (absent) return;
    upstream = await startUpstream();
    endings.push(() => upstream.stop());
    const house = {
      type: 'openai-compat' as const,
      base_url: `${upstream.url}/v1`,
      api_key: 'of-the-file',
      models: [{ id: 'big' }, { id: 'small' }, { id: 'middle' }],
    };
    const chosen = (model: string) => ({ provider: 'house', model });
    app = await testApp({
      config: { providers: { house }, models: { large: chosen('big'), small: chosen('small') } },
      settings: {
        mode: 'multi',
        outboundAllow: [new URL(upstream.url).origin],
        ...(onPostgres && (await shared())),
      },
    });
    endings.push(() => app.close());
    people = await makePeople(app);
  });
  afterAll(async () => {
    for (const end of endings.toReversed()) await end();
  });
  beforeEach(async () => {
    if (!absent) await upstream.script([{ reply: { text: 'Yes.' } }]);
  });

  async function shared() {
    const database = await createDatabase();
    const folder = await mkdtemp(join(tmpdir(), 'service-models-'));
    endings.push(
      () => rm(folder, { recursive: true }),
      () => database.remove(),
    );
    return { databaseUrl: database.url, masterKeyFile: await newMasterKey(folder) };
  }

  type Who = keyof Pick<People, 'owner' | 'admin' | 'member' | 'viewer' | 'stranger'>;

  function send(who: Who, method: string, place: string, body?: object, headers = {}): Promise<Answer> {
    const type = method === 'PATCH' ? mergePatch : {};
    return app.request(method, place, {
      token: people[who].token,
      headers: { ...type, ...headers },
      ...(body && { body }),
    });
  }

  async function make(who: Who, more: object = {}): Promise<Json> {
    made += 1;
    const answer = await send(who, 'POST', path, {
      ...{ scope: 'user', provider_id: 'mine', name: `Number ${made}`, type: 'openai-compat' },
      ...{
        base_url: `${upstream.url}/v1`,
        api_key: 'of-the-setting',
        models: [{ id: 'big' }, { id: 'tiny' }],
      },
      ...more,
    });
    expect([answer.status, answer.body.detail]).toEqual([201, undefined]);
    return answer.body;
  }

  const remove = (who: Who, ...settings: Json[]) =>
    Promise.all(settings.map(({ id }) => send(who, 'DELETE', `${path}/${id}`)));

  describe.skipIf(absent)('default models', () => {
    const choose = (who: Who, models: object, query = '', headers = {}) =>
      send(who, 'PUT', defaults + query, models, headers);
    const workspace = '?scope=workspace';
    const organization = '?scope=organization';

    /** The model that would answer a query which names none. */
    async function asked(who: Who, body: object = {}): Promise<string> {
      const answer = await send(who, 'POST', '/api/v1/query/estimate', { prompt: 'x', ...body });
      expect([answer.status, answer.body.detail]).toEqual([200, undefined]);
      return answer.body.model;
    }

    test('are nothing at first, are chosen, replaced as a whole, and by who has read them as they are', async () => {
      const first = await send('member', 'GET', defaults);
      expect(first.body).toEqual({
        ...{ scope: 'user', organization_id: null, workspace_id: null, updated_at: null },
        ...{ large: null, small: null, embed: null },
      });
      const tag = { 'if-match': first.headers.get('etag') ?? '' };
      const [one, other] = await Promise.all(
        ['big', 'middle'].map((id) => choose('member', { large: `house:${id}` }, '', tag)),
      );
      expect([one?.status, other?.status].toSorted()).toEqual([200, 412]);
      await choose('member', { large: 'house:middle', embed: 'house:small' });
      const read = await send('member', 'GET', defaults);
      expect(read.body).toMatchObject({ large: 'house:middle', small: null, embed: 'house:small' });
      const known = { 'if-none-match': read.headers.get('etag') ?? '' };
      expect((await send('member', 'GET', defaults, undefined, known)).status).toBe(304);
      expect((await choose('member', {})).body).toMatchObject({ large: null, embed: null });
    });

    test('count for queries and messages, the nearest first, kind by kind, before those of the files', async () => {
      expect(await asked('member')).toBe('house:big');
      await choose('owner', { large: 'house:small' }, organization);
      expect(await asked('member')).toBe('house:small');
      await choose('owner', { large: 'house:middle' }, workspace);
      expect(await asked('member')).toBe('house:middle');
      expect(await asked('stranger')).toBe('house:big');
      const own = await make('member');
      await choose('member', { large: 'mine:tiny' });
      expect([await asked('member'), await asked('admin')]).toEqual(['mine:tiny', 'house:middle']);
      expect(await asked('member', { model: 'house:big' })).toBe('house:big');
      // What the person has chosen counts before what the workspace is set to; a mapped name means it, too.
      const place = `/api/v1/workspaces/${people.workspaceId}`;
      const { headers } = await send('owner', 'GET', place);
      const match = { 'if-match': headers.get('etag') ?? '' };
      await send('owner', 'PATCH', place, { default_model: 'house:big' }, match);
      expect([await asked('member'), await asked('admin')]).toEqual(['mine:tiny', 'house:big']);
      await send('owner', 'PATCH', place, { default_model: null });
      // The provider is gone: the choice is passed over, and nothing fails.
      await remove('member', own);
      expect(await asked('member')).toBe('house:middle');
      await choose('owner', {}, workspace);
      await choose('owner', {}, organization);
      expect(await asked('member')).toBe('house:big');
      await choose('member', {});
    });

    test('name the small model by which sessions are titled, and the one that embeds', async () => {
      await choose('member', { small: 'house:middle', embed: 'house:small' });
      const asker = { userId: people.member.user.id, workspaceId: people.workspaceId };
      expect(await app.services.defaultModels.counting(asker, [])).toEqual({
        ...{ small: 'house:middle', embed: 'house:small' },
      });
      await send('member', 'POST', '/api/v1/query', { prompt: 'x' });
      await expect
        .poll(async () => (await upstream.requests()).map(({ body }) => (body as Json).model).toSorted())
        .toEqual(['big', 'middle']);
      await choose('member', {});
    });

    test('are refused with their place where no provider of the owner has the model', async () => {
      const own = await make('owner', { provider_id: 'owned' });
      const built = await make('owner', { provider_id: 'openai', type: 'openai', models: [] });
      const models = { large: 'nobody:none', small: 'owned:none', embed: 'house:big' };
      const refused = await choose('owner', models);
      expect(coded(refused)).toEqual([422, 'model_unknown']);
      expect(refused.body.errors.map(({ in: part, pointer }: Json) => [part, pointer])).toEqual([
        ...[
          ['body', '/large'],
          ['body', '/small'],
        ],
      ]);
      // Their own setting is nobody else's to choose from, not even through the workspace.
      for (const query of [workspace, organization])
        expect(coded(await choose('owner', { large: 'owned:big' }, query))).toEqual([422, 'model_unknown']);
      // Of a vendor's models the program knows some.
      expect((await choose('owner', { large: 'openai:gpt-4o' })).status).toBe(200);
      expect(coded(await choose('owner', { large: 'openai:gpt-of-nobody' }))).toEqual([422, 'model_unknown']);
      expect((await choose('owner', { large: 'owned:tiny' })).status).toBe(200);
      await choose('owner', {});
      await remove('owner', own, built);
    });

    test('of a workspace and an organization are chosen by admins, read by members, and unknown elsewhere', async () => {
      for (const query of [workspace, organization]) {
        expect((await choose('admin', { large: 'house:big' }, query)).status).toBe(200);
        expect((await send('member', 'GET', defaults + query)).body.large).toBe('house:big');
        expect(coded(await choose('member', { large: 'nobody:x' }, query))).toEqual([403, 'role_required']);
        expect(coded(await send('viewer', 'GET', defaults + query))).toEqual([403, 'role_required']);
        expect((await choose('admin', {}, query)).status).toBe(200);
      }
      const theirs = [
        `${workspace}&workspace_id=${people.workspaceId}`,
        `${organization}&organization_id=${people.organizationId}`,
      ];
      for (const query of theirs) {
        expect(coded(await send('stranger', 'GET', defaults + query))).toEqual([404, 'not_found']);
        expect(coded(await choose('stranger', {}, query))).toEqual([404, 'not_found']);
      }
      const stray = await send('owner', 'GET', `${defaults}?workspace_id=${people.workspaceId}`);
      expect(stray.body).toMatchObject({ status: 400, errors: [{ in: 'query', name: 'workspace_id' }] });
    });
  });

  describe.skipIf(absent)('models of a setting', () => {
    const types = [
      { type: 'openai', base: '/v1', at: '/v1/models' },
      { type: 'openai-compat', base: '/v1', at: '/v1/models' },
      { type: 'anthropic', base: '/v1', at: '/v1/models?limit=1000' },
      { type: 'gemini', base: '', at: '/v1beta/models?pageSize=1000' },
      { type: 'azure', base: '', at: '/openai/deployments?api-version=2023-03-15-preview' },
      {
        type: 'vertexai',
        base: '/v1/projects/p/locations/global',
        at: '/v1beta1/publishers/google/models?pageSize=100',
      },
    ] as const;
    /** Three pages where the vendor has pages. */
    const list = { page_size: 2 };
    const listed = ['alpha', 'beta:free', 'gamma', 'delta', 'epsilon'];
    const of = (type: (typeof types)[number]) => ({
      ...{ provider_id: `own-${type.type}`, type: type.type, base_url: `${upstream.url}${type.base}` },
      ...{ models: [{ id: 'alpha', context_window: 777 }], disable: true },
    });
    // One that has no key file has an API key, which belongs to a project by itself.
    const key = (type: string) => (type === 'vertexai' ? 'AIza-of-the-setting' : 'key-of-the-setting');

    /** What the list says once nobody looks any more. */
    async function refreshed(who: Who, setting: Json, query = ''): Promise<Json> {
      const place = `${path}/${setting.id}/models`;
      const begun = await send(who, 'POST', `${place}/refresh`);
      expect([begun.status, begun.body.refreshing]).toEqual([202, true]);
      expect(begun.headers.get('location')).toBe(place);
      await expect.poll(async () => (await send(who, 'GET', place)).body.discovery.refreshing).toBe(false);
      return (await send(who, 'GET', `${place}?limit=100${query}`)).body;
    }
    const idsOf = ({ data }: Json) => data.map(({ id }: Json) => id);

    test.each(types)(
      'of the type $type are tried and listed in its own words, also while it is disabled',
      async (type) => {
        const setting = await make('member', { ...of(type), api_key: key(type.type) });
        await upstream.script([], listed, list);
        const tried = await send('member', 'POST', `${path}/${setting.id}/test`);
        expect(tried.body).toEqual({
          ...{ ok: true, latency_ms: expect.any(Number), error: null },
          models_seen: listed.length,
        });
        const [first] = await upstream.requests();
        expect([first?.method, first?.path]).toEqual(['GET', type.at]);
        const body = await refreshed('member', setting);
        expect(idsOf(body)).toEqual(listed.toSorted());
        expect(body.discovery).toMatchObject({ model_count: listed.length, fault: null });
        // What somebody says counts before what the provider says.
        expect(body.data[0]).toMatchObject({
          id: 'alpha',
          sources: ['custom', 'discovered'],
          context_window: 777,
        });
        expect(body.data.at(-1)).toMatchObject({ sources: ['discovered'] });
        await remove('member', setting);
      },
    );

    test.each(types)('of the type $type say in one way what is wrong with their provider', async (type) => {
      const setting = await make('member', { ...of(type), api_key: key(type.type) });
      const secret = key(type.type);
      const tried = async (fail: object) => {
        await upstream.script([{ reply: { text: 'Yes.' } }], undefined, { fail });
        const answer = await send('member', 'POST', `${path}/${setting.id}/test`);
        expect(JSON.stringify(answer.body)).not.toContain(secret);
        return [answer.status, answer.body.ok ?? answer.body.code, answer.body.error?.code ?? null];
      };
      const status = (code: number, more = {}) =>
        tried({ kind: 'status', status: code, message: `Wrong key: ${secret}`, ...more });
      expect(await status(401)).toEqual([200, false, 'provider_refused']);
      expect(await status(403)).toEqual([200, false, 'provider_refused']);
      expect(await status(429, { retry_after: '7' })).toEqual([200, false, 'provider_rate_limited']);
      expect(await status(400)).toEqual([200, false, 'provider_request_refused']);
      expect(await status(500)).toEqual([502, 'provider_failed', null]);
      expect(await tried({ kind: 'wrong_json' })).toEqual([502, 'provider_failed', null]);
      expect(await tried({ kind: 'cut' })).toEqual([502, 'provider_failed', null]);
      // Without a list one model is asked for a word; which one it does not matter.
      expect((await status(404))[0]).toBe(200);
      await remove('member', setting);
    });

    test('are asked one for a word where the provider has no list, and nothing where the setting cannot be used', async () => {
      const setting = await make('member');
      const none = { fail: { kind: 'status', status: 404 } };
      await upstream.script([{ reply: { text: 'Yes.' } }], undefined, none);
      expect((await send('member', 'POST', `${path}/${setting.id}/test`)).body).toMatchObject({
        ...{ ok: true, models_seen: null },
      });
      const asked = (await upstream.requests()).map(({ path: at, body }) => [at, (body as Json)?.model]);
      expect(asked.at(-1)).toEqual(['/v1/chat/completions', 'big']);
      const { discovery } = await refreshed('member', setting);
      expect(discovery).toMatchObject({ fault: expect.stringContaining('no list'), discovered_at: null });
      const { store } = app.services;
      const reach = { userId: people.member.user.id, memberships: [], organizationIds: [], workspaces: [] };
      const read = await store.providerSettings.find(reach, setting.id);
      if (!read) throw new Error('it is there');
      await store.providerSettings.replace(reach, read, { ...read, secrets: 'v1.nobody.s.key' });
      await upstream.script([]);
      expect((await send('member', 'POST', `${path}/${setting.id}/test`)).body).toMatchObject({
        ...{ ok: false, latency_ms: null, models_seen: null, error: { code: 'setting_unusable' } },
      });
      expect(await upstream.requests()).toEqual([]);
      await remove('member', setting);
    });

    test('that were discovered stay when a later look fails, which is shown, and go with another address', async () => {
      const setting = await make('member', { models: undefined, disable: true });
      expect(setting).toMatchObject({ usable: false, models: [] });
      await upstream.script([], listed);
      expect(idsOf(await refreshed('member', setting))).toEqual(listed.toSorted());
      const enabled = await send('member', 'PATCH', `${path}/${setting.id}`, { disable: false });
      expect([enabled.status, enabled.body.usable]).toEqual([200, true]);
      await upstream.script([{ reply: { text: 'Yes.' } }], listed, { fail: { kind: 'status', status: 500 } });
      const after = await refreshed('member', setting);
      expect(idsOf(after)).toEqual(listed.toSorted());
      expect(after.discovery).toMatchObject({ model_count: 5, fault: expect.any(String) });
      const [model] = ['mine:beta:free'];
      const message = { model, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] };
      expect((await send('member', 'POST', '/v1/messages', message)).status).toBe(200);
      const models = (await send('member', 'GET', '/v1/models?limit=100')).body.data.map(
        ({ id }: Json) => id,
      );
      expect(models).toEqual(expect.arrayContaining(listed.map((id) => `mine:${id}`)));
      const moved = await send('member', 'PATCH', `${path}/${setting.id}`, {
        ...{ base_url: `${upstream.url}/other/v1`, disable: true },
      });
      expect(moved.status).toBe(200);
      expect((await send('member', 'GET', `${path}/${setting.id}/models`)).body.data).toEqual([]);
      await remove('member', setting);
    });

    test('are shown page by page, each source by itself, and by cursors of their own list', async () => {
      const setting = await make('member');
      await upstream.script([], listed);
      await refreshed('member', setting);
      const place = `${path}/${setting.id}/models`;
      const seen: string[] = [];
      let next = '';
      do {
        const { body } = await send('member', 'GET', `${place}?limit=2${next}`);
        seen.push(...idsOf(body));
        next = body.next_cursor ? `&cursor=${body.next_cursor}` : '';
      } while (next);
      expect(seen).toEqual([...listed, 'big', 'tiny'].toSorted());
      expect(idsOf((await send('member', 'GET', `${place}?source=custom`)).body)).toEqual(['big', 'tiny']);
      const { body } = await send('member', 'GET', `${place}?limit=1&source=discovered`);
      expect(idsOf(body)).toEqual(['alpha']);
      expect(coded(await send('member', 'GET', `${place}?cursor=${body.next_cursor}`))).toEqual([
        ...[400, 'invalid_cursor'],
      ]);
      await remove('member', setting);
    });

    test('are described by whoever has read them, whatever stands in their ids, and take it back', async () => {
      const setting = await make('member');
      const id = 'meta-llama/llama-4:70b@x é%';
      const place = `${path}/${setting.id}/models/${encodeURIComponent(id)}`;
      const first = await send('member', 'PUT', place, { context_window: 1000, cost_per_1m_in: 2 });
      expect([first.status, first.headers.get('location')]).toEqual([201, place]);
      expect(first.body).toMatchObject({
        ...{ id, model: `mine:${id}`, sources: ['custom'], context_window: 1000, cost_per_1m_in: 2 },
        ...{ cost_per_1m_out: null, can_reason: null },
      });
      const tag = { 'if-match': first.headers.get('etag') ?? '' };
      const read = await send('member', 'GET', place);
      expect([read.body, read.headers.get('etag')]).toEqual([first.body, first.headers.get('etag')]);
      const known = { 'if-none-match': tag['if-match'] };
      expect((await send('member', 'GET', place, undefined, known)).status).toBe(304);
      const second = await send('member', 'PUT', place, { supports_attachments: false }, tag);
      expect([second.status, second.body.context_window, second.body.supports_attachments]).toEqual([
        ...[200, null, false],
      ]);
      expect(coded(await send('member', 'PUT', place, {}, tag))).toEqual([412, 'precondition_failed']);
      expect(coded(await send('member', 'DELETE', place, undefined, tag))).toEqual([
        412,
        'precondition_failed',
      ]);
      const setTo = { 'if-match': '*' };
      expect(coded(await send('member', 'PUT', `${place}-new`, {}, setTo))).toEqual([
        412,
        'precondition_failed',
      ]);
      const shown = await send('member', 'GET', `${path}/${setting.id}`);
      expect(shown.body.models).toEqual([{ id: 'big' }, { id: 'tiny' }, { id, supports_attachments: false }]);
      expect((await send('member', 'DELETE', place)).status).toBe(204);
      expect(coded(await send('member', 'GET', place))).toEqual([404, 'not_found']);
      expect(coded(await send('member', 'DELETE', place))).toEqual([404, 'not_found']);
      // Without any the setting could not be used: the change is refused, as it is for the whole setting.
      const bare = `${path}/${setting.id}/models`;
      expect((await send('member', 'DELETE', `${bare}/tiny`)).status).toBe(204);
      expect(coded(await send('member', 'DELETE', `${bare}/big`))).toEqual([400, 'invalid_request']);
      await remove('member', setting);
    });

    test('are not there for others, and changed by admins alone', async () => {
      const own = await make('member');
      const shared = await make('owner', { scope: 'organization', provider_id: 'shared' });
      const calls = (id: string) =>
        [
          ['GET', `${path}/${id}/models`],
          ['GET', `${path}/${id}/models/big`],
          ['PUT', `${path}/${id}/models/big`],
          ['DELETE', `${path}/${id}/models/big`],
          ['POST', `${path}/${id}/models/refresh`],
          ['POST', `${path}/${id}/test`],
        ] as const;
      const codes = (who: Who, id: string) =>
        Promise.all(
          calls(id).map(async ([method, place]) =>
            coded(await send(who, method, place, method === 'PUT' ? {} : undefined)),
          ),
        );
      expect(await codes('owner', own.id)).toEqual(Array(6).fill([404, 'not_found']));
      expect(await codes('stranger', shared.id)).toEqual(Array(6).fill([404, 'not_found']));
      expect(await codes('member', shared.id)).toEqual([
        ...[
          [200, null],
          [200, null],
        ],
        ...Array(4).fill([403, 'role_required']),
      ]);
      await remove('member', own);
      await remove('owner', shared);
    });

    test('are known from catalogues too: those of the operator and that of the program', async () => {
      const setting = await make('member', {
        provider_id: 'anthropic',
        type: 'anthropic',
        models: undefined,
      });
      const operator = { token: app.operatorKey };
      const entry = {
        provider: 'anthropic',
        id: 'claude-of-tomorrow',
        context_window: 3_000_000,
        cost_per_1m_in: 9,
      };
      const body = { name: 'House', models: [entry, { provider: 'mine', id: 'tiny', context_window: 4242 }] };
      const made = await app.request('POST', `${path}/catalogs`, { ...operator, body });
      const other = await make('member');
      const place = `${path}/${setting.id}/models`;
      const { body: tomorrow } = await send('member', 'GET', `${place}/claude-of-tomorrow`);
      expect(tomorrow).toMatchObject({
        ...{ sources: ['catalog'], context_window: 3_000_000, cost_per_1m_in: 9, cost_per_1m_out_cached: 9 },
      });
      const { body: sonnet } = await send('member', 'GET', `${place}/claude-sonnet-4-5`);
      expect(sonnet).toMatchObject({ sources: ['catalog'], cost_per_1m_in: 3, cost_per_1m_out: 15 });
      // A provider of one's own keeps to its models, and is told of them.
      expect((await send('member', 'GET', `${path}/${other.id}/models/tiny`)).body).toMatchObject({
        ...{ sources: ['custom', 'catalog'], context_window: 4242 },
      });
      const listedModels = (await send('member', 'GET', '/v1/models?limit=1000')).body.data;
      const shown = (id: string) => listedModels.find((one: Json) => one.id === id)?.max_input_tokens;
      expect([shown('anthropic:claude-of-tomorrow'), shown('mine:tiny')]).toEqual([3_000_000, 4242]);
      await app.request('DELETE', `${path}/catalogs/${made.body.id}`, operator);
      await remove('member', setting, other);
    });

    test('cannot break anything, whatever a provider lists and whatever is stored', async () => {
      const setting = await make('member', { provider_id: 'odd' });
      const wrong = [
        null,
        7,
        { id: 7 },
        { id: '' },
        { id: 'a\nb' },
        { id: 'x'.repeat(201) },
        { id: 'fine', name: 9 },
      ];
      const failing = (body: string) => ({
        fail: { kind: 'status', status: 200, body, content_type: 'application/json' },
      });
      await upstream.script([], undefined, failing(JSON.stringify({ data: [...wrong, { id: 'fine' }] })));
      expect(idsOf(await refreshed('member', setting, '&source=discovered'))).toEqual(['fine']);
      const large = JSON.stringify({ data: [{ id: 'y', text: 'z'.repeat(10_000_000) }] });
      await upstream.script([], undefined, failing(large));
      const after = await refreshed('member', setting, '&source=discovered');
      expect([idsOf(after), after.discovery.fault]).toEqual([
        ['fine'],
        expect.stringMatching(/larg|long|much/),
      ]);
      await upstream.script([], undefined, failing('{"data":"none"}'));
      expect((await refreshed('member', setting)).discovery).toMatchObject({ fault: null, model_count: 0 });

      const { providerModels } = app.services.store;
      const { data } = { data: 'not a list of models' };
      const placed = `openai-compat ${upstream.url}/v1`;
      const empty = await make('member', { provider_id: 'empty', disable: true, models: [] });
      const stored = [
        [setting.id, data as unknown as object[]],
        [empty.id, [{ id: 'z'.repeat(3_000_000) }]],
      ] as const;
      for (const [id, models] of stored) {
        await providerModels.claim(id, placed, Date.now());
        await providerModels.found(id, placed, models);
      }
      const reach = { userId: people.member.user.id, memberships: [], organizationIds: [], workspaces: [] };
      const read = await app.services.store.providerSettings.find(reach, empty.id);
      if (!read) throw new Error('it is there');
      // Without a model, and enabled past every check.
      const { disable: _disable, ...entry } = read.entry;
      await app.services.store.providerSettings.replace(reach, read, { ...read, entry });
      await upstream.script([{ reply: { text: 'Yes.' } }]);
      const places = ['', `/${setting.id}`, `/${empty.id}`, `/${setting.id}/models`, `/${empty.id}/models`];
      for (const place of places) expect((await send('member', 'GET', path + place)).status).toBe(200);
      expect((await send('member', 'GET', `${path}/${empty.id}`)).body).toMatchObject({ usable: false });
      for (const place of ['/v1/models', '/v1/models/house:big', defaults])
        expect((await send('member', 'GET', place)).status).toBe(200);
      const answer = await send('member', 'POST', '/api/v1/query', { prompt: 'x' });
      expect([answer.status, answer.body.detail]).toEqual([200, undefined]);
      await remove('member', setting, empty);
    });
  });
});
