/** The numbers of a run's events: in order, without a gap, whatever fails. */
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { NumberedEvent, RunEvent } from '../transcript.ts';
import { createEventLog } from './event-log.ts';

function text(words: string): RunEvent {
  return { name: 'message', data: { type: 'text_delta', message_id: 'msg_1', text: words } };
}

/** A store that fails as often as it is told to. */
function failingStore() {
  const stored: NumberedEvent[] = [];
  const state = { failures: 0, writes: 0 };
  const append = async (_runId: string, events: readonly NumberedEvent[]) => {
    await new Promise((resolve) => setTimeout(resolve, 1));
    state.writes += 1;
    if (state.failures > 0) {
      state.failures -= 1;
      throw new Error('the store is away');
    }
    stored.push(...events);
  };
  return { stored, state, append };
}

function logOver({ append }: ReturnType<typeof failingStore>, last = 0) {
  const seen: number[] = [];
  // The other members are not called by the log.
  const transcript = { appendEvents: append } as unknown as Parameters<typeof createEventLog>[1];
  return {
    seen,
    log: createEventLog('run_1', transcript, last, (events) => seen.push(...events.map(({ seq }) => seq))),
  };
}

test('what is pushed during a write goes out together with the next', async () => {
  const store = failingStore();
  const { log, seen } = logOver(store, 4);
  for (let count = 0; count < 50; count += 1) await log.push(text(`${count}`));
  await log.commit([text('end')], (events) => store.append('run_1', events));
  expect(store.stored.map(({ seq }) => seq)).toEqual(Array.from({ length: 51 }, (_, index) => index + 5));
  expect(store.state.writes).toBeLessThan(10);
  expect(seen.at(-1)).toBe(55);
});

test('what waits is stored in the transaction of the change that follows it', async () => {
  const store = failingStore();
  const { log } = logOver(store);
  await log.push(text('one'));
  await log.commit([text('two')], (events) => store.append('run_1', events));
  expect(store.stored.map(({ seq }) => seq)).toEqual([1, 2]);
  expect(store.state.writes).toBe(1);
});

test('but before the end, whose number may be another', async () => {
  const store = failingStore();
  const { log } = logOver(store);
  await log.push(text('one'));
  const ending: (readonly NumberedEvent[])[] = [];
  await log.end([text('end')], async (events) => void ending.push(events));
  expect(store.stored.map(({ seq }) => seq)).toEqual([1]);
  expect(ending).toMatchObject([[{ seq: 2 }]]);
});

test('a failed write leaves no gap and loses nothing', async () => {
  const store = failingStore();
  const { log } = logOver(store);
  store.state.failures = 1;
  await log.push(text('one'));
  await new Promise((resolve) => setTimeout(resolve, 20));
  await log.push(text('two'));
  await log.commit([], (events) => store.append('run_1', events));
  expect(store.stored.map(({ seq }) => seq)).toEqual([1, 2]);
});

test('a failed commit takes no number, so that the one that tells of it can', async () => {
  const store = failingStore();
  const { log } = logOver(store);
  store.state.failures = 1;
  await expect(log.commit([text('lost')], (events) => store.append('run_1', events))).rejects.toThrow('away');
  await log.commit([text('error')], (events) => store.append('run_1', events));
  expect(store.stored).toMatchObject([{ seq: 1, data: { text: 'error' } }]);
});

test('a reader is told of nothing that is not stored', async () => {
  const store = failingStore();
  const { log, seen } = logOver(store);
  await log.push(text('one'));
  expect(seen).toEqual([]);
  await log.commit([], (events) => store.append('run_1', events));
  expect(seen.at(-1)).toBe(1);
});

test('a write that is under way when the log is closed is told to nobody: they look at the store', async () => {
  const store = failingStore();
  const { log, seen } = logOver(store);
  const writing = log.commit([text('one')], (events) => store.append('run_1', events));
  await setImmediate();
  log.close();
  await writing;
  expect(store.stored).toHaveLength(1);
  expect(seen).toEqual([]);
});

test('a log that is closed stores nothing more: the run may go on in another', async () => {
  const store = failingStore();
  const { log } = logOver(store);
  await log.commit([text('one')], (events) => store.append('run_1', events));
  log.close();
  await log.push(text('late'));
  const late = { name: 'LeaseLost' };
  await expect(log.commit([text('late')], (events) => store.append('run_1', events))).rejects.toMatchObject(
    late,
  );
  await expect(log.end([text('late')], (events) => store.append('run_1', events))).rejects.toMatchObject(
    late,
  );
  expect(store.stored).toMatchObject([{ seq: 1, data: { text: 'one' } }]);
});
