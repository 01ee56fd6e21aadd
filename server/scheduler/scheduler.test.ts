/** The scheduler on the real store: what is wrong with one job is no matter of the others. */
import { expect, test } from 'vitest';
import { createLog } from '../log.ts';
import type { Reach } from '../store/store.ts';
import { describeStores, newAccount } from '../store/test-stores.ts';
import { type SchedulerOptions, schedules, startScheduler } from './scheduler.ts';

describeStores('The scheduler', (store, engine) => {
  const asker = { apiKeyId: null, timing: schedules.next };
  const newJob = async (reach: Reach, interval_s: number) => {
    const input = { name: 'Each minute', prompt: 'Hello', interval_s };
    return (await store().jobs.create(reach, input, asker)).job.id;
  };
  /** The jobs whose runs have begun, in order. */
  const begunWith = (records: Partial<SchedulerOptions<{ id: string; jobId: string }>['records']> = {}) => {
    const begun: string[] = [];
    const scheduler = startScheduler({
      records: { ...store().jobWork, ...records },
      begin: async ({ jobId }) => {
        begun.push(jobId);
        return null;
      },
      wakeRun: () => undefined,
      draining: () => false,
      owner: 'test',
      hasDied: () => false,
      lease: { leaseMs: 3_600_000, renewMs: 3_600_000 },
      now: engine.clock.now,
      log: createLog('silent'),
      pollMs: 20,
    });
    return { begun, stop: () => scheduler.stop() };
  };

  test('takes a run that was asked for at the very moment of a time for that time', async () => {
    const reach = await newAccount(store());
    const job = await newJob(reach, 60);
    const other = await newJob(reach, 60);
    engine.clock.advance(60_000);
    const asked = await store().jobs.find(reach, job);
    const { id } = await store().jobRuns.request(reach, job);
    expect(asked?.row.next_at).toBe(engine.clock.now().getTime());
    engine.clock.advance(5000);
    const { begun, stop } = begunWith();
    await expect.poll(() => begun).toContain(other);
    await stop();
    expect(begun.toSorted()).toEqual([job, other].toSorted());
    const { data } = await store().jobRuns.list(reach, job, {});
    expect(data.map((run) => run.id)).toEqual([id]);
    expect((await store().jobs.find(reach, job))?.row.next_at).toBe((asked?.row.next_at ?? 0) + 60_000);
  });

  test('begins the others where the times of a job cannot be worked out', async () => {
    const reach = await newAccount(store());
    const broken = await newJob(reach, 30);
    await engine.sql()('scheduled_jobs').where({ id: broken }).update({ timezone: 'Europe/Atlantis' });
    const other = await newJob(reach, 60);
    engine.clock.advance(60_000);
    const { begun, stop } = begunWith();
    await expect.poll(() => begun).toContain(other);
    await stop();
    expect(begun).not.toContain(broken);
  });

  test('begins what waits where it cannot be found out what is due', async () => {
    const reach = await newAccount(store());
    const job = await newJob(reach, 3600);
    await store().jobRuns.request(reach, job);
    const { begun, stop } = begunWith({ due: () => Promise.reject(new Error('no answer')) });
    await expect.poll(() => begun).toContain(job);
    await stop();
  });
});
