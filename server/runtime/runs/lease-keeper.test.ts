/** The keeper of leases: whom it takes runs from, whom it leaves alone, and what it does where the store does not work. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../log.ts';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import type { SeenLease, TakenRun, Transcript } from '../transcript.ts';
import { type LeaseKeeperOptions, startLeaseKeeper } from './lease-keeper.ts';

const run = (runId: string, owner: string | null = 'another machine', renewals = 0): SeenLease => ({
  runId,
  owner,
  renewals,
});

/** The leases as a store has them; whoever is asked for may be taken. */
function storeOf(leases: SeenLease[], more: Partial<Transcript> = {}): Transcript {
  return {
    ...createMemoryTranscript(),
    readLeases: async () => leases,
    takeRun: async ({ runId }) => {
      leases.splice(
        leases.findIndex((lease) => lease.runId === runId),
        1,
      );
      // The keeper reads no more of it.
      return { runId, status: 'running' } as TakenRun;
    },
    ...more,
  };
}

function keep(transcript: Transcript, more: Partial<LeaseKeeperOptions> = {}) {
  const taken: string[] = [];
  const interrupted: string[] = [];
  const keeper = startLeaseKeeper({
    leaseMs: 100,
    renewMs: 10,
    owner: 'this process',
    transcript,
    log: createLog('silent'),
    activeRuns: () => [],
    startingRuns: () => [],
    room: () => 100,
    interrupt: (runId, reason) => interrupted.push(`${runId} ${reason}`),
    resume: ({ runId }) => taken.push(runId),
    ...more,
  });
  return { keeper, taken, interrupted };
}

/** Time that the test moves. */
function handClock() {
  const clock = { now: 0, elapsedMs: () => clock.now };
  return clock;
}

/** Resolves when the keeper has looked that many times more. */
function lookCounter(transcript: Transcript) {
  let looks = 0;
  const counted: Transcript = {
    ...transcript,
    readLeases: async () => {
      const leases = await transcript.readLeases();
      looks += 1;
      return [...leases];
    },
  };
  return {
    counted,
    async more(count: number) {
      const until = looks + count;
      await expect.poll(() => looks, { interval: 2 }).toBeGreaterThanOrEqual(until);
    },
  };
}

test('a lease has run out when it was seen unchanged for its whole time, by the time that passes here', async () => {
  const leases = [run('run_1')];
  const { counted, more } = lookCounter(storeOf(leases));
  const clock = handClock();
  const { keeper, taken } = keep(counted, clock);
  await more(2);
  clock.now = 99;
  await more(2);
  expect(taken).toEqual([]);
  clock.now = 101;
  await expect.poll(() => taken).toEqual(['run_1']);
  await keeper.stop();
});

test('a run that was handed over is taken at once', async () => {
  const leases = [run('run_1'), run('run_2', null)];
  const { counted, more } = lookCounter(storeOf(leases));
  const { keeper, taken } = keep(counted, handClock());
  await more(2);
  expect(taken).toEqual(['run_2']);
  await keeper.stop();
});

test('a lease that is renewed is never taken, however long it lasts', async () => {
  const leases = [run('run_1')];
  const { counted, more } = lookCounter(storeOf(leases));
  const clock = handClock();
  const { keeper, taken } = keep(counted, clock);
  for (let renewals = 1; renewals < 6; renewals += 1) {
    await more(2);
    leases[0] = run('run_1', 'another machine', renewals);
    await more(1);
    clock.now += 90;
  }
  await more(2);
  expect(taken).toEqual([]);
  await keeper.stop();
});

/** The clock of the machine, which the test sets. No time is given to the keeper: it has to take the right one. */
function shiftedClock() {
  const dateNow = Date.now;
  const shift = { ms: 0 };
  Date.now = () => dateNow() + shift.ms;
  onTestFinished(() => {
    Date.now = dateNow;
  });
  return shift;
}

const hourMs = 3_600_000;
/** Longer than the test lasts, and shorter than the clock jumps. */
const longLease = { leaseMs: 60_000 };

test('clocks that jump by an hour, forth or back, take no run from the living', async () => {
  const shift = shiftedClock();
  const { counted, more } = lookCounter(storeOf([run('run_1')]));
  const { keeper, taken } = keep(counted, longLease);
  for (const jump of [hourMs, -hourMs, hourMs]) {
    await more(2);
    shift.ms += jump;
    await more(2);
  }
  expect(taken).toEqual([]);
  await keeper.stop();
});

test('a clock that is set back leaves no run of the dead', async () => {
  const shift = shiftedClock();
  const { counted, more } = lookCounter(storeOf([run('run_1')]));
  const { keeper, taken } = keep(counted, { leaseMs: 500 });
  await more(1);
  shift.ms = -hourMs;
  await expect.poll(() => taken).toEqual(['run_1']);
  await keeper.stop();
});

test('a clock that jumps by an hour stops no work where leases cannot be renewed for a moment', async () => {
  const shift = shiftedClock();
  let asked = 0;
  const store = storeOf([], {
    renewLeases: async () => {
      asked += 1;
      throw new Error('the store is away');
    },
  });
  const { keeper, interrupted } = keep(store, { ...longLease, activeRuns: () => ['run_1'] });
  for (const jump of [hourMs, -hourMs, hourMs]) {
    shift.ms += jump;
    const before = asked;
    await expect.poll(() => asked).toBeGreaterThan(before + 1);
  }
  expect(interrupted).toEqual([]);
  await keeper.stop();
});

test('a run that cannot be taken over keeps no other from it, and is tried again', async () => {
  const leases = ['run_1', 'run_2', 'run_3'].map((id) => run(id));
  const broken = new Set(['run_1']);
  const store = storeOf(leases);
  const { keeper, taken } = keep({
    ...store,
    takeRun: async (lease, owner) => {
      if (broken.has(lease.runId)) throw new Error('the store cannot write this one');
      return store.takeRun(lease, owner);
    },
  });
  await expect.poll(() => taken).toEqual(['run_2', 'run_3']);
  broken.clear();
  await expect.poll(() => taken).toEqual(['run_2', 'run_3', 'run_1']);
  await keeper.stop();
});

test('no more runs are taken over than there is room for', async () => {
  const leases = ['run_1', 'run_2', 'run_3'].map((id) => run(id));
  const taken: string[] = [];
  const { keeper } = keep(storeOf(leases), {
    room: () => 2 - taken.length,
    resume: ({ runId }) => taken.push(runId),
  });
  await expect.poll(() => taken).toEqual(['run_1', 'run_2']);
  await sleep(50);
  expect(taken).toHaveLength(2);
  await keeper.stop();
});

test('a run that this process gave up is taken up again, one that it is about to work on is not', async () => {
  const leases = [run('run_1', 'this process')];
  const { counted, more } = lookCounter(storeOf(leases));
  const active = ['run_1'];
  const { keeper, taken } = keep(
    { ...counted, renewLeases: async (_owner, ids) => ids.map((runId) => ({ runId, interrupt: null })) },
    { activeRuns: () => active },
  );
  await more(3);
  expect(taken).toEqual([]);
  active.length = 0;
  await expect.poll(() => taken).toEqual(['run_1']);
  await keeper.stop();
});

test('a run whose beginning is stored, but not confirmed yet, is not taken for one that was given up', async () => {
  const { counted, more } = lookCounter(storeOf([run('run_1', 'this process')]));
  const starting = ['run_1'];
  const { keeper, taken } = keep(counted, { startingRuns: () => starting });
  await more(5);
  expect(taken).toEqual([]);
  // The confirmation was lost, and whoever asked was told of an error: the run goes on all the same.
  starting.length = 0;
  await expect.poll(() => taken).toEqual(['run_1']);
  await keeper.stop();
});

test('where leases cannot be renewed for their whole time, the work on them stops', async () => {
  const clock = handClock();
  const store = storeOf([], { renewLeases: async () => Promise.reject(new Error('the store is away')) });
  const { keeper, interrupted } = keep(store, { ...clock, activeRuns: () => ['run_1'] });
  await sleep(50);
  expect(interrupted).toEqual([]);
  clock.now = 101;
  await expect.poll(() => interrupted[0]).toBe('run_1 lease_lost');
  await keeper.stop();
});

test('where a renewal hangs for their whole time, the work stops as well, and not before', async () => {
  const clock = handClock();
  const hanging = Promise.withResolvers<[]>();
  let looks = 0;
  const store = storeOf([], { renewLeases: () => hanging.promise });
  const { keeper, interrupted } = keep(store, {
    elapsedMs: () => {
      looks += 1;
      return clock.now;
    },
    activeRuns: () => ['run_1'],
  });
  clock.now = 99;
  const before = looks;
  await expect.poll(() => looks).toBeGreaterThan(before + 2);
  expect(interrupted).toEqual([]);
  clock.now = 101;
  await expect.poll(() => interrupted[0]).toBe('run_1 lease_lost');
  hanging.resolve([]);
  await keeper.stop();
});

test('a lease is good from when its renewal was asked for, and not from when it was confirmed', async () => {
  const clock = handClock();
  const asked = Promise.withResolvers<void>();
  const answers = [Promise.withResolvers<void>()];
  let refusals = 0;
  const store = storeOf([], {
    async renewLeases(_owner, ids) {
      const answer = answers.pop();
      if (!answer) {
        refusals += 1;
        throw new Error('the store is away');
      }
      asked.resolve();
      await answer.promise;
      return ids.map((runId) => ({ runId, interrupt: null }));
    },
  });
  const [confirmed] = answers;
  const { keeper, interrupted } = keep(store, { ...clock, activeRuns: () => ['run_1'] });
  await asked.promise;
  // The renewal was written at once; word of it comes late.
  clock.now = 90;
  confirmed?.resolve();
  await expect.poll(() => refusals).toBeGreaterThan(0);
  expect(interrupted).toEqual([]);
  clock.now = 101;
  await expect.poll(() => interrupted[0]).toBe('run_1 lease_lost');
  await keeper.stop();
});

test('after this process stood still for a while it asks first whether its leases are still its own', async () => {
  const clock = handClock();
  let renewals = 0;
  const store = storeOf([], {
    renewLeases: async (_owner, ids) => {
      renewals += 1;
      return ids.map((runId) => ({ runId, interrupt: null }));
    },
  });
  const { keeper, interrupted } = keep(store, { ...clock, activeRuns: () => ['run_1'] });
  await expect.poll(() => renewals).toBeGreaterThan(1);
  clock.now = 1000;
  const before = renewals;
  await expect.poll(() => renewals).toBeGreaterThan(before + 1);
  expect(interrupted).toEqual([]);
  await keeper.stop();
});

test('a store that is slow is asked by one at a time', async () => {
  let asking = 0;
  let most = 0;
  let times = 0;
  const store = storeOf([], {
    readLeases: async () => {
      asking += 1;
      most = Math.max(most, asking);
      times += 1;
      await sleep(60);
      asking -= 1;
      return [];
    },
  });
  const { keeper } = keep(store);
  await expect.poll(() => times).toBeGreaterThan(2);
  await keeper.stop();
  expect(most).toBe(1);
  expect(asking).toBe(0);
});

test('leases are renewed while many abandoned runs are taken over', async () => {
  const taking = Promise.withResolvers<null>();
  let renewals = 0;
  const store = storeOf([run('run_1')], {
    renewLeases: async () => {
      renewals += 1;
      return [{ runId: 'run_2', interrupt: null }];
    },
    takeRun: () => taking.promise,
  });
  const { keeper } = keep(store, { leaseMs: 1, activeRuns: () => ['run_2'] });
  await expect.poll(() => renewals).toBeGreaterThan(5);
  taking.resolve(null);
  await keeper.stop();
});
