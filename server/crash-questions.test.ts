/** What waits for a person, or is in flight, when the server is killed: asked once, answered once, never done twice. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex, { type Knex } from 'knex';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { PermissionRequest, PromptRequest, Run, Session, SnapshotGiven } from './contract/api.ts';
import { hasEnded, messagesOf, runThat, startCrashing, textIn } from './crash-checks.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf, type TestStream } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const cutOff = 'The call was interrupted; whether it had an effect is not known.';
const call = (prompt: string, tool: string, args: object) => ({
  when: { last_user: `^${prompt}`, step: 0 },
  reply: { text: 'First this. ', tool_calls: [{ name: tool, arguments: args }] },
});
const question = { id: 'q', type: 'yes_no', text: 'Go on?' };

let upstream: Upstream;
let folder: string;
beforeAll(async () => {
  upstream = await startUpstream();
});
beforeEach(async () => {
  await upstream.script([
    call('write (?<name>\\S+)', 'write', { file_path: '{{match.name}}.txt', content: 'by {{match.name}}' }),
    call('ask', 'ask_user', { questions: [question] }),
    {
      when: { last_user: '^both', step: 0 },
      reply: {
        tool_calls: [
          { name: 'ask_user', arguments: { questions: [question] } },
          { name: 'ls', arguments: '{"path": "src/on' },
        ],
      },
    },
    call('sleep', 'bash', { command: 'echo begun >> slept.log; sleep 60; echo done >> slept.log' }),
    { when: { last_user: '^hold' }, reply: { text: 'held '.repeat(20), hold_after_chunks: 3 } },
    { reply: { text: 'The tool said: {{last_tool_result}}' } },
  ]);
  folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
});
afterAll(() => upstream.stop());

interface Asked {
  readonly stream: TestStream;
  readonly session: Session;
}

async function ask(client: Client, prompt: string, mode = 'ask'): Promise<Asked> {
  const rule = { tool: 'bash', decision: 'allow' };
  const { body: session } = await client.post<Session>('/api/v1/sessions', { permission_rules: [rule] });
  const body = { prompt, session_id: session.id, permission_mode: mode };
  return { session, stream: await client.stream('/api/v1/query/stream', body) };
}

type RuntimeType = Extract<NumberedEvent, { name: 'runtime' }>['data']['type'];

const is = (type: RuntimeType) => (event: NumberedEvent) =>
  event.name === 'runtime' && event.data.type === type;

async function eventsOf(client: Client, runId: string): Promise<readonly NumberedEvent[]> {
  const stream = await client.stream(`/api/v1/runs/${runId}/events?follow=false`);
  await stream.ended;
  return stream.events;
}

async function resultOf(client: Client, { session }: Asked): Promise<string> {
  return textIn((await messagesOf(client, session.id)).at(-1));
}

function typesOf(events: readonly NumberedEvent[]): string[] {
  return events.flatMap(({ name, data }) => (name === 'runtime' ? [data.type] : []));
}

/** What a person does while no server lives: only the database is there. */
function inDatabase(work: (sql: ReturnType<typeof knex>) => Promise<unknown>): Promise<unknown> {
  const connection = { filename: join(folder, 'data/service.db') };
  const sql = knex({ client: 'sqlite3', connection, useNullAsDefault: true });
  return work(sql).finally(() => sql.destroy());
}

async function pendingIn<Request>(client: Client, { session }: Asked, kind: string): Promise<Request[]> {
  const path = `/api/v1/sessions/${session.id}/${kind}?status=pending`;
  return (await client.get<{ data: Request[] }>(path)).body.data;
}

test('questions outlive the process: the same are waited for, whoever has answered them meanwhile', async () => {
  const server = await startCrashing(folder);
  const before = clientOf(server, server.key);
  const [later, meanwhile, prompted] = [
    await ask(before, 'write later'),
    await ask(before, 'write meanwhile'),
    await ask(before, 'ask'),
  ];
  await Promise.all([
    later.stream.until(is('permission_requested')),
    meanwhile.stream.until(is('permission_requested')),
    prompted.stream.until(is('prompt_requested')),
  ]);
  const [asked] = await pendingIn<PermissionRequest>(before, later, 'permissions');
  await server.kill9();
  await inDatabase((sql) =>
    sql('permission_requests')
      .where({ run_id: meanwhile.stream.runId })
      .update({ status: 'answered', decision: 'deny', message: 'Rather not.', resolved_at: Date.now() }),
  );
  const again = await startCrashing(folder);
  const client = clientOf(again, server.key);

  // Answered while nobody was there.
  await runThat(client, meanwhile.stream.runId, hasEnded);
  expect(await resultOf(client, meanwhile)).toContain('Rather not.');

  // Whoever attaches is told at once what is waited for.
  const attached = await client.stream(`/api/v1/runs/${later.stream.runId}/events`);
  await attached.until(is('run_resumed'));
  const snapshot: SnapshotGiven | null = attached.snapshot;
  expect(snapshot?.permission_requests.map(({ id }) => id)).toEqual([asked?.id]);
  const reply = `/api/v1/sessions/${later.session.id}/permissions/${asked?.id}/reply`;
  const answers = [1, 2, 3].map(() => client.post(reply, { decision: 'allow_once' }));
  expect((await Promise.all(answers)).map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
  await attached.ended;
  expect(typesOf(attached.events).filter((type) => type === 'permission_requested')).toHaveLength(1);
  expect(attached.events.at(-1)?.name).toBe('done');
  const written = join(folder, 'data/workspaces', later.session.workspace_id, 'later.txt');
  expect(await readFile(written, 'utf8')).toBe('by later');

  const [prompt] = await pendingIn<PromptRequest>(client, prompted, 'prompts');
  const answered = await client.post(`/api/v1/sessions/${prompted.session.id}/prompts/${prompt?.id}/reply`, {
    answers: [{ question_id: 'q', yes: true }],
  });
  expect(answered.status).toBe(200);
  await runThat(client, prompted.stream.runId, hasEnded);
  expect(await resultOf(client, prompted)).toContain('Yes');
  const types = typesOf(await eventsOf(client, prompted.stream.runId));
  expect(types.filter((type) => type === 'prompt_requested')).toHaveLength(1);
  expect(types.filter((type) => type === 'tool_started')).toHaveLength(1);
});

test('a call whose arguments are no JSON is not made by the next process either, which has not heard them', async () => {
  const server = await startCrashing(folder);
  const asked = await ask(clientOf(server, server.key), 'both');
  await asked.stream.until(is('prompt_requested'));
  await server.kill9();
  const again = await startCrashing(folder);
  const client = clientOf(again, server.key);
  const [prompt] = await pendingIn<PromptRequest>(client, asked, 'prompts');
  await client.post(`/api/v1/sessions/${asked.session.id}/prompts/${prompt?.id}/reply`, {
    answers: [{ question_id: 'q', yes: true }],
  });
  await runThat(client, asked.stream.runId, hasEnded);
  const parts = (await messagesOf(client, asked.session.id)).flatMap((message) => message.parts);
  const results = parts.flatMap((part) => (part.type === 'tool_result' ? [part] : []));
  expect(results.map(({ name, content }) => [name, content])).toEqual([
    ['ask_user', expect.stringContaining('Yes')],
    ['ls', expect.stringContaining('its arguments are no JSON')],
  ]);
});

test('a question whose time ran out while no process lived has expired, and a late answer is refused', async () => {
  // Long enough for the process to be dead by then.
  const variables = { SERVICE_ANSWER_SECONDS: '3' };
  const server = await startCrashing(folder, variables);
  const asked = await ask(clientOf(server, server.key), 'write late');
  // From the event: by the time that anybody looks, the question may not be open any more.
  const { data } = await asked.stream.until(is('permission_requested'));
  const { expires_at, reply_path } = (data as { request: PermissionRequest }).request; // by its type
  await server.kill9();
  await sleep(Math.max(0, Date.parse(expires_at) - Date.now()));
  const again = await startCrashing(folder, variables);
  const client = clientOf(again, server.key);
  // Whoever has taken the run over says that the time has passed.
  await runThat(client, asked.stream.runId, hasEnded);
  expect((await client.post(reply_path, { decision: 'allow_once' })).status).toBe(410);
  expect(typesOf(await eventsOf(client, asked.stream.runId))).toContain('permission_expired');
  expect(await resultOf(client, asked)).toContain('Nobody answered in time.');
});

test('a question of an MCP server whose call the process took with it has expired, and a late answer is refused', async () => {
  const hostile = join(import.meta.dirname, 'runtime/mcp/test-servers/hostile.ts');
  await writeSettings(folder, {
    ...scriptedSettings(upstream.url),
    mcp: { asking: { type: 'stdio', command: process.execPath, args: [hostile, 'asks', 'one'] } },
    permissions: { allowed_tools: ['mcp_asking_act'] },
  });
  await upstream.script([
    call('act', 'mcp_asking_act', {}),
    { reply: { text: 'The tool said: {{last_tool_result}}' } },
  ]);
  const server = await startCrashing(folder);
  const asked = await ask(clientOf(server, server.key), 'act');
  const { data } = await asked.stream.until(is('prompt_requested'));
  const { reply_path, questions } = (data as { request: PromptRequest }).request; // by its type
  await server.kill9();
  const again = await startCrashing(folder);
  const client = clientOf(again, server.key);
  await runThat(client, asked.stream.runId, hasEnded);
  expect(await resultOf(client, asked)).toBe(`The tool said: ${cutOff}`);
  const events = await eventsOf(client, asked.stream.runId);
  const types = typesOf(events);
  expect(types.indexOf('prompt_expired')).toBeGreaterThan(types.indexOf('run_resumed'));
  expect(types.indexOf('tool_finished')).toBeGreaterThan(types.indexOf('prompt_expired'));
  const late = await client.post(reply_path, { answers: [{ question_id: questions[0]?.id, yes: true }] });
  expect(late.status).toBe(410);
});

test('a command in flight is not run again, and the model hears that nobody knows what came of it', async () => {
  const server = await startCrashing(folder);
  const asked = await ask(clientOf(server, server.key), 'sleep');
  const log = join(folder, 'data/workspaces', asked.session.workspace_id, 'slept.log');
  await expect.poll(() => readFile(log, 'utf8').catch(() => '')).toBe('begun\n');
  await server.kill9();
  const again = await startCrashing(folder);
  const client = clientOf(again, server.key);
  const run = await runThat(client, asked.stream.runId, hasEnded);
  expect(run).toMatchObject({ status: 'completed', resumptions: 1 });
  expect(await resultOf(client, asked)).toBe(`The tool said: ${cutOff}`);
  expect(await readFile(log, 'utf8')).toBe('begun\n');
});

test('what cannot go on ends with the reason, and what waits behind it begins', async () => {
  const server = await startCrashing(folder);
  const before = clientOf(server, server.key);
  const often = await ask(before, 'write often');
  const stopped = await ask(before, 'write stopped');
  const homeless = await ask(before, 'write homeless');
  const moving = await ask(before, 'write moving');
  for (const { stream } of [often, stopped, homeless, moving]) await stream.until(is('permission_requested'));
  const queued = await before.stream('/api/v1/query/stream', {
    prompt: 'Hello',
    session_id: often.session.id,
  });
  const messages = before.stream('/api/v1/query/stream', { prompt: 'hold' });
  await (await messages).until(({ name }) => name === 'message');
  await server.kill9();
  await inDatabase(async (sql) => {
    await resumeInVain(sql, often.stream.runId, 20);
    // As often, but it has stored steps meanwhile.
    await resumeInVain(sql, moving.stream.runId, 19);
    await sql('runs').where({ id: moving.stream.runId }).update({ resumptions: 90 });
    await sql('runs').where({ id: stopped.stream.runId }).update({ interrupt_requested: 'requested' });
    await sql('runs').where({ id: homeless.stream.runId }).update({ workspace_place: 'elsewhere' });
    await sql('runs')
      .where({ id: (await messages).runId })
      .update({ trigger: 'messages' });
  });
  const again = await startCrashing(folder);
  const client = clientOf(again, server.key);
  const endOf = async (runId: string): Promise<string> => {
    const { status, interrupt_reason } = await runThat(client, runId, hasEnded);
    return `${status} ${interrupt_reason}`;
  };
  expect(await endOf(often.stream.runId)).toBe('interrupted resumed_too_often');
  expect(await runThat(client, moving.stream.runId, ({ resumptions }) => resumptions === 91)).toMatchObject({
    status: 'waiting_permission',
  });
  expect(await endOf(stopped.stream.runId)).toBe('interrupted requested');
  expect(await endOf(homeless.stream.runId)).toBe('interrupted workspace_unavailable');
  expect(await endOf((await messages).runId)).toBe('interrupted lease_lost');
  expect(await endOf(queued.runId)).toBe('completed null');
  expect(await pendingIn(client, often, 'permissions')).toEqual([]);
  await upstream.release();
});

/** As if processes had died at the run, each before it could store a step. */
async function resumeInVain(sql: Knex, runId: string, times: number): Promise<void> {
  const { last_event_id, ...run } = await sql('runs').where({ id: runId }).first();
  const event = await sql('run_events').where({ run_id: runId, seq: last_event_id }).first();
  const data = JSON.stringify({
    ...{ type: 'run_resumed', run_id: runId, session_id: run.session_id },
    ...{ step: run.steps, reason: 'lease_lost', resumptions: 1 },
  });
  for (let time = 1; time <= times; time += 1)
    await sql('run_events').insert({ ...event, seq: last_event_id + time, name: 'runtime', data });
  await sql('runs')
    .where({ id: runId })
    .update({ resumptions: times, last_event_id: last_event_id + times });
}

test('a run whose provider the settings no longer have fails, and says so', async () => {
  const server = await startCrashing(folder);
  const asked = await ask(clientOf(server, server.key), 'write x');
  await asked.stream.until(is('permission_requested'));
  await server.kill9();
  await writeSettings(folder, {});
  const again = await startCrashing(folder);
  const run = await runThat(clientOf(again, server.key), asked.stream.runId, hasEnded);
  expect(run).toMatchObject({ status: 'failed', error: { code: 'model_not_found' } });
});

test.skipIf(inject('postgresUrl') === null)(
  'a run that has touched files goes on only where its folder is: elsewhere it ends, without one it goes on anywhere',
  async () => {
    const shared = { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
    const [here, elsewhere] = ['here', 'elsewhere'].map((name) => ({
      ...shared,
      SERVICE_WORKSPACES_DIR: join(folder, name),
    }));
    const first = await startCrashing(folder, here);
    const second = await startCrashing(folder, elsewhere);
    const before = clientOf(first, first.key);
    const touched = await ask(before, 'write y');
    const free = await ask(before, 'ask');
    await touched.stream.until(is('permission_requested'));
    await free.stream.until(is('prompt_requested'));
    await first.kill9();
    const client = clientOf(second, first.key);
    const ended: Run = await runThat(client, touched.stream.runId, hasEnded);
    expect(ended).toMatchObject({ status: 'interrupted', interrupt_reason: 'workspace_unavailable' });
    const waiting = await runThat(client, free.stream.runId, ({ resumptions }) => resumptions === 1);
    expect(waiting.status).toBe('waiting_prompt');
  },
);

test.skipIf(inject('postgresUrl') === null)(
  'a run whose provider is a setting on the server goes on with it on another node, or says that it was taken away',
  async () => {
    const shared = { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
    const first = await startCrashing(folder, shared);
    const before = clientOf(first, first.key);
    const second = await startCrashing(folder, shared);
    const client = clientOf(second, first.key);
    const settings = '/api/v1/settings/providers';
    const provider = (name: string) =>
      before.post(settings, {
        ...{ scope: 'user', provider_id: name, name, type: 'openai-compat', api_key: `key-of-${name}` },
        ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'm' }] },
      });
    const [kept, gone] = [await provider('kept'), await provider('gone')];
    expect([kept.status, gone.status]).toEqual([201, 201]);
    const askWith = async (model: string): Promise<Asked> => {
      const { body: session } = await before.post<Session>('/api/v1/sessions', { model });
      const stream = await before.stream('/api/v1/query/stream', { prompt: 'ask', session_id: session.id });
      await stream.until(is('prompt_requested'));
      return { session, stream };
    };
    const [goesOn, ends] = [await askWith('kept:m'), await askWith('gone:m')];
    expect((await before.send('DELETE', `${settings}/${gone.body.id}`)).status).toBe(204);
    await first.kill9();

    const failed = await runThat(client, ends.stream.runId, hasEnded);
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'model_not_found' } });
    expect(failed.error?.message).toMatch(/provider setting by which gone:m was asked has been taken away/);

    await runThat(client, goesOn.stream.runId, ({ resumptions }) => resumptions === 1);
    const [asked] = await pendingIn<PromptRequest>(client, goesOn, 'prompts');
    const answers = { answers: [{ question_id: 'q', yes: true }] };
    const reply = `/api/v1/sessions/${goesOn.session.id}/prompts/${asked?.id}/reply`;
    expect((await client.post(reply, answers)).status).toBe(200);
    expect(await runThat(client, goesOn.stream.runId, hasEnded)).toMatchObject({ status: 'completed' });
    const sent = (await upstream.requests()).map(({ headers }) => headers.authorization);
    expect(sent.filter((key) => key === 'Bearer key-of-kept')).toHaveLength(2);
  },
);

test.skipIf(inject('postgresUrl') === null)(
  'a call of the Messages API ends with its node, and is repeated on another one with the setting that it names',
  async () => {
    const shared = { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
    const first = await startCrashing(folder, shared);
    const before = clientOf(first, first.key);
    const second = await startCrashing(folder, shared);
    const client = clientOf(second, first.key);
    const { body: setting } = await before.post('/api/v1/settings/providers', {
      ...{ scope: 'user', provider_id: 'mine', name: 'Mine', type: 'openai-compat', api_key: 'key-of-mine' },
      ...{ base_url: `${upstream.url}/v1`, models: [{ id: 'm' }] },
    });
    const { body: session } = await before.post<Session>('/api/v1/sessions', {});
    const say = (url: string, content: string) =>
      fetch(`${url}/v1/messages`, {
        method: 'POST',
        headers: {
          ...{ authorization: `Bearer ${first.key}`, 'content-type': 'application/json' },
          ...{ 'x-service-session-id': session.id, 'x-service-provider-setting-id': setting.id },
        },
        body: JSON.stringify({
          ...{ model: 'mine:m', max_tokens: 100, stream: true },
          messages: [{ role: 'user', content }],
        }),
      }).then((response) => response.text());
    const broken = say(first.url, 'hold').catch((error: Error) => error.message);
    await upstream.latest(({ rule }) => rule !== null);
    await first.kill9();
    expect(await broken).not.toContain('message_stop');
    const runs = `/api/v1/runs?session_id=${session.id}`;
    const [run] = (await client.get<{ data: Run[] }>(runs)).body.data;
    expect(await runThat(client, run?.id ?? '', hasEnded)).toMatchObject({
      ...{ status: 'interrupted', interrupt_reason: 'lease_lost' },
    });
    await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
    expect(await say(second.url, 'hold')).toContain('message_stop');
    const sent = await upstream.requests();
    expect(sent.map(({ headers }) => headers.authorization)).toEqual(['Bearer key-of-mine']);
    const said = (await messagesOf(client, session.id)).map(
      (message) => `${message.role}: ${textIn(message)}`,
    );
    expect(said.at(-1)).toBe('assistant: You said: hold');
  },
);
