/** Readers that take little or nothing cost the server next to nothing, and hold a provider back where nobody keeps its answer. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { collectingWhenTold, memoryOf, metricsOf } from './server-memory.ts';

const readers = 50;
const megabyte = 1_000_000;
/** The kernel holds some megabytes of each connection, which is beyond us; here there are two, one after the other. */
const kernelsBuffers = 20 * megabyte;

let live: Live;
beforeAll(async () => {
  live = await startLive(collectingWhenTold);
});
afterAll(() => live?.stop());

test(`${readers} readers that take two kilobytes a second hold less than half a megabyte each, and others are served`, async () => {
  // Far more than the buffers of a connection hold, in pieces as large as a tool's output.
  await live.upstream.script([{ reply: { text: 'x'.repeat(40_000), repeat: 400, chunk_size: 20_000 } }]);
  const { data: answer } = await live.client.POST('/api/v1/query', { body: { prompt: 'Much' } });
  expect(answer.content[0]?.text).toHaveLength(16 * megabyte);
  const before = await memoryOf(live);
  const path = `/api/v1/runs/${answer.run_id}/events`;
  const open = await Promise.all(Array.from({ length: readers }, () => openWithoutReading('GET', path)));
  const dripping = setInterval(() => {
    for (const reader of open) reader.read(2048);
  }, 1000);
  onTestFinished(() => clearInterval(dripping));
  // Until next to nothing more is sent to any of them: the kernel's buffers take some megabytes each.
  await settled(async () => (await metricsOf(live)).gauge('process_cpu_user_seconds_total'), 0.2);
  const started = performance.now();
  expect((await live.client.GET('/health')).data).toEqual({ status: 'ok' });
  expect(performance.now() - started).toBeLessThan(30_000);
  expect((await metricsOf(live)).gauge('service_open_streams')).toBe(readers);
  expect(((await memoryOf(live)) - before) / readers).toBeLessThan(0.5 * megabyte);
  await live.upstream.script([{ reply: { text: 'Not held up.' } }]);
  const { data: other } = await live.client.POST('/api/v1/query', { body: { prompt: 'Quick' } });
  expect(other.content).toMatchObject([{ text: 'Not held up.' }]);
  expect(open.every(({ readableEnded, destroyed }) => !readableEnded && !destroyed)).toBe(true);
  for (const reader of open) reader.destroy();
});

test('a caller of /v1/messages that takes nothing holds the provider back', async () => {
  const chunkBytes = 40_000;
  await live.upstream.script([{ reply: { text: 'x'.repeat(4000), repeat: 20_000, chunk_size: chunkBytes } }]);
  const body = {
    model: 'scripted:scripted-1',
    max_tokens: 9,
    stream: true,
    messages: [{ role: 'user', content: 'x' }],
  };
  const lazy = await openWithoutReading('POST', '/v1/messages', body);
  await live.upstream.latest(({ chunks_written }) => chunks_written > 0);
  let written = -1;
  for (let now = await chunksWritten(); now > written; now = await chunksWritten()) {
    written = now;
    await sleep(1000);
  }
  // Eighty megabytes in all: most of it is still where it comes from.
  expect(written).toBeGreaterThan(0);
  expect(written * chunkBytes).toBeLessThan(kernelsBuffers);
  expect(await live.upstream.requests()).toMatchObject([{ outcome: 'open' }]);
  lazy.destroy();
  await live.upstream.latest(({ outcome }) => outcome === 'aborted');
});

async function chunksWritten(): Promise<number> {
  const [record] = await live.upstream.requests();
  return record?.chunks_written ?? 0;
}

/** Waits until a number rises by less than so much in a second. */
async function settled(read: () => Promise<number>, by: number): Promise<void> {
  let before = Number.NEGATIVE_INFINITY;
  for (let now = await read(); now - before >= by; now = await read()) {
    before = now;
    await sleep(1000);
  }
}

/** Asks, reads the headers, and leaves the body where it is. */
async function openWithoutReading(method: string, path: string, body?: object): Promise<IncomingMessage> {
  const headers = {
    Authorization: `Bearer ${live.server.operatorKey}`,
    'Content-Type': 'application/json',
  };
  const asked = request(live.server.url + path, { method, headers });
  asked.end(body && JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage]; // as Node documents the event
  response.pause();
  return response;
}
