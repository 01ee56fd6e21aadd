/** Kills the server at random moments of a run of ten steps: it goes on each time, and nothing of it happens twice or is missing. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, Run, Session } from './contract/api.ts';
import {
  expectDone,
  expectMetered,
  expectSound,
  expectText,
  hasEnded,
  kills,
  killsOnPostgres,
  messagesOf,
  numbered,
  randomFrom,
  replay,
  runThat,
  seed,
  startCrashing,
  textIn,
} from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf, type TestStream } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const steps = 10;
const said = (step: number) => `Now comes step ${step}, word by word, as models write. `;
const cutOff = 'The call was interrupted; whether it had an effect is not known.';

/** Each step leaves a line in a file, so that a call which is made twice is seen, and looks for files beside it. */
const rules = [
  ...Array.from({ length: steps }, (_, step) => ({
    when: { last_user: '^work (?<name>\\S+)', step },
    reply: {
      text: said(step),
      chunk_delay_ms: 8,
      tool_calls: [
        { name: 'bash', arguments: { command: `echo step ${step} >> {{match.name}}.log` } },
        { name: 'glob', arguments: { pattern: '*.{{step}}' } },
      ],
    },
  })),
  { reply: { text: said(steps), chunk_delay_ms: 8 } },
];

interface Worked {
  readonly runId: string;
  readonly name: string;
  readonly streams: TestStream[];
}

async function begin(client: Client, name: string): Promise<Worked> {
  const rule = { tool: 'bash', decision: 'allow' };
  const { body: session } = await client.post<Session>('/api/v1/sessions', { permission_rules: [rule] });
  const stream = await client.stream('/api/v1/query/stream', {
    prompt: `work ${name}`,
    session_id: session.id,
  });
  return { runId: stream.runId, name, streams: [stream] };
}

/** A client that was cut off comes back with the number of its last event. */
async function attach(client: Client, work: Worked): Promise<void> {
  const after = numbered(...work.streams).at(-1)?.seq ?? 0;
  const stream = await client.stream(`/api/v1/runs/${work.runId}/events?after=${after}`);
  work.streams.push(stream);
}

/**
 * Anywhere between the very beginning and three steps on, counted in what is told: on a busy machine a run gets nowhere
 * in any span of time.
 */
async function atSomeMoment({ streams }: Worked, random: () => number): Promise<void> {
  const told = Math.floor(random() * 40);
  const pauseMs = random() * 30;
  const stream = streams.at(-1);
  // The run may have ended before.
  await Promise.allSettled([stream?.until(() => stream.events.length > told)]);
  await sleep(pauseMs);
}

async function expectWhole(client: Client, work: Worked, workspaces: string): Promise<Run> {
  const run = await runThat(client, work.runId, hasEnded, 60_000);
  await work.streams.at(-1)?.ended;
  expect(run).toMatchObject({ status: 'completed', steps: steps + 1 });
  const received = numbered(...work.streams);
  const events = await replay(client, run, received);
  expect(received).toEqual(events);
  const resumed = events.filter(({ name, data }) => name === 'runtime' && data.type === 'run_resumed');
  expect(resumed).toHaveLength(run.resumptions);
  const messages = await messagesOf(client, run.session_id);
  expectText(messages, events, received);
  expectDone(messages, events, run);
  expectSteps(messages);
  await expectEffects(client, messages, run, workspaces, work.name);
  return run;
}

/** Each step once and in its words; what a dead process had begun of one is its beginning. */
function expectSteps(messages: readonly Message[]): void {
  let step = 0;
  for (const message of messages.filter(({ role }) => role === 'assistant')) {
    if (message.stop_reason === 'interrupted') {
      expect(said(step).startsWith(textIn(message))).toBe(true);
      continue;
    }
    expect(textIn(message)).toBe(said(step));
    step += 1;
  }
  expect(step).toBe(steps + 1);
}

/** A call that succeeded has left its line, once; one that was cut off may have; none has left two. */
async function expectEffects(
  client: Client,
  messages: readonly Message[],
  run: Run,
  workspaces: string,
  name: string,
): Promise<void> {
  const { body: session } = await client.get<Session>(`/api/v1/sessions/${run.session_id}`);
  const written = await readFile(join(workspaces, session.workspace_id, `${name}.log`), 'utf8').catch(
    () => '',
  );
  const lines = written.split('\n').filter(Boolean);
  expect(new Set(lines).size).toBe(lines.length);
  const results = messages.flatMap(({ parts }) => parts.filter((part) => part.type === 'tool_result'));
  const calls = results.filter((part) => part.name === 'bash');
  expect(calls).toHaveLength(steps);
  for (const [step, result] of calls.entries()) {
    if (!result.is_error) expect(lines).toContain(`step ${step}`);
    else expect(result.content).toBe(cutOff);
  }
  // What only looks is made again.
  for (const result of results.filter((part) => part.name === 'glob')) expect(result.is_error).toBe(false);
}

/** How often the model was called for a run, whoever waited for the answer. */
async function modelCalls(upstream: Upstream, name: string): Promise<number> {
  const requests = await upstream.requests();
  return requests.filter(({ body }) => JSON.stringify(body).includes(`"work ${name}"`)).length;
}

type Database = 'SQLite' | 'PostgreSQL';

async function variablesOf(database: Database, folder: string): Promise<Readonly<Record<string, string>>> {
  if (database === 'SQLite') return {};
  return { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
}

for (const [database, times] of [
  ['SQLite', kills],
  ['PostgreSQL', killsOnPostgres],
] as const)
  test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null)(
    `a run of ten steps on ${database} outlives ${times} kills: no step twice or missing, one model call more for each at most`,
    async () => {
      console.info(`crash test: CRASH_SEED=${seed} CRASH_KILLS=${times}`);
      const random = randomFrom(seed + 1);
      const upstream = await startUpstream();
      try {
        await upstream.script(rules);
        const folder = await temporaryFolder();
        await writeSettings(folder, scriptedSettings(upstream.url));
        const variables = await variablesOf(database, folder);
        let server = await startCrashing(folder, variables);
        const { key } = server;
        let work = await begin(clientOf(server, key), 'run-0');
        let hits = 0;
        let killsOfRun = 0;
        for (let kill = 0; kill < times; kill += 1) {
          await atSomeMoment(work, random);
          await server.kill9();
          killsOfRun += 1;
          if (database === 'SQLite') await expectSound(join(folder, 'data/service.db'));
          server = await startCrashing(folder, variables);
          const client = clientOf(server, key);
          await attach(client, work);
          if (!hasEnded(await runThat(client, work.runId, () => true))) continue;
          hits += (await expectWhole(client, work, join(folder, 'data/workspaces'))).resumptions;
          expect(await modelCalls(upstream, work.name)).toBeLessThanOrEqual(steps + 1 + killsOfRun);
          killsOfRun = 0;
          work = await begin(client, `run-${kill + 1}`);
        }
        hits += (await expectWhole(clientOf(server, key), work, join(folder, 'data/workspaces'))).resumptions;
        expect(await modelCalls(upstream, work.name)).toBeLessThanOrEqual(steps + 1 + killsOfRun);
        await expectMetered(clientOf(server, key));
        // Otherwise the kills would have met nothing at work, and would prove nothing.
        expect(hits).toBeGreaterThanOrEqual(Math.floor(times / 2));
      } finally {
        await upstream.stop();
      }
    },
    60_000 + times * 15_000,
  );

/** Long enough for busy machines to show that nobody has waited for its end. */
const leaseMs = 20_000;
/** What passes between two looks at the leases of others. */
const renewMs = 0.3 * leaseMs;

/** Two servers beside each other: on the same SQLite file, or on the same PostgreSQL. */
for (const database of ['SQLite', 'PostgreSQL'] as const)
  test.skipIf(database === 'PostgreSQL' && inject('postgresUrl') === null)(
    `another process on the same ${database} takes a run over, and one run of a session after the other`,
    async () => {
      const upstream = await startUpstream();
      try {
        await upstream.script(rules);
        const folder = await temporaryFolder();
        await writeSettings(folder, scriptedSettings(upstream.url));
        const variables = {
          SERVICE_LEASE_SECONDS: String(leaseMs / 1000),
          ...(await variablesOf(database, folder)),
        };
        const first = await startCrashing(folder, variables);
        const second = await startCrashing(folder, variables);
        const here = clientOf(first, first.key);
        const there = clientOf(second, first.key);
        const work = await begin(here, 'taken');
        await work.streams[0]?.until(({ name, data }) => name === 'runtime' && data.type === 'tool_finished');
        const { session_id } = await runThat(here, work.runId, () => true);
        const next = await there.stream('/api/v1/query/stream', { prompt: 'And then?', session_id });
        const killedAt = performance.now();
        await first.kill9();
        await attach(there, work);
        await work.streams
          .at(-1)
          ?.until(({ name, data }) => name === 'runtime' && data.type === 'run_resumed');
        // A process that is seen to be dead is not waited for: its lease would have been good for longer.
        expect(performance.now() - killedAt).toBeLessThan(leaseMs - renewMs);
        const run = await expectTaken(there, work, folder);
        await next.ended;
        const { body: later } = await there.get<Run>(`/api/v1/runs/${next.runId}`);
        expect(later.status).toBe('completed');
        expect(Date.parse(later.started_at ?? '')).toBeGreaterThanOrEqual(Date.parse(run.ended_at ?? ''));
      } finally {
        await upstream.stop();
      }
    },
  );

test('a run is interrupted from another process, and the command that it runs ends with it', async () => {
  const upstream = await startUpstream();
  try {
    await upstream.script([
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'bash', arguments: { command: 'echo $$ > pid; sleep 600' } }] },
      },
    ]);
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const first = await startCrashing(folder);
    const second = await startCrashing(folder);
    const work = await begin(clientOf(first, first.key), 'endless');
    await work.streams[0]?.until(({ name, data }) => name === 'runtime' && data.type === 'tool_started');
    const there = clientOf(second, first.key);
    const stopped = await there.send('POST', `/api/v1/runs/${work.runId}/interrupt`);
    expect(stopped.status).toBe(202);
    const run = await runThat(there, work.runId, hasEnded);
    expect(run).toMatchObject({ status: 'interrupted', interrupt_reason: 'requested' });
    await expect.poll(() => sleepersOf(first.pid)).toEqual([]);
  } finally {
    await upstream.stop();
  }
});

/** The commands that still run below a server. */
async function sleepersOf(pid: number): Promise<string[]> {
  const children = async (parent: string): Promise<string[]> => {
    const listed = await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8').catch(() => '');
    const own = listed.split(' ').filter(Boolean);
    return [...own, ...(await Promise.all(own.map(children))).flat()];
  };
  const commands = await Promise.all(
    (await children(String(pid))).map((child) => readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '')),
  );
  return commands.filter((command) => command.includes('600'));
}

async function expectTaken(client: Client, work: Worked, folder: string): Promise<Run> {
  const run = await runThat(client, work.runId, hasEnded, 30_000);
  expect(run).toMatchObject({ status: 'completed', resumptions: 1 });
  const messages = await messagesOf(client, run.session_id);
  const own = messages.filter(({ run_id }) => run_id === run.id);
  expectSteps(own);
  await expectEffects(client, own, run, join(folder, 'data/workspaces'), work.name);
  return run;
}
