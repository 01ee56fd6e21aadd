/** What a session is doing right now, over HTTP, on both databases and with two servers on each. */
import { randomBytes, randomInt } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { beginRun } from '../store/test-runs.ts';
import {
  type Account,
  type Json,
  mergePatch,
  readEvents,
  type StreamedEvent,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { databases, type LastingDatabase, lastingDatabase } from '../test-database.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const todos = [
  { content: 'Mend the test', status: 'in_progress', active_form: 'Mending the test' },
  { content: 'Run all tests', status: 'pending', active_form: 'Running all tests' },
];
/** Found again among the processes of the machine, where other tests may be at work. */
const [agentsNap, ownNap] = [randomInt(10_000_000, 20_000_000), randomInt(20_000_000, 30_000_000)];
const script = [
  { when: { last_user: '^list', step: 0 }, reply: { tool_calls: [{ name: 'todos', arguments: { todos } }] } },
  {
    when: { last_user: '^background', step: 0 },
    reply: { tool_calls: [{ name: 'bash', arguments: { command: 'sleep 60', run_in_background: true } }] },
  },
  {
    when: { last_user: '^may', step: 0 },
    reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'A' } }] },
  },
  {
    when: { last_user: '^start', step: 0 },
    reply: {
      tool_calls: [{ name: 'agent', arguments: { description: 'Look round', prompt: 'Look round.' } }],
    },
  },
  {
    when: { last_user: '^delegate', step: 0 },
    reply: {
      tool_calls: [
        {
          name: 'agent',
          arguments: { description: 'Linger', prompt: 'linger', agent_slug: 'coder' },
        },
        { name: 'bash', arguments: { command: `sleep ${ownNap}`, run_in_background: true } },
      ],
    },
  },
  {
    when: { last_user: '^linger', step: 0 },
    reply: {
      tool_calls: [{ name: 'bash', arguments: { command: `sleep ${agentsNap}`, run_in_background: true } }],
    },
  },
  { when: { last_user: '^(hold|background)' }, reply: { text: 'I am at work.', hold_after_chunks: 1 } },
  { reply: { text: 'Done.' } },
];

function config() {
  return {
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
    providers: {
      scripted: {
        type: 'openai-compat' as const,
        base_url: `${upstream.url}/v1`,
        api_key: 'k',
        models: [
          { id: 'scripted-1', context_window: 100_000 },
          { id: 'scripted-2', context_window: 50_000 },
        ],
      },
    },
    mcp: { absent: { command: 'no-such-program-anywhere' } },
    permissions: { allowed_tools: ['bash'] },
  };
}

describe.each(databases)('on %s', (dialect) => {
  let folder: string;
  let database: LastingDatabase;
  let app: TestApp;
  let other: TestApp;
  let ada: Account;
  let mallory: Account;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-live-'));
    const masterKeyFile = join(folder, 'master.key');
    await writeFile(masterKeyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
    database = await lastingDatabase(dialect, folder);
    const settings = {
      databaseUrl: database.url,
      masterKeyFile,
      // Longer than a busy test takes for what it does while a run hangs.
      leaseSeconds: 12,
      workspacesDirectory: join(folder, 'w'),
    };
    app = await testApp({ config: config(), settings });
    other = await testApp({ config: config(), settings });
    ada = await app.register('ada');
    mallory = await app.register('mallory');
    await upstream.script(script);
  });
  afterAll(async () => {
    await upstream.release();
    await Promise.all([app, other].map((server) => server?.close()));
    await database?.remove();
    await rm(folder, { recursive: true });
  });

  const ask = (method: string, path: string, body?: unknown, server = app) =>
    server.request(method, `/api/v1${path}`, { token: ada.token, ...(body !== undefined && { body }) });

  /** Begins a query, reads no further than its headers, and answers with the id of its run. */
  async function begin(prompt: string, sessionId: string, server = app): Promise<string> {
    const response = await server.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt, session_id: sessionId },
    });
    expect(response.status).toBe(200);
    await response.body?.cancel();
    return response.headers.get('x-run-id') ?? '';
  }

  const newSession = async (body: object = {}): Promise<Json> => (await ask('POST', '/sessions', body)).body;
  const runOf = async (id: string): Promise<Json> => (await ask('GET', `/runs/${id}`)).body;
  const inspect = async (id: string, server = app): Promise<Json> => {
    const { status, body } = await ask('GET', `/sessions/${id}/inspect`, undefined, server);
    expect(status).toBe(200);
    return body;
  };

  /** A session with a run at work, behind which others wait. */
  async function busySession(...prompts: readonly string[]) {
    const { id } = await newSession();
    const running = await begin('hold', id);
    await expect.poll(async () => (await runOf(running)).status).toBe('running');
    const waiting: string[] = [];
    for (const [index, prompt] of prompts.entries())
      waiting.push(await begin(prompt, id, index % 2 === 0 ? app : other));
    return { id, running, waiting };
  }

  async function finish(runs: readonly string[]): Promise<void> {
    for (const run of runs)
      await expect
        .poll(async () => {
          await upstream.release();
          return (await runOf(run)).ended_at;
        })
        .not.toBeNull();
  }

  describe('the queue', () => {
    test('is listed with what was asked, the oldest first, page by page, from whichever server', async () => {
      const { id, running, waiting } = await busySession('one', 'two', 'three');
      const { body: first } = await ask('GET', `/sessions/${id}/queue?limit=2`, undefined, other);
      expect(first.data).toMatchObject([
        {
          run_id: waiting[0],
          session_id: id,
          prompt: 'one',
          agent_slug: 'coder',
          model: 'scripted:scripted-1',
        },
        { run_id: waiting[1], prompt: 'two' },
      ]);
      const { body: second } = await ask('GET', `/sessions/${id}/queue?limit=2&cursor=${first.next_cursor}`);
      expect(second.data.map(({ prompt }: Json) => prompt)).toEqual(['three']);
      expect(second.next_cursor).toBeNull();
      await finish([running, ...waiting]);
      expect((await ask('GET', `/sessions/${id}/queue`)).body).toEqual({ data: [], next_cursor: null });
    });

    test('is cleared on both servers, and the run at work goes on', async () => {
      const { id, running, waiting } = await busySession('one', 'two');
      expect((await ask('DELETE', `/sessions/${id}/queue`)).status).toBe(204);
      expect((await ask('GET', `/sessions/${id}/queue`)).body.data).toEqual([]);
      for (const run of waiting)
        await expect
          .poll(() => runOf(run))
          .toMatchObject({ status: 'interrupted', interrupt_reason: 'requested', started_at: null });
      expect(await runOf(running)).toMatchObject({ status: 'running' });
      await finish([running]);
      expect(await runOf(running)).toMatchObject({ status: 'completed' });
      expect((await ask('DELETE', `/sessions/${id}/queue`)).status).toBe(204);
    });

    test('is cleared of the first that waits too, where the process hangs that would begin it', async () => {
      const { id, running } = await busySession();
      const reach = await app.services.identity.authenticate(ada.token);
      // As a process leaves it that hangs: nobody begins it, until its lease has run out.
      const hanging = await beginRun(app.services.store, reach, {
        sessionId: id,
        owner: 'one that hangs',
        prompt: 'first',
      });
      await finish([running]);
      const behind = await begin('second', id);
      const { run, queue } = await inspect(id);
      expect(run).toMatchObject({ id: running, status: 'completed' });
      expect(queue).toMatchObject([{ run_id: hanging.runId }, { run_id: behind }]);
      expect((await ask('GET', `/sessions/${id}/queue`, undefined, other)).body.data).toEqual(queue);
      expect((await ask('DELETE', `/sessions/${id}/queue`)).status).toBe(204);
      expect((await inspect(id)).queue).toEqual([]);
      for (const taken of [hanging.runId, behind])
        await expect
          .poll(() => runOf(taken))
          .toMatchObject({ status: 'interrupted', interrupt_reason: 'requested', started_at: null });
    });

    test('tells no model later what was taken back before it began, by whichever way', async () => {
      const { id, running, waiting } = await busySession('one', 'two', 'three');
      await ask('POST', `/runs/${waiting[2]}/interrupt`);
      await ask('DELETE', `/sessions/${id}/queue`);
      for (const run of waiting) await expect.poll(() => runOf(run)).toMatchObject({ status: 'interrupted' });
      const stopped = await begin('four', id);
      expect((await ask('POST', `/sessions/${id}/interrupt`)).status).toBe(202);
      await finish([running, stopped]);
      await ask('POST', '/query', { prompt: 'five', session_id: id });
      const seen = JSON.stringify((await upstream.requests()).at(-1)?.body);
      expect(seen).toContain('"hold"');
      expect(seen).toContain('"five"');
      for (const word of ['one', 'two', 'three', 'four']) expect(seen).not.toContain(`"${word}"`);
      const { body } = await ask('GET', `/sessions/${id}/messages?role=user`);
      expect(body.data.map(({ excluded }: Json) => excluded)).toEqual([false, true, true, true, true, false]);
      const { body: document } = await ask('GET', `/sessions/${id}/export`);
      const { body: imported } = await ask('POST', '/sessions/import', document);
      await ask('POST', '/query', { prompt: 'six', session_id: imported.id });
      const later = JSON.stringify((await upstream.requests()).at(-1)?.body);
      for (const word of ['hold', 'five', 'six']) expect(later).toContain(`"${word}"`);
      for (const word of ['one', 'two', 'three', 'four']) expect(later).not.toContain(`"${word}"`);
    });
  });

  describe('the list of what is to do', () => {
    test('is empty before there is one, and then as the last call left it', async () => {
      const { id } = await newSession();
      expect((await ask('GET', `/sessions/${id}/todos`)).body).toEqual({ data: [], next_cursor: null });
      await ask('POST', '/query', { prompt: 'list', session_id: id });
      expect((await ask('GET', `/sessions/${id}/todos`)).body.data).toEqual(todos);
      expect((await ask('GET', `/sessions/${id}/todos`, undefined, other)).body.data).toEqual(todos);
    });

    test.each([
      ['are no tasks', [todos, ['buy milk', null, { id: 3 }]], todos],
      ['say more than tasks do', [todos, [{ ...todos[0], note: 'mine' }]], todos],
      ['are no list', [{ 0: 'buy milk' }], []],
    ])('is not made of calls whose todos %s', async (_, lists, expected) => {
      const { id } = await newSession();
      for (const _ of lists) await ask('POST', '/query', { prompt: 'list', session_id: id });
      const { body: document } = await ask('GET', `/sessions/${id}/export`);
      const parts = document.messages.flatMap((message: Json) => message.parts);
      const calls = parts.filter(({ type }: Json) => type === 'tool_use');
      for (const [at, list] of lists.entries()) calls[at].input.todos = list;
      const { body: imported } = await ask('POST', '/sessions/import', document);
      expect((await ask('GET', `/sessions/${imported.id}/todos`)).body.data).toEqual(expected);
      expect((await ask('GET', `/sessions/${imported.id}/inspect`)).body.todos).toEqual(expected);
    });
  });

  describe('the children of a session', () => {
    test('are its forks and the sessions of its agents, the oldest first, archived ones too', async () => {
      const { id } = await newSession();
      await ask('POST', '/query', { prompt: 'Hello', session_id: id });
      const { body: fork } = await ask('POST', `/sessions/${id}/fork`, {});
      await ask('PATCH', `/sessions/${fork.id}`, { archived: true });
      await ask('POST', '/query', { prompt: 'start an agent', session_id: id }, other);
      const { body } = await ask('GET', `/sessions/${id}/children`);
      expect(body.data).toMatchObject([
        { kind: 'fork', session: { id: fork.id, parent_id: id, archived: true } },
        { kind: 'agent', session: { parent_id: id, agent_slug: 'task' } },
      ]);
      const { body: first } = await ask('GET', `/sessions/${id}/children?limit=1`);
      const { body: rest } = await ask('GET', `/sessions/${id}/children?cursor=${first.next_cursor}`);
      expect([...first.data, ...rest.data]).toEqual(body.data);
      expect((await ask('GET', `/sessions/${fork.id}/children`)).body.data).toEqual([]);
    });
  });

  describe('the deletion', () => {
    /** A session that has left a command at work in the background, as its agent has. */
    async function delegated() {
      const { id } = await newSession();
      expect(await ask('POST', '/query', { prompt: 'delegate', session_id: id })).toMatchObject({
        status: 200,
        body: { status: 'completed' },
      });
      const [agent] = (await ask('GET', `/sessions/${id}/children`)).body.data;
      return { id, agentId: agent.session.id as string };
    }

    test('of a session ends what was left at work in the background in it and in those of its agents', async () => {
      const { id, agentId } = await delegated();
      // With the run of the agent its own have ended; a person who asks in its session leaves others there.
      await expect.poll(() => [sleepers(agentsNap), sleepers(ownNap)]).toEqual([0, 1]);
      await ask('POST', '/query', { prompt: 'linger', session_id: agentId });
      await expect.poll(() => sleepers(agentsNap, ownNap)).toBe(2);
      expect((await ask('DELETE', `/sessions/${id}`)).status).toBe(204);
      await expect.poll(() => sleepers(agentsNap, ownNap)).toBe(0);
    });

    test('of a session waits for what its agents are at work on', async () => {
      const { id, agentId } = await delegated();
      const running = await begin('hold', agentId);
      await expect.poll(async () => (await runOf(running)).status).toBe('running');
      const refused = await ask('DELETE', `/sessions/${id}`);
      expect(refused).toMatchObject({ status: 409, body: { code: 'session_busy' } });
      expect(refused.body.detail).toContain(agentId);
      expect((await ask('POST', `/sessions/${agentId}/interrupt`)).status).toBe(202);
      await finish([running]);
      expect((await ask('DELETE', `/sessions/${id}`)).status).toBe(204);
    });

    test('of a workspace ends what is told of a run that did not stop in time, on both servers', async () => {
      const { body: workspace } = await ask('POST', '/workspaces', { name: 'Short-lived' });
      const { id } = await newSession({ workspace_id: workspace.id });
      const answer = ask('POST', '/query', { prompt: 'hold', session_id: id });
      await expect.poll(async () => (await inspect(id)).run?.status).toBe('running');
      const running = (await inspect(id)).run.id;
      const path = `/api/v1/runs/${running}/events`;
      const stream = await other.stream('GET', path, { token: ada.token });
      const events: StreamedEvent[] = [];
      const reading = (async () => {
        for await (const event of readEvents(stream)) events.push(event);
      })();
      const stopping = vi.spyOn(app.services.store.workspaces, 'stopRuns').mockResolvedValue([]);
      expect((await ask('DELETE', `/workspaces/${workspace.id}`)).status).toBe(204);
      stopping.mockRestore();
      expect(await answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
      await reading;
      expect(events.at(-1)).toMatchObject({
        event: 'error',
        data: { error: expect.stringMatching(/^not_found: /) },
      });
      await upstream.release();
    });
  });

  describe('an inspection', () => {
    test('tells of the run at work, the queue, the jobs and the tools', async () => {
      const { id } = await newSession();
      const running = await begin('background', id);
      await expect.poll(async () => (await inspect(id)).jobs.length).toBe(1);
      const waiting = await begin('one', id);
      expect(await inspect(id)).toMatchObject({
        session_id: id,
        status: 'running',
        agent_slug: 'coder',
        model: 'scripted:scripted-1',
        run: { id: running, status: 'running' },
        queue: [{ run_id: waiting, prompt: 'one' }],
        jobs: [{ command: 'sleep 60', status: 'running', exit_code: null }],
        unavailable: null,
      });
      // Jobs are known where the run is at work alone.
      expect((await inspect(id, other)).jobs).toEqual([]);
      await finish([running, waiting]);
    });

    test('says what fills the window, in parts that sum up', async () => {
      const { id } = await newSession({ system_prompt: 'Be brief. '.repeat(500) });
      const before = await inspect(id);
      await ask('POST', '/query', { prompt: `list ${'word '.repeat(700)}`, session_id: id });
      const { context } = await inspect(id);
      const sizes = Object.fromEntries(context.parts.map(({ part, tokens }: Json) => [part, tokens]));
      expect(context.window).toBe(100_000);
      expect(context.used).toBeGreaterThan(0);
      expect(context.estimated).toBe(
        context.parts.reduce((sum: number, { tokens }: Json) => sum + tokens, 0),
      );
      expect(sizes.system_prompt).toBeGreaterThan(5000 / 4);
      expect(sizes.tools).toBeGreaterThan(500);
      expect(sizes.messages).toBeGreaterThan(3500 / 4);
      expect(sizes.tool_results).toBeGreaterThan(0);
      expect(before.context.parts.map(({ part }: Json) => part)).not.toContain('messages');
      expect(before.run).toBeNull();
    });

    test('says how servers are, and names no folder of the server that others share', async () => {
      const { id } = await newSession();
      const told = await inspect(id);
      expect(told.extensions).toContainEqual(
        expect.objectContaining({ extension: 'mcp', name: 'absent', state: 'failed' }),
      );
      expect(JSON.stringify(told)).not.toContain(app.services.settings.workspacesDirectory);
      expect(JSON.stringify(told)).not.toContain(app.services.settings.dataDirectory);
    });

    test('shows what waits for a person', async () => {
      const { id } = await newSession();
      const run = await begin('may I', id);
      await expect.poll(async () => (await inspect(id, other)).permission_requests).toHaveLength(1);
      const { status, permission_requests } = await inspect(id);
      expect(status).toBe('waiting');
      expect(permission_requests).toMatchObject([{ run_id: run, tool_name: 'write', status: 'pending' }]);
      await ask('POST', `/runs/${run}/interrupt`);
      await expect.poll(() => runOf(run)).toMatchObject({ status: 'interrupted' });
      expect(await inspect(id)).toMatchObject({ permission_requests: [], run: { id: run } });
    });

    test('says why the next query would be refused, where it would', async () => {
      const { id } = await newSession();
      const agent = { slug: 'gone', description: 'Goes.', instructions: 'You go.' };
      const { body: made } = await ask('POST', '/agents', agent);
      await ask('PATCH', `/sessions/${id}`, { agent_slug: 'gone' });
      await ask('DELETE', `/agents/${made.id}`);
      const told = await inspect(id);
      expect(told).toMatchObject({ model: null, agent_slug: 'gone' });
      expect(told.unavailable).toContain('gone');
      expect(told.tools.length).toBeGreaterThan(5);
    });

    test('names the model that its reader prefers, where the session names none', async () => {
      const { token } = await app.register('picky');
      const send = async (method: string, path: string, body?: object, headers = {}): Promise<Json> =>
        (await app.request(method, `/api/v1${path}`, { token, headers, ...(body && { body }) })).body;
      const prefer = (default_model: string) =>
        send('PATCH', '/users/me/preferences', { default_model }, mergePatch);
      const { id } = await send('POST', '/sessions', {});
      await prefer('scripted:scripted-2');
      expect(await send('GET', `/sessions/${id}/inspect`)).toMatchObject({
        model: 'scripted:scripted-2',
        context: { window: 50_000 },
      });
      const named = await send('POST', '/sessions', { model: 'scripted:scripted-1' });
      expect(await send('GET', `/sessions/${named.id}/inspect`)).toMatchObject({
        model: 'scripted:scripted-1',
      });
      await prefer('nobody:none');
      const { model, unavailable } = await send('GET', `/sessions/${id}/inspect`);
      expect([model, unavailable]).toEqual([null, expect.stringContaining('nobody')]);
    });

    test('names the profile that keeps a tool from the agent', async () => {
      const { id } = await newSession({ agent_slug: 'plan' });
      const tools: Json[] = (await inspect(id)).tools;
      expect(tools.find(({ name }) => name === 'write').disabled_by).toBe('the agent profile plan');
      expect(tools.find(({ name }) => name === 'view').disabled_by).toBeNull();
    });
  });

  describe('the events of a workspace', () => {
    /** Follows, and gives what has come so far. */
    async function follow(query = '', token = ada.token, server = app) {
      const response = await server.stream('GET', `/api/v1/events${query}`, { token });
      expect(response.status).toBe(200);
      const seen: StreamedEvent[] = [];
      const ended = (async () => {
        for await (const event of readEvents(response)) seen.push(event);
      })().catch(() => undefined); // some are left open until the server closes
      const types = () => seen.map(({ event, data }) => data.event?.type ?? event);
      return { seen, types, ended };
    }

    async function replay(query: string): Promise<StreamedEvent[]> {
      const response = await app.stream('GET', `/api/v1/events?follow=false${query}`, { token: ada.token });
      expect(response.status).toBe(200);
      return Array.fromAsync(readEvents(response));
    }

    test('begin now, and come from whichever server, each once and in order; a replay gives the same', async () => {
      const { seen, types } = await follow();
      await expect.poll(() => seen.length).toBe(1);
      const { id } = await newSession({ title: 'Followed' });
      await ask('POST', '/query', { prompt: 'Hello', session_id: id }, other);
      // What a run tells is gone with its session.
      await expect.poll(types).toContain('run_ended');
      await ask('PATCH', `/sessions/${id}`, { title: 'Renamed' });
      await ask('DELETE', `/sessions/${id}`, undefined, other);
      await expect.poll(() => types().at(-1)).toBe('session_deleted');
      expect(types().slice(0, 4)).toEqual(['opened', 'session_created', 'run_queued', 'run_started']);
      expect(types()).toContain('step_finished');
      expect(types().slice(-3)).toEqual(['session_updated', 'session_updated', 'session_deleted']);
      expect(JSON.stringify(seen)).not.toContain('Followed');
      const numbers = seen.map((event) => Number(event.id));
      expect(numbers).toEqual(numbers.map((_, index) => (numbers[0] ?? 0) + index));
      // What its run told is gone with it; the rest stands where it stood.
      const kept = await replay(`&after=${numbers[0]}`);
      expect(seen).toEqual(expect.arrayContaining(kept));
      expect(kept.map(({ data }) => data.event.type)).toContain('run_ended');
    });

    test('are filtered, and go on after the last that was seen', async () => {
      const { id } = await newSession();
      await ask('POST', '/query', { prompt: 'list', session_id: id });
      const all = await replay(`&session_id=${id}`);
      expect(all.map(({ data }) => data.session_id)).toEqual(all.map(() => id));
      const some = await replay(`&session_id=${id}&types=todos_updated,run_ended,of_later`);
      expect(some.map(({ data }) => data.event.type)).toEqual(['todos_updated', 'run_ended']);
      const response = await app.stream('GET', `/api/v1/events?follow=false&session_id=${id}`, {
        token: ada.token,
        headers: { 'Last-Event-ID': all.at(-2)?.id ?? '' },
      });
      expect(await Array.fromAsync(readEvents(response))).toEqual(all.slice(-1));
    });

    test('are for who may reach the workspace, and begin and end somewhere', async () => {
      const { body: me } = await ask('GET', '/users/me');
      const workspace = me.memberships[0].default_workspace_id;
      const get = (query: string, token?: string) =>
        app.request('GET', `/api/v1/events?follow=false${query}`, token === undefined ? {} : { token });
      const { last } = await app.services.store.workspaceEvents.bounds(workspace);
      expect(last).toBeGreaterThan(0);
      const cases: [string, string | undefined, number, string | undefined][] = [
        ['', undefined, 401, 'credential_missing'],
        [`&workspace_id=${workspace}`, mallory.token, 404, 'not_found'],
        ['&workspace_id=ws_01k9w6r3h2e7xv5q0c8m4b1tzz', ada.token, 404, 'not_found'],
        [`&workspace_id=${workspace}&after=${last}`, ada.token, 200, undefined],
        ['&after=999999999', ada.token, 400, 'invalid_request'],
        ['&types=Not%20a%20type', ada.token, 400, 'invalid_request'],
      ];
      for (const [query, token, status, code] of cases) {
        const answer = await get(query, token);
        expect([answer.status, answer.body?.code], query).toEqual([status, code]);
      }
      const foreign = await app.request('GET', '/api/v1/events?follow=false', { token: mallory.token });
      expect(foreign.body ?? '').not.toContain('event: workspace');
    });

    test('end when the key of their reader is revoked', async () => {
      const { body } = await ask('POST', '/auth/api-keys', { name: 'k' });
      const { seen, ended } = await follow('', body.key);
      await expect.poll(() => seen.length).toBe(1);
      await ask('DELETE', `/auth/api-keys/${body.api_key.id}`);
      await ended;
      expect(seen.at(-1)).toMatchObject({ event: 'error' });
      expect(seen.at(-1)?.data.error).toContain('credential_invalid');
    });

    test.each([
      ['in which nothing has happened', false],
      ['in which something has', true],
    ])('end with their workspace, one %s; what its people follow elsewhere goes on', async (_, happens) => {
      const { body: me } = await ask('GET', '/users/me');
      const [{ organization_id }] = me.memberships;
      const bob = await app.register(`bob-${happens}-${dialect.toLowerCase()}`);
      const invitation = { email: bob.email, role: 'member' };
      const invited = await ask('POST', `/organizations/${organization_id}/invitations`, invitation);
      const asBob = (path: string, body: object) =>
        app.request('POST', `/api/v1${path}`, { token: bob.token, body });
      await asBob('/invitations/accept', { token: invited.body.token });
      const { body: workspace } = await asBob('/workspaces', { name: 'Short', organization_id });
      if (happens) await newSession({ workspace_id: workspace.id });
      const here = `?workspace_id=${workspace.id}`;
      const [owners, members] = [await follow(here, ada.token, other), await follow(here, bob.token)];
      const elsewhere = await follow('', bob.token, other);
      expect((await ask('DELETE', `/workspaces/${workspace.id}`)).status).toBe(204);
      for (const { seen, ended } of [owners, members]) {
        await ended;
        expect(seen.at(-1)).toMatchObject({
          event: 'error',
          data: { error: 'not_found: The workspace was deleted.' },
        });
      }
      // So long that the credential of each stream was looked at.
      await sleep(3000);
      await asBob('/sessions', {});
      await expect.poll(elsewhere.types).toContain('session_created');
      expect(elsewhere.types()).not.toContain('error');
    });

    test('are answered with 410 once they are no longer kept', async () => {
      const { body: me } = await ask('GET', '/users/me');
      const workspace = me.memberships[0].default_workspace_id;
      const { store } = app.services;
      await store.runs.pruneEvents(new Date(Date.now() + 1000));
      const { last, pruned } = await store.workspaceEvents.bounds(workspace);
      expect(pruned).toBe(last);
      const gone = await ask('GET', `/events?follow=false&after=${pruned - 1}`);
      expect(gone).toMatchObject({ status: 410, body: { code: 'events_expired' } });
      const { id } = await newSession();
      expect((await replay(`&after=${pruned}`)).map(({ data }) => data.session_id)).toEqual([id]);
    });
  });

  test.each([
    ['GET', 'queue'],
    ['DELETE', 'queue'],
    ['GET', 'todos'],
    ['GET', 'children'],
    ['GET', 'inspect'],
  ])('%s %s is for the owner of the session alone', async (method, what) => {
    const { id } = await newSession();
    const path = `/api/v1/sessions/${id}/${what}`;
    const missing = path.replace(id, 'ses_01k9w6r3h2e7xv5q0c8m4b1tzz');
    const cases: [string, string | undefined, number][] = [
      [path, undefined, 401],
      [path, mallory.token, 404],
      [missing, ada.token, 404],
      [path.replace(id, 'nonsense'), ada.token, 404],
      [path, ada.token, method === 'GET' ? 200 : 204],
    ];
    for (const [at, token, status] of cases)
      expect((await app.request(method, at, token === undefined ? {} : { token })).status, at).toBe(status);
  });
});

/** How many processes sleep for so many seconds. */
function sleepers(...seconds: readonly number[]): number {
  const lines = seconds.map((length) => `sleep\0${length}\0`);
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return lines.includes(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
    } catch {
      return false; // Gone between the listing and now.
    }
  }).length;
}
