/** The scheduler on the real store: what is wrong with one job is no matter of the others. */
import { expect, test } from 'vitest';
import { createLog } from '../log.ts';
import { Problem } from '../problem.ts';
import type { ClaimedJobRun, Reach } from '../store/store.ts';
import { describeStores, newAccount } from '../store/test-stores.ts';
import { type SchedulerOptions, schedules, startScheduler } from './scheduler.ts';

describeStores('The scheduler', (store, engine) => {
  const asker = { apiKeyId: null, timing: schedules.next, firstTiming: schedules.first };
  const newJob = async (reach: Reach, interval_s: number, overlap_policy: 'skip' | 'queue' = 'skip') => {
    const input = { name: 'Each minute', prompt: 'Hello', interval_s, overlap_policy };
    return (await store().jobs.create(reach, input, asker)).job.id;
  };
  /** The jobs whose runs have begun, in order. */
  const begunWith = (
    records: Partial<SchedulerOptions<ClaimedJobRun>['records']> = {},
    { room = () => 8, refusal }: { readonly room?: () => number; readonly refusal?: Problem } = {},
  ) => {
    const begun: string[] = [];
    const scheduler = startScheduler<ClaimedJobRun>({
      records: { ...store().jobWork, ...records },
      begin: async ({ jobId }) => {
        begun.push(jobId);
        if (refusal) throw refusal;
        return null;
      },
      wakeRun: () => undefined,
      draining: () => false,
      room,
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

  test('knows how many runs wait of the job of which most do', async () => {
    const reach = await newAccount(store());
    const before = await store().jobRuns.mostWaiting();
    const [job, other] = [await newJob(reach, 3600, 'queue'), await newJob(reach, 3600, 'queue')];
    await store().jobRuns.request(reach, other);
    for (let times = 0; times < before + 3; times += 1) await store().jobRuns.request(reach, job);
    expect(await store().jobRuns.mostWaiting()).toBe(before + 3);
    for (const id of [job, other]) await store().jobs.delete(reach, id);
  });

  test('leaves to others what this process has no room for', async () => {
    const reach = await newAccount(store());
    const job = await newJob(reach, 3600);
    await store().jobRuns.request(reach, job);
    let room = 0;
    let asked = 0;
    const { begun, stop } = begunWith({}, { room: () => ++asked && room });
    await expect.poll(() => asked).toBeGreaterThan(2);
    expect((await store().jobRuns.list(reach, job, {})).data).toMatchObject([{ status: 'queued' }]);
    room = 1;
    await expect.poll(() => begun).toEqual([job]);
    await stop();
  });

  test('looks less often at what has to wait for others, the longer it waits', async () => {
    const reach = await newAccount(store());
    const job = await newJob(reach, 3600);
    await store().jobRuns.request(reach, job);
    const refusal = new Problem('overloaded', 'Others are in its way.');
    const { begun, stop } = begunWith({}, { refusal });
    const dueIn = async () => {
      const [run] = (await store().jobRuns.list(reach, job, {})).data;
      return Date.parse(run?.due_at ?? '') - engine.clock.now().getTime();
    };
    for (const [times, seconds] of [5, 10, 20, 30, 30].entries()) {
      await expect.poll(() => begun.length).toBe(times + 1);
      await expect.poll(dueIn).toBe(seconds * 1000);
      engine.clock.advance(seconds * 1000);
    }
    await stop();
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
