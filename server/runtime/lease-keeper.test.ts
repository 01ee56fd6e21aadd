/** The keeper of leases, where the store does not do what it should. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { startLeaseKeeper } from './lease-keeper.ts';
import { createMemoryTranscript } from './memory-transcript.ts';
import type { Transcript } from './transcript.ts';

test('an abandoned run that cannot be ended keeps no other from it, and is tried again', async () => {
  const transcript = createMemoryTranscript();
  const runs = ['run_1', 'run_2', 'run_3'];
  for (const id of runs) await transcript.beginRun(abandoned(id));
  const broken = new Set(['run_1']);
  const ended: string[] = [];
  const keeper = startKeeper(
    {
      ...transcript,
      // One process alone abandons nothing, so that the transcript in memory knows of none.
      takeAbandonedRuns: async () =>
        runs
          .filter((runId) => !ended.includes(runId))
          .map((runId) => ({ runId, sessionId: `ses_of_${runId}`, model: 'demo:demo-1', lastEventId: 0 })),
      endRun: async (end) => {
        if (broken.has(end.runId)) throw new Error('the store cannot write this one');
        await transcript.endRun(end);
      },
    },
    (runId) => ended.push(runId),
  );
  await expect.poll(() => ended).toEqual(['run_2', 'run_3']);
  broken.clear();
  await expect.poll(() => ended).toEqual(['run_2', 'run_3', 'run_1']);
  await keeper.stop();
});

test('a store that is slow is asked by one at a time', async () => {
  const transcript = createMemoryTranscript();
  let asking = 0;
  let most = 0;
  let times = 0;
  const keeper = startKeeper({
    ...transcript,
    takeAbandonedRuns: async () => {
      asking += 1;
      most = Math.max(most, asking);
      times += 1;
      await sleep(60);
      asking -= 1;
      return [];
    },
  });
  await expect.poll(() => times).toBeGreaterThan(2);
  await keeper.stop();
  expect(most).toBe(1);
  expect(asking).toBe(0);
});

test('leases are renewed while many abandoned runs are being ended', async () => {
  const transcript = createMemoryTranscript();
  await transcript.beginRun(abandoned('run_1'));
  const ending = Promise.withResolvers<void>();
  let taken = 0;
  let renewals = 0;
  const keeper = startKeeper(
    {
      ...transcript,
      renewLeases: async () => {
        renewals += 1;
        return [{ runId: 'run_2', interrupt: null }];
      },
      takeAbandonedRuns: async () => {
        taken += 1;
        return [{ runId: 'run_1', sessionId: 'ses_of_run_1', model: 'demo:demo-1', lastEventId: 0 }];
      },
      endRun: () => ending.promise,
    },
    undefined,
    ['run_2'],
  );
  await expect.poll(() => taken).toBe(1);
  await expect.poll(() => renewals).toBeGreaterThan(3);
  expect(taken).toBe(1);
  ending.resolve();
  await keeper.stop();
});

function startKeeper(
  transcript: Transcript,
  ended: (runId: string) => void = () => undefined,
  active: readonly string[] = [],
) {
  return startLeaseKeeper({
    leaseMs: 100,
    renewMs: 20,
    owner: 'this process',
    transcript,
    clock: systemClock,
    log: createLog('silent'),
    activeRuns: () => active,
    interrupt: () => undefined,
    ended,
  });
}

/** A run whose process died a minute ago. */
function abandoned(id: string): Parameters<Transcript['beginRun']>[0] {
  return {
    id,
    sessionId: `ses_of_${id}`,
    userId: 'usr_1',
    trigger: 'api',
    agentSlug: 'coder',
    model: 'demo:demo-1',
    permissionMode: 'ask',
    onUnanswered: 'wait',
    messages: [],
    lease: { owner: 'a dead process', expiresAt: new Date(Date.now() - 60_000) },
    events: [],
  };
}
