/** A database that holds runs up for longer than leases are good, or refuses them once: they go on with all that they had. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex, { type Knex } from 'knex';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import { temporaryFolder } from './server-process.ts';
import { type Json, type TestApp, testApp } from './test-app.ts';
import { databases, newDatabase, newMasterKey } from './test-database.ts';
import { scriptedProvider } from './test-provider.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

/** Longer than a lease of two seconds with its renewals, shorter than any write waits for its lock. */
const stallMs = 3500;
const patience = { timeout: 60_000 };

interface Stalling {
  readonly get: (path: string) => Promise<Json>;
  readonly app: TestApp;
  readonly token: string;
  /** Begins a run and leaves it. */
  query(): Promise<string>;
  events(runId: string): Promise<Json[]>;
  /** Nothing that has to do with runs is stored meanwhile. */
  stall(): Promise<void>;
  /** Refuses what is asked of the table next, in the middle of `work`; whatever comes behind it is answered. */
  refuseOnce(table: string, work: () => Promise<void>): Promise<void>;
}

async function open(dialect: (typeof databases)[number], leaseSeconds = 2): Promise<Stalling> {
  const config = { providers: { scripted: scriptedProvider(upstream, 'm') } };
  const shared = dialect === 'postgresql' ? await onPostgres() : null;
  const settings = { leaseSeconds, ...shared };
  const environment = shared ? { DATABASE_URL: shared.databaseUrl } : {};
  const lines = watchedLines();
  const app = await testApp({ config, settings, environment, log: pino({ level: 'error' }, lines) });
  onTestFinished(() => app.close());
  const { token } = await app.register('ada');
  const get = async (path: string) => (await app.request('GET', `/api/v1${path}`, { token })).body;
  const plain = shared
    ? knex({ client: 'pg', connection: shared.databaseUrl, pool: { min: 0, max: 1 } })
    : knex({
        client: 'sqlite3',
        connection: { filename: join(app.dataDirectory, 'service.db') },
        useNullAsDefault: true,
      });
  onTestFinished(() => plain.destroy());
  return {
    ...{ app, token, get },
    async query() {
      const response = await app.stream('POST', '/api/v1/query/stream', { token, body: { prompt: 'Go.' } });
      await response.body?.cancel();
      return response.headers.get('x-run-id') ?? '';
    },
    async events(runId) {
      const response = await app.stream('GET', `/api/v1/runs/${runId}/events?follow=false`, { token });
      const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: '));
      return lines.map((line) => JSON.parse(line.slice('data: '.length)));
    },
    async stall() {
      await holding(plain, dialect, 'runs', () => sleep(stallMs));
    },
    refuseOnce: (table, work) =>
      holding(plain, dialect, table, async () => {
        await work();
        if (dialect === 'postgresql') await endWaiting(plain);
        // Given up by itself, after seconds; what is asked within the next tenth of one is answered.
        else await lines.next(/could not be stored|a run failed/);
      }),
  };
}

async function onPostgres() {
  const folder = await temporaryFolder();
  return { databaseUrl: await newDatabase(), masterKeyFile: await newMasterKey(folder) };
}

async function holding(
  plain: Knex,
  dialect: (typeof databases)[number],
  table: string,
  work: () => Promise<void>,
): Promise<void> {
  await plain.raw(dialect === 'sqlite' ? 'begin immediate' : 'begin');
  try {
    if (dialect === 'postgresql') await plain.raw('lock table ?? in access exclusive mode', [table]);
    await work();
  } finally {
    await plain.raw('rollback');
  }
}

/** As an operator does who ends a query that hangs: its connection is gone with it. */
async function endWaiting(plain: Knex): Promise<void> {
  const ended = async () => {
    const { rows } = await plain.raw(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`,
    );
    return rows.length;
  };
  await expect.poll(ended, { ...patience, interval: 20 }).toBeGreaterThan(0);
}

/** Lines of a log, each told of as it is written. */
function watchedLines() {
  const watchers = new Set<(line: string) => void>();
  return {
    write(line: string) {
      for (const tell of watchers) tell(line);
    },
    next: (fits: RegExp) =>
      new Promise<void>((resolve) => {
        const tell = (line: string) => {
          if (!fits.test(line)) return;
          watchers.delete(tell);
          resolve();
        };
        watchers.add(tell);
      }),
  };
}

describe.each(databases)('after %s has held everything up', (dialect) => {
  test('a question is still open, and its answer counts', async () => {
    await upstream.script([
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'x' } }] },
      },
      { reply: { text: 'Result: {{last_tool_result}}' } },
    ]);
    const { app, token, get, query, events, stall } = await open(dialect);
    const runId = await query();
    const { session_id } = await get(`/runs/${runId}`);
    const asked = async (more = '') => (await get(`/sessions/${session_id}/permissions${more}`)).data;
    await expect.poll(async () => (await asked()).length, patience).toBe(1);
    await stall();
    await expect.poll(async () => (await get(`/runs/${runId}`)).resumptions, patience).toBe(1);
    const [request] = await asked('?status=pending');
    expect(request).toBeDefined();
    const body = { decision: 'allow_once' };
    expect((await app.request('POST', request.reply_path, { token, body })).status).toBe(200);
    await expect.poll(async () => (await get(`/runs/${runId}`)).status, patience).toBe('completed');
    const told = await events(runId);
    expect(told.filter(({ type }) => type === 'permission_requested')).toHaveLength(1);
    expect(told.filter(({ type }) => type === 'tool_finished')).toMatchObject([{ is_error: false }]);
    expect(told.at(-1).content[0].text).toContain('Created');
  });

  test('an agent that was started goes on for the run that waits for it', async () => {
    const errand = { description: 'An errand', prompt: 'Tell me.', agent_slug: 'task' };
    await upstream.script([
      { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [{ name: 'agent', arguments: errand }] } },
      { when: { last_user: '^Go' }, reply: { text: 'It said: {{last_tool_result}}' } },
      { name: 'half', times: 1, reply: { text: 'Half of it.', hold_after_chunks: 1 } },
      { reply: { text: 'All of it.' } },
    ]);
    const { get, query, events, stall } = await open(dialect);
    const runId = await query();
    const started = async () => (await events(runId)).find(({ type }) => type === 'agent_started');
    await expect.poll(started, patience).toBeDefined();
    // Else it would be asked for the half only when it is taken over, and nobody would let that go on.
    const asked = async () => (await upstream.requests()).map(({ rule }) => rule);
    await expect.poll(asked, patience).toContain('half');
    await stall();
    await expect.poll(async () => (await get(`/runs/${runId}`)).status, patience).toBe('completed');
    const told = await events(runId);
    expect(told.filter(({ type }) => type === 'agent_finished')).toMatchObject([{ status: 'completed' }]);
    expect(told.at(-1).content[0].text).toBe('It said: All of it.');
  });
});

test.each(databases)(
  'a run of which %s has refused a step goes on, as after a longer absence',
  async (dialect) => {
    await upstream.script([
      { times: 1, reply: { text: 'Hello.', hold_after_chunks: 1 } },
      { reply: { text: 'Hello again.' } },
    ]);
    // On SQLite the refusal takes five seconds, in which no lease may be lost.
    const { get, query, refuseOnce } = await open(dialect, dialect === 'sqlite' ? 10 : 5);
    const runId = await query();
    await expect.poll(async () => (await upstream.requests()).length, patience).toBe(1);
    await refuseOnce('messages', () => upstream.release());
    const ended = async () => {
      const { status, error, resumptions } = await get(`/runs/${runId}`);
      return { status, error, resumptions };
    };
    await expect.poll(ended, patience).toEqual({ status: 'completed', error: null, resumptions: 1 });
  },
);

// On SQLite nothing keeps anybody from reading.
test.skipIf(inject('postgresUrl') === null)(
  'a question that could not be looked at once is still waited for',
  async () => {
    const questions = [{ id: 'q', type: 'free_text', text: 'Which colour?' }];
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'ask_user', arguments: { questions } }] } },
      { reply: { text: 'Result: {{last_tool_result}}' } },
    ]);
    const { app, token, get, query, refuseOnce } = await open('postgresql');
    const runId = await query();
    await expect.poll(async () => (await get(`/runs/${runId}`)).status, patience).toBe('waiting_prompt');
    const { session_id } = await get(`/runs/${runId}`);
    await refuseOnce('prompt_requests', async () => undefined);
    // A request that is sent at once may be given the connection that was just ended.
    await sleep(1000);
    const [request] = (await get(`/sessions/${session_id}/prompts?status=pending`)).data;
    const body = { answers: [{ question_id: 'q', fill_in_text: 'green' }] };
    expect((await app.request('POST', request.reply_path, { token, body })).status).toBe(200);
    await expect.poll(async () => (await get(`/runs/${runId}`)).status, patience).toBe('completed');
    expect(await get(`/runs/${runId}`)).toMatchObject({ resumptions: 0 });
    const { data } = await get(`/sessions/${session_id}/messages`);
    expect(JSON.stringify(data)).toContain('green');
  },
);
