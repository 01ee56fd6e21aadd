/** Processes that take documents in, and what happens to their work when nobody knows whether they live. */
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../log.ts';
import { watchWorkers } from './worker-watch.ts';

function watching(renew: () => Promise<boolean>) {
  let now = 0;
  const reasons: Error[] = [];
  const watch = watchWorkers(
    {
      records: { renew, workers: async () => [], bury: async () => 0 },
      owner: 'me',
      hasDied: () => false,
      lease: { leaseMs: 1000, renewMs: 5 },
      log: createLog('silent'),
      elapsedMs: () => now,
    },
    { busy: () => true, giveUp: (reason) => reasons.push(reason), freed: () => undefined },
  );
  return {
    watch,
    reasons,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('where a renewal hangs for as long as the lease is good, the work is given up', async () => {
  const { reasons, pass } = watching(() => new Promise(() => undefined));
  pass(999);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(reasons).toEqual([]);
  pass(1);
  await expect.poll(() => reasons.length).toBeGreaterThan(0);
  expect(reasons[0]).toMatchObject({ name: 'LeaseLost' });
});

test('as long as it is renewed it goes on, however long that is', async () => {
  let renewals = 0;
  const { watch, reasons, pass } = watching(async () => {
    renewals += 1;
    return true;
  });
  onTestFinished(() => watch.stop());
  for (let times = 0; times < 5; times += 1) {
    const before = renewals;
    await expect.poll(() => renewals).toBeGreaterThan(before + 1);
    pass(900);
  }
  expect(reasons).toEqual([]);
});
