/** Servers that are stopped or killed while they begin runs of jobs: each time of a job runs once all the same. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex, { type Knex } from 'knex';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Job, JobRun, JobRunPage, Session } from './contract/api.ts';
import { ask, expectSound, longLease, messagesOf, standStill, startCrashing } from './crash-checks.ts';
import { type ServerProcess, scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const url = '/api/v1/scheduler/jobs';
const timeout = 180_000;
const atOnce = 12;

async function newJob(client: Client, more: object): Promise<string> {
  const body = { name: 'Nightly', prompt: 'Hello', model: 'demo:demo-1', ...more };
  const made = await client.post<Job>(url, body);
  expect(made.status).toBe(201);
  return made.body.id;
}

/** Long enough to ask for a job, on a busy machine too: none is made for the past. */
const untilDueMs = 5000;

/** Jobs that are all due within the next seconds, once each. */
async function manyJobs(client: Client): Promise<string[]> {
  const jobs: string[] = [];
  for (let count = 0; count < atOnce; count += 1) {
    const run_at = new Date(Date.now() + untilDueMs + count * 100).toISOString();
    jobs.push(await newJob(client, { name: `Job ${count}`, run_at }));
  }
  return jobs;
}

async function runsOf(client: Client, job: string): Promise<readonly JobRun[]> {
  return (await client.get<JobRunPage>(`${url}/${job}/runs`)).body.data;
}

/** Each of the jobs has one run, which was begun once and has come to its end; there is no other run, and no other session. */
async function expectOnceEach(client: Client, jobs: readonly string[], sql: Knex): Promise<void> {
  for (const job of jobs) {
    const statuses = async () => (await runsOf(client, job)).map(({ status }) => status);
    await expect.poll(statuses, { interval: 200 }).toEqual(['completed']);
  }
  const runs = await sql('runs').where({ trigger: 'schedule' }).select('id', 'session_id');
  const begun = await sql('job_runs').select('run_id', 'session_id', 'attempts');
  expect(runs.map(({ id }) => id).sort()).toEqual(begun.map(({ run_id }) => run_id).sort());
  expect(begun.map(({ attempts }) => attempts)).toEqual(begun.map(() => 1));
  expect(Number((await sql('sessions').count({ count: '*' }))[0]?.count)).toBe(begun.length);
}

test('times that come while the server is killed run once each when it is back', { timeout }, async () => {
  const folder = await temporaryFolder();
  const first = await startCrashing(folder);
  const jobs = await manyJobs(clientOf(first, first.key));
  const { key } = first;
  // Some have begun by then, and some have not.
  await sleep(untilDueMs + 500);
  await first.kill9();
  await expectSound(join(folder, 'data/service.db'));
  const second = await startCrashing(folder);
  await ask(folder, (sql) => expectOnceEach(clientOf(second, key), jobs, sql));
});

test('a run that goes on after a crash has the rules of its job still, beside those of the session', {
  timeout,
}, async () => {
  const upstream = await startUpstream();
  onTestFinished(async () => void (await upstream.stop()));
  const write = (file_path: string) => ({ name: 'write', arguments: { file_path, content: 'A' } });
  const calls = [write('kept.txt'), write('secret.txt'), write('elsewhere/open.txt')];
  await upstream.script([
    { when: { step: 0 }, reply: { hold_after_chunks: 0, tool_calls: calls } },
    { reply: { text: 'Done.' } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const first = await startCrashing(folder);
  const { key } = first;
  const client = clientOf(first, key);
  const rule = (decision: string, pattern: string) => ({ tool: 'write', decision, pattern });
  const ofSession = [rule('allow', '*.txt')];
  const { body: session } = await client.post<Session>('/api/v1/sessions', { permission_rules: ofSession });
  const given = { session_mode: 'reuse', session_id: session.id, model: 'scripted:scripted-1' };
  const ofJob = [rule('deny', 'secret.txt'), rule('allow', 'elsewhere/**')];
  const job = await newJob(client, { ...given, cron: '0 0 29 2 *', permission_rules: ofJob });
  await client.send('POST', `${url}/${job}/run`);
  await expect.poll(async () => (await upstream.requests()).length).toBe(1);
  await first.kill9();
  const second = await startCrashing(folder);
  await expect.poll(async () => (await upstream.requests()).length, { timeout: 60_000 }).toBe(2);
  await upstream.releaseHeld();
  const back = clientOf(second, key);
  const statuses = async () => (await runsOf(back, job)).map(({ status }) => status);
  await expect.poll(statuses, { timeout: 60_000, interval: 200 }).toEqual(['completed']);
  const results = (await messagesOf(back, session.id)).flatMap(({ parts }) =>
    parts.filter((part) => part.type === 'tool_result'),
  );
  expect(results.map(({ is_error }) => is_error)).toEqual([false, true, false]);
});

test('of two servers on one database, one that is stopped or killed while it begins a run begins none', {
  timeout,
  skip: inject('postgresUrl') === null,
}, async () => {
  const folder = await temporaryFolder();
  const database = await newDatabase();
  const keyFile = await newMasterKey(folder);
  const shared = { DATABASE_URL: database, SERVICE_MASTER_KEY_FILE: keyFile, ...longLease };
  const nodes = [await startCrashing(folder, shared), await startCrashing(folder, shared)];
  const { key = '' } = nodes[0] ?? {};
  const sql = knex({ client: 'pg', connection: database, pool: { min: 0, max: 3 } });
  onTestFinished(() => sql.destroy());
  const clientOfOther = (node: ServerProcess) => clientOf(nodes.find((one) => one !== node) ?? node, key);

  /** Has a run of a job claimed, and its process held up before it stores anything. */
  const claimed = async () => {
    // Both nodes read what the owner prefers before a run begins, and nothing else does.
    const held = await sql.transaction();
    await held.raw('lock table user_preferences in access exclusive mode');
    const job = await newJob(clientOf(nodes[0] as ServerProcess, key), { cron: '0 0 29 2 *' }); // there are two
    await clientOf(nodes[0] as ServerProcess, key).send('POST', `${url}/${job}/run`); // as above
    const worker = async () => (await sql('job_runs').where({ job_id: job }).first('worker'))?.worker;
    await expect.poll(worker).toEqual(expect.any(String));
    const pid = (await worker()).split('/')[1];
    const node = nodes.find((one) => String(one.pid) === pid);
    if (!node) throw new Error(`no node has the number ${pid}`);
    return { job, node, letGo: () => held.rollback() };
  };

  const stopped = await claimed();
  await standStill(stopped.node, database);
  await stopped.letGo();
  const other = clientOfOther(stopped.node);
  await expectOnceEach(other, [stopped.job], sql);
  expect(await sql('job_runs').where({ job_id: stopped.job }).first('claims')).toEqual({ claims: 2 });
  stopped.node.signal('SIGCONT');
  const told = () => stopped.node.log();
  // Where its pool is still full of what waited while it stood, it cannot even give the run back.
  await expect
    .poll(told)
    .toMatch(/belongs to another process by now|not stored what became of a run of a job/);
  await expectOnceEach(other, [stopped.job], sql);

  const killed = await claimed();
  const survivor = clientOfOther(killed.node);
  await killed.node.kill9();
  await killed.letGo();
  await expectOnceEach(survivor, [stopped.job, killed.job], sql);
  nodes.splice(nodes.indexOf(killed.node), 1, await startCrashing(folder, shared));

  // Both take what is due, and one of them dies in the middle of it.
  const jobs = await manyJobs(survivor);
  await sleep(untilDueMs + 500);
  const victim = nodes[1] as ServerProcess; // there are two
  const left = clientOfOther(victim);
  await victim.kill9();
  await expectOnceEach(left, [stopped.job, killed.job, ...jobs], sql);
});
