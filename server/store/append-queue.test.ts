/** Events of many runs, stored together: each run is told of itself alone. */
import { expect, it } from 'vitest';
import { createLog } from '../log.ts';
import { createAppendQueue } from './append-queue.ts';
import { leases } from './leases.ts';
import { openSqlite } from './sqlite.ts';
import { beginRun, chunk, takeRun } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('The events of many runs at once', (store, engine) => {
  const begin = async (count: number) => {
    const reach = await newAccount(store());
    return Promise.all(Array.from({ length: count }, () => beginRun(store(), reach)));
  };

  it('are all stored, each run’s in its order', async () => {
    const runs = await begin(30);
    for (const seq of [2, 3])
      await Promise.all(
        runs.map(({ runId }) => store().transcript.appendEvents(runId, [chunk(seq, `${seq} ${runId}`)])),
      );
    for (const { runId } of runs)
      expect(await store().transcript.readEvents(runId, 1, 9)).toEqual([
        chunk(2, `2 ${runId}`),
        chunk(3, `3 ${runId}`),
      ]);
    const numbers = await engine
      .sql()('runs')
      .whereIn(
        'id',
        runs.map(({ runId }) => runId),
      )
      .pluck('last_event_id');
    expect(new Set(numbers.map(Number))).toEqual(new Set([3]));
  });

  it('fail for the run that was lost, and for the one whose numbers cannot be; for no other', async () => {
    const [first, lost, broken, last] = (await begin(4)).map(({ runId }) => runId);
    await takeRun(await engine.open(), lost ?? '', 'another process');
    const append = (runId = '', events = [chunk(2, 'x')]) => store().transcript.appendEvents(runId, events);
    const ends = await Promise.allSettled([
      append(first),
      append(lost),
      append(broken, [chunk(2, 'x'), chunk(2, 'y')]),
      append(last),
    ]);
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
    expect(ends[1]).toMatchObject({ reason: { name: 'LeaseLost' } });
    expect(ends[2]).not.toMatchObject({ reason: { name: 'LeaseLost' } });
    expect(await store().transcript.readEvents(lost ?? '', 1, 9)).toEqual([]);
    expect(await store().transcript.readEvents(last ?? '', 1, 9)).toEqual([chunk(2, 'x')]);
  });
});

describeStore('sqlite', 'On the one connection that writes', (store, engine) => {
  it('one transaction stores the events of all runs that wait', async () => {
    const reach = await newAccount(store());
    const runs = await Promise.all(
      Array.from({ length: 20 }, () => beginRun(store(), reach, { owner: 'me' })),
    );
    const database = openSqlite(new URL(engine.url()).pathname, createLog('silent'));
    let transactions = 0;
    const counted: typeof database = {
      ...database,
      writeOfRun: (work) => {
        transactions += 1;
        return database.writeOfRun(work);
      },
    };
    const held = leases(counted);
    for (const { runId } of runs) held.hold(runId, 'me');
    const queue = createAppendQueue(counted, held, () => 1);
    const stored = Promise.all(runs.map(({ runId }) => queue.append(runId, [chunk(2, 'x')])));
    expect(queue.waiting()).toBe(19);
    expect(database.gathered()).toEqual({ events: 19, modelCalls: 0 });
    await stored;
    // The first finds nobody else waiting.
    expect(transactions).toBe(2);
    await database.close();
  });
});
