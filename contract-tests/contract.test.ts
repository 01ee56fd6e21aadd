/** The checks that other tests lean on must be able to fail: by schema, by the data of an event, and on the wire. */
import { expect, test } from 'vitest';
import { eventFaults, faults, operations } from './contract.ts';
import { readEvents } from './wire-stream.ts';

test('a value that breaks its schema is told where', () => {
  expect(faults('Health', { status: 'ok' })).toEqual([]);
  expect(faults('Health', { status: 'ill', extra: 1 })).toHaveLength(2);
  expect(() => faults('NoSuchSchema', {})).toThrow('no schema NoSuchSchema');
});

test('the data of an event is held to the schema of its name, not only its frame', () => {
  const notice = { type: 'notice_given', message: 'Hello' };
  const event = { id: '1', event: 'runtime', data: JSON.stringify(notice) };
  expect(eventFaults('StreamEvent', event)).toEqual([]);
  expect(eventFaults('StreamEvent', { ...event, id: 'one' })).not.toEqual([]);
  expect(eventFaults('StreamEvent', { ...event, data: JSON.stringify({ ...notice, extra: 1 }) })).not.toEqual(
    [],
  );
  expect(eventFaults('StreamEvent', { ...event, event: 'message' })).not.toEqual([]);
  expect(eventFaults('StreamEvent', { ...event, event: 'unknown' })).toEqual([
    'StreamEvent has no event unknown',
  ]);
});

test('every operation has a success', () => {
  expect(operations.length).toBeGreaterThan(30);
  expect(operations.filter(({ successStatuses }) => successStatuses.length === 0)).toEqual([]);
});

test.each([
  ['a raw line break in the data', 'data: a\nb\n\n'],
  ['two data lines', 'data: a\ndata: b\n\n'],
  ['an event without data', 'event: done\n\n'],
  ['a cut frame', 'data: a\n\ndata: b'],
  ['bytes that are no text', new Uint8Array([0x64, 0xff, 0x0a, 0x0a])],
])('%s is no stream', async (_, bytes) => {
  await expect(readEvents(new Response(bytes))).rejects.toThrow();
});

test('events are read as they stand', async () => {
  const events = await readEvents(new Response(': keepalive\n\nid: 1\ndata: a\n\nevent: done\ndata: b\n\n'));
  expect(events).toEqual([
    { id: '1', event: 'message', data: 'a' },
    { event: 'done', data: 'b' },
  ]);
});
