/** Kills the server at random moments under load: nothing that was acknowledged is lost, and nothing stays half done. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, PermissionRequest, Run, Session } from './contract/api.ts';
import {
  expectDone,
  expectSound,
  expectText,
  hasEnded,
  kills,
  messagesOf,
  randomFrom,
  replay,
  runThat,
  seed,
  startCrashing,
} from './crash-checks.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf, type TestStream } from './test-client.ts';

/** Half as many as of a single run where nobody says how many: each has more to look at. */
const rounds = process.env.CRASH_KILLS === undefined ? Math.ceil(kills / 2) : kills;
/** E3 says two seconds; the rest is for disks and caches that are busy with other tests. */
const startBarMs = 8000;
/** How fast it is back is promised to those, too, who keep no compiled code. */
const variables = { NODE_COMPILE_CACHE: undefined };
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
  /** How often runs have gone on in another process. */
  resumptions: number;
}

test(
  `${rounds} kills lose nothing that was acknowledged, and leave nothing half done`,
  async () => {
    console.info(`crash test: CRASH_SEED=${seed} CRASH_KILLS=${kills}`);
    const random = randomFrom(seed);
    const upstream = await startUpstream();
    try {
      await upstream.script(rules);
      const folder = await temporaryFolder();
      await writeSettings(folder, scriptedSettings(upstream.url));
      let server = await startCrashing(folder, variables);
      const { key } = server;
      const ledger: Ledger = { sessions: new Map(), streams: [], resumptions: 0 };
      for (let kill = 0; kill < rounds; kill += 1) {
        const since = ledger.streams.length;
        const load = startLoad(clientOf(server, key), `${kill}`, ledger);
        await load.underWay;
        await sleep(random() * 900);
        await server.kill9();
        await load.stop();
        server = await startCrashing(folder, variables);
        expect(server.startedInMs).toBeLessThan(startBarMs);
        await expectKept(clientOf(server, key), ledger, since, folder);
        await expectSound(join(folder, 'data/service.db'));
      }
      // Otherwise the kills would have met nothing at work, and would prove nothing.
      expect(ledger.resumptions).toBeGreaterThanOrEqual(rounds);
    } finally {
      await upstream.stop();
    }
  },
  60_000 + rounds * 30_000,
);

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
  for (const { prompt, stream } of ledger.streams.slice(since)) {
    if (prompt.startsWith('ask')) await answerOpenQuestion(client, stream.runId);
    const run = await runThat(client, stream.runId, hasEnded);
    expect(run.status).toBe('completed');
    ledger.resumptions += run.resumptions;
    const events = await replay(client, run, stream.events);
    const messages = await messagesOf(client, run.session_id);
    expectPrompt(messages, prompt);
    expectText(messages, events, stream.events);
    expectDone(messages, events, run);
    await expectFiles(client, run, events, folder);
  }
}

/** E2. */
function expectPrompt(messages: readonly Message[], prompt: string): void {
  const prompts = messages.filter(({ role }) => role === 'user');
  expect(prompts.map(({ parts }) => parts)).toEqual([[{ type: 'text', text: prompt }]]);
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

/** The question outlives the process: the same one is waited for, and answered once. */
async function answerOpenQuestion(client: Client, runId: string): Promise<void> {
  const { session_id } = await runThat(client, runId, ({ status }) => status === 'waiting_permission');
  const path = `/api/v1/sessions/${session_id}/permissions`;
  const { body } = await client.get<{ data: readonly PermissionRequest[] }>(path);
  expect(body.data.map(({ status }) => status)).toEqual(['pending']);
  const reply = `${path}/${body.data[0]?.id}/reply`;
  expect((await client.post(reply, { decision: 'allow_once' })).status).toBe(200);
  expect((await client.post(reply, { decision: 'deny' })).status).toBe(409);
}

async function waitUntil(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}
