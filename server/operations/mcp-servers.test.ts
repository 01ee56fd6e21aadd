/** MCP servers that people, admins and the operator keep: whose counts, who may change them, what runs have of them, and what is never told. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import knex from 'knex';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { answerMcp } from '../../contract-tests/mcp/answers.ts';
import { startMcp, type TestMcpServer } from '../../contract-tests/mcp/start-mcp.ts';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { listening } from '../runtime/mcp/test-mcp.ts';
import { startOauthServer } from '../runtime/mcp/test-oauth-server.ts';
import { type Answer, coded, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';
import { makePeople, type People } from '../test-people.ts';

let upstream: Upstream;
let app: TestApp;
let people: People;
/** Which one was asked tells whose server counts. */
const kept: Record<string, TestMcpServer> = {};
/** The log of the server. */
const lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  for (const name of ['file', 'installation', 'organization', 'workspace', 'member'])
    kept[name] = await startMcp();
  const house = {
    type: 'openai-compat' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'of-the-file',
    models: [{ id: 'big' }],
  };
  app = await testApp({
    config: {
      providers: { house },
      models: { large: { provider: 'house', model: 'big' } },
      mcp: { tracker: { type: 'http', url: urlOf('file') } },
    },
    settings: { mode: 'multi', outboundAllow: ['127.0.0.1'] },
    log: pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
  });
  people = await makePeople(app);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
  for (const server of Object.values(kept)) await server.stop();
});
beforeEach(() => upstream.script([{ reply: { text: 'Yes.' } }]));

type Who = keyof Pick<People, 'owner' | 'admin' | 'member' | 'viewer' | 'stranger'> | 'operator';
const path = '/api/v1/mcp/servers';

function urlOf(name: string): string {
  return kept[name]?.url ?? '';
}

function send(who: Who, method: string, place: string, body?: object, headers = {}): Promise<Answer> {
  const type = method === 'PATCH' ? mergePatch : {};
  return app.request(method, place, {
    token: who === 'operator' ? app.operatorKey : people[who].token,
    headers: { ...type, ...headers },
    ...(body && { body }),
  });
}

async function make(who: Who, more: object): Promise<Json> {
  const answer = await send(who, 'POST', path, { scope: 'user', name: 'tracker', type: 'http', ...more });
  expect(coded(answer)).toEqual([201, null]);
  return answer.body;
}

async function toolsOf(who: Who): Promise<string[]> {
  const { body } = await send(who, 'GET', '/api/v1/tools?limit=100');
  return body.data.filter(({ source }: Json) => source === 'mcp').map(({ name }: Json) => name);
}

/** Which of the servers their tools come from. */
async function askedBy(who: Who): Promise<string[]> {
  for (const server of Object.values(kept)) server.asked.length = 0;
  const session = await send(who, 'POST', '/api/v1/sessions', {
    permission_rules: [{ tool: 'mcp_tracker_list_issues', decision: 'allow' }],
  });
  const call = { name: 'mcp_tracker_list_issues', arguments: { project: 'lunar' } };
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [call] } },
    { reply: { text: '{{last_tool_result}}' } },
  ]);
  const answer = await send(who, 'POST', '/api/v1/query', {
    prompt: 'Which issues are open?',
    session_id: session.body.id,
  });
  expect(answer.body.content).toEqual([{ type: 'text', text: 'No open issues in lunar.' }]);
  return Object.keys(kept).filter((name) => kept[name]?.asked.some(({ method }) => method === 'tools/call'));
}

describe('of several servers of one name', () => {
  test('the nearest counts, for each person theirs, and what is taken away counts no more at the next step', async () => {
    expect(await askedBy('member')).toEqual(['file']);
    const all: Json[] = [await make('operator', { scope: 'installation', url: urlOf('installation') })];
    expect(await askedBy('stranger')).toEqual(['installation']);
    all.push(await make('owner', { scope: 'organization', url: urlOf('organization') }));
    expect(await askedBy('member')).toEqual(['organization']);
    expect(await askedBy('stranger')).toEqual(['installation']);
    all.push(await make('admin', { scope: 'workspace', url: urlOf('workspace') }));
    expect(await askedBy('member')).toEqual(['workspace']);
    const own = await make('member', { url: urlOf('member') });
    expect([await askedBy('member'), await askedBy('admin')]).toEqual([['member'], ['workspace']]);

    // One that is off takes those behind it along, and one that is gone does not.
    await send('member', 'PATCH', `${path}/${own.id}`, { disabled: true });
    expect(await toolsOf('member')).toEqual([]);
    expect((await send('member', 'DELETE', `${path}/${own.id}`)).status).toBe(204);
    expect(await askedBy('member')).toEqual(['workspace']);
    for (const { id } of all.reverse()) await send('operator', 'DELETE', `${path}/${id}`);
    for (const { id } of all) await send('owner', 'DELETE', `${path}/${id}`);
    expect(await askedBy('member')).toEqual(['file']);
  });

  test('one that is broken stands for itself: the run goes on, is told why, and has the others', async () => {
    const broken = await make('member', { name: 'broken', url: 'http://127.0.0.1:9/mcp' });
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: people.member.token,
      body: { prompt: 'Is it so?' },
    });
    const events = [];
    for await (const { data } of readEvents(response)) events.push(data);
    const notices = events.flatMap(({ type, message }) => (type === 'notice_given' ? [message] : []));
    expect(notices).toEqual([expect.stringMatching(/^The MCP server broken cannot be used: /)]);
    expect(events.at(-1)).toMatchObject({ status: 'completed' });
    expect(await toolsOf('member')).toContain('mcp_tracker_list_issues');
    const shown = await send('member', 'GET', `${path}/${broken.id}`);
    expect(shown.body).toMatchObject({ state: 'failed', detail: expect.any(String) });
    const sessions = await send('member', 'GET', '/api/v1/sessions?limit=1');
    const inspected = await send('member', 'GET', `/api/v1/sessions/${sessions.body.data[0].id}/inspect`);
    expect(inspected.body.extensions).toContainEqual(
      expect.objectContaining({ extension: 'mcp', name: 'broken', state: 'failed' }),
    );
    expect((await send('member', 'GET', `${path}/${broken.id}/tools`)).body.code).toBe('mcp_server_failed');
    await send('member', 'DELETE', `${path}/${broken.id}`);
  });
});

describe('who may do what', () => {
  test("a process is the operator's alone to name, in whatever scope, and to change", async () => {
    const local = { name: 'local', type: 'stdio', command: 'true' };
    for (const who of ['stranger', 'member', 'owner'] as const)
      for (const body of [local, { ...local, type: undefined }])
        expect([who, ...coded(await send(who, 'POST', path, { scope: 'user', ...body }))]).toEqual([
          ...[who, 403, 'restricted_section'],
        ]);
    const org = { scope: 'organization', organization_id: people.organizationId };
    // Even the operator names none for people whom they do not belong to.
    expect(coded(await send('operator', 'POST', path, { ...org, ...local }))).toEqual([404, 'not_found']);
    const made = await make('operator', { ...local, scope: 'installation', args: ['-x'], env: { A: 'b' } });
    expect(made).toMatchObject({ command: 'true', args: ['-x'], env_names: ['A'] });
    for (const change of [{ command: 'false' }, { args: [] }, { env: null }, { disabled: true }])
      expect((await send('owner', 'PATCH', `${path}/${made.id}`, change)).status).toBe(403);
    const seen = await send('member', 'GET', `${path}/${made.id}`);
    expect(seen.body).toMatchObject({ name: 'local', command: null, args: [], env_names: ['A'] });
    // Without a sandbox, or a program that speaks the protocol, it is told why not.
    expect((await send('operator', 'POST', `${path}/${made.id}/test`)).body.code).toBe('mcp_server_failed');
    expect((await send('operator', 'DELETE', `${path}/${made.id}`)).status).toBe(204);
  });

  test('what the installation has is used by all and changed by the operator; of others nobody learns', async () => {
    const shared = await make('operator', { scope: 'installation', name: 'all', url: urlOf('installation') });
    expect(
      coded(
        await send('owner', 'POST', path, {
          scope: 'installation',
          name: 'x',
          type: 'http',
          url: urlOf('file'),
        }),
      ),
    ).toEqual([403, 'role_required']);
    for (const [method, more] of [
      ['PATCH', { disabled: true }],
      ['DELETE', undefined],
    ] as const)
      expect(coded(await send('owner', method, `${path}/${shared.id}`, more))).toEqual([
        403,
        'role_required',
      ]);
    expect(coded(await send('owner', 'POST', `${path}/${shared.id}/reconnect`))).toEqual([
      403,
      'role_required',
    ]);
    const seen = await send('stranger', 'GET', `${path}/${shared.id}`);
    expect(seen.body).toMatchObject({ name: 'all', url: null });
    expect(await toolsOf('stranger')).toContain('mcp_all_list_issues');
    const own = await make('member', { name: 'mine', url: urlOf('member') });
    for (const who of ['owner', 'stranger', 'operator'] as const)
      for (const [method, place] of [
        ['GET', ''],
        ['DELETE', ''],
        ['GET', '/tools'],
        ['POST', '/test'],
      ] as const)
        expect([who, (await send(who, method, `${path}/${own.id}${place}`)).status]).toEqual([who, 404]);
    const listed = async (who: Who) =>
      (await send(who, 'GET', path)).body.data.map(({ name }: Json) => name).sort();
    expect([await listed('member'), await listed('owner')]).toEqual([['all', 'mine'], ['all']]);
    for (const [who, { id }] of [
      ['operator', shared],
      ['member', own],
    ] as const)
      await send(who, 'DELETE', `${path}/${id}`);
  });

  test('is listed with the names that runs have for its tools, those of other servers being what they are', async () => {
    const own = await make('member', { name: 'git', url: urlOf('member') });
    const namesOf = async () =>
      (await send('member', 'GET', `${path}/${own.id}/tools`)).body.data.map(({ name }: Json) => name);
    expect(await namesOf()).toContain('mcp_git_list_issues');
    // Its tool `issues` would be called so, too.
    const other = await make('member', { name: 'git_list', url: urlOf('member') });
    const names = await namesOf();
    expect(names).not.toContain('mcp_git_list_issues');
    expect(await toolsOf('member')).toEqual(expect.arrayContaining(names));
    for (const { id } of [own, other]) await send('member', 'DELETE', `${path}/${id}`);
  });

  test.each([
    [{ type: 'http' }, '/url'],
    [{ type: 'http', url: 'http://169.254.169.254/mcp' }, '/url'],
    [{ type: 'http', url: 'http://10.0.0.1/mcp' }, '/url'],
    [{ type: 'http', url: 'https://ada:secret@mcp.example.com/' }, '/url'],
    [{ type: 'http', url: 'https://mcp.example.com/', command: 'true' }, '/command'],
    [{ type: undefined, url: 'https://mcp.example.com/' }, '/type'],
    [
      { type: 'http', url: 'https://mcp.example.com/', workspace_id: 'ws_01k9w6r3h2e7xv5q0c8m4b1tza' },
      '/workspace_id',
    ],
  ])('%j cannot be, and nobody is asked', async (more, pointer) => {
    const answer = await send('member', 'POST', path, { scope: 'user', name: 'odd', ...more });
    expect(coded(answer)).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer }));
  });

  test('of one owner there are not more than fifty', async () => {
    const body = (at: number) => ({
      scope: 'user',
      name: `n${at}`,
      type: 'http',
      url: urlOf('file'),
      disabled: true,
    });
    const { token } = await app.register('collector');
    const answers = [];
    for (let at = 0; at <= 50; at += 1)
      answers.push((await app.request('POST', path, { token, body: body(at) })).status);
    expect(answers).toEqual([...Array(50).fill(201), 409]);
  });
});

describe('what is kept', () => {
  test('secrets are sent to the server and told to nobody, and a patch keeps those that it does not name', async () => {
    const headers = { Authorization: 'Bearer of-the-header', 'X-Team': 'docs' };
    const made = await make('owner', {
      scope: 'organization',
      name: 'sealed',
      url: urlOf('organization'),
      headers,
    });
    await send('owner', 'PATCH', `${path}/${made.id}`, { headers: { 'X-Team': null, 'X-Other': 'more' } });
    kept.organization?.asked.splice(0);
    expect((await send('owner', 'POST', `${path}/${made.id}/test`)).body).toMatchObject({
      ok: true,
      tool_count: 1,
    });
    expect(kept.organization?.asked[0]?.headers).toMatchObject({
      authorization: 'Bearer of-the-header',
      'x-other': 'more',
    });
    expect(kept.organization?.asked[0]?.headers).not.toHaveProperty('x-team');
    const told = [
      made,
      (await send('owner', 'GET', `${path}/${made.id}`)).body,
      (await send('owner', 'GET', path)).body,
      (await send('owner', 'GET', '/api/v1/audit/logs?limit=100')).body,
    ];
    expect(JSON.stringify(told)).not.toContain('of-the-header');
    expect(told[1]).toMatchObject({ header_names: ['Authorization', 'X-Other'] });
    await send('owner', 'DELETE', `${path}/${made.id}`);
  });

  test('a change is held against what was read, told where people work, and written down', async () => {
    const made = await make('owner', { scope: 'workspace', name: 'told', url: urlOf('workspace') });
    const read = await send('owner', 'GET', `${path}/${made.id}`);
    const tag = { 'if-match': read.headers.get('etag') ?? '' };
    expect((await send('admin', 'PATCH', `${path}/${made.id}`, { timeout: 30 }, tag)).status).toBe(200);
    const late = await send('owner', 'PATCH', `${path}/${made.id}`, { timeout: 60 }, tag);
    expect(coded(late)).toEqual([412, 'precondition_failed']);
    await send('owner', 'POST', `${path}/${made.id}/reconnect`);
    await send('owner', 'DELETE', `${path}/${made.id}`);
    // Of one's own nobody else is told.
    const own = await make('member', { name: 'quiet', url: urlOf('member') });
    await send('member', 'DELETE', `${path}/${own.id}`);
    const place = `/api/v1/events?workspace_id=${people.workspaceId}&types=mcp_server_changed&after=0&follow=false`;
    const events = [];
    for await (const { data } of readEvents(await app.stream('GET', place, { token: people.viewer.token })))
      if (data.event?.name === 'told' || data.event?.name === 'quiet')
        events.push([data.event.name, data.event.change]);
    expect(events).toEqual(
      ['created', 'updated', 'reconnected', 'deleted'].map((change) => ['told', change]),
    );
    const { body } = await send('owner', 'GET', '/api/v1/audit/logs?limit=100');
    const written = body.data.filter(({ target }: Json) => target?.id === made.id);
    expect(written.map(({ action }: Json) => action).sort()).toEqual(
      ['create', 'delete', 'reconnect', 'update'].map((verb) => `mcp_server.${verb}`),
    );
  });

  test("connections are shared where the setting has the credential, and no one else's where it has none", async () => {
    const tracker = await startMcp();
    const begun = () => tracker.asked.filter(({ method }) => method === 'initialize').length;
    const headers = { Authorization: 'Bearer of-all' };
    const shared = await make('owner', { scope: 'organization', name: 'one', url: tracker.url, headers });
    await Promise.all([toolsOf('owner'), toolsOf('admin'), toolsOf('member')]);
    expect(begun()).toBe(1);
    await send('owner', 'PATCH', `${path}/${shared.id}`, { headers: null });
    await Promise.all([toolsOf('owner'), toolsOf('admin'), toolsOf('member')]);
    expect(begun()).toBe(4);
    // What agents get of it needs no new connection.
    await send('owner', 'PATCH', `${path}/${shared.id}`, { disabled_tools: ['list_issues'] });
    expect([await toolsOf('member'), begun()]).toEqual([
      expect.not.arrayContaining(['mcp_one_list_issues']),
      4,
    ]);
    const off = await send('member', 'GET', `${path}/${shared.id}/tools`);
    expect(off.body.data).toMatchObject([{ name: 'mcp_one_list_issues', enabled: false }]);
    await send('owner', 'DELETE', `${path}/${shared.id}`);
    await tracker.stop();
  });

  test('a setting that another node has changed ends its connections here, though nobody asks for it', async () => {
    const { url, stop } = await listening('streamableHttp');
    const made = await make('member', { name: 'everything', url });
    expect(await toolsOf('member')).toContain('mcp_everything_echo');
    expect((await send('member', 'GET', `${path}/${made.id}`)).body.state).toBe('ready');
    // As another node does it: past the connections of this one.
    await app.services.store.mcpServers.reconnect(
      { userId: people.member.user.id, memberships: [], organizationIds: [], workspaces: [] },
      made.id,
    );
    await vi.waitFor(
      async () => {
        const held = await app.services.runtime.mcp.held();
        expect(held).not.toContain(made.id);
      },
      { timeout: 60_000, interval: 100 },
    );
    await send('member', 'DELETE', `${path}/${made.id}`);
    await stop();
  });
});

test('what a server lists many times under one address is paged through to its end', async () => {
  const server = createServer(async (request, response) => {
    let sent = '';
    for await (const chunk of request) sent += String(chunk);
    const { method } = JSON.parse(sent || '{}') as { method?: string }; // the client is ours
    const { status, body } = answerMcp(request.method, sent);
    const resources = Array.from({ length: 7 }, (_, at) => ({ uri: 'x:same', name: `n${at}` }));
    const listed = method === 'resources/list' ? { ...body, result: { resources } } : body;
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(listed === null ? '' : JSON.stringify(listed));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const made = await make('member', { name: 'twofold', url: `http://127.0.0.1:${port}/mcp` });
  const names: string[] = [];
  let cursor = '';
  for (let pages = 0; pages < 10; pages += 1) {
    const { body } = await send('member', 'GET', `${path}/${made.id}/resources?limit=3${cursor}`);
    names.push(...body.data.map(({ name }: Json) => name));
    if (body.next_cursor === null) break;
    cursor = `&cursor=${body.next_cursor}`;
  }
  expect(names).toEqual(['n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'project']);
  await send('member', 'DELETE', `${path}/${made.id}`);
});

describe.each(['streamableHttp', 'sse'] as const)('a public server over %s', (transport) => {
  test('is tried, looked into, and used in a run', async () => {
    const { url } = await listening(transport);
    const type = transport === 'sse' ? 'sse' : 'http';
    const made = await make('member', { name: 'every', type, url });
    const tried = await send('member', 'POST', `${path}/${made.id}/test`);
    expect(tried.body).toMatchObject({ ok: true, error: null, has_resources: true });
    const tools = await send('member', 'GET', `${path}/${made.id}/tools?limit=3`);
    expect(tools.body.data).toHaveLength(3);
    const rest = await send(
      'member',
      'GET',
      `${path}/${made.id}/tools?limit=100&cursor=${tools.body.next_cursor}`,
    );
    expect(3 + rest.body.data.length).toBe(tried.body.tool_count);
    const stray = await send('member', 'GET', `${path}/${made.id}/prompts?cursor=${tools.body.next_cursor}`);
    expect(coded(stray)).toEqual([400, 'invalid_cursor']);
    expect((await send('member', 'GET', `${path}/${made.id}/prompts`)).body.data.length).toBe(
      tried.body.prompt_count,
    );
    const { body } = await send('member', 'GET', `${path}/${made.id}/resources?limit=100`);
    expect(body.data.some(({ is_template }: Json) => is_template)).toBe(true);
    const session = await send('member', 'POST', '/api/v1/sessions', {
      permission_rules: [{ tool: 'mcp_every_echo', decision: 'allow' }],
    });
    await upstream.script([
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'mcp_every_echo', arguments: { message: 'hello' } }] },
      },
      { reply: { text: '{{last_tool_result}}' } },
    ]);
    const said = await send('member', 'POST', '/api/v1/query', {
      prompt: 'Say it.',
      session_id: session.body.id,
    });
    expect(said.body.content[0].text).toContain('hello');
    await send('member', 'DELETE', `${path}/${made.id}`);
    expect(await toolsOf('member')).not.toContain('mcp_every_echo');
  });
});

describe('logins', () => {
  const logIn = async (who: Who, id: string, more: object = {}): Promise<Response> => {
    const begun = await send(who, 'POST', `${path}/${id}/oauth/start`, { scopes: ['use'], ...more });
    expect(coded(begun)).toEqual([201, null]);
    const page = await fetch(begun.body.authorize_url, { redirect: 'manual' });
    const back = new URL(page.headers.get('location') ?? '');
    return fetch(`${app.url}${back.pathname}${back.search}`, { redirect: 'manual' });
  };
  const whereTo = (back: Response) => back.headers.get('location');

  test('each person logs in by themselves, through what the server says of where, and nobody uses it but they', async () => {
    const guarded = await startOauthServer();
    const made = await make('owner', { scope: 'organization', name: 'guarded', url: guarded.url });
    const tried = await send('member', 'POST', `${path}/${made.id}/test`);
    expect(tried.body).toMatchObject({ ok: false, error: { code: 'login_needed' } });
    const begun = await send('member', 'POST', `${path}/${made.id}/oauth/start`);
    const asked = new URL(begun.body.authorize_url).searchParams;
    expect([asked.get('resource'), asked.get('code_challenge_method')]).toEqual([guarded.url, 'S256']);
    expect(whereTo(await logIn('member', made.id))).toBe('/mcp/connected#mcp_server=guarded');
    expect(await toolsOf('member')).toContain('mcp_guarded_act');
    expect(await toolsOf('admin')).not.toContain('mcp_guarded_act');
    expect(whereTo(await logIn('admin', made.id, { return_to: '/device?mine=1' }))).toBe(
      '/device?mine=1#mcp_server=guarded',
    );
    expect(await toolsOf('admin')).toContain('mcp_guarded_act');

    expect((await send('admin', 'DELETE', `${path}/${made.id}/oauth`)).status).toBe(204);
    expect(guarded.takenBack).toHaveLength(2);
    expect(await toolsOf('admin')).not.toContain('mcp_guarded_act');
    expect(await toolsOf('member')).toContain('mcp_guarded_act');
    // The tokens are for the address that they were given for.
    const elsewhere = await startOauthServer();
    await send('owner', 'PATCH', `${path}/${made.id}`, { url: elsewhere.url });
    expect(await toolsOf('member')).not.toContain('mcp_guarded_act');
    await send('owner', 'DELETE', `${path}/${made.id}`);
  });

  test('stay with their person where the setting has a credential that is empty', async () => {
    const guarded = await startOauthServer();
    const made = await make('owner', { scope: 'organization', name: 'guarded', url: guarded.url });
    await logIn('member', made.id);
    const headers = { Authorization: '' };
    expect((await send('admin', 'PATCH', `${path}/${made.id}`, { headers })).status).toBe(200);
    expect(await toolsOf('member')).toContain('mcp_guarded_act');
    expect(await toolsOf('admin')).not.toContain('mcp_guarded_act');
    const tried = await send('admin', 'POST', `${path}/${made.id}/test`);
    expect(tried.body).toMatchObject({ ok: false, error: { code: 'login_needed' } });
    await send('owner', 'DELETE', `${path}/${made.id}`);
  });

  test('a token that has ended is renewed once, however many need it, and a refused renewal says so', async () => {
    const guarded = await startOauthServer();
    const made = await make('member', { name: 'renewed', url: guarded.url });
    await logIn('member', made.id);
    guarded.revoke();
    const all = Array.from({ length: 5 }, () => send('member', 'POST', `${path}/${made.id}/test`));
    expect((await Promise.all(all)).map(({ body }) => body.ok)).toEqual(Array(5).fill(true));
    const refreshes = () => guarded.grants.filter((grant) => grant.get('grant_type') === 'refresh_token');
    expect(refreshes()).toHaveLength(1);
    expect(refreshes()[0]?.get('resource')).toBe(guarded.url);
    guarded.revoke(true);
    const tried = await send('member', 'POST', `${path}/${made.id}/test`);
    expect(tried.body).toMatchObject({ ok: false, error: { code: 'login_needed' } });
    const asked = guarded.grants.length;
    await send('member', 'POST', `${path}/${made.id}/test`);
    expect(guarded.grants).toHaveLength(asked);
    await send('member', 'DELETE', `${path}/${made.id}`);
  });

  test('who logs out while the login is renewed leaves no token behind that is good', async () => {
    const guarded = await startOauthServer();
    const made = await make('member', { name: 'left', url: guarded.url });
    await logIn('member', made.id);
    guarded.revoke();
    const [renewing, leftBehind] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    guarded.pauses.after = async ({ path: asked }) => {
      if (asked !== '/token') return;
      renewing.resolve();
      await leftBehind.promise;
    };
    const tried = send('member', 'POST', `${path}/${made.id}/test`);
    await renewing.promise;
    expect((await send('member', 'DELETE', `${path}/${made.id}/oauth`)).status).toBe(204);
    const before = guarded.takenBack.length;
    leftBehind.resolve();
    await tried;
    // Both tokens that the renewal has brought, and nothing is renewed with them.
    expect(guarded.takenBack).toHaveLength(2 * before);
    expect(new Set(guarded.takenBack).size).toBe(2 * before);
    const again = await send('member', 'POST', `${path}/${made.id}/test`);
    expect(again.body).toMatchObject({ ok: false, error: { code: 'login_needed' } });
    await send('member', 'DELETE', `${path}/${made.id}`);
  });

  test('who logs out while the code is traded is not logged in by that, and no token is left that is good', async () => {
    const guarded = await startOauthServer();
    const made = await make('member', { name: 'regretted', url: guarded.url });
    const [trading, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    guarded.pauses.after = async ({ path: asked }) => {
      if (asked !== '/token') return;
      trading.resolve();
      await left.promise;
    };
    const back = logIn('member', made.id);
    await trading.promise;
    expect((await send('member', 'DELETE', `${path}/${made.id}/oauth`)).status).toBe(204);
    expect(guarded.takenBack).toHaveLength(0);
    left.resolve();
    expect(await (await back).json()).toMatchObject({ status: 400, code: 'oauth_invalid' });
    expect(guarded.takenBack).toHaveLength(2);
    const tried = await send('member', 'POST', `${path}/${made.id}/test`);
    expect(tried.body).toMatchObject({ ok: false, error: { code: 'login_needed' } });
    await send('member', 'DELETE', `${path}/${made.id}`);
  });

  test('one that fails says why, also where the database fails just then', async () => {
    const guarded = await startOauthServer();
    const made = await make('member', { name: 'unlucky', url: guarded.url });
    const begun = await send('member', 'POST', `${path}/${made.id}/oauth/start`, {});
    const state = new URL(begun.body.authorize_url).searchParams.get('state') ?? '';
    const filename = join(app.dataDirectory, 'service.db');
    const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
    onTestFinished(() => sql.destroy());
    const fails = `begin select raise(abort, 'the disk does not answer'); end`;
    await sql.raw(`create trigger fails before delete on mcp_login_attempts ${fails}`);
    const back = await fetch(`${app.url}/api/v1/mcp/oauth/callback?state=${state}&code=made-up`, {
      redirect: 'manual',
    });
    await sql.raw('drop trigger fails');
    expect(whereTo(back)).toBe('/mcp/connected#mcp_server=unlucky&mcp_error=mcp_server_failed');
    const told = lines.filter(({ mcp_server_id }) => mcp_server_id === made.id);
    expect(told).toMatchObject([
      { msg: 'a login that came to nothing was not ended' },
      { msg: 'a login to an MCP server was not finished' },
    ]);
    await send('member', 'DELETE', `${path}/${made.id}`);
  });

  test('an attempt is good once, and for nobody who makes one up; who refuses is told so', async () => {
    const guarded = await startOauthServer();
    const made = await make('member', { name: 'once', url: guarded.url });
    const begun = await send('member', 'POST', `${path}/${made.id}/oauth/start`, {});
    const state = new URL(begun.body.authorize_url).searchParams.get('state') ?? '';
    const back = (query: string) => app.request('GET', `/api/v1/mcp/oauth/callback?${query}`, {});
    expect(coded(await back('state=made-up&code=x'))).toEqual([400, 'oauth_invalid']);
    const refused = await fetch(`${app.url}/api/v1/mcp/oauth/callback?state=${state}&error=access_denied`, {
      redirect: 'manual',
    });
    expect(whereTo(refused)).toBe('/mcp/connected#mcp_server=once&mcp_error=access_denied');
    expect(coded(await back(`state=${state}&code=x`))).toEqual([400, 'oauth_invalid']);
    expect(guarded.grants).toHaveLength(0);
    const closed = await make('member', {
      name: 'closed',
      url: guarded.url,
      headers: { Authorization: 'Bearer x' },
    });
    expect(coded(await send('member', 'POST', `${path}/${closed.id}/oauth/start`))).toEqual([
      ...[400, 'invalid_request'],
    ]);
    for (const { id } of [made, closed]) await send('member', 'DELETE', `${path}/${id}`);
  });
});
