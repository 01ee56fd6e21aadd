/** What a remote server may send: events without number, but none that is too large to be held. */
import { expect, test } from 'vitest';
import { boundedFetch } from './bounded-fetch.ts';

const megabyte = 1024 ** 2;

/** The bytes that arrive of an answer that comes in these pieces. */
async function receive(pieces: readonly string[]): Promise<number> {
  const answer = boundedFetch(async () => {
    const body = ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  });
  const response = await answer('http://127.0.0.1/');
  return (await response.arrayBuffer()).byteLength;
}

const event = `data: ${'x'.repeat(megabyte)}`;

test.each([
  ['whole', [`${event}\n\n`]],
  ['with its empty line in a piece of its own', [`${event}\n`, '\n']],
  ['cut within its empty line', [`${event}\r\n\r`, '\n']],
  ['letter by letter at its end', [event, '\r', '\n', '\r', '\n']],
])('events that come %s may be any number', async (_, pieces) => {
  const all = Array.from({ length: 12 }, () => pieces).flat();
  expect(await receive(all)).toBe(all.join('').length);
});

test('one event that is too large is not held', async () => {
  const all = [...Array.from({ length: 12 }, () => `${event}\n`), '\n'];
  await expect(receive(all)).rejects.toThrow('more than can be held');
});

test('one event that holds millions of values is not held, and any number of events with some are', async () => {
  const values = (count: number) => `data: [${'{},'.repeat(count)}{}]\n\n`;
  const many = Array.from({ length: 12 }, () => values(100_000));
  expect(await receive(many)).toBe(many.join('').length);
  await expect(receive([values(600_000)])).rejects.toThrow('more than can be held');
  const begun = values(300_000).trimEnd();
  await expect(receive([begun, begun, '\n\n'])).rejects.toThrow('more than can be held');
});
