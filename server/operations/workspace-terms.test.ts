/** What a workspace says counts for its sessions and runs: session before workspace before settings. */
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, readEvents, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

const models = ['of-settings', 'of-workspace', 'of-session', 'of-query', 'of-file'];

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      providers: {
        scripted: {
          type: 'openai-compat',
          base_url: `${upstream.url}/v1`,
          api_key: 'k',
          models: models.map((id) => ({ id })),
        },
      },
      models: { large: { provider: 'scripted', model: 'of-settings' } },
    },
  });
  ada = await app.register('ada');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});
beforeEach(() => upstream.script([{ reply: { text: 'I am {{model}}.' } }]));

const ask = (method: string, path: string, body?: unknown, headers = {}) =>
  app.request(method, path, { token: ada.token, headers, ...(body !== undefined && { body }) });
const newWorkspace = async (terms: object): Promise<Json> =>
  (await ask('POST', '/api/v1/workspaces', { name: 'Website', ...terms })).body;
const newSession = async (workspace_id: string, more: object = {}): Promise<string> =>
  (await ask('POST', '/api/v1/sessions', { workspace_id, ...more })).body.id;

/** What the run of a query was begun with. */
async function runOf(sessionId: string, more: object = {}): Promise<Json> {
  const { status, body } = await ask('POST', '/api/v1/query', {
    prompt: 'Who?',
    session_id: sessionId,
    ...more,
  });
  expect(status).toBe(200);
  return (await ask('GET', `/api/v1/runs/${body.run_id}`)).body;
}

async function call(sessionId: string, name: string, args: object, more: object = {}): Promise<Json> {
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name, arguments: args }] } },
    { reply: { text: 'Done.' } },
  ]);
  const { body } = await ask('POST', '/api/v1/query', { prompt: 'Go.', session_id: sessionId, ...more });
  return body.tool_results[0];
}
const write = (sessionId: string, file_path: string, more: object = {}) =>
  call(sessionId, 'write', { file_path, content: 'A' }, more);

describe('the model of a query', () => {
  test.each<[string, object, object, object, string]>([
    ['is that of the settings where nobody says anything', {}, {}, {}, 'of-settings'],
    [
      'is that of its workspace, before the settings',
      { default_model: 'of-workspace' },
      {},
      {},
      'of-workspace',
    ],
    [
      'is that of its session, before the workspace',
      { default_model: 'of-workspace' },
      { model: 'of-session' },
      {},
      'of-session',
    ],
    [
      'is its own, before all',
      { default_model: 'of-workspace' },
      { model: 'of-session' },
      { model: 'of-query' },
      'of-query',
    ],
  ])('%s', async (_, ofWorkspace, ofSession, ofQuery, model) => {
    const workspace = await newWorkspace(ofWorkspace);
    const sessionId = await newSession(workspace.id, ofSession);
    expect((await runOf(sessionId, ofQuery)).model).toBe(`scripted:${model}`);
    const estimate = await ask('POST', '/api/v1/query/estimate', {
      prompt: 'x',
      session_id: sessionId,
      ...ofQuery,
    });
    expect(estimate.body.model).toBe(`scripted:${model}`);
  });

  test('follows the workspace from the next query on', async () => {
    const workspace = await newWorkspace({ default_model: 'of-workspace' });
    const sessionId = await newSession(workspace.id);
    const headers = { 'content-type': 'application/merge-patch+json' };
    await ask('PATCH', `/api/v1/workspaces/${workspace.id}`, { default_model: 'of-session' }, headers);
    expect((await runOf(sessionId)).model).toBe('scripted:of-session');
    await ask('PATCH', `/api/v1/workspaces/${workspace.id}`, { default_model: null }, headers);
    expect((await runOf(sessionId)).model).toBe('scripted:of-settings');
  });

  test('is that of a profile which names one, before the workspace', async () => {
    const workspace = await newWorkspace({ default_model: 'of-workspace' });
    const profile = { slug: 'picky', description: 'x', instructions: 'x', model: 'of-session' };
    await ask('POST', '/api/v1/agents', { ...profile, workspace_id: workspace.id });
    const sessionId = await newSession(workspace.id, { agent_slug: 'picky' });
    expect((await runOf(sessionId)).model).toBe('scripted:of-session');
  });
});

describe('the permission mode of a query', () => {
  test.each<[string, object, object, string]>([
    ['is ask where nobody says anything', {}, {}, 'ask'],
    ['is that of its workspace', { permission_mode: 'accept_edits' }, {}, 'accept_edits'],
    [
      'is its own, before the workspace',
      { permission_mode: 'accept_edits' },
      { permission_mode: 'read_only' },
      'read_only',
    ],
  ])('%s', async (_, ofWorkspace, ofQuery, mode) => {
    const workspace = await newWorkspace(ofWorkspace);
    const sessionId = await newSession(workspace.id);
    expect((await runOf(sessionId, ofQuery)).permission_mode).toBe(mode);
    const { is_error } = await write(sessionId, 'a.txt', ofQuery);
    expect(is_error).toBe(mode !== 'accept_edits');
  });
});

describe('the rules', () => {
  const allow = (pattern?: string) => [{ tool: 'write', decision: 'allow', ...(pattern && { pattern }) }];
  const deny = (pattern?: string) => [{ tool: 'write', decision: 'deny', ...(pattern && { pattern }) }];

  test.each<[string, object[], object[], boolean]>([
    ['nobody allows', [], [], true],
    ['the workspace allows', allow(), [], false],
    ['the session allows', [], allow(), false],
    ['the workspace allows and the session denies', allow(), deny(), true],
    ['the session allows and the workspace denies', deny(), allow(), true],
    ['the workspace allows elsewhere', allow('src/**'), [], true],
    ['is named by what a shell would expand', allow('$(touch x)'), [], true],
  ])('count together with those of the session: what %s', async (_, ofWorkspace, ofSession, refused) => {
    const workspace = await newWorkspace({ permission_rules: ofWorkspace });
    const sessionId = await newSession(workspace.id, { permission_rules: ofSession });
    expect((await write(sessionId, 'a.txt')).is_error).toBe(refused);
  });

  const merging = { 'content-type': 'application/merge-patch+json' };

  test.each([
    ['of its workspace', 'workspace'],
    ['of its session', 'session'],
  ])('%s count as they are at each call, for a run that is at work already', async (_, whose) => {
    const rules = { permission_rules: allow() };
    const workspace = await newWorkspace(whose === 'workspace' ? rules : {});
    const sessionId = await newSession(workspace.id, whose === 'session' ? rules : {});
    const place = whose === 'workspace' ? `workspaces/${workspace.id}` : `sessions/${sessionId}`;
    const step = (step: number, file_path: string) => ({
      when: { step },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path, content: 'A' } }] },
    });
    await upstream.script([step(0, 'a.txt'), step(1, 'b.txt'), { reply: { text: 'Done.' } }]);
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'Go.', session_id: sessionId },
    });
    const results: boolean[] = [];
    for await (const { data } of readEvents(response)) {
      if (data.type !== 'tool_finished') continue;
      results.push(data.is_error ?? data.result?.is_error);
      await ask('PATCH', `/api/v1/${place}`, { permission_rules: deny() }, merging);
    }
    const { body } = await ask('GET', `/api/v1/sessions/${sessionId}/messages`);
    const told = body.data.flatMap(({ parts }: Json) =>
      parts.filter(({ type }: Json) => type === 'tool_result'),
    );
    expect(told.map(({ is_error }: Json) => is_error)).toEqual([false, true]);
    expect(results).toHaveLength(2);
  });

  test('of the session that a person sees count as they are for an agent at work', async () => {
    const workspace = await newWorkspace({});
    const sessionId = await newSession(workspace.id, { permission_rules: allow() });
    const errand = { prompt: 'Errand.', description: 'An errand', agent_slug: 'coder' };
    const write = (file_path: string) => ({ name: 'write', arguments: { file_path, content: 'A' } });
    await upstream.script([
      { when: { last_user: '^Errand', step: 0 }, reply: { tool_calls: [write('a.txt')] } },
      {
        when: { last_user: '^Errand', step: 1 },
        reply: { hold_after_chunks: 0, tool_calls: [write('b.txt')] },
      },
      { when: { last_user: '^Errand' }, reply: { text: 'Tried.' } },
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'agent', arguments: errand }] } },
      { reply: { text: 'Done.' } },
    ]);
    const asked = ask('POST', '/api/v1/query', { prompt: 'Go.', session_id: sessionId });
    await expect.poll(async () => (await upstream.requests()).length).toBe(3);
    await ask('PATCH', `/api/v1/sessions/${sessionId}`, { permission_rules: deny() }, merging);
    await upstream.releaseHeld();
    expect((await asked).body.stop_reason).toBe('end_turn');
    const { body: children } = await ask('GET', `/api/v1/sessions/${sessionId}/children`);
    const { body } = await ask('GET', `/api/v1/sessions/${children.data[0].session.id}/messages`);
    const told = body.data.flatMap(({ parts }: Json) =>
      parts.filter(({ type }: Json) => type === 'tool_result'),
    );
    expect(told.map(({ is_error }: Json) => is_error)).toEqual([false, true]);
  });

  test('open tools to the Messages surface, unless the session has rules of its own', async () => {
    const workspace = await newWorkspace({ permission_rules: allow() });
    const offered = async (rules: object[]) => {
      const sessionId = await newSession(workspace.id, { permission_rules: rules });
      await upstream.script([{ reply: { text: 'Hello.' } }]);
      const body = {
        model: 'scripted:of-query',
        max_tokens: 10,
        messages: [{ role: 'user', content: 'Hi' }],
      };
      const answer = await ask('POST', '/v1/messages', body, { 'x-service-session-id': sessionId });
      expect(answer.status).toBe(200);
      const [request] = await upstream.requests();
      // As the vendor has it.
      const sent = request?.body as { tools?: { function: { name: string } }[] } | undefined;
      return (sent?.tools ?? []).map((tool) => tool.function.name);
    };
    expect(await offered([])).toEqual(['write']);
    expect(await offered([{ tool: 'view', decision: 'allow' }])).toEqual(['view']);
  });
});

describe('the settings files of a workspace on a server', () => {
  async function withFile(settings: object, terms: object = {}) {
    const workspace = await newWorkspace(terms);
    const folder = join(app.services.settings.workspacesDirectory, workspace.id);
    await ask('GET', `/api/v1/workspaces/${workspace.id}/config`);
    await mkdir(join(folder, '.service'));
    await writeFile(join(folder, '.service/service.json'), JSON.stringify(settings));
    const trust = async () => {
      const { body } = await ask('GET', `/api/v1/workspaces/${workspace.id}/trust`);
      const files = body.files.map(({ path, sha256 }: Json) => ({ path, sha256 }));
      const token = app.operatorKey;
      const answer = await app.request('POST', `/api/v1/workspaces/${workspace.id}/trust`, {
        token,
        body: { files },
      });
      expect(answer.status).toBe(200);
    };
    return { folder, trust, workspace, sessionId: await newSession(workspace.id) };
  }
  const large = (model: string) => ({ models: { large: { provider: 'scripted', model } } });

  test('choose the model before those of the installation, and after the workspace itself', async () => {
    const { sessionId } = await withFile(large('of-file'));
    expect((await runOf(sessionId)).model).toBe('scripted:of-file');
    const other = await withFile(large('of-file'), { default_model: 'of-workspace' });
    expect((await runOf(other.sessionId)).model).toBe('scripted:of-workspace');
  });

  test('take tools away', async () => {
    const { sessionId } = await withFile(
      { options: { disabled_tools: ['write'] } },
      { permission_mode: 'accept_edits' },
    );
    expect((await write(sessionId, 'a.txt')).is_error).toBe(true);
  });

  test('allow tools only where the operator trusts them, and only as long as nobody changes them', async () => {
    const { sessionId, trust, folder } = await withFile({ permissions: { allowed_tools: ['write'] } });
    expect((await write(sessionId, 'a.txt')).is_error).toBe(true);
    await trust();
    expect((await write(sessionId, 'a.txt')).is_error).toBe(false);
    await writeFile(
      join(folder, '.service/service.json'),
      JSON.stringify({ permissions: { allowed_tools: ['write', 'bash'] } }),
    );
    expect((await write(sessionId, 'b.txt')).is_error).toBe(true);
  });

  test('guard by hooks where they are trusted, until that is taken back', async () => {
    const hooks = { pre_tool_use: [{ matcher: '^write$', command: './guard.sh' }] };
    const { sessionId, trust, folder, workspace } = await withFile(
      { hooks },
      { permission_mode: 'accept_edits' },
    );
    await writeFile(join(folder, 'guard.sh'), '#!/bin/sh\necho "not today" >&2\nexit 2\n');
    await chmod(join(folder, 'guard.sh'), 0o755);
    expect((await write(sessionId, 'a.txt')).is_error).toBe(false);
    await trust();
    expect(await write(sessionId, 'b.txt')).toMatchObject({
      is_error: true,
      content: expect.stringContaining('not today'),
    });
    await ask('DELETE', `/api/v1/workspaces/${workspace.id}/trust`);
    expect((await write(sessionId, 'c.txt')).is_error).toBe(false);
  });

  test('that cannot be used leave the settings of the installation', async () => {
    const { sessionId, folder } = await withFile({});
    await writeFile(join(folder, '.service/service.json'), '{ broken');
    expect((await runOf(sessionId)).model).toBe('scripted:of-settings');
  });
});
