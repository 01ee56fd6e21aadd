/** Runs of jobs as they end while somebody pauses the job, or cancels or replaces the run: the same on both engines. */
import { expect, test, vi } from 'vitest';
import type { JobCreate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { beginRun, noUsage } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const hourMs = 3_600_000;
/** The machine may be busy with other tests. */
const patience = { timeout: 60_000, interval: 20 };

describeStores('A run of a job', (store, engine) => {
  const timeAt = (at: number) => ({ at, dueAt: at });

  /** At work, at a time of its job, which tries again what fails. */
  async function newRunAtWork(reach: Reach, more: Partial<JobCreate> = {}) {
    const timing = () => timeAt(engine.clock.now().getTime() + hourMs);
    const input = { name: 'Hourly', prompt: 'Hello', interval_s: 3600, max_retries: 1, ...more };
    const { job } = await store().jobs.create(reach, input, { apiKeyId: null, timing, firstTiming: timing });
    engine.clock.advance(hourMs);
    const slots = (_job: unknown, nextAt: number) => ({
      due: [{ ...timeAt(nextAt), missed: 0, fate: 'run' as const }],
      next: timeAt(nextAt + hourMs),
    });
    await store().jobWork.advance(job.id, slots, timing);
    const claimed = await store().jobWork.claim('test');
    if (claimed?.jobId !== job.id) throw new Error('the run of the job was not to be had');
    return { job, run: await beginRun(store(), reach, { occurrence: { ...claimed, session: null } }) };
  }

  test.each([
    ['goes on with', true],
    ['makes', false],
  ])('that %s a session leaves its job the one that somebody gives it meanwhile', async (_, goesOn) => {
    const reach = await newAccount(store());
    const newSession = async () => (await store().sessions.create(reach, {})).session.id;
    const [first, given] = [await newSession(), await newSession()];
    const timing = () => timeAt(engine.clock.now().getTime() + hourMs);
    const changer = {
      apiKeyId: null,
      timing,
      firstTiming: timing,
      slotsUntil: () => ({ due: [], next: null }),
    };
    const reuse = { session_mode: 'reuse' as const, ...(goesOn && { session_id: first }) };
    const input = { name: 'Hourly', prompt: 'Hello', interval_s: 3600, ...reuse };
    const { job } = await store().jobs.create(reach, input, changer);
    await store().jobRuns.request(reach, job.id);
    const claimed = await store().jobWork.claim('test');
    if (claimed?.jobId !== job.id) throw new Error('the run of the job was not to be had');
    await store().jobs.update(reach, job.id, { session_id: given }, changer);
    const made = { title: 'Hourly', permissionRules: [], replaces: null };
    const sessionId = goesOn ? first : newId('session');
    await beginRun(store(), reach, { sessionId, occurrence: { ...claimed, session: goesOn ? null : made } });
    const row = await engine
      .sql()('scheduled_jobs')
      .where({ id: job.id })
      .first('session_id', 'made_session');
    expect([row.session_id, Boolean(row.made_session)]).toEqual([given, false]);
  });

  const fail = (run: Awaited<ReturnType<typeof beginRun>>) =>
    store().transcript.endRun({
      ...run,
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error: { code: 'provider_failed', message: 'The provider is down.' },
      messages: [],
      usage: noUsage,
      events: [],
    });

  /** The second begins while the first has written all that it has to, and is about to commit. */
  async function atOnce(workspaceId: string, first: () => Promise<unknown>, second: () => Promise<unknown>) {
    const sql = engine.sql();
    // SQLite has one writer: there is no such moment.
    if (engine.dialect === 'sqlite') return [await first(), await second()];
    const waits = (count: number) => vi.waitFor(async () => expect(await waiting(sql)).toBe(count), patience);
    const { changes } = await sql.transaction(async (holding) => {
      // What was done is told at the very end, one transaction after the other.
      await holding('workspace_streams').where({ workspace_id: workspaceId }).forUpdate().first();
      const begun = [first()];
      await waits(1);
      begun.push(second());
      await waits(2);
      return { changes: begun };
    });
    return Promise.all(changes);
  }

  test.each([
    ['before it is paused', 'fail', { status: 'cancelled', reason: 'job_paused' }],
    ['after it is paused', 'pause', { status: 'failed', reason: null }],
  ] as const)('that fails in the moment %s is not tried again', async (_when, first, expected) => {
    const reach = await newAccount(store());
    const { job, run } = await newRunAtWork(reach);
    const steps = [() => fail(run), () => store().jobs.pause(reach, job.id)] as const;
    const [one, other] = first === 'fail' ? steps : steps.toReversed();
    if (one && other) await atOnce(job.workspace_id, one, other);
    const { data } = await store().jobRuns.list(reach, job.id, {});
    expect(data).toMatchObject([{ ...expected, attempts: 1, error: { code: 'provider_failed' } }]);
    engine.clock.advance(hourMs);
    expect(await store().jobWork.claim('test')).toBeNull();
  });

  test.each([
    ['cancelled', 'before', { status: 'cancelled', reason: 'requested' }],
    ['cancelled', 'after', { status: 'failed', reason: null }],
    ['replaced', 'before', { status: 'cancelled', reason: 'replaced' }],
    ['replaced', 'after', { status: 'failed', reason: null }],
  ] as const)('that is %s is not tried again, where it fails the moment %s', async (what, when, expected) => {
    const reach = await newAccount(store());
    const { job, run } = await newRunAtWork(reach, { overlap_policy: 'replace' });
    const [{ id: jobRunId } = { id: '' }] = (await store().jobRuns.list(reach, job.id, {})).data;
    const stop = () =>
      what === 'cancelled'
        ? store().jobRuns.cancel(reach, { jobId: job.id, jobRunId })
        : store().jobRuns.request(reach, job.id);
    if (when === 'before') await atOnce(job.workspace_id, () => fail(run), stop);
    else {
      await stop();
      await fail(run);
    }
    expect(await store().jobRuns.find(reach, { jobId: job.id, jobRunId })).toMatchObject({
      ...expected,
      attempts: 1,
    });
    // Two times of a job are never the same.
    engine.clock.advance(1);
    if (what === 'replaced') expect((await store().jobWork.claim('test'))?.jobId).toBe(job.id);
    engine.clock.advance(hourMs);
    expect(await store().jobWork.claim('test')).toBeNull();
  });
});
