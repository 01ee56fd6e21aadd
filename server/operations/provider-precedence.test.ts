/** Which provider is asked, and with whose key: a person's own before the workspace's, the organization's and the files'. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Answer, coded, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';
import { makePeople, type People } from '../test-people.ts';

let upstream: Upstream;
let app: TestApp;
let people: People;

beforeAll(async () => {
  upstream = await startUpstream();
  const house = {
    type: 'openai-compat' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'of-the-file',
    models: [{ id: 'big' }, { id: 'small' }],
  };
  app = await testApp({
    config: {
      providers: { house },
      models: { large: { provider: 'house', model: 'big' }, small: { provider: 'house', model: 'small' } },
    },
    settings: { mode: 'multi', outboundAllow: [new URL(upstream.url).origin] },
  });
  people = await makePeople(app);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});
beforeEach(() => upstream.script([{ reply: { text: 'Yes.' } }]));

type Who = keyof Pick<People, 'owner' | 'admin' | 'member' | 'viewer' | 'stranger'>;
const path = '/api/v1/settings/providers';
let made = 0;

function send(who: Who, method: string, place: string, body?: object, headers = {}): Promise<Answer> {
  const type = method === 'PATCH' ? mergePatch : {};
  return app.request(method, place, {
    token: people[who].token,
    headers: { ...type, ...headers },
    ...(body && { body }),
  });
}

async function make(who: Who, more: object): Promise<Json> {
  made += 1;
  const answer = await send(who, 'POST', path, {
    ...{ scope: 'user', provider_id: 'house', name: `Number ${made}`, type: 'openai-compat' },
    ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'big' }] },
    ...more,
  });
  expect([answer.status, answer.body.detail]).toEqual([201, undefined]);
  return answer.body;
}

const remove = (who: Who, ...settings: Json[]) =>
  Promise.all(settings.map(({ id }) => send(who, 'DELETE', `${path}/${id}`)));

async function keysSent(): Promise<string[]> {
  return (await upstream.requests()).map(({ headers }) =>
    String(headers.authorization).replace('Bearer ', ''),
  );
}

/** The key that a query of theirs is asked with. */
async function keyOf(who: Who, body: object = {}): Promise<string | undefined> {
  const answer = await send(who, 'POST', '/api/v1/query', { prompt: 'Is it so?', ...body });
  expect([answer.status, answer.body.detail]).toEqual([200, undefined]);
  return (await keysSent())[0];
}

const message = { model: 'house:big', max_tokens: 100, messages: [{ role: 'user', content: 'Is it so?' }] };

async function keyOfMessage(who: Who, settingId?: string, more: object = {}): Promise<string | undefined> {
  await upstream.script([{ reply: { text: 'Yes.' } }]);
  const headers = settingId ? { 'x-service-provider-setting-id': settingId } : {};
  const answer = await send(who, 'POST', '/v1/messages', { ...message, ...more }, headers);
  expect([answer.status, answer.body.error]).toEqual([200, undefined]);
  return (await keysSent())[0];
}

describe('of several settings for one provider', () => {
  test('the nearest counts, for each person theirs, in queries and messages, and the header before all', async () => {
    const organization = await make('owner', { scope: 'organization', api_key: 'of-the-organization' });
    const workspace = await make('owner', { scope: 'workspace', api_key: 'of-the-workspace' });
    const own = await make('member', { api_key: 'of-the-member' });
    const later = await make('member', { api_key: 'of-the-member-later' });
    const keys: Json = {};
    for (const who of ['member', 'admin', 'stranger'] as const) {
      await upstream.script([{ reply: { text: 'Yes.' } }]);
      keys[who] = [await keyOf(who), await keyOfMessage(who)];
    }
    expect(keys).toEqual({
      member: ['of-the-member', 'of-the-member'],
      admin: ['of-the-workspace', 'of-the-workspace'],
      stranger: ['of-the-file', 'of-the-file'],
    });
    const wanted = [organization, workspace, own, later];
    const asked = [];
    for (const { id } of wanted) asked.push(await keyOfMessage('member', id));
    expect(asked).toEqual([
      ...['of-the-organization', 'of-the-workspace', 'of-the-member', 'of-the-member-later'],
    ]);
    await send('member', 'PATCH', `${path}/${later.id}`, { priority: 1 });
    expect(await keyOfMessage('member')).toBe('of-the-member-later');
    await remove('member', own, later);
    expect(await keyOfMessage('member')).toBe('of-the-workspace');
    await send('owner', 'PATCH', `${path}/${workspace.id}`, { disable: true });
    expect(await keyOfMessage('member')).toBe('of-the-organization');
    await remove('owner', organization, workspace);
    expect(await keyOfMessage('member')).toBe('of-the-file');
  });

  test('streamed queries, the names of sessions and agents of agents are asked with it as well', async () => {
    const own = await make('member', { api_key: 'of-the-member', models: [{ id: 'big' }, { id: 'small' }] });
    const errand = { description: 'Look', prompt: 'Look.', agent_slug: 'task' };
    await upstream.script([
      {
        when: { last_user: '^delegate', step: 0 },
        reply: { tool_calls: [{ name: 'agent', arguments: errand }] },
      },
      { reply: { text: 'Yes.' } },
    ]);
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: people.member.token,
      body: { prompt: 'delegate' },
    });
    const names = [];
    for await (const { event } of readEvents(response)) names.push(event);
    expect(names.at(-1)).toBe('done');
    // Two steps, one of the agent, and the name.
    await expect.poll(async () => (await keysSent()).length).toBeGreaterThanOrEqual(4);
    expect(new Set(await keysSent())).toEqual(new Set(['of-the-member']));
    await remove('member', own);
  });

  test('a model that only their own provider has is theirs to name, list and ask about', async () => {
    const own = await make('member', {
      provider_id: 'mine',
      api_key: 'k',
      models: [{ id: 'rare', context_window: 777 }],
    });
    expect(await keyOf('member', { model: 'rare' })).toBe('k');
    expect(coded(await send('admin', 'POST', '/api/v1/query', { prompt: 'x', model: 'mine:rare' }))).toEqual([
      ...[404, 'model_not_found'],
    ]);
    const ids = async (who: Who) =>
      (await send(who, 'GET', '/v1/models?limit=100')).body.data.map(({ id }: Json) => id);
    expect(await ids('member')).toContain('mine:rare');
    expect(await ids('admin')).not.toContain('mine:rare');
    expect((await send('member', 'GET', '/v1/models/mine:rare')).body.max_input_tokens).toBe(777);
    expect((await send('admin', 'GET', '/v1/models/mine:rare')).status).toBe(404);
    await remove('member', own);
  });
});

describe('the header x-service-provider-setting-id', () => {
  const refused = async (who: Who, id: string, more: object = {}) => {
    const headers = { 'x-service-provider-setting-id': id };
    const answers = await Promise.all(
      ['/v1/messages', '/v1/messages/count_tokens'].map((place) =>
        send(who, 'POST', place, { ...message, ...more }, headers),
      ),
    );
    return answers.map(({ status, body }) => [status, body.type, body.error?.type]);
  };

  test('of somebody else is answered as one that does not exist, and nothing is asked', async () => {
    const own = await make('member', { api_key: 'of-the-member' });
    const missing = own.id.replace(/.{6}$/, '000000');
    for (const who of ['owner', 'stranger'] as const)
      for (const id of [own.id, missing])
        expect(await refused(who, id)).toEqual(Array(2).fill([404, 'error', 'not_found_error']));
    expect(await keysSent()).toEqual([]);
    await remove('member', own);
  });

  test('refuses the model of another provider, and a setting that is disabled', async () => {
    const own = await make('member', { provider_id: 'mine', api_key: 'of-the-member' });
    expect(await refused('member', own.id)).toEqual(Array(2).fill([400, 'error', 'invalid_request_error']));
    expect(await keyOfMessage('member', own.id, { model: 'big' })).toBe('of-the-member');
    await send('member', 'PATCH', `${path}/${own.id}`, { disable: true });
    const model = 'mine:big';
    expect(await refused('member', own.id, { model })).toEqual(
      Array(2).fill([400, 'error', 'invalid_request_error']),
    );
    await remove('member', own);
  });

  test('holds for a whole run in a session, its agents included, and is stored with it', async () => {
    await make('member', { api_key: 'another-of-the-member', priority: 9 });
    const own = await make('member', { api_key: 'of-the-header', extra_headers: { 'X-Team': 'blue' } });
    const session = await send('member', 'POST', '/api/v1/sessions', {});
    const headers = {
      'x-service-session-id': session.body.id,
      'x-service-provider-setting-id': own.id,
    };
    const answer = await send('member', 'POST', '/v1/messages', message, headers);
    expect([answer.status, answer.body.error]).toEqual([200, undefined]);
    expect(await keysSent()).toEqual(['of-the-header']);
    expect((await upstream.requests())[0]?.headers).toMatchObject({ 'x-team': 'blue' });
  });
});

describe('while a run is at work', () => {
  const questions = [{ id: 'colour', type: 'free_text', text: 'Which colour?' }];

  /** Runs to its question, does something, answers it, and tells how the run ended. */
  async function during(work: () => Promise<unknown>, model: string): Promise<string> {
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'ask_user', arguments: { questions } }] } },
      { reply: { text: 'Yes.' } },
    ]);
    const { token } = people.admin;
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token,
      body: { prompt: 'Ask.', model },
    });
    let last = '';
    for await (const { event, data } of readEvents(response)) {
      last = event === 'error' ? data.error : event;
      if (data.type !== 'prompt_requested') continue;
      await work();
      const body = { answers: [{ question_id: 'colour', fill_in_text: 'green' }] };
      await app.request('POST', data.request.reply_path ?? data.reply_path, { token, body });
    }
    return last;
  }

  /** Sessions are named by the model of the file, whenever that is done. */
  const ownKeysSent = async () => (await keysSent()).filter((key) => key !== 'of-the-file');

  test('a change acts on its next model call, and so does a deletion, which ends it', async () => {
    const own = await make('admin', { provider_id: 'mine', api_key: 'before' });
    const change = () => send('admin', 'PATCH', `${path}/${own.id}`, { api_key: 'after' });
    expect(await during(change, 'mine:big')).toBe('done');
    expect(await ownKeysSent()).toEqual(['before', 'after']);
    expect(await during(() => remove('admin', own), 'mine:big')).toMatch(/^provider_refused: .*taken away/);
    expect(await ownKeysSent()).toEqual(['after']);
  });
});

describe('a setting that does not work any more', () => {
  test('breaks nothing: it says so itself, and the next one is asked', async () => {
    const own = await make('admin', { api_key: 'of-the-admin' });
    const { store } = app.services;
    const reach = { userId: people.admin.user.id, memberships: [], organizationIds: [], workspaces: [] };
    const read = await store.providerSettings.find(reach, own.id);
    if (!read) throw new Error('it is there');
    await store.providerSettings.replace(reach, read, { ...read, secrets: 'v1.nobody.s.key' });
    const shown = await send('admin', 'GET', `${path}/${own.id}`);
    expect(shown.body).toMatchObject({ usable: false, diagnostics: [{ severity: 'error' }] });
    expect((await send('admin', 'GET', path)).status).toBe(200);
    await upstream.script([{ reply: { text: 'Yes.' } }]);
    expect(await keyOfMessage('admin')).toBe('of-the-file');
    const headers = { 'x-service-provider-setting-id': own.id };
    expect((await send('admin', 'POST', '/v1/messages', message, headers)).status).toBe(400);
    const mended = await send('admin', 'PATCH', `${path}/${own.id}`, { api_key: 'mended' });
    expect([mended.status, mended.body.usable]).toEqual([200, true]);
  });
});
