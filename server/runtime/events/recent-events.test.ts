/** What was stored lately is handed over without asking the store: all of it or nothing, and never without bound. */
import { expect, test } from 'vitest';
import type { NumberedEvent } from '../transcript.ts';
import { createEventHub } from './event-hub.ts';
import { followEvents } from './event-stream.ts';
import { createRecentEvents } from './recent-events.ts';

function chunk(seq: number, text = 'x'): NumberedEvent {
  return { seq, name: 'message', data: { type: 'text_delta', message_id: 'msg_1', text } };
}

const end: NumberedEvent = { seq: 9, name: 'error', data: { error: 'internal_error: x' } };

test('a reader that keeps up is given what came behind its number', () => {
  const recent = createRecentEvents();
  recent.add('run_1', [chunk(4), chunk(5)]);
  recent.add('run_1', [chunk(6)]);
  expect(recent.after('run_1', 4)).toEqual([chunk(5), chunk(6)]);
  expect(recent.after('run_1', 3)).toHaveLength(3);
});

test('one that is behind, or has all of it, has to ask the store; so has whoever follows another run', () => {
  const recent = createRecentEvents();
  recent.add('run_1', [chunk(4), chunk(5)]);
  expect(recent.after('run_1', 2)).toBeNull();
  expect(recent.after('run_1', 5)).toBeNull();
  expect(recent.after('run_2', 3)).toBeNull();
});

test('what others have stored in between is not passed over', () => {
  const recent = createRecentEvents();
  recent.add('run_1', [chunk(4), chunk(5)]);
  recent.add('run_1', [chunk(9)]);
  expect(recent.after('run_1', 3)).toBeNull();
  expect(recent.after('run_1', 8)).toEqual([chunk(9)]);
});

test('the store alone tells how a run ended, and of a run that has left', () => {
  const recent = createRecentEvents();
  recent.add('run_1', [chunk(8)]);
  recent.add('run_1', [end]);
  expect(recent.after('run_1', 7)).toBeNull();
  recent.add('run_2', [chunk(1)]);
  recent.forget('run_2');
  expect(recent.after('run_2', 0)).toBeNull();
});

test.each([
  ['events', Array.from({ length: 100 }, (_, index) => chunk(index + 1)), 32],
  ['characters', Array.from({ length: 10 }, (_, index) => chunk(index + 1, 'x'.repeat(10_000))), 3],
])('no more %s are kept than a page of them', (_, events, kept) => {
  const recent = createRecentEvents();
  recent.add('run_1', events);
  const last = events.length;
  expect(recent.after('run_1', last - kept)).toHaveLength(kept);
  expect(recent.after('run_1', last - kept - 1)).toBeNull();
});

test.each([true, false])(
  'pages that are short because their events are long are not the last (follow: %s)',
  async (follow) => {
    const stored = [chunk(1), chunk(2), chunk(3), { ...end, seq: 4 }];
    const transcript = {
      readEvents: async (_runId: string, after: number) => stored.slice(after, after + 1),
      readOutcome: async () => null,
    };
    const hub = createEventHub();
    hub.begin('run_1');
    const options = { after: 0, follow, signal: new AbortController().signal };
    const started = performance.now();
    const seen = await Array.fromAsync(followEvents('run_1', options, transcript, hub));
    expect(seen).toEqual(stored);
    expect(performance.now() - started).toBeLessThan(5000);
  },
);

test('a reader goes from the store to what is recent and back, and misses nothing', async () => {
  const hub = createEventHub();
  const stored: NumberedEvent[] = Array.from({ length: 40 }, (_, index) => chunk(index + 1));
  const asked: number[] = [];
  const transcript = {
    readEvents: async (_runId: string, after: number, limit: number) => {
      asked.push(after);
      return stored.slice(after, after + limit);
    },
    readOutcome: async () => null,
  };
  const tell = (...events: NumberedEvent[]) => {
    stored.push(...events);
    hub.stored('run_1', events);
  };
  const seen: number[] = [];
  const { signal } = new AbortController();
  for await (const { seq } of followEvents('run_1', { after: 0, follow: true, signal }, transcript, hub)) {
    seen.push(seq);
    if (seq === 40) tell(chunk(41), chunk(42));
    if (seq === 42) tell(...Array.from({ length: 50 }, (_, index) => chunk(index + 43)));
    if (seq === 92) tell({ ...end, seq: 93 });
  }
  expect(seen).toEqual(Array.from({ length: 93 }, (_, index) => index + 1));
  // From 40 on without the store; of 50 at once the last are recent; the end is the store's to tell.
  expect(asked).toEqual([0, 32, 42, 92]);
});
