/** Jobs over HTTP: who may what, and what becomes of their times on a clock that is set. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import {
  type Account,
  coded,
  type Json,
  mergePatch,
  readEvents,
  type TestApp,
  testApp,
} from '../test-app.ts';
import { databases, type LastingDatabase, lastingDatabase, newMasterKey } from '../test-database.ts';

let app: TestApp;
let ada: Account;
let key: string;
let skewMs = 0;
const clock = { now: () => new Date(Date.now() + skewMs) };

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const url = '/api/v1/scheduler/jobs';
const model = 'demo:demo-1';

async function newKey(token: string, more: object = {}): Promise<string> {
  const made = await app.request('POST', '/api/v1/auth/api-keys', { token, body: { name: 'Jobs', ...more } });
  return made.body.key;
}

const ask = (method: string, path: string, body?: unknown, token = key) =>
  app.request(method, path, {
    token,
    ...(body !== undefined && { body }),
    ...(method === 'PATCH' && { headers: mergePatch }),
  });

/** For a time that no test comes to. */
async function newJob(more: object = {}, token = key): Promise<Json> {
  const body = { name: 'Nightly', prompt: 'Hello', model, ...more };
  const when = 'interval_s' in more || 'run_at' in more || 'cron' in more ? {} : { cron: '0 0 29 2 *' };
  const made = await ask('POST', url, { ...body, ...when }, token);
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return made.body;
}

async function runsOf(id: string, token = key): Promise<Json[]> {
  return (await ask('GET', `${url}/${id}/runs`, undefined, token)).body.data;
}

/** So late that on a busy machine, too, it is no time of the past when it is asked for. */
const inAMinute = () => new Date(clock.now().getTime() + 60_000).toISOString();

/** Whatever else was due has been looked at by the time that this has run. */
async function untilNothingIsDue(): Promise<void> {
  const job = await newJob({ run_at: inAMinute() });
  skewMs += 60_000;
  await untilRun(job.id, { status: 'completed' });
}

/** Runs the job, which has so many runs then. */
async function runNow(id: string, runs: number): Promise<Json> {
  await ask('POST', `${url}/${id}/run`);
  await expect.poll(async () => (await runsOf(id)).length).toBe(runs);
  return untilRun(id, { status: 'completed' });
}

/** What runs have written, as the session tells it. */
async function writtenIn(session: string): Promise<string> {
  return JSON.stringify((await ask('GET', `/api/v1/sessions/${session}/diff`)).body);
}

/** Waits until the latest run of the job is so. */
async function untilRun(id: string, expected: object, token = key): Promise<Json> {
  await expect.poll(async () => (await runsOf(id, token))[0], { interval: 50 }).toMatchObject(expected);
  return (await runsOf(id, token))[0];
}

describe.each(databases)('on %s', (database) => {
  let folder: string;
  let kept: LastingDatabase;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-jobs-'));
    kept = await lastingDatabase(database, folder);
    const settings = { databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder) };
    const config = { options: { limits: { max_attempts: 1 } } };
    app = await testApp({ clock, config, settings: { ...settings, outboundAllow: ['127.0.0.1'] } });
    ada = await app.register('ada');
    key = await newKey(ada.token);
  });
  afterAll(async () => {
    await app.close();
    await kept.remove();
    await rm(folder, { recursive: true });
  });

  describe('what is asked for', () => {
    const wrong: readonly (readonly [string, object, number, string])[] = [
      ['without a schedule', {}, 400, 'invalid_request'],
      ['with two schedules', { cron: '0 2 * * *', interval_s: 60 }, 400, 'invalid_request'],
      ['with a pattern that is none', { cron: '0 25 * * *' }, 400, 'invalid_request'],
      ['every second', { cron: '* * * * * *' }, 400, 'invalid_request'],
      ['with times that meet once an hour', { cron: '0,55 0,10,30,31 * * * *' }, 400, 'invalid_request'],
      [
        'with a time zone that there is not',
        { cron: '0 2 * * *', timezone: 'Europe/Atlantis' },
        400,
        'invalid_request',
      ],
      ['for the past', { run_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_request'],
      ['for a day that there is not', { cron: '0 0 31 2 *' }, 400, 'invalid_request'],
      ['that has ended', { cron: '0 2 * * *', ends_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_request'],
      ['with bypass', { cron: '0 2 * * *', permission_mode: 'bypass' }, 400, 'invalid_request'],
      ['of an unknown profile', { cron: '0 2 * * *', agent_slug: 'nobody' }, 404, 'agent_not_found'],
      ['of an unknown model', { cron: '0 2 * * *', model: 'demo:none' }, 404, 'model_not_found'],
    ];
    test.each(wrong)('a job %s is refused', async (_title, body, status, code) => {
      expect(coded(await ask('POST', url, { name: 'x', prompt: 'x', ...body }))).toEqual([status, code]);
    });

    test('a session goes with the mode reuse, and is one of the workspace', async () => {
      const { body: session } = await ask('POST', '/api/v1/sessions', {});
      const body = { name: 'x', prompt: 'x', cron: '0 2 * * *', session_id: session.id };
      expect((await ask('POST', url, body)).body.code).toBe('invalid_request');
      const missing = { ...body, session_mode: 'reuse', session_id: `${session.id.slice(0, -4)}0000` };
      expect((await ask('POST', url, missing)).status).toBe(404);
      expect((await ask('POST', url, { ...body, session_mode: 'reuse' })).status).toBe(201);
    });

    test('of the schedules, the one that is given takes the place of the other', async () => {
      const job = await newJob({ interval_s: 3600 });
      expect(job.next_runs).toHaveLength(3);
      const { body } = await ask('PATCH', `${url}/${job.id}`, { cron: '0 3 * * *', timezone: 'Asia/Tokyo' });
      expect(body).toMatchObject({ cron: '0 3 * * *', interval_s: null, status: 'active' });
      expect(body.next_runs[0]).toMatch(/T18:00:00/);
      const crowded = await ask('PATCH', `${url}/${job.id}`, { cron: '0,55 0,10,30,31 * * * *' });
      expect(coded(crowded)).toEqual([400, 'invalid_request']);
      const ended = await ask('PATCH', `${url}/${job.id}`, { ends_at: '2020-01-01T00:00:00Z' });
      expect(ended.body).toMatchObject({ status: 'completed', next_runs: [] });
    });
  });

  describe('a run', () => {
    test('begins at its time, as its owner, in a session of its own, and the workspace hears of it', async () => {
      const run_at = inAMinute();
      const job = await newJob({ name: 'Once', run_at });
      skewMs += 60_000;
      const run = await untilRun(job.id, { status: 'completed', attempts: 1 });
      expect(run.occurrence).toBe(run_at);
      expect((await ask('GET', `${url}/${job.id}`)).body).toMatchObject({
        ...{ status: 'completed', runs_begun: 1, next_runs: [], last_run: { id: run.id } },
      });
      const { body: begun } = await ask('GET', `/api/v1/runs/${run.run_id}`);
      expect(begun).toMatchObject({
        trigger: 'schedule',
        permission_mode: 'ask',
        session_id: run.session_id,
      });
      expect((await ask('GET', `/api/v1/sessions/${run.session_id}`)).body.title).toBe('Once');
      const told = [];
      const stream = await app.stream('GET', '/api/v1/events?follow=false&after=0', { token: key });
      for await (const { data } of readEvents(stream))
        if (data.event.job_id === job.id) told.push(data.event);
      expect(told).toMatchObject([
        { type: 'job_changed', change: 'created' },
        { type: 'job_changed', change: 'completed' },
        { type: 'job_run_started', run_id: run.run_id, attempt: 1 },
        { type: 'job_run_finished', status: 'completed', session_id: run.session_id, retry_at: null },
      ]);
    });

    test('never waits for somebody: what would be asked is denied', async () => {
      const job = await newJob({ prompt: 'Write a file named night.txt' });
      await ask('POST', `${url}/${job.id}/run`);
      const run = await untilRun(job.id, { status: 'completed' });
      const { body } = await ask('GET', `/api/v1/sessions/${run.session_id}/permissions`);
      expect(body.data.filter(({ status }: Json) => status === 'pending')).toEqual([]);
      const { body: messages } = await ask('GET', `/api/v1/sessions/${run.session_id}/messages`);
      expect(JSON.stringify(messages.data)).toMatch(/denied|not allowed|nobody/i);
    });

    test('with the rules of its job does what they allow', async () => {
      const permission_rules = [{ tool: 'write', decision: 'allow' }];
      const job = await newJob({ prompt: 'Write a file named allowed.txt', permission_rules });
      await ask('POST', `${url}/${job.id}/run`);
      const run = await untilRun(job.id, { status: 'completed' });
      const { body } = await ask('GET', `/api/v1/sessions/${run.session_id}/diff`);
      expect(JSON.stringify(body)).toContain('allowed.txt');
    });

    test('goes on with the session of those before in the mode reuse', async () => {
      const job = await newJob({ session_mode: 'reuse', overlap_policy: 'queue' });
      await ask('POST', `${url}/${job.id}/run`);
      const first = await untilRun(job.id, { status: 'completed' });
      await ask('POST', `${url}/${job.id}/run`);
      await expect.poll(async () => (await runsOf(job.id)).length).toBe(2);
      const second = await untilRun(job.id, { status: 'completed' });
      expect(second.session_id).toBe(first.session_id);
      await ask('DELETE', `/api/v1/sessions/${first.session_id}`);
      await ask('POST', `${url}/${job.id}/run`);
      await expect.poll(async () => (await runsOf(job.id)).length).toBe(3);
      const third = await untilRun(job.id, { status: 'completed' });
      expect(third.session_id).not.toBe(first.session_id);
    });

    test('goes by the rules that the job has now, also in the session that it has made', async () => {
      const given = { session_mode: 'reuse', permission_rules: [{ tool: 'write', decision: 'allow' }] };
      const job = await newJob({ ...given, prompt: 'Write a file named before.txt' });
      const first = await runNow(job.id, 1);
      expect(await writtenIn(first.session_id)).toContain('before.txt');
      const taken = { prompt: 'Write a file named denied.txt', permission_rules: [] };
      expect((await ask('PATCH', `${url}/${job.id}`, taken)).status).toBe(200);
      const second = await runNow(job.id, 2);
      expect(second.session_id).toBe(first.session_id);
      expect(await writtenIn(first.session_id)).not.toContain('denied.txt');
    });

    test.each([
      ['its own deny', [{ tool: 'write', decision: 'allow' }], [{ tool: 'write', decision: 'deny' }], false],
      ['its own allow', [], [{ tool: 'write', decision: 'allow' }], true],
      [
        "the session's deny",
        [{ tool: 'write', decision: 'deny' }],
        [{ tool: 'write', decision: 'allow' }],
        false,
      ],
      ["the session's allow", [{ tool: 'write', decision: 'allow' }], [], true],
    ])('in a session that it was given counts %s', async (_, ofSession, permission_rules, writes) => {
      const body = { permission_rules: ofSession };
      const { body: session } = await ask('POST', '/api/v1/sessions', body);
      const prompt = 'Write a file named given.txt';
      const job = await newJob({ session_mode: 'reuse', session_id: session.id, prompt, permission_rules });
      const run = await runNow(job.id, 1);
      expect(run.session_id).toBe(session.id);
      expect((await writtenIn(session.id)).includes('given.txt')).toBe(writes);
    });

    test('that was missed is made up for once, and says for how many it stands', async () => {
      const job = await newJob({ interval_s: 3600 });
      skewMs += 5 * 3_600_000 - 600_000;
      const run = await untilRun(job.id, { status: 'completed', missed: 3 });
      expect(await runsOf(job.id)).toHaveLength(1);
      // Set back, the clock comes upon none of them again.
      skewMs -= 4 * 3_600_000;
      await expect.poll(async () => (await ask('GET', `${url}/${job.id}`)).body.last_run.id).toBe(run.id);
      skewMs += 4 * 3_600_000;
      await untilNothingIsDue();
      expect(await runsOf(job.id)).toHaveLength(1);
    });

    test.each([
      ['how often', { max_runs: 100 }],
      ['until when', { ends_at: '2099-01-01T00:00:00Z' }],
      ['by another schedule', { cron: '0 0 29 2 *' }],
    ])(
      'whose time has come and waits for its jitter is not lost where it is changed %s',
      async (_, patch) => {
        // Jitter follows from job and time: of some, a few are still waiting minutes after their hour.
        const names = Array.from({ length: 8 }, (_, at) => `Jitter ${at}`);
        const jobs: Json[] = [];
        // One that begins just before the clock is set on is not to be too long at work by then.
        const terms = { interval_s: 7200, jitter_s: 3600, timeout_s: 86_400 };
        for (const name of names) jobs.push(await newJob({ name, ...terms }));
        skewMs += 7200 * 1000 + 60_000;
        const waiting: Json[] = [];
        await untilNothingIsDue();
        for (const job of jobs) if ((await runsOf(job.id)).length === 0) waiting.push(job);
        expect(waiting).not.toEqual([]);
        for (const { id } of waiting) expect((await ask('PATCH', `${url}/${id}`, patch)).status).toBe(200);
        skewMs += 3600 * 1000;
        for (const { id, next_runs } of waiting) {
          const run = await untilRun(id, { status: 'completed', missed: 0 });
          expect(Date.parse(run.occurrence)).toBe(Date.parse(next_runs[0]));
          expect(await runsOf(id)).toHaveLength(1);
        }
        for (const { id } of jobs) await ask('DELETE', `${url}/${id}`);
      },
    );

    test.each([
      ['skip', [['skipped', 'misfire', 4]]],
      ['run_once', [['completed', null, 4]]],
      ['run_all', Array(5).fill(['completed', null, 0])],
    ] as const)('that was missed meets the misfire policy %s', async (misfire_policy, fates) => {
      const job = await newJob({ interval_s: 3600, misfire_policy });
      skewMs += 5 * 3_600_000 + 120_000;
      const ended = async () =>
        (await runsOf(job.id)).map(({ status, reason, missed }) => [status, reason, missed]);
      await expect.poll(ended).toEqual(fates);
      const runs = await runsOf(job.id);
      expect(new Set(runs.map(({ occurrence }) => occurrence)).size).toBe(fates.length);
      const { body } = await ask('GET', `${url}/${job.id}`);
      expect(body.runs_begun).toBe(fates.filter(([status]) => status === 'completed').length);
      await ask('DELETE', `${url}/${job.id}`);
    });
  });

  /** A provider of their own, whose model `scripted:m` answers what the upstream's script says. */
  async function addScriptedModel(token: string): Promise<void> {
    const setting = { type: 'openai-compat', base_url: `${upstream.url}/v1`, api_key: 'k' };
    const body = {
      scope: 'user',
      provider_id: 'scripted',
      name: 'Scripted',
      models: [{ id: 'm' }],
      ...setting,
    };
    expect(coded(await ask('POST', '/api/v1/settings/providers', body, token))).toEqual([201, null]);
  }

  describe('a run that failed', () => {
    let person: Account;
    beforeAll(async () => {
      person = await app.register('rhea');
      await addScriptedModel(person.token);
    });
    /** Its model answers so, the first time, and well afterwards. */
    const failing = async (fail: object, more: object = {}) => {
      await upstream.script([{ times: 1, fail }, { reply: { text: 'All is well.' } }]);
      const job = await newJob({ model: 'scripted:m', max_retries: 2, ...more }, person.token);
      await ask('POST', `${url}/${job.id}/run`, undefined, person.token);
      return job;
    };

    test.each([
      ['is down', { kind: 'status', status: 503 }, 'provider_failed', 31],
      ['cuts its answer', { kind: 'cut' }, 'provider_failed', 31],
      [
        'wants not to be asked for ten minutes',
        { kind: 'status', status: 429, retry_after: '600' },
        'provider_rate_limited',
        601,
      ],
    ])('since its model %s is tried again, and not too soon', async (_why, fail, code, seconds) => {
      const job = await failing(fail);
      const waiting = await untilRun(
        job.id,
        { status: 'queued', attempts: 1, error: { code } },
        person.token,
      );
      expect(waiting.earlier_attempts).toMatchObject([{ run_id: expect.any(String), status: 'failed' }]);
      const wait = (Date.parse(waiting.due_at) - Date.parse(waiting.earlier_attempts[0].ended_at)) / 1000;
      expect(wait).toBeGreaterThanOrEqual(seconds - 1);
      skewMs += seconds * 1000;
      await untilRun(job.id, { status: 'completed', attempts: 2, error: null }, person.token);
    });

    test.each([
      ['refuses its key', { kind: 'status', status: 401 }, 'provider_refused'],
      ['refuses what is asked', { kind: 'status', status: 400 }, 'provider_request_refused'],
    ])('since its model %s is over', async (_why, fail, code) => {
      const job = await failing(fail);
      const run = await untilRun(job.id, { status: 'failed' }, person.token);
      expect(run).toMatchObject({ attempts: 1, earlier_attempts: [], error: { code } });
    });

    test('since its agent is gone, or a quota is used up, is over', async () => {
      const agent = { slug: 'night-owl', description: 'x', instructions: 'x' };
      const { body: made } = await ask('POST', '/api/v1/agents', agent, person.token);
      const job = await newJob({ agent_slug: 'night-owl', max_retries: 2 }, person.token);
      await ask('DELETE', `/api/v1/agents/${made.id}`, undefined, person.token);
      await ask('POST', `${url}/${job.id}/run`, undefined, person.token);
      const over = { status: 'failed', attempts: 1, earlier_attempts: [], run_id: null };
      await untilRun(job.id, { ...over, error: { code: 'agent_not_found' } }, person.token);
      const quota = `/api/v1/quotas/user/${person.user.id}`;
      await ask('PUT', quota, { limits: { requests: { day: { hard: 0 } } } }, app.operatorKey);
      const spent = await newJob({ max_retries: 2 }, person.token);
      await ask('POST', `${url}/${spent.id}/run`, undefined, person.token);
      await untilRun(spent.id, { ...over, error: { code: 'quota_exceeded' } }, person.token);
      await ask('DELETE', quota, undefined, app.operatorKey);
    });

    test('that would be one too many at a time waits until there is room, and no attempt is lost', async () => {
      const quota = `/api/v1/quotas/user/${person.user.id}`;
      await ask('PUT', quota, { limits: { concurrent_runs: { hard: 1 } } }, app.operatorKey);
      await upstream.script([
        { when: { last_user: '^hold' }, reply: { text: 'held '.repeat(20), hold_after_chunks: 3 } },
        { reply: { text: 'All is well.' } },
      ]);
      const [long, short] = [
        await newJob({ model: 'scripted:m', prompt: 'hold' }, person.token),
        await newJob({ model: 'scripted:m' }, person.token),
      ];
      await ask('POST', `${url}/${long.id}/run`, undefined, person.token);
      await untilRun(long.id, { status: 'running' }, person.token);
      const { body: asked } = await ask('POST', `${url}/${short.id}/run`, undefined, person.token);
      await expect.poll(async () => (await runsOf(short.id, person.token))[0].due_at).not.toBe(asked.due_at);
      await untilRun(short.id, { status: 'queued', attempts: 0, error: null }, person.token);
      await expect
        .poll(async () => (await ask('GET', '/metrics')).body)
        .toMatch(/^service_longest_job_queue 1$/m);
      await upstream.releaseHeld();
      await untilRun(long.id, { status: 'completed' }, person.token);
      skewMs += 6000;
      await untilRun(short.id, { status: 'completed', attempts: 1 }, person.token);
      await ask('DELETE', quota, undefined, app.operatorKey);
    });

    test('because none may run at once says so, and is not tried for ever', async () => {
      const quota = `/api/v1/quotas/user/${person.user.id}`;
      await ask('PUT', quota, { limits: { concurrent_runs: { hard: 0 } } }, app.operatorKey);
      const job = await newJob({ model: 'scripted:m' }, person.token);
      await ask('POST', `${url}/${job.id}/run`, undefined, person.token);
      await untilRun(job.id, { status: 'failed', error: { code: 'quota_exceeded' } }, person.token);
      await ask('DELETE', quota, undefined, app.operatorKey);
    });

    test('is tried as often as its job says, later each time, and ends with what was wrong last', async () => {
      await upstream.script([{ fail: { kind: 'status', status: 500 } }]);
      const job = await newJob({ model: 'scripted:m', max_retries: 2 }, person.token);
      await ask('POST', `${url}/${job.id}/run`, undefined, person.token);
      for (const [attempts, seconds] of [
        [1, 30],
        [2, 60],
      ] as const) {
        const { due_at, earlier_attempts } = await untilRun(
          job.id,
          { status: 'queued', attempts },
          person.token,
        );
        expect(Date.parse(due_at) - Date.parse(earlier_attempts.at(-1).ended_at)).toBe(seconds * 1000);
        skewMs += (seconds + 1) * 1000;
      }
      const last = await untilRun(job.id, { status: 'failed', attempts: 3 }, person.token);
      expect(last).toMatchObject({ reason: null, error: { code: 'provider_failed' } });
      expect(last.earlier_attempts).toHaveLength(2);
    });
  });

  /** A session whose run waits for an answer: what is asked in it waits behind that. */
  async function busySession(): Promise<string> {
    const stream = await app.stream('POST', '/api/v1/query/stream', {
      token: key,
      body: { prompt: 'Ask me: what is late?', model },
    });
    for await (const { data } of readEvents(stream))
      if (data.type === 'prompt_requested') return data.request.session_id;
    throw new Error('nothing was asked');
  }

  describe('a run that does not end', () => {
    const stuck = async (more: object = {}) => {
      const job = await newJob({ session_mode: 'reuse', session_id: await busySession(), ...more });
      const { body: run } = await ask('POST', `${url}/${job.id}/run`);
      await untilRun(job.id, { status: 'running' });
      return { job, run };
    };

    test('is interrupted when it takes too long', async () => {
      const { job } = await stuck({ timeout_s: 60 });
      skewMs += 61_000;
      const run = await untilRun(job.id, { status: 'timed_out' });
      expect((await ask('GET', `/api/v1/runs/${run.run_id}`)).body.interrupt_reason).toBe('timed_out');
    });

    test('is in the way of another, waited for, or replaced, as the job says', async () => {
      const { job, run } = await stuck();
      expect(coded(await ask('POST', `${url}/${job.id}/run`))).toEqual([409, 'job_conflict']);
      await ask('PATCH', `${url}/${job.id}`, { overlap_policy: 'queue' });
      const { body: second } = await ask('POST', `${url}/${job.id}/run`);
      expect(second.status).toBe('queued');
      await ask('PATCH', `${url}/${job.id}`, { overlap_policy: 'replace' });
      const { body: third } = await ask('POST', `${url}/${job.id}/run`);
      await untilRun(job.id, { id: third.id, status: 'running' });
      expect((await runsOf(job.id)).map(({ id, status, reason }) => [id, status, reason])).toEqual([
        [third.id, 'running', null],
        [second.id, 'skipped', 'replaced'],
        [run.id, 'cancelled', 'replaced'],
      ]);
      const cancelled = await ask('POST', `${url}/${job.id}/runs/${third.id}/cancel`);
      expect(cancelled.status).toBe(202);
      await untilRun(job.id, { id: third.id, status: 'cancelled', reason: 'requested' });
      const again = await ask('POST', `${url}/${job.id}/runs/${third.id}/cancel`);
      expect(coded(again)).toEqual([409, 'job_conflict']);
    });

    test('uses up none of the runs of its job by the times that it is in the way of', async () => {
      const { job, run } = await stuck({ interval_s: 60, max_runs: 2 });
      for (const times of [1, 2, 3]) {
        skewMs += 60_000;
        await expect.poll(async () => (await runsOf(job.id)).length).toBe(1 + times);
      }
      const shown = async () => (await ask('GET', `${url}/${job.id}`)).body;
      expect(await shown()).toMatchObject({
        status: 'active',
        runs_begun: 0,
        last_run: { reason: 'overlap' },
      });
      await ask('POST', `${url}/${job.id}/runs/${run.id}/cancel`);
      await expect.poll(async () => (await runsOf(job.id)).at(-1).status).toBe('cancelled');
      await ask('PATCH', `${url}/${job.id}`, { session_mode: 'new' });
      for (const runs_begun of [1, 2]) {
        skewMs += 60_000;
        await expect.poll(shown).toMatchObject({ runs_begun, last_run: { status: 'completed' } });
      }
      expect((await shown()).status).toBe('completed');
    });

    test('goes on when its job is paused, while what waits is cancelled; deleting the job interrupts it', async () => {
      const { job, run } = await stuck({ overlap_policy: 'queue' });
      const { body: waiting } = await ask('POST', `${url}/${job.id}/run`);
      const paused = await ask('POST', `${url}/${job.id}/pause`);
      expect(paused.body).toMatchObject({ status: 'paused', pause_reason: 'requested', next_runs: [] });
      expect((await runsOf(job.id)).map(({ id, status, reason }) => [id, status, reason])).toEqual([
        [waiting.id, 'cancelled', 'job_paused'],
        [run.id, 'running', null],
      ]);
      expect(coded(await ask('POST', `${url}/${job.id}/pause`))).toEqual([409, 'job_conflict']);
      expect((await ask('POST', `${url}/${job.id}/resume`)).body.status).toBe('active');
      const { run_id } = (await runsOf(job.id))[1];
      expect((await ask('DELETE', `${url}/${job.id}`)).status).toBe(204);
      const ended = async () => (await ask('GET', `/api/v1/runs/${run_id}`)).body.status;
      await expect.poll(ended).toBe('interrupted');
    });
  });

  describe('the rights of a job', () => {
    /** Somebody new in the organization of the owner. */
    const colleague = async (name: string, role: string) => {
      const token = (await ask('GET', '/api/v1/users/me')).body.memberships[0];
      const { body } = await ask('POST', `/api/v1/organizations/${token.organization_id}/invitations`, {
        ...{ email: `${name}@example.com`, role },
      });
      const person = await app.register(name, { invitation_token: body.token });
      return { ...person, organizationId: token.organization_id, key: await newKey(person.token) };
    };

    test('are its owner alone: others read it, admins stop it, nobody else changes what it does', async () => {
      const job = await newJob();
      const [viewer, member, admin] = [
        await colleague('vera', 'viewer'),
        await colleague('mia', 'member'),
        await colleague('anna', 'admin'),
      ];
      for (const { key: token } of [viewer, member, admin])
        expect((await ask('GET', `${url}/${job.id}`, undefined, token)).status).toBe(200);
      for (const { key: token } of [viewer, member, admin]) {
        expect((await ask('PATCH', `${url}/${job.id}`, { prompt: 'y' }, token)).body.code).toBe(
          'role_required',
        );
        expect((await ask('POST', `${url}/${job.id}/run`, undefined, token)).body.code).toBe('role_required');
      }
      expect((await ask('POST', `${url}/${job.id}/pause`, undefined, member.key)).status).toBe(403);
      expect((await ask('POST', `${url}/${job.id}/pause`, undefined, admin.key)).status).toBe(200);
      expect((await ask('POST', `${url}/${job.id}/resume`, undefined, admin.key)).status).toBe(403);
      const stranger = await app.register('strange');
      const strange = await newKey(stranger.token);
      expect(coded(await ask('GET', `${url}/${job.id}`, undefined, strange))).toEqual([404, 'not_found']);
      expect((await ask('DELETE', `${url}/${job.id}`, undefined, admin.key)).status).toBe(204);
    });

    test('are those of that moment: who lost the workspace runs nothing, and the job is paused', async () => {
      const owner = await colleague('olaf', 'member');
      const { body: shared } = await ask('POST', '/api/v1/workspaces', { name: 'Shared' });
      const place = `/api/v1/workspaces/${shared.id}/members/${owner.user.id}`;
      await ask('PUT', place, { role: 'member' });
      const job = await newJob({ workspace_id: shared.id, interval_s: 3600 }, owner.key);
      await ask('PUT', place, { role: 'viewer' });
      skewMs += 3_605_000;
      await untilRun(job.id, { status: 'skipped', reason: 'access_lost' });
      expect((await ask('GET', `${url}/${job.id}`)).body).toMatchObject({
        ...{ status: 'paused', pause_reason: 'access_lost', next_runs: [] },
      });
    });

    test('end with its key, and with the account of its owner', async () => {
      const job = await newJob({ interval_s: 3600 });
      const me = await ask('GET', '/api/v1/auth/api-keys');
      const revoked = await newKey(await freshToken());
      const ofKey = await newJob({ interval_s: 3600 }, revoked);
      const { data } = (await ask('GET', '/api/v1/auth/api-keys')).body;
      const added = data.find(({ id }: Json) => !me.body.data.some((known: Json) => known.id === id));
      await ask('DELETE', `/api/v1/auth/api-keys/${added.id}`);
      skewMs += 3_605_000;
      await untilRun(ofKey.id, { status: 'skipped', reason: 'key_gone' });
      await untilRun(job.id, { status: 'completed' });
      const owner = await colleague('suse', 'member');
      const theirs = await newJob({ interval_s: 3600 }, owner.key);
      await ask('PATCH', `/api/v1/users/${owner.user.id}`, { status: 'suspended' }, app.operatorKey);
      skewMs += 3_605_000;
      await expect
        .poll(async () => (await ask('GET', `${url}/${theirs.id}`)).body.pause_reason)
        .toBe('owner_suspended');
    });

    test('that end between two attempts of a run leave it cancelled: it was begun', async () => {
      const owner = await colleague('ines', 'member');
      await addScriptedModel(owner.token);
      await upstream.script([{ fail: { kind: 'status', status: 503 } }]);
      const job = await newJob({ model: 'scripted:m', max_retries: 2 }, owner.token);
      await ask('POST', `${url}/${job.id}/run`, undefined, owner.token);
      await untilRun(job.id, { status: 'queued', attempts: 1 });
      await ask('PATCH', `/api/v1/users/${owner.user.id}`, { status: 'suspended' }, app.operatorKey);
      skewMs += 31_000;
      await untilRun(job.id, { status: 'cancelled', reason: 'owner_suspended', attempts: 1 });
    });

    test('are its heir’s only once they have looked: what waits of a job without further times is cancelled, too', async () => {
      const [owner, heir] = [await colleague('hedda', 'member'), await colleague('herb', 'admin')];
      await addScriptedModel(owner.token);
      await upstream.script([{ reply: { text: 'held '.repeat(20), hold_after_chunks: 3 } }]);
      const run_at = new Date(Date.now() + skewMs + 60_000).toISOString();
      const terms = { cron: undefined, run_at, model: 'scripted:m', overlap_policy: 'queue' };
      const job = await newJob(terms, owner.token);
      skewMs += 61_000;
      const first = await untilRun(job.id, { status: 'running' });
      const { body: second } = await ask('POST', `${url}/${job.id}/run`, undefined, owner.token);
      expect(second).toMatchObject({ status: 'queued' });
      const place = `/api/v1/users/${owner.user.id}?transfer_to=${heir.user.id}`;
      expect((await ask('DELETE', place, undefined, app.operatorKey)).status).toBe(204);
      await expect
        .poll(() => runsOf(job.id))
        .toMatchObject([
          { id: second.id, status: 'cancelled', reason: 'job_paused', attempts: 0 },
          { id: first.id, status: 'cancelled', reason: 'requested' },
        ]);
      expect((await ask('GET', `${url}/${job.id}`)).body.status).toBe('completed');
    });

    test('are narrowed by the rules of the key that it was made with', async () => {
      const permission_rules = [{ tool: 'write', decision: 'deny' }];
      const narrow = await newKey(await freshToken(), { permission_rules });
      const allow = [{ tool: 'write', decision: 'allow' }];
      const job = await newJob({ prompt: 'Write a file named narrow.txt', permission_rules: allow }, narrow);
      await ask('POST', `${url}/${job.id}/run`, undefined, narrow);
      const run = await untilRun(job.id, { status: 'completed' });
      const { body } = await ask('GET', `/api/v1/sessions/${run.session_id}/diff`);
      expect(JSON.stringify(body)).not.toContain('narrow.txt');
    });

    test('count for the quota of a key that they come to', async () => {
      const { token, user } = await app.register('karla');
      const made = await app.request('POST', '/api/v1/auth/api-keys', { token, body: { name: 'Jobs' } });
      const { key, api_key } = made.body;
      const [job, other] = [await newJob({}, token), await newJob({}, key)];
      const limits = { limits: { jobs: { hard: 1 } } };
      await ask('PUT', `/api/v1/quotas/api_key/${api_key.id}`, limits, app.operatorKey);
      // Of the person nothing more comes, whatever was set since.
      await ask('PUT', `/api/v1/quotas/user/${user.id}`, limits, app.operatorKey);
      const patch = { name: 'Renamed' };
      await ask('POST', `${url}/${job.id}/pause`, undefined, token);
      const asWith = {
        update: (token: string, { id } = job) => ask('PATCH', `${url}/${id}`, patch, token),
        resume: (token: string) => ask('POST', `${url}/${job.id}/resume`, undefined, token),
      };
      for (const answer of [await asWith.update(key), await asWith.resume(key)]) {
        expect(coded(answer)).toEqual([429, 'quota_exceeded']);
        expect(answer.body.quota).toMatchObject({ subject_type: 'api_key', used: 1, hard: 1 });
      }
      // Its own may be changed, and one that it has no more leaves room for another.
      expect((await asWith.update(key, other)).status).toBe(200);
      expect((await asWith.update(token, other)).status).toBe(200);
      expect((await asWith.resume(key)).body).toMatchObject({ status: 'active' });
    });

    test('have a quota', async () => {
      const { token, user } = await app.register('quentin');
      await ask('PUT', `/api/v1/quotas/user/${user.id}`, { limits: { jobs: { hard: 1 } } }, app.operatorKey);
      const job = await newJob({}, token);
      const refused = await ask('POST', url, { name: 'x', prompt: 'x', cron: '0 2 * * *' }, token);
      expect(coded(refused)).toEqual([429, 'quota_exceeded']);
      expect(refused.body.quota).toMatchObject({ resource: 'jobs', used: 1, hard: 1 });
      await ask('DELETE', `${url}/${job.id}`, undefined, token);
      expect((await newJob({}, token)).status).toBe('active');
    });
  });

  async function freshToken(): Promise<string> {
    const { email, password } = ada;
    return (await app.request('POST', '/api/v1/auth/login', { body: { email, password } })).body.access_token;
  }

  test('the operator sees what is due, what waits and what runs', async () => {
    const { body } = await ask('GET', '/api/v1/scheduler/status', undefined, app.operatorKey);
    expect(body).toMatchObject({ due: expect.any(Number), starting: 0, processes: [] });
    expect(body.jobs.active).toBeGreaterThan(3);
    expect(body.lag_ms).toBeLessThan(60_000);
    expect((await ask('GET', '/api/v1/scheduler/status')).status).toBe(403);
  });
});
