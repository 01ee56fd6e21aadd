import { expect, it } from 'vitest';
import { beginRun, chunk, endRun, message, noUsage, permissionRequest, takeRun } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('The lease of a run', (store, engine) => {
  const begin = async () => beginRun(store(), await newAccount(store()), { owner: 'first' });
  const leaseOf = async (runId: string) =>
    (await store().transcript.readLeases()).find((lease) => lease.runId === runId);

  it('is renewed by its owner alone, who hears what others ask of the run', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { owner: 'first' });
    const ended = await beginRun(store(), reach, { owner: 'first' });
    await endRun(store(), ended);
    const ids = [run.runId, ended.runId, 'run_unknown'];
    expect(await leaseOf(run.runId)).toEqual({ runId: run.runId, owner: 'first', renewals: 0 });
    expect(await leaseOf(ended.runId)).toBeUndefined();
    expect(await store().transcript.renewLeases('first', ids)).toEqual([
      { runId: run.runId, interrupt: null },
    ]);
    await store().runs.requestInterrupt(reach, run.runId, 'requested');
    expect(await store().transcript.renewLeases('first', ids)).toEqual([
      { runId: run.runId, interrupt: 'requested' },
    ]);
    expect(await store().transcript.renewLeases('second', ids)).toEqual([]);
    expect(await leaseOf(run.runId)).toMatchObject({ renewals: 2 });
    await endRun(store(), run);
  });

  it('cannot be taken by a process that has not seen its newest renewal', async () => {
    const run = await begin();
    const other = await engine.open();
    const seen = (await leaseOf(run.runId)) ?? { runId: '', owner: '', renewals: 0 };
    await store().transcript.renewLeases('first', [run.runId]);
    expect(await other.transcript.takeRun(seen, 'second')).toBeNull();
    expect(await takeRun(other, run.runId, 'second')).not.toBeNull();
    expect(await other.transcript.takeRun(seen, 'third')).toBeNull();
    await endRun(other, run);
    expect(await other.transcript.takeRun({ ...seen, owner: 'second' }, 'third')).toBeNull();
  });

  it('that has run out goes to one of all processes that want it, with all that is needed to go on', async () => {
    const runs = [await begin(), await begin(), await begin(), await begin()];
    await store().transcript.appendEvents(runs[0]?.runId ?? '', [chunk(2, 'a')]);
    const seen = await store().transcript.readLeases();
    const processes = await Promise.all(Array.from({ length: 4 }, () => engine.open()));
    const taken = await Promise.all(
      processes.map((process, index) =>
        Promise.all(seen.map((lease) => process.transcript.takeRun(lease, `p${index}`))).then((all) =>
          all.filter((run) => run !== null),
        ),
      ),
    );
    const ids = taken.flat().map(({ runId }) => runId);
    expect(ids.toSorted()).toEqual(runs.map(({ runId }) => runId).toSorted());
    expect(taken.flat().find(({ runId }) => runId === runs[0]?.runId)).toMatchObject({
      ...runs[0],
      runNumber: 1,
      status: 'queued',
      agentSlug: 'coder',
      model: 'demo:demo-1',
      onUnanswered: 'wait',
      lastEventId: 2,
      committedEventId: 0,
      resumptions: 0,
      interrupt: null,
      workspacePlace: '/workspaces/a',
      session: { permissionRules: [], systemPrompt: null },
    });
    for (const [index, mine] of taken.entries())
      for (const run of mine) await endRun(processes[index] ?? store(), run, run.lastEventId + 1);
  });

  it('that was taken over lets its old owner write nothing any more', async () => {
    const run = await begin();
    const other = await engine.open();
    await takeRun(other, run.runId, 'second');
    const before = await store().transcript.readMessages(run.sessionId);
    const step = { ...run, messages: [message('assistant', 'late')], usage: noUsage, steps: 1 as const };
    const late = [
      store().transcript.appendEvents(run.runId, [chunk(2, 'late')]),
      store().transcript.changeStatus(run, 'running', [chunk(2, 'late')]),
      store().transcript.commitStep({ ...step, events: [chunk(2, 'late')] }),
      store().transcript.resumeRun({ ...run, messages: [], usage: noUsage, events: [chunk(2, 'late')] }),
      store().transcript.openPermission(permissionRequest({ ...run, createdAt: engine.clock.now() }), []),
      endRun(store(), run),
    ];
    for (const outcome of await Promise.allSettled(late))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'LeaseLost' } });
    expect(await store().transcript.renewLeases('first', [run.runId])).toEqual([]);
    expect(await store().transcript.readMessages(run.sessionId)).toEqual(before);
    expect(await store().transcript.readEvents(run.runId, 1, 9)).toEqual([]);
    await other.transcript.commitStep({ ...step, events: [chunk(2, 'mine')] });
    await endRun(other, run, 3);
    expect(await other.transcript.readEvents(run.runId, 1, 9)).toEqual([chunk(2, 'mine'), chunk(3, 'end')]);
  });

  it('that is handed over goes to one of those who want it, and nothing is written where it was let go', async () => {
    const [run, ended, others] = [await begin(), await begin(), await begin()];
    store().transcript.letGo(run.runId);
    const late = store().transcript.appendEvents(run.runId, [chunk(2, 'late')]);
    await expect(late).rejects.toMatchObject({ name: 'LeaseLost' });
    expect(await leaseOf(run.runId)).toMatchObject({ owner: 'first' });
    await endRun(store(), ended);
    await takeRun(await engine.open(), others.runId, 'second');
    await store().transcript.handOver('first', [run.runId, ended.runId, others.runId]);
    expect(await leaseOf(run.runId)).toEqual({ runId: run.runId, owner: null, renewals: 0 });
    expect(await leaseOf(ended.runId)).toBeUndefined();
    expect(await leaseOf(others.runId)).toMatchObject({ owner: 'second' });
    const processes = await Promise.all([engine.open(), engine.open()]);
    const seen = { runId: run.runId, owner: null, renewals: 0 };
    const taken = await Promise.all(
      processes.map((process, index) => process.transcript.takeRun(seen, `p${index}`)),
    );
    expect(taken.filter((each) => each !== null)).toMatchObject([{ runId: run.runId, handedOver: true }]);
    const now = processes[taken[0] === null ? 1 : 0] ?? store();
    expect(await takeRun(now, run.runId, 'later')).toMatchObject({ handedOver: false });
    await endRun(now, run);
  });

  it('tells whoever takes the run over what was committed, and how often that has happened', async () => {
    const run = await begin();
    const step = { ...run, usage: noUsage, steps: 1 as const };
    await store().transcript.commitStep({
      ...step,
      messages: [message('assistant', 'one')],
      seenFiles: [
        { path: '/a', version: { sha256: 'aa', mtimeMs: 1.5 } },
        { path: '/b', version: { sha256: 'bb', mtimeMs: 2 } },
      ],
      events: [chunk(2, 'one')],
    });
    await store().transcript.appendEvents(run.runId, [chunk(3, 'tw')]);
    const other = await engine.open();
    expect(await takeRun(other, run.runId, 'second')).toMatchObject({
      steps: 1,
      committedEventId: 2,
      lastEventId: 3,
      resumptions: 0,
    });
    await other.transcript.resumeRun({
      ...run,
      messages: [{ ...message('assistant', 'tw'), stop_reason: 'interrupted' }],
      usage: noUsage,
      events: [chunk(4, 'resumed')],
    });
    const forgotten = { path: '/a', version: null };
    const more = { path: '/b', version: { sha256: 'cc', mtimeMs: 3 } };
    await other.transcript.commitStep({
      ...step,
      messages: [message('assistant', 'two')],
      seenFiles: [forgotten, more],
      events: [chunk(5, 'two')],
    });
    expect(await other.transcript.readSeenFiles(run.sessionId)).toEqual([more]);
    const third = await engine.open();
    expect(await takeRun(third, run.runId, 'third')).toMatchObject({
      steps: 2,
      committedEventId: 5,
      resumptions: 1,
    });
    await endRun(third, run, 6);
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
    let taken = null;
    // Its row is passed over as long as an event is being written to it.
    while (taken === null) taken = await takeRun(other, run.runId, 'second');
    await writing;
    // Whatever the old process has stored is before the number that the new one was told.
    const events = await other.transcript.readEvents(run.runId, 0, 99);
    expect(events.length).toBe(taken?.lastEventId);
    expect(events.length + lost).toBe(seqs.length + 1);
    await endRun(other, run, events.length + 1);
  });
});

// SQLite locks no rows: there one transaction holds up all others or none.
describeStore('postgresql', 'A run whose row somebody else holds', (store, engine) => {
  it('keeps no other run from the renewal of its lease, and stays with its owner', async () => {
    const reach = await newAccount(store());
    const [held, other] = [
      await beginRun(store(), reach, { owner: 'first' }),
      await beginRun(store(), reach, { owner: 'first' }),
    ];
    await store().runs.requestInterrupt(reach, held.runId, 'requested');
    const ids = [held.runId, other.runId];
    const holding = await engine.sql().transaction();
    try {
      await holding('runs').where({ id: held.runId }).forUpdate();
      const kept = await store().transcript.renewLeases('first', ids);
      expect(new Map(kept.map(({ runId, interrupt }) => [runId, interrupt]))).toEqual(
        new Map([
          [held.runId, 'requested'],
          [other.runId, null],
        ]),
      );
    } finally {
      await holding.rollback();
    }
    const renewalsOf = async () => {
      const leases = await store().transcript.readLeases();
      return ids.map((id) => leases.find(({ runId }) => runId === id)?.renewals);
    };
    expect(await renewalsOf()).toEqual([0, 1]);
    await store().transcript.renewLeases('first', ids);
    expect(await renewalsOf()).toEqual([1, 2]);
    for (const run of [held, other]) await endRun(store(), run);
  });

  it('is passed over by whoever takes runs over, and gets them at a later look', async () => {
    const run = await beginRun(store(), await newAccount(store()), { owner: 'first' });
    const other = await engine.open();
    const holding = await engine.sql().transaction();
    try {
      await holding('runs').where({ id: run.runId }).forUpdate();
      // Who waited for it would be told that it could not be had.
      expect(await takeRun(other, run.runId, 'second')).toBeNull();
    } finally {
      await holding.rollback();
    }
    expect(await takeRun(other, run.runId, 'second')).toMatchObject({ runId: run.runId });
    await endRun(other, run);
  });

  it('keeps no other run from being handed over, and is told as one that was not', async () => {
    const reach = await newAccount(store());
    const runs = [
      await beginRun(store(), reach, { owner: 'first' }),
      await beginRun(store(), reach, { owner: 'first' }),
    ] as const;
    const [held, free] = runs;
    const ids = runs.map(({ runId }) => runId);
    const holding = await engine.sql().transaction();
    try {
      await holding('runs').where({ id: held.runId }).forUpdate();
      expect(await store().transcript.handOver('first', ids)).toEqual([held.runId]);
    } finally {
      await holding.rollback();
    }
    const owners = async () => {
      const leases = await store().transcript.readLeases();
      return [held, free].map((run) => leases.find(({ runId }) => runId === run.runId)?.owner);
    };
    expect(await owners()).toEqual(['first', null]);
    expect(await store().transcript.handOver('first', ids)).toEqual([]);
    expect(await owners()).toEqual([null, null]);
    const other = await engine.open();
    for (const run of runs) {
      await takeRun(other, run.runId, 'second');
      await endRun(other, run);
    }
  });
});

describeStores('The queue of a session', (store, engine) => {
  it('has a bound, which a hundred at once do not pass', async () => {
    const reach = await newAccount(store());
    const { sessionId } = await beginRun(store(), reach, { queueLimit: 3 });
    const more = await Promise.allSettled(
      Array.from({ length: 10 }, () => beginRun(store(), reach, { sessionId, queueLimit: 3 })),
    );
    const begun = more.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    expect(begun).toHaveLength(3);
    for (const outcome of more)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'queue_full' });
    for (const run of begun) await endRun(store(), run);
    await endRun(store(), await beginRun(store(), reach, { sessionId, queueLimit: 3 }));
  });

  it('is in the order of their numbers, whoever holds them', async () => {
    const reach = await newAccount(store());
    const first = await beginRun(store(), reach);
    const { sessionId } = first;
    const other = await engine.open();
    const second = await beginRun(other, reach, { sessionId });
    const isBlocked = (runNumber: number) => other.transcript.hasEarlierRun({ sessionId, runNumber });
    expect([await isBlocked(1), await isBlocked(2)]).toEqual([false, true]);
    await endRun(store(), first);
    expect(await isBlocked(2)).toBe(false);
    await endRun(other, second);
  });
});
