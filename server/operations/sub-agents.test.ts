/** Agents that agents start, over HTTP: asked through one stream, hidden in lists, counted once, deleted with their parent. */
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { Problem } from '../problem.ts';
import {
  type Account,
  type Json,
  readEvents,
  type StreamedEvent,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const scripted = scriptedProvider(upstream, 'scripted-1');
  app = await testApp({ config: { providers: { scripted } } });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

/** The agent of the query starts one that writes a file. */
async function scriptWriter(file: string): Promise<void> {
  const errand = { description: 'Write a file', prompt: 'Write it.', agent_slug: 'coder' };
  const usage = { input: 10, output: 5 };
  await upstream.script([
    {
      when: { step: 0, last_user: '^Go' },
      reply: { tool_calls: [{ name: 'agent', arguments: errand }], usage },
    },
    { when: { last_user: '^Go' }, reply: { text: 'It said: {{last_tool_result}}', usage } },
    {
      when: { step: 0 },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path: file, content: 'x' } }], usage },
    },
    { reply: { text: 'Written.', usage } },
  ]);
}

async function watch(onEvent?: (event: StreamedEvent) => Promise<void>): Promise<Json[]> {
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token: ada.token,
    body: { prompt: 'Go.' },
  });
  const events: Json[] = [];
  for await (const event of readEvents(response)) {
    events.push(event.data);
    await onEvent?.(event);
  }
  return events;
}

const get = async (path: string) => (await app.request('GET', path, { token: ada.token })).body;

test('asks in the stream of the query, and is answered by its reply_path, by its owner alone', async () => {
  await scriptWriter('one.txt');
  const states: string[] = [];
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested') return;
    const { request } = data;
    const [waiting] = (await get('/api/v1/sessions?limit=1')).data;
    states.push(waiting.status);
    const reply = (token: string) =>
      app.request('POST', request.reply_path, { token, body: { decision: 'allow_once' } });
    expect((await reply(mallory.token)).status).toBe(404);
    expect((await reply(ada.token)).status).toBe(200);
  });
  expect(states).toEqual(['waiting']);
  const done = events.at(-1);
  expect(done.content[0].text).toBe('It said: Written.');
  expect(events.find(({ type }) => type === 'permission_resolved')).toMatchObject({ decision: 'allow_once' });
});

test('waits where the person looks: in the lists, the inspection and the snapshot of the session that they see', async () => {
  const ask = (name: string, input: object) => ({ tool_calls: [{ name, arguments: input }] });
  const errand = { description: 'Ask', prompt: 'Ask.', agent_slug: 'coder' };
  const questions = [{ id: 'colour', type: 'free_text', text: 'Which colour?' }];
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: ask('agent', errand) },
    { when: { last_user: '^Go' }, reply: { text: 'It said: {{last_tool_result}}' } },
    { when: { step: 0 }, reply: ask('write', { file_path: 'asked.txt', content: 'x' }) },
    { when: { step: 1 }, reply: ask('ask_user', { questions }) },
    { reply: { text: 'Written.' } },
  ]);
  const post = (path: string, body: object, token = ada.token) =>
    app.request('POST', `/api/v1${path}`, { token, body });
  const seen: string[] = [];
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested' && data.type !== 'prompt_requested') return;
    const { request } = data;
    seen.push(data.type);
    const { parent_id: parent, parent_run_id: run } = await get(`/api/v1/sessions/${request.session_id}`);
    const [kind, other] = 'questions' in request ? ['prompts', 'permissions'] : ['permissions', 'prompts'];
    const member = kind === 'prompts' ? 'prompt_requests' : 'permission_requests';
    const at = `/sessions/${parent}/${kind}`;
    for (const session of [parent, request.session_id])
      expect((await get(`/api/v1/sessions/${session}/${kind}?status=pending`)).data).toEqual([request]);
    expect((await get(`/api/v1/sessions/${parent}/${other}?status=pending`)).data).toEqual([]);
    expect(await get(`/api/v1/sessions/${parent}/inspect`)).toMatchObject({
      status: 'waiting',
      run: { id: run, status: kind === 'prompts' ? 'waiting_prompt' : 'waiting_permission' },
      [member]: [request],
    });
    for (const runId of [run, request.run_id]) {
      const resumed = await app.stream('GET', `/api/v1/runs/${runId}/events?after=1&follow=false`, {
        token: ada.token,
      });
      const [snapshot] = await Array.fromAsync(readEvents(resumed));
      expect(snapshot?.data).toMatchObject({ type: 'snapshot_given', run_id: runId, [member]: [request] });
    }
    // Whoever knows the session that they see alone can answer there, and nobody else.
    const answer =
      kind === 'prompts'
        ? { answers: [{ question_id: 'colour', fill_in_text: 'green' }] }
        : { decision: 'allow_once' };
    const stranger = (await post('/sessions', {}, mallory.token)).body.id;
    for (const [path, token] of [
      [at, mallory.token],
      [`/sessions/${stranger}/${kind}`, mallory.token],
      [`/sessions/${(await post('/sessions', {})).body.id}/${kind}`, ada.token],
    ] as const)
      expect((await post(`${path}/${request.id}/reply`, answer, token)).status).toBe(404);
    expect((await post(`${at}/${request.id}/reply`, answer)).body).toMatchObject({
      id: request.id,
      status: 'answered',
    });
    const again = await app.request('POST', request.reply_path, { token: ada.token, body: answer });
    expect(again.body.code).toBe('already_answered');
  });
  expect(seen).toEqual(['permission_requested', 'prompt_requested']);
  expect(events.at(-1)).toMatchObject({ status: 'completed', content: [{ text: 'It said: Written.' }] });
  const { session_id, run_id } = events.at(-1);
  const listed = (await get(`/api/v1/sessions/${session_id}/permissions`)).data;
  expect(listed).toMatchObject([{ status: 'answered', decision: 'allow_once' }]);
  const replayed = await app.stream('GET', `/api/v1/runs/${run_id}/events?after=1`, { token: ada.token });
  const [snapshot] = await Array.fromAsync(readEvents(replayed));
  expect(snapshot?.data).toMatchObject({ permission_requests: [], prompt_requests: [] });
});

test('has a session that lists leave out, whose use counts for the one that started it, and once in all', async () => {
  await scriptWriter('two.txt');
  const before = (await get('/api/v1/metrics')).usage;
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested') return;
    await app.request('POST', data.request.reply_path, {
      token: ada.token,
      body: { decision: 'allow_once' },
    });
  });
  const started = events.find(({ type }) => type === 'agent_started');
  const { session_id, usage } = events.at(-1);
  const child = await get(`/api/v1/sessions/${started.session_id}`);
  expect(child).toMatchObject({ parent_id: session_id, title: 'Write a file', agent_slug: 'coder' });
  expect(child.parent_run_id).toBe(events.at(-1).run_id);
  const listed = (await get('/api/v1/sessions?limit=100')).data.map(({ id }: Json) => id);
  expect(listed).toContain(session_id);
  expect(listed).not.toContain(child.id);
  const below = (await get(`/api/v1/sessions?parent_id=${session_id}`)).data;
  expect(below.map(({ id }: Json) => id)).toEqual([child.id]);
  const run = await get(`/api/v1/runs/${started.run_id}`);
  expect(run).toMatchObject({ trigger: 'agent', status: 'completed' });
  expect(events.find(({ type }) => type === 'agent_finished').usage).toEqual(run.usage);
  const session = await get(`/api/v1/sessions/${session_id}`);
  const sum = (a: Json, b: Json, sign = 1) => a.input_tokens + sign * b.input_tokens;
  expect(session.usage.input_tokens).toBe(sum(usage, run.usage));
  expect(sum((await get('/api/v1/metrics')).usage, before, -1)).toBe(session.usage.input_tokens);
});

test('changes files as the session that a person sees: there they are shown, and put back', async () => {
  await scriptWriter('changed.txt');
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested') return;
    await app.request('POST', data.request.reply_path, {
      token: ada.token,
      body: { decision: 'allow_once' },
    });
  });
  const { session_id } = events.at(-1);
  expect(JSON.stringify(await get(`/api/v1/sessions/${session_id}/diff`))).toContain('changed.txt');
  const [first] = (await get(`/api/v1/sessions/${session_id}/messages`)).data;
  const reverted = await app.request('POST', `/api/v1/sessions/${session_id}/revert`, {
    token: ada.token,
    body: { to_message_id: first.id, files: true },
  });
  expect(reverted.status).toBe(200);
  expect(JSON.stringify(await get(`/api/v1/sessions/${session_id}/diff`))).not.toContain('changed.txt');
});

test('goes with the session that started it when that is deleted', async () => {
  await scriptWriter('three.txt');
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested') return;
    await app.request('POST', data.request.reply_path, { token: ada.token, body: { decision: 'deny' } });
  });
  const child = events.find(({ type }) => type === 'agent_started').session_id;
  const { session_id } = events.at(-1);
  expect((await app.request('DELETE', `/api/v1/sessions/${session_id}`, { token: ada.token })).status).toBe(
    204,
  );
  expect((await app.request('GET', `/api/v1/sessions/${child}`, { token: ada.token })).status).toBe(404);
});

test('is stopped by an interrupt of the session that a person sees', async () => {
  await scriptWriter('four.txt');
  const events = await watch(async ({ data }) => {
    if (data.type !== 'permission_requested') return;
    const [session] = (await get('/api/v1/sessions?limit=1')).data;
    await app.request('POST', `/api/v1/sessions/${session.id}/interrupt`, { token: ada.token });
  });
  expect(events.at(-1)).toMatchObject({ status: 'interrupted' });
  const { run_id } = events.find(({ type }) => type === 'agent_started');
  expect(await get(`/api/v1/runs/${run_id}`)).toMatchObject({
    status: 'interrupted',
    interrupt_reason: 'requested',
  });
});

const errand = (prompt: string) => ({
  name: 'agent',
  arguments: { description: 'An errand', prompt, agent_slug: 'coder' },
});
const interrupt = (sessionId: string) =>
  app.request('POST', `/api/v1/sessions/${sessionId}/interrupt`, { token: ada.token });

test('that is stopped by itself takes its question along: the run that it worked for waits no more', async () => {
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [errand('Write it.')] } },
    { when: { last_user: '^Go' }, reply: { text: 'Never mind it, then.', hold_after_chunks: 2 } },
    { reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'seven.txt', content: 'x' } }] } },
  ]);
  const states: unknown[] = [];
  let asked: Json;
  const events = await watch(async ({ data }) => {
    if (data.type === 'permission_requested') {
      asked = data.request;
      expect((await interrupt(asked.session_id)).status).toBe(202);
    }
    if (data.type !== 'text_delta' || states.length > 0) return;
    const { parent_id, parent_run_id } = await get(`/api/v1/sessions/${asked.session_id}`);
    const [run, session] = [
      await get(`/api/v1/runs/${parent_run_id}`),
      await get(`/api/v1/sessions/${parent_id}`),
    ];
    states.push(run.status, session.status);
    await upstream.releaseHeld();
  });
  expect(states).toEqual(['running', 'running']);
  expect(events.filter(({ type }) => type === 'permission_expired')).toMatchObject([
    { request_id: asked.id, tool_call_id: asked.tool_call_id },
  ]);
  expect(events.find(({ type }) => type === 'agent_finished')).toMatchObject({ status: 'interrupted' });
});

test.each([
  ['interrupted', { reply: { text: 'word '.repeat(300), hold_after_chunks: 40 } }],
  ['failed', { fail: { kind: 'cut', after_chunks: 5 } }],
])(
  'that is %s counts with what it had used until then',
  async (status, rule) => {
    await upstream.script([
      { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [errand('Tell me.')] } },
      { when: { last_user: '^Go' }, reply: { text: 'Over.' } },
      rule,
    ]);
    const hasSaid = async (runId: string) => {
      const path = `/api/v1/runs/${runId}/events?follow=false`;
      return (await (await app.stream('GET', path, { token: ada.token })).text()).includes('text_delta');
    };
    const events = await watch(async ({ data }) => {
      if (data.type !== 'agent_started' || status === 'failed') return;
      await expect.poll(() => hasSaid(data.run_id)).toBe(true);
      await interrupt(data.session_id);
    });
    const finished = events.find(({ type }) => type === 'agent_finished');
    const agent = await get(`/api/v1/runs/${finished.run_id}`);
    expect(agent.usage.output_tokens).toBeGreaterThan(0);
    expect(finished).toMatchObject({ status, usage: agent.usage });
    const { usage, session_id } = events.at(-1);
    const session = await get(`/api/v1/sessions/${session_id}`);
    for (const kind of ['input_tokens', 'output_tokens'])
      expect(session.usage[kind]).toBe(usage[kind] + agent.usage[kind]);
  },
  30_000,
);

test('that has ended and whose events are no longer kept is not waited for: what its run and its session say is told', async () => {
  const resuming = await testApp({
    config: { providers: { scripted: scriptedProvider(upstream, 'scripted-1') } },
    settings: { leaseSeconds: 4 },
  });
  onTestFinished(() => resuming.close());
  const { token } = await resuming.register('bob');
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: ['Wait.', 'Answer.', 'Fail.'].map(errand) } },
    { when: { last_user: '^Go' }, reply: { text: 'Over.' } },
    { when: { last_user: '^Answer' }, reply: { text: 'It is there.', hold_after_chunks: 1 } },
    { when: { last_user: '^Fail' }, fail: { kind: 'status', status: 401 } },
    { reply: { text: 'So far I see nothing. '.repeat(20), hold_after_chunks: 5 } },
  ]);
  const events: Json[] = [];
  const of = (type: string) => events.filter((event) => event.type === type);
  const textOf = async (path: string) => (await resuming.stream('GET', path, { token })).text();
  const untilEnded = (runId: string) =>
    expect.poll(() => textOf(`/api/v1/runs/${runId}`)).not.toContain('"ended_at":null');
  const endAll = async () => {
    await expect.poll(() => of('agent_started').length).toBe(3);
    const [waiting] = of('agent_started');
    const told = () => textOf(`/api/v1/runs/${waiting.run_id}/events?follow=false`);
    await expect.poll(told).toContain('text_delta');
    await resuming.request('POST', `/api/v1/sessions/${waiting.session_id}/interrupt`, { token });
    await untilEnded(waiting.run_id);
    await upstream.releaseHeld();
    for (const { run_id } of of('agent_started')) await untilEnded(run_id);
  };
  const { transcript, runs } = resuming.services.store;
  // All of them end before any of that is stored with their starter, whose process is then cut off; and housekeeping comes
  // by before it goes on, for which nobody waits a week here.
  const finishing = vi.spyOn(transcript, 'readUsed').mockImplementationOnce(async () => {
    await endAll();
    await runs.pruneEvents(new Date(Date.now() + 60_000));
    throw new Problem('database_unavailable', 'The database is away.');
  });
  onTestFinished(() => finishing.mockRestore());
  const body = { prompt: 'Go.' };
  const response = await resuming.stream('POST', '/api/v1/query/stream', { token, body });
  for await (const { data } of readEvents(response)) events.push(data);
  const done = events.at(-1);
  expect(done).toMatchObject({ status: 'completed', content: [{ text: 'Over.' }] });
  expect(done.tool_results.map(({ content }: Json) => content)).toEqual([
    expect.stringMatching(/^The agent was interrupted\.\n\nSo far /),
    'It is there.',
    expect.stringMatching(/^The agent failed: provider_refused: /),
  ]);
  expect(of('run_resumed')).not.toEqual([]);
  expect(of('agent_started')).toHaveLength(3);
  const statuses = of('agent_finished').map(({ status }) => status);
  expect(statuses.sort()).toEqual(['completed', 'failed', 'interrupted']);
});

test('is found again by its run where the database had too much to do to tell of it', async () => {
  const resuming = await testApp({
    config: { providers: { scripted: scriptedProvider(upstream, 'scripted-1') } },
    settings: { leaseSeconds: 4 },
  });
  onTestFinished(() => resuming.close());
  const { token } = await resuming.register('bob');
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [errand('Answer.')] } },
    { when: { last_user: '^Go' }, reply: { text: 'It said: {{last_tool_result}}' } },
    { reply: { text: 'It is there.', hold_after_chunks: 1 } },
  ]);
  const { transcript } = resuming.services.store;
  const { readEvents: read } = transcript;
  const events: Json[] = [];
  const agent = () => events.find(({ type }) => type === 'agent_started')?.run_id;
  let refused = 0;
  const reading = vi.spyOn(transcript, 'readEvents').mockImplementation(async (runId, ...more) => {
    if (refused > 0 || agent() === undefined || runId !== agent()) return read(runId, ...more);
    refused += 1;
    throw new Problem('database_unavailable', 'Too many requests wait for a connection to the database.');
  });
  onTestFinished(() => reading.mockRestore());
  const body = { prompt: 'Go.' };
  const response = await resuming.stream('POST', '/api/v1/query/stream', { token, body });
  const releasing = expect
    .poll(() => events.some(({ type }) => type === 'run_resumed'))
    .toBe(true)
    .then(() => upstream.releaseHeld());
  for await (const { data } of readEvents(response)) events.push(data);
  await releasing;
  expect(refused).toBe(1);
  expect(events.at(-1)).toMatchObject({ content: [{ text: 'It said: It is there.' }] });
  expect(events.filter(({ type }) => type === 'agent_finished')).toMatchObject([{ status: 'completed' }]);
});

test('is refused what nobody can allow, where nobody is asked', async () => {
  await scriptWriter('five.txt');
  const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'Go.' } });
  const [session] = (await get(`/api/v1/sessions?parent_id=${answer.body.session_id}`)).data;
  const messages = (await get(`/api/v1/sessions/${session.id}/messages`)).data;
  expect(JSON.stringify(messages)).toContain('nobody can be asked');
});

test('is forked into a session of the person', async () => {
  await scriptWriter('six.txt');
  const { body: answer } = await app.request('POST', '/api/v1/query', {
    token: ada.token,
    body: { prompt: 'Go.' },
  });
  const [session] = (await get(`/api/v1/sessions?parent_id=${answer.session_id}`)).data;
  for (const _ of [1, 2]) {
    const fork = await app.request('POST', `/api/v1/sessions/${session.id}/fork`, {
      token: ada.token,
      body: {},
    });
    expect(fork).toMatchObject({ status: 201, body: { parent_id: session.id, parent_run_id: null } });
    expect((await get('/api/v1/sessions?limit=100')).data.map(({ id }: Json) => id)).toContain(fork.body.id);
  }
});
