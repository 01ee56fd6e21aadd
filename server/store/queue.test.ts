import { expect, it } from 'vitest';
import { beginRun, chunk, endRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('The queue of a session', (store) => {
  const waiting = async (reach: Awaited<ReturnType<typeof newAccount>>, sessionId: string) =>
    (await store().queue.list(reach, sessionId, {})).data.map(({ run_id }) => run_id);

  it('holds the first that waits also where nothing is at work, and is cleared of it', async () => {
    const reach = await newAccount(store());
    const done = await beginRun(store(), reach, { prompt: 'one' });
    const { sessionId } = done;
    await store().transcript.changeStatus(done, 'running', [chunk(2, 'a')]);
    const first = await beginRun(store(), reach, { sessionId, owner: 'one that hangs' });
    const second = await beginRun(store(), reach, { sessionId });
    expect(await waiting(reach, sessionId)).toEqual([first.runId, second.runId]);
    expect(await store().runs.current(reach, sessionId)).toMatchObject({ id: done.runId, status: 'running' });
    await endRun(store(), done, 3);
    expect(await waiting(reach, sessionId)).toEqual([first.runId, second.runId]);
    // What waits is not told of twice.
    expect(await store().runs.current(reach, sessionId)).toMatchObject({
      id: done.runId,
      status: 'interrupted',
    });
    expect(await store().queue.clear(reach, sessionId)).toEqual([first.runId, second.runId]);
    expect(await waiting(reach, sessionId)).toEqual([]);
    expect(await store().transcript.readInterrupt(first.runId)).toBe('requested');
  });

  it('of which a run was taken back lets it not begin any more, whoever begins it', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    expect(await store().queue.clear(reach, run.sessionId)).toEqual([run.runId]);
    const begun = store().transcript.changeStatus(run, 'running', [chunk(2, 'a')]);
    await expect(begun).rejects.toMatchObject({ name: 'RunStopped', reason: 'requested' });
    expect((await store().runs.find(reach, run.runId))?.run).toMatchObject({
      ...{ status: 'queued', started_at: null, last_event_id: 1 },
    });
  });

  it('is cleared of a run or has it begun, never both', async () => {
    const reach = await newAccount(store());
    for (let round = 0; round < 5; round += 1) {
      const run = await beginRun(store(), reach);
      const [cleared, begun] = await Promise.allSettled([
        store().queue.clear(reach, run.sessionId),
        store().transcript.changeStatus(run, 'running', [chunk(2, 'a')]),
      ]);
      const isBegun = begun.status === 'fulfilled';
      expect(cleared).toMatchObject({ status: 'fulfilled', value: isBegun ? [] : [run.runId] });
      expect(await store().transcript.readInterrupt(run.runId)).toBe(isBegun ? null : 'requested');
    }
  });
});
