/** A database that holds everything up for longer than leases are good, and answers again before anybody has taken a run over. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex, { type Knex } from 'knex';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
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

const leaseSeconds = 2;
/** Longer than a lease with its renewals, shorter than any write waits for its lock. */
const stallMs = 4200;
const patience = { timeout: 20_000 };

interface Stalling {
  readonly get: (path: string) => Promise<Json>;
  readonly app: TestApp;
  readonly token: string;
  /** Begins a run and leaves it. */
  query(): Promise<string>;
  events(runId: string): Promise<Json[]>;
  /** Nothing that has to do with runs is stored meanwhile. */
  stall(): Promise<void>;
}

async function open(dialect: (typeof databases)[number]): Promise<Stalling> {
  const config = { providers: { scripted: scriptedProvider(upstream, 'm') } };
  const shared = dialect === 'postgresql' ? await onPostgres() : null;
  const settings = { leaseSeconds, ...shared };
  const environment = shared ? { DATABASE_URL: shared.databaseUrl } : {};
  const app = await testApp({ config, settings, environment });
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
    stall: () => hold(plain, dialect),
  };
}

async function onPostgres() {
  const folder = await temporaryFolder();
  return { databaseUrl: await newDatabase(), masterKeyFile: await newMasterKey(folder) };
}

async function hold(plain: Knex, dialect: (typeof databases)[number]): Promise<void> {
  await plain.raw(dialect === 'sqlite' ? 'begin immediate' : 'begin');
  if (dialect === 'postgresql') await plain.raw('lock table runs in access exclusive mode');
  await sleep(stallMs);
  await plain.raw('rollback');
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
  }, 40_000);

  test('an agent that was started goes on for the run that waits for it', async () => {
    const errand = { description: 'An errand', prompt: 'Tell me.', agent_slug: 'task' };
    await upstream.script([
      { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [{ name: 'agent', arguments: errand }] } },
      { when: { last_user: '^Go' }, reply: { text: 'It said: {{last_tool_result}}' } },
      { times: 1, reply: { text: 'Half of it.', hold_after_chunks: 1 } },
      { reply: { text: 'All of it.' } },
    ]);
    const { get, query, events, stall } = await open(dialect);
    const runId = await query();
    const started = async () => (await events(runId)).find(({ type }) => type === 'agent_started');
    await expect.poll(started, patience).toBeDefined();
    await stall();
    await expect.poll(async () => (await get(`/runs/${runId}`)).status, patience).toBe('completed');
    const told = await events(runId);
    expect(told.filter(({ type }) => type === 'agent_finished')).toMatchObject([{ status: 'completed' }]);
    expect(told.at(-1).content[0].text).toBe('It said: All of it.');
  }, 40_000);
});
