/** The hub that wakes waiters: nothing is missed between look and wait, and nothing is kept of who no longer waits. */
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import type { NumberedEvent } from '../transcript.ts';
import { createEventHub } from './event-hub.ts';
import { followEvents } from './event-stream.ts';

const words: NumberedEvent = {
  seq: 1,
  name: 'message',
  data: { type: 'text_delta', message_id: 'msg_1', text: 'Hi' },
};
const error: NumberedEvent = { seq: 1, name: 'error', data: { error: 'internal_error: x' } };
const readOutcome = async () => null;

test('what happens between look and wait wakes at once', async () => {
  const hub = createEventHub();
  const ticket = hub.ticket('run_1');
  hub.notify('run_1');
  const started = performance.now();
  await ticket.wait(new AbortController().signal, 10_000);
  expect(performance.now() - started).toBeLessThan(5000);
});

test('a reader of a run that has ended leaves nothing behind', async () => {
  const hub = createEventHub();
  const signal = new AbortController().signal;
  for (const options of [
    { after: 0, follow: true, signal },
    { after: 1, follow: false, signal },
  ]) {
    const transcript = { readEvents: async () => (options.after === 0 ? [error] : []), readOutcome };
    for await (const event of followEvents('run_1', options, transcript, hub)) expect(event).toBe(error);
  }
  expect(hub.waiting()).toBe(0);
});

test('a reader that leaves in the middle leaves nothing behind', async () => {
  const hub = createEventHub();
  const options = { after: 0, follow: true, signal: new AbortController().signal };
  const transcript = { readEvents: async () => [words], readOutcome };
  for await (const _event of followEvents('run_1', options, transcript, hub)) break;
  expect(hub.waiting()).toBe(0);
});

test('a reader of a run that is at work here does not ask the store again and again meanwhile', async () => {
  const hub = createEventHub();
  hub.begin('run_1');
  let asked = 0;
  const readEvents = async () => {
    asked += 1;
    return asked === 1 ? [words] : [];
  };
  const stop = new AbortController();
  const options = { after: 0, follow: true, signal: stop.signal };
  const reading = Array.fromAsync(followEvents('run_1', options, { readEvents, readOutcome }, hub));
  setTimeout(() => stop.abort(), 1300);
  expect(await reading).toEqual([words]);
  // The page, and once to see that there are no more; a run elsewhere would have been asked for twice more.
  expect(asked).toBe(2);
});

test('but once the run has left, it does', async () => {
  const hub = createEventHub();
  hub.begin('run_1');
  hub.forget('run_1');
  let asked = 0;
  const readEvents = async () => {
    asked += 1;
    return asked < 3 ? [] : [error];
  };
  const options = { after: 0, follow: true, signal: new AbortController().signal };
  expect(await Array.fromAsync(followEvents('run_1', options, { readEvents, readOutcome }, hub))).toEqual([
    error,
  ]);
});

/** One whose readers look again at once. */
const hurried = () => ({ ...createEventHub(), silenceMs: () => 1 });

test('a reader of a run that is deleted is told so', async () => {
  const options = { after: 7, follow: true, signal: new AbortController().signal };
  const transcript = { readEvents: async () => [], readOutcome: async () => 'deleted' as const };
  expect(await Array.fromAsync(followEvents('run_1', options, transcript, hurried()))).toEqual([
    { seq: 8, name: 'error', data: { error: expect.stringMatching(/^not_found: /) } },
  ]);
});

const ended = async () => ({ status: 'completed', stopReason: 'end_turn', error: null }) as const;

test('a reader of a run that has ended, of which no events are kept, is told so and waits no more', async () => {
  const options = { after: 7, follow: true, signal: AbortSignal.timeout(100_000) };
  const transcript = { readEvents: async () => [], readOutcome: ended };
  expect(await Array.fromAsync(followEvents('run_1', options, transcript, hurried()))).toEqual([
    { seq: 8, name: 'error', data: { error: expect.stringMatching(/^events_expired: /) } },
  ]);
});

test('what came just before the end of a silent run was seen is still given', async () => {
  const looks: NumberedEvent[][] = Array.from({ length: 10 }, () => []);
  const transcript = {
    readEvents: async () => looks.shift() ?? [words, { ...error, seq: 2 }],
    readOutcome: ended,
  };
  const options = { after: 0, follow: true, signal: AbortSignal.timeout(100_000) };
  expect(await Array.fromAsync(followEvents('run_1', options, transcript, hurried()))).toEqual([
    words,
    { ...error, seq: 2 },
  ]);
});

test('whether a silent run goes on is seldom asked, and never while it tells something', async () => {
  const looks: NumberedEvent[][] = [...Array.from({ length: 29 }, () => []), [words]];
  const busy = Array.from({ length: 9 }, (_, index) => [[{ ...words, seq: index + 2 }], []]).flat();
  const all = [...looks, ...busy, [{ ...error, seq: 99 }]];
  let asked = 0;
  const transcript = {
    readEvents: async () => all.shift() ?? [],
    readOutcome: async () => {
      asked += 1;
      return null;
    },
  };
  const options = { after: 0, follow: true, signal: new AbortController().signal };
  expect(await Array.fromAsync(followEvents('run_1', options, transcript, hurried()))).toHaveLength(11);
  expect(asked).toBe(2);
});

test('whoever waits again and again does not pile up listeners', async () => {
  const hub = createEventHub();
  const { signal } = new AbortController();
  for (let times = 0; times < 3; times += 1) {
    const ticket = hub.ticket('run_1');
    setTimeout(() => hub.notify('run_1'), 5);
    await ticket.wait(signal);
    ticket.drop();
  }
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});
