/** The models of providers over HTTP: chosen as defaults, on both databases, against the vendors' own lists. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { newDatabase } from '../../contract-tests/new-database.ts';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Answer, coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { makePeople, type People } from '../test-people.ts';

const path = '/api/v1/settings/providers';
const defaults = `${path}/default-models`;

describe.each(['SQLite', 'PostgreSQL'])('on %s', (engine) => {
  const postgres = engine === 'PostgreSQL' ? inject('postgresUrl') : null;
  const absent = engine === 'PostgreSQL' && postgres === null;
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
        ...(postgres !== null && (await shared(postgres))),
      },
    });
    endings.push(() => app.close());
    people = await makePeople(app);
  }, 60_000);
  afterAll(async () => {
    for (const end of endings.toReversed()) await end();
  });
  beforeEach(async () => {
    if (!absent) await upstream.script([{ reply: { text: 'Yes.' } }]);
  });

  async function shared(server: string) {
    const database = await newDatabase(server);
    const folder = await mkdtemp(join(tmpdir(), 'service-models-'));
    const masterKeyFile = join(folder, 'master.key');
    await writeFile(masterKeyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
    endings.push(
      () => rm(folder, { recursive: true }),
      () => database.remove(),
    );
    return { databaseUrl: database.url, masterKeyFile };
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
});
