/** Kills the server at random moments under load: nothing that was acknowledged is lost, and nothing stays half done. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex from 'knex';
import { expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, PermissionRequest, QueryResponse, Run, Session } from './contract/api.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  writeSettings,
} from './server-process.ts';
import { type Client, clientOf, type TestStream, textOf } from './test-client.ts';

/** Few in every run of the tests; a stress run asks for hundreds, and repeats one by its seed. */
const kills = Number(process.env.CRASH_KILLS ?? 10);
const seed = Number(process.env.CRASH_SEED ?? Math.trunc(Math.random() * 2 ** 31));
const leaseSeconds = 2;
/** A start takes half a second; the rest is for machines that are busy with other tests. */
const startBarMs = 15_000;
/** E4 says lease + 5 s; the rest is for busy machines, too. */
const endBarMs = (leaseSeconds + 5 + 5) * 1000;

const script = [
  {
    name: 'two steps that write',
    when: { last_user: '^work (?<name>\\S+)' },
    reply: {
      text: 'Step {{step}} of {{match.name}} writes a file. ',
      repeat: 4,
      chunk_delay_ms: 5,
      tool_calls: [
        {
          name: 'write',
          arguments: { file_path: '{{match.name}}-{{step}}.txt', content: 'written by {{match.name}}' },
        },
      ],
    },
  },
  {
    name: 'a question',
    when: { last_user: '^ask (?<name>\\S+)' },
    reply: {
      text: 'May I?',
      tool_calls: [{ name: 'write', arguments: { file_path: '{{match.name}}.txt', content: 'x' } }],
    },
  },
];
const rules = [
  ...[0, 1].map((step) => ({ ...script[0], when: { ...script[0]?.when, step } })),
  { ...script[1], when: { ...script[1]?.when, step: 0 } },
  { name: 'the end', reply: { text: 'All of it is done, word by word. ', repeat: 5, chunk_delay_ms: 5 } },
];

/** What the clients were told, and so may rely on. */
interface Ledger {
  /** By id: the newest acknowledged title, or null once deletion was acknowledged. */
  readonly sessions: Map<string, string | null>;
  readonly streams: { readonly prompt: string; readonly stream: TestStream }[];
}

test(
  `${kills} kills lose nothing that was acknowledged, and leave nothing half done`,
  async () => {
    console.info(`crash test: CRASH_SEED=${seed} CRASH_KILLS=${kills}`);
    const random = randomFrom(seed);
    const upstream = await startUpstream();
    try {
      await upstream.script(rules);
      const folder = await temporaryFolder();
      await writeSettings(folder, scriptedSettings(upstream.url));
      let server = await start(folder);
      const { key } = server;
      const ledger: Ledger = { sessions: new Map(), streams: [] };
      for (let kill = 0; kill < kills; kill += 1) {
        const since = ledger.streams.length;
        const load = startLoad(clientOf(server, key), `${kill}`, ledger);
        await load.underWay;
        await sleep(random() * 900);
        await server.kill9();
        await load.stop();
        server = await start(folder);
        expect(server.startedInMs).toBeLessThan(startBarMs);
        await expectKept(clientOf(server, key), ledger, since, folder);
        await expectSound(join(folder, 'data/service.db'));
      }
      const reasons = await interruptReasons(clientOf(server, key));
      // Otherwise the kills would have met nothing at work, and would prove nothing.
      expect(reasons.lease_lost ?? 0).toBeGreaterThanOrEqual(kills);
      expect(Object.keys(reasons)).toEqual(['lease_lost']);
      const asked = await waitingStream(clientOf(server, key));
      await server.kill9();
      server = await start(folder);
      await expectToldOfInterruption(clientOf(server, key), asked.runId, upstream);
    } finally {
      await upstream.stop();
    }
  },
  60_000 + kills * 30_000,
);

function start(folder: string): Promise<ServerProcess> {
  return startServer({
    folder,
    variables: { SERVICE_LEASE_SECONDS: String(leaseSeconds), SERVICE_STRICT: 'true' },
  });
}

/** Clients that work until the server dies: some stream, one makes, changes and deletes sessions, one waits for a permission. */
function startLoad(client: Client, name: string, ledger: Ledger) {
  let over = false;
  const repeat = async (work: (round: number) => Promise<void>) => {
    for (let round = 0; !over; round += 1) await untilDeath(work(round));
  };
  const begun = ledger.streams.length + 4;
  const workers = [
    ...['a', 'b', 'c'].map((worker) =>
      repeat((round) => stream(client, `work ${name}${worker}${round}`, ledger)),
    ),
    repeat(() => editSessions(client, ledger)),
    untilDeath(stream(client, `ask ${name}`, ledger, 'ask')),
  ];
  const underWay = () =>
    ledger.streams.length >= begun && ledger.streams.some(({ prompt }) => prompt === `ask ${name}`);
  return {
    underWay: waitUntil(underWay),
    async stop() {
      over = true;
      await Promise.all(workers);
    },
  };
}

/** What a client sees of the death of the server is no fault of the test. */
async function untilDeath(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof TypeError && /^(fetch failed|terminated)$/.test(error.message))) throw error;
    // Until `stop` is called, a little later, there is nobody to talk to.
    await sleep(20);
  }
}

async function stream(client: Client, prompt: string, ledger: Ledger, mode = 'accept_edits'): Promise<void> {
  const opened = await client.stream('/api/v1/query/stream', { prompt, permission_mode: mode });
  ledger.streams.push({ prompt, stream: opened });
  await opened.ended;
}

async function editSessions(client: Client, { sessions }: Ledger): Promise<void> {
  const { body: made } = await client.post<Session>('/api/v1/sessions', { title: 'made' });
  sessions.set(made.id, 'made');
  await change(sessions, made.id, 'changed', () =>
    client.send('PATCH', `/api/v1/sessions/${made.id}`, { title: 'changed' }),
  );
  const { body: second } = await client.post<Session>('/api/v1/sessions', { title: 'to be deleted' });
  await change(sessions, second.id, null, () => client.send('DELETE', `/api/v1/sessions/${second.id}`));
}

/** While a change is under way nobody can say which of the two holds; then the id is not in the ledger. */
async function change(
  sessions: Ledger['sessions'],
  id: string,
  title: string | null,
  send: () => Promise<{ readonly status: number }>,
): Promise<void> {
  sessions.delete(id);
  expect((await send()).status).toBeLessThan(300);
  sessions.set(id, title);
}

async function expectKept(client: Client, ledger: Ledger, since: number, folder: string): Promise<void> {
  for (const [id, title] of ledger.sessions) {
    const { status, body } = await client.get<Session>(`/api/v1/sessions/${id}`);
    if (title === null) expect(status).toBe(404);
    else expect(body.title).toBe(title);
  }
  const restartedAt = performance.now();
  for (const { prompt, stream } of ledger.streams.slice(since)) {
    const run = await ended(client, stream.runId, restartedAt);
    if (run.status === 'interrupted') expect(run.interrupt_reason).toBe('lease_lost');
    else expect(run.status).toBe('completed');
    const events = await replay(client, run, stream);
    const messages = await messagesOf(client, run.session_id);
    expectPrompt(messages, prompt);
    expectText(messages, events, stream.events);
    expectDone(messages, events, run);
    await expectFiles(client, run, events, folder);
    await expectNoOpenQuestion(client, run);
  }
}

/** E4: in time, and with a reason. */
async function ended(client: Client, runId: string, restartedAt: number): Promise<Run> {
  for (;;) {
    const { status, body } = await client.get<Run>(`/api/v1/runs/${runId}`);
    expect(status, `the run ${runId}`).toBe(200);
    if (body.ended_at !== null) return body;
    expect(performance.now() - restartedAt, `${runId} is still ${body.status}`).toBeLessThan(endBarMs);
    await sleep(50);
  }
}

/** The stored events: without a gap, ending in `done`, and the same that the client has received so far. */
async function replay(client: Client, run: Run, received: TestStream): Promise<readonly NumberedEvent[]> {
  const replayed = await client.stream(`/api/v1/runs/${run.id}/events?after=0&follow=false`);
  await replayed.ended;
  const { events } = replayed;
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.map(({ name }) => name).filter((name) => name === 'done' || name === 'error')).toEqual([
    'done',
  ]);
  expect(events.at(-1)).toMatchObject({ name: 'done', data: { status: run.status } });
  expect(run.last_event_id).toBe(events.length);
  expect(events.slice(0, received.events.length)).toEqual(received.events);
  return events;
}

/** E2. */
function expectPrompt(messages: readonly Message[], prompt: string): void {
  const prompts = messages.filter(({ role }) => role === 'user');
  expect(prompts.map(({ parts }) => parts)).toEqual([[{ type: 'text', text: prompt }]]);
}

/** E5: each message that was streamed is stored with exactly its text; the client has a prefix of it. */
function expectText(
  messages: readonly Message[],
  events: readonly NumberedEvent[],
  received: readonly NumberedEvent[],
): void {
  const streamed = new Set(
    events.flatMap(({ name, data }) =>
      name === 'message' && data.type === 'text_delta' ? [data.message_id] : [],
    ),
  );
  for (const id of streamed) {
    const stored = textIn(messages.find((message) => message.id === id));
    expect(stored).toBe(textOf(events, id));
    expect(stored.startsWith(textOf(received, id))).toBe(true);
  }
}

/** What `done` says is what is stored. */
function expectDone(messages: readonly Message[], events: readonly NumberedEvent[], run: Run): void {
  const done = events.at(-1)?.data as QueryResponse; // the last event is `done`, as was seen before
  const said = done.content.map((part) => part.text).join('');
  const last = messages.findLast(({ role }) => role === 'assistant');
  expect(said).toBe(textIn(last));
  if (run.status === 'completed') expect(done.id).toBe(last?.id);
  expect(messages.map(({ id }) => id)).toContain(done.id);
  const results = messages.flatMap(({ parts }) => parts.filter(({ type }) => type === 'tool_result'));
  expect(done.tool_results).toEqual(results);
}

/** A file whose writing was reported is there. */
async function expectFiles(
  client: Client,
  run: Run,
  events: readonly NumberedEvent[],
  folder: string,
): Promise<void> {
  const { body: session } = await client.get<Session>(`/api/v1/sessions/${run.session_id}`);
  const written = new Set(
    events.flatMap(({ data }) =>
      'type' in data && data.type === 'tool_finished' && !data.is_error ? [data.tool_call_id] : [],
    ),
  );
  for (const { data } of events) {
    if (!('type' in data) || data.type !== 'tool_started' || !written.has(data.tool_call_id)) continue;
    const path = join(folder, 'data/workspaces', session.workspace_id, String(data.input.file_path));
    expect(existsSync(path), path).toBe(true);
  }
}

/** A question whose run has died is cancelled, and an answer to it is refused as one that comes too late. */
async function expectNoOpenQuestion(client: Client, run: Run): Promise<void> {
  const path = `/api/v1/sessions/${run.session_id}/permissions`;
  const { body } = await client.get<{ data: readonly PermissionRequest[] }>(path);
  for (const { id, status } of body.data) {
    expect(status).toBe('cancelled');
    const late = await client.post(`${path}/${id}/reply`, { decision: 'allow_once' });
    expect([409, 410]).toContain(late.status);
  }
}

/** A run in the middle of a tool call, which asks a person. */
async function waitingStream(client: Client): Promise<TestStream> {
  const body = { prompt: 'ask at-the-end', permission_mode: 'ask' };
  const stream = await client.stream('/api/v1/query/stream', body);
  await stream.until(({ data }) => 'type' in data && data.type === 'permission_requested');
  return stream;
}

/** E7: a call that was in flight is not made again; the model hears that nobody knows what came of it. */
async function expectToldOfInterruption(client: Client, runId: string, upstream: Upstream): Promise<void> {
  const run = await ended(client, runId, performance.now());
  const { body } = await client.post<QueryResponse>('/api/v1/query', {
    prompt: 'Go on',
    session_id: run.session_id,
  });
  expect(body).toMatchObject({ status: 'completed', tool_uses: [] });
  const asked = await upstream.latest(() => true);
  expect(JSON.stringify(asked.body)).toContain(
    'The call was interrupted; whether it had an effect is not known.',
  );
}

/** E9, seen by a reader of its own beside the running server. */
async function expectSound(filename: string): Promise<void> {
  const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
  try {
    expect(await sql.raw('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(await sql.raw('pragma foreign_key_check')).toEqual([]);
  } finally {
    await sql.destroy();
  }
}

async function interruptReasons(client: Client): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let cursor = ''; ; ) {
    const { body } = await client.get<{ data: readonly Run[]; next_cursor: string | null }>(
      `/api/v1/runs?status=interrupted&limit=100${cursor}`,
    );
    for (const { interrupt_reason } of body.data)
      counts[String(interrupt_reason)] = (counts[String(interrupt_reason)] ?? 0) + 1;
    if (body.next_cursor === null) return counts;
    cursor = `&cursor=${body.next_cursor}`;
  }
}

async function messagesOf(client: Client, sessionId: string): Promise<readonly Message[]> {
  const { body } = await client.get<{ data: readonly Message[] }>(
    `/api/v1/sessions/${sessionId}/messages?limit=100`,
  );
  return body.data;
}

function textIn(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
}

async function waitUntil(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

/** mulberry32: the same numbers from the same seed, on every machine. */
function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
