/** Holds the closed lists of events to a real server: each type is told there some time, and none is told beside them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type {
  Corpus,
  IngestionJob,
  Job,
  JobRun,
  PermissionRequest,
  Plan,
  PromptRequest,
  Run,
  RuntimeEvent,
  Session,
} from './contract/api.ts';
import { startCrashing } from './crash-checks.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf, type TestStream } from './test-client.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const call = (prompt: string, tool: string, input: object) => ({
  when: { last_user: `^${prompt}`, step: 0 },
  reply: { tool_calls: [{ name: tool, arguments: input }] },
});
const question = { id: 'q', type: 'yes_no', text: 'Go on?' };
const todo = { content: 'Look', status: 'pending', active_form: 'Looking' };
beforeEach(() =>
  upstream.script([
    { when: { last_user: '^fail', model: '^scripted-1$' }, fail: { kind: 'status', status: 503 } },
    { when: { last_user: '^refused' }, fail: { kind: 'status', status: 401 } },
    { when: { last_user: '^hold' }, reply: { text: 'held '.repeat(20), hold_after_chunks: 3 } },
    call('write', 'write', { file_path: 'a.txt', content: 'a' }),
    call('ask', 'ask_user', { questions: [question] }),
    call('command', 'bash', { command: 'echo one; sleep 0.3; echo two' }),
    call('list', 'ls', { path: '.' }),
    call('todos', 'todos', { todos: [todo] }),
    call('plan', 'plan', { title: 'Mend it', content: 'Look, then mend.' }),
    call('errand', 'agent', { description: 'An errand', prompt: 'Look round.', agent_slug: 'task' }),
    { reply: { reasoning: 'Hm.', text: 'Done.' } },
  ]),
);

/** Of an event of one type, or of several that hold the same. */
function typesOf(type: { readonly const?: string; readonly enum?: readonly string[] }): readonly string[] {
  return type.const === undefined ? (type.enum ?? []) : [type.const];
}

/** The types that the schemas list. */
function listed(): { readonly run: Set<string>; readonly workspace: Set<string> } {
  const read = (name: string) =>
    parse(readFileSync(join(import.meta.dirname, `../schemas/events/${name}.yaml`), 'utf8'));
  const runtime = Object.keys(read('runtime').RuntimeEvent.discriminator.mapping);
  const chunks = Object.keys(read('chunk').ResponseChunk.discriminator.mapping);
  const schemas = read('workspace');
  const own = schemas.WorkspaceEvent.properties.event.oneOf.flatMap(({ $ref }: { $ref: string }) =>
    $ref.startsWith('#/') ? typesOf(schemas[$ref.slice(2)].properties.type) : [],
  );
  const silent = new Set(['tool_progress', 'snapshot_given']);
  return {
    run: new Set([...runtime, ...chunks, 'done', 'error']),
    workspace: new Set([...runtime.filter((type) => !silent.has(type)), ...own]),
  };
}

const is = (type: RuntimeEvent['type']) => (event: NumberedEvent) =>
  event.name === 'runtime' && event.data.type === type;

function typeOf({ name, data }: NumberedEvent): string {
  return 'type' in data ? data.type : name;
}

test('every type of the closed lists is told by a server, and no other', async () => {
  const folder = await temporaryFolder();
  const { providers, models } = scriptedSettings(upstream.url);
  const spare = [{ id: 'scripted-1' }, { id: 'spare' }];
  await writeSettings(folder, {
    providers: { scripted: { ...providers?.scripted, models: spare } },
    models: { large: { ...models?.large, fallbacks: ['scripted:spare'] } },
    options: { limits: { max_attempts: 2 } },
    hooks: { pre_tool_use: [{ matcher: '^ls$', command: 'echo \'{"decision":"allow"}\'' }] },
  });
  // Two are answered, and a busy machine takes its time to begin a dozen runs.
  const variables = { SERVICE_ANSWER_SECONDS: '10' };
  const first = await startCrashing(folder, variables);
  const before = clientOf(first, first.key);
  const held = await before.stream('/api/v1/query/stream', { prompt: 'hold' });
  await held.until((event) => event.name === 'message');
  await first.kill9();

  const second = await startCrashing(folder, variables);
  const client = clientOf(second, first.key);
  const seen = new Set<string>();
  const resumed = await client.stream(`/api/v1/runs/${held.runId}/events`);
  await resumed.until(is('run_resumed'));
  if (resumed.snapshot) seen.add(resumed.snapshot.type);
  expect((await client.send('POST', `/api/v1/runs/${held.runId}/interrupt`)).status).toBe(202);
  const streams = [resumed, ...(await Promise.all(queries.map((query) => query(client))))];
  await Promise.all(streams.map(({ ended }) => ended));
  for (const { events } of streams) for (const event of events) seen.add(typeOf(event));
  expect(seen).toEqual(listed().run);

  await endedSession(client);
  await rejectedPlan(client);
  await ingestedDocuments(client);
  await finishedJob(client);
  await changedMcpServer(client);
  await createdSkill(second.url, first.key);
  await changedWebSearch(second.url, first.key);
  await client.post('/api/v1/skills/repositories', { url: 'https://git.example.com/house/skills.git' });
  expect(new Set(await toldOfWorkspace(client))).toEqual(listed().workspace);
});

const query =
  (prompt: string, more: object = {}) =>
  (client: Client) =>
    client.stream('/api/v1/query/stream', { prompt, ...more });

/** What has to be asked, and done meanwhile, for every event to come. */
const queries: readonly ((client: Client) => Promise<TestStream>)[] = [
  query('fail'),
  query('refused'),
  query('write, and nobody answers'),
  query('ask, and nobody answers'),
  query('command', { permission_mode: 'bypass' }),
  query('list'),
  query('todos', { limits: { max_steps: 1 } }),
  query('plan', { agent_slug: 'plan' }),
  query('errand'),
  async (client) => {
    const stream = await client.stream('/api/v1/query/stream', { prompt: 'write' });
    const { data } = await stream.until(is('permission_requested'));
    const { reply_path } = (data as { request: PermissionRequest }).request; // by its type
    expect((await client.post(reply_path, { decision: 'deny' })).status).toBe(200);
    return stream;
  },
  async (client) => {
    const stream = await client.stream('/api/v1/query/stream', { prompt: 'ask' });
    const { data } = await stream.until(is('prompt_requested'));
    const { reply_path } = (data as { request: PromptRequest }).request; // by its type
    expect((await client.post(reply_path, { cancelled: true })).status).toBe(200);
    return stream;
  },
  async (client) => {
    const { body } = await client.post<{ session_id: string }>('/api/v1/query', { prompt: 'Hello' });
    const { body: run } = await client.post<Run>(`/api/v1/sessions/${body.session_id}/summarize`, {});
    return client.stream(`/api/v1/runs/${run.id}/events`);
  },
];

async function createdSkill(url: string, key: string): Promise<void> {
  const body = new FormData();
  body.append('scope', 'workspace');
  body.append('file', new Blob(['---\nname: tidy\ndescription: Tidies up.\n---\n']), 'SKILL.md');
  const headers = { authorization: `Bearer ${key}` };
  expect((await fetch(`${url}/api/v1/skills`, { method: 'POST', body, headers })).status).toBe(201);
}

async function changedWebSearch(url: string, key: string): Promise<void> {
  const body = JSON.stringify({ engine: 'brave', api_key: 'k' });
  const type = { 'content-type': 'application/merge-patch+json', 'if-match': '*' };
  const headers = { authorization: `Bearer ${key}`, ...type };
  const answer = await fetch(`${url}/api/v1/web/search/settings`, { method: 'PATCH', body, headers });
  expect(answer.status).toBe(200);
}

async function endedSession(client: Client): Promise<void> {
  const { body: session } = await client.post<Session>('/api/v1/sessions', { title: 'Soon gone' });
  expect((await client.send('DELETE', `/api/v1/sessions/${session.id}`)).status).toBe(204);
}

async function rejectedPlan(client: Client): Promise<void> {
  const { body } = await client.get<{ data: Plan[] }>('/api/v1/plans');
  const [plan] = body.data;
  expect((await client.post(`/api/v1/plans/${plan?.id}/reject`, {})).status).toBe(200);
}

/** Two, so that the first is told of as progress. */
async function ingestedDocuments(client: Client): Promise<void> {
  const { body: corpus } = await client.post<Corpus>('/api/v1/corpora', { name: 'Handbook' });
  const texts = ['Pay', 'Travel'].map((title) => ({ title, text: `${title} is on the 25th.` }));
  const jobs = `/api/v1/corpora/${corpus.id}/ingestion-jobs`;
  const { body: job } = await client.post<IngestionJob>(`/api/v1/corpora/${corpus.id}/documents`, { texts });
  const status = async () => (await client.get<IngestionJob>(`${jobs}/${job.id}`)).body.status;
  await expect.poll(status).toBe('completed');
}

async function changedMcpServer(client: Client): Promise<void> {
  const body = { scope: 'workspace', name: 'tracker', type: 'http', url: 'https://mcp.example.com/mcp' };
  expect((await client.post('/api/v1/mcp/servers', body)).status).toBe(201);
}

async function finishedJob(client: Client): Promise<void> {
  const body = { name: 'Nightly', prompt: 'Hello', cron: '0 2 * * *' };
  const { body: job } = await client.post<Job>('/api/v1/scheduler/jobs', body);
  await client.send('POST', `/api/v1/scheduler/jobs/${job.id}/run`);
  const place = `/api/v1/scheduler/jobs/${job.id}/runs`;
  const status = async () => (await client.get<{ data: JobRun[] }>(place)).body.data[0]?.status;
  await expect.poll(status).toBe('completed');
}

async function toldOfWorkspace(client: Client): Promise<string[]> {
  const stream = await client.stream('/api/v1/events?follow=false');
  await stream.ended;
  // Framed as the events of a run are, with what happened one level deeper.
  return stream.events.map(({ data }) => (data as unknown as { event: { type: string } }).event.type);
}
