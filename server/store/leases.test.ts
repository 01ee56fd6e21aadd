import { expect, it } from 'vitest';
import { beginRun, chunk, endRun, message, noUsage, permissionRequest } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('The lease of a run', (store, engine) => {
  const inSeconds = (count: number): Date => new Date(engine.clock.now().getTime() + count * 1000);
  const begin = async (expiresAt = inSeconds(10)) =>
    beginRun(store(), await newAccount(store()), { owner: 'first', expiresAt });

  it('keeps others away until it has run out', async () => {
    const run = await begin();
    const other = await engine.open();
    const lease = { owner: 'second', expiresAt: inSeconds(20) };
    const take = async (at: Date) =>
      (await other.transcript.takeAbandonedRuns(at, lease)).map(({ runId }) => runId);
    expect(await take(inSeconds(10))).not.toContain(run.runId);
    expect(await take(inSeconds(10.001))).toContain(run.runId);
    await endRun(other, run);
  });

  it('is renewed by its owner alone, who hears what others ask of the run', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { owner: 'first', expiresAt: inSeconds(10) });
    const ended = await beginRun(store(), reach, { owner: 'first', expiresAt: inSeconds(10) });
    await endRun(store(), ended);
    const ids = [run.runId, ended.runId, 'run_unknown'];
    const later = { owner: 'first', expiresAt: inSeconds(30) };
    expect(await store().transcript.renewLeases(later, ids)).toEqual([{ runId: run.runId, interrupt: null }]);
    await store().runs.requestInterrupt(reach, run.runId, 'requested');
    expect(await store().transcript.renewLeases(later, ids)).toEqual([
      { runId: run.runId, interrupt: 'requested' },
    ]);
    expect(await store().transcript.renewLeases({ ...later, owner: 'second' }, ids)).toEqual([]);
    const early = { owner: 'second', expiresAt: inSeconds(60) };
    const taken = await store().transcript.takeAbandonedRuns(inSeconds(29), early);
    expect(taken.map(({ runId }) => runId)).not.toContain(run.runId);
    await endRun(store(), run);
  });

  it('that has run out goes to one of all processes that want it', async () => {
    const runs = [await begin(), await begin(), await begin(), await begin()];
    await store().transcript.appendEvents(runs[0]?.runId ?? '', [chunk(2, 'a')]);
    const processes = await Promise.all(Array.from({ length: 4 }, () => engine.open()));
    const taken = await Promise.all(
      processes.map((process, index) =>
        process.transcript.takeAbandonedRuns(inSeconds(11), { owner: `p${index}`, expiresAt: inSeconds(60) }),
      ),
    );
    const ids = taken.flat().map(({ runId }) => runId);
    expect(ids.toSorted()).toEqual(runs.map(({ runId }) => runId).toSorted());
    expect(taken.flat().find(({ runId }) => runId === runs[0]?.runId)).toEqual({
      ...runs[0],
      model: 'demo:demo-1',
      lastEventId: 2,
    });
    for (const [index, mine] of taken.entries())
      for (const run of mine) await endRun(processes[index] ?? store(), run, run.lastEventId + 1);
  });

  it('that was taken over lets its old owner write nothing any more', async () => {
    const run = await begin();
    const other = await engine.open();
    await other.transcript.takeAbandonedRuns(inSeconds(11), { owner: 'second', expiresAt: inSeconds(60) });
    const before = await store().transcript.readMessages(run.sessionId);
    const step = { ...run, messages: [message('assistant', 'late')], usage: noUsage, steps: 1 as const };
    const late = [
      store().transcript.appendEvents(run.runId, [chunk(2, 'late')]),
      store().transcript.changeStatus(run, 'running', [chunk(2, 'late')]),
      store().transcript.commitStep({ ...step, events: [chunk(2, 'late')] }),
      store().transcript.openPermission(permissionRequest({ ...run, createdAt: engine.clock.now() }), []),
      endRun(store(), run),
    ];
    for (const outcome of await Promise.allSettled(late))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'LeaseLost' } });
    const renewed = await store().transcript.renewLeases({ owner: 'first', expiresAt: inSeconds(99) }, [
      run.runId,
    ]);
    expect(renewed).toEqual([]);
    expect(await store().transcript.readMessages(run.sessionId)).toEqual(before);
    expect(await store().transcript.readEvents(run.runId, 1, 9)).toEqual([]);
    await other.transcript.commitStep({ ...step, events: [chunk(2, 'mine')] });
    await endRun(other, run, 3);
    expect(await other.transcript.readEvents(run.runId, 1, 9)).toEqual([chunk(2, 'mine'), chunk(3, 'end')]);
  });

  it('ends with the run: what comes later is refused', async () => {
    const run = await begin();
    await endRun(store(), run);
    await expect(store().transcript.appendEvents(run.runId, [chunk(3, 'x')])).rejects.toMatchObject({
      name: 'LeaseLost',
    });
    await expect(endRun(store(), run, 3)).rejects.toMatchObject({ name: 'LeaseLost' });
    expect(await store().transcript.readEvents(run.runId, 2, 9)).toEqual([]);
  });

  it('is not taken from a process that writes in the moment of the take-over', async () => {
    const run = await begin();
    const other = await engine.open();
    const seqs = Array.from({ length: 30 }, (_, index) => index + 2);
    let lost = 0;
    const writing = (async () => {
      for (const seq of seqs)
        await store()
          .transcript.appendEvents(run.runId, [chunk(seq, 'first')])
          .catch(() => {
            lost += 1;
          });
    })();
    const lease = { owner: 'second', expiresAt: inSeconds(60) };
    let taken: Awaited<ReturnType<typeof other.transcript.takeAbandonedRuns>> = [];
    while (taken.length === 0) taken = await other.transcript.takeAbandonedRuns(inSeconds(11), lease);
    await writing;
    // Whatever the old process has stored is before the number that the new one was told.
    const events = await other.transcript.readEvents(run.runId, 0, 99);
    expect(events.length).toBe(taken[0]?.lastEventId);
    expect(events.length + lost).toBe(seqs.length + 1);
    await endRun(other, run, events.length + 1);
  });
});
