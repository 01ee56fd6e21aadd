/** A stream is only a window: runs go on without readers, and readers come back without losing or doubling anything. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Run } from '@service/client/api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { isEvent, readEvents, readFrames, sha256, textOf, type WireEvent } from '../wire-stream.ts';

let live: Live;
beforeAll(async () => {
  live = await startLive({ SERVICE_KEEPALIVE_SECONDS: '0.1' });
});
afterAll(() => live?.stop());

const words = 'one two three four five six seven eight nine ten';
const slowly = { reply: { text: words, chunk_size: 4, chunk_delay_ms: 40 } };

/** Reads so many events, then drops the connection. */
async function readAndLeave(count: number, body: object): Promise<{ runId: string; seen: WireEvent[] }> {
  const controller = new AbortController();
  const response = await live.post('/api/v1/query/stream', body, controller.signal);
  const seen: WireEvent[] = [];
  if (count > 0)
    for await (const frame of readFrames(response)) {
      if (isEvent(frame)) seen.push(frame);
      if (seen.length === count) break;
    }
  controller.abort();
  return { runId: response.headers.get('X-Run-Id') ?? '', seen };
}

/** The events of a stream that was attached to: before them comes how the run stands, which has no number. */
async function readResumed(response: Response): Promise<WireEvent[]> {
  const [snapshot, ...events] = await readEvents(response);
  expect(snapshot).toMatchObject({ event: 'runtime', data: expect.stringContaining('"snapshot_given"') });
  expect(snapshot).not.toHaveProperty('id');
  return events;
}

async function endOf(runId: string): Promise<Run> {
  for (;;) {
    const { data } = await live.client.GET('/api/v1/runs/{run_id}', { params: { path: { run_id: runId } } });
    if (data.ended_at !== null) return data;
    await sleep(50);
  }
}

test.each([1, 3, 6])('a reader that drops after %i events gets each of the others once', async (count) => {
  await live.upstream.script([slowly]);
  const { runId, seen } = await readAndLeave(count, { prompt: 'Count' });
  const rest = await readResumed(await live.events(runId, seen.at(-1)?.id));
  const all = [...seen, ...rest];
  expect(all.map(({ id }) => id)).toEqual(all.map((_, index) => String(index + 1)));
  expect(all.at(-1)?.event).toBe('done');
  expect(sha256(textOf(all))).toBe(sha256(words));
  expect(await readResumed(await live.events(runId))).toEqual(all);
});

test('a reader that drops again and again still gets each event once, in order', async () => {
  await live.upstream.script([slowly]);
  const { runId, seen } = await readAndLeave(1, { prompt: 'Count' });
  while (seen.at(-1)?.event !== 'done') {
    for await (const frame of readFrames(await live.events(runId, seen.at(-1)?.id))) {
      if (!isEvent(frame) || frame.id === undefined) continue;
      seen.push(frame);
      break;
    }
  }
  expect(seen).toEqual(await readResumed(await live.events(runId)));
});

test('two readers of one run see the same', async () => {
  await live.upstream.script([slowly]);
  const response = await live.post('/api/v1/query/stream', { prompt: 'Count' });
  const runId = response.headers.get('X-Run-Id') ?? '';
  const [one, other] = await Promise.all([readEvents(response), live.events(runId).then(readResumed)]);
  expect(other).toEqual(one);
});

test('after the last event there is nothing, and the stream closes', async () => {
  await live.upstream.script([{ reply: { text: 'Short' } }]);
  const response = await live.post('/api/v1/query/stream', { prompt: 'Hello' });
  const events = await readEvents(response);
  const runId = response.headers.get('X-Run-Id') ?? '';
  expect(await readResumed(await live.events(runId, events.at(-1)?.id))).toEqual([]);
});

test('a run goes on to its end when nobody reads it any more', async () => {
  await live.upstream.script([slowly]);
  const { runId } = await readAndLeave(0, { prompt: 'Count' });
  const run = await endOf(runId);
  expect(run).toMatchObject({ status: 'completed', stop_reason: 'end_turn' });
  const params = { path: { session_id: run.session_id } };
  const { data } = await live.client.GET('/api/v1/sessions/{session_id}/messages', { params });
  expect(data.data.at(-1)?.parts).toEqual([{ type: 'text', text: words }]);
  expect(await live.upstream.requests()).toMatchObject([{ outcome: 'finished' }]);
});

test('a reader that takes nothing hinders nobody, and its run ends all the same', async () => {
  // Far more than the buffers of a connection hold.
  const repeat = 2000;
  await live.upstream.script([
    { when: { last_user: 'much' }, reply: { text: 'x'.repeat(4000), repeat, chunk_size: 40_000 } },
    { reply: { text: 'Quick' } },
  ]);
  const lazy = await openWithoutReading({ prompt: 'much' });
  const started = performance.now();
  const { data: answer } = await live.client.POST('/api/v1/query', { body: { prompt: 'Hello' } });
  expect(answer.content).toEqual([{ type: 'text', text: 'Quick' }]);
  expect((await live.client.GET('/health')).data).toEqual({ status: 'ok' });
  expect(performance.now() - started).toBeLessThan(60_000);
  const run = await endOf(String(lazy.headers['x-run-id']));
  expect(run.status).toBe('completed');
  lazy.destroy();
  expect(live.server.running()).toBe(true);
});

/** Asks, reads the headers, and leaves the body where it is. */
async function openWithoutReading(body: object): Promise<IncomingMessage> {
  const headers = {
    Authorization: `Bearer ${live.server.operatorKey}`,
    'Content-Type': 'application/json',
  };
  const asked = request(`${live.server.url}/api/v1/query/stream`, { method: 'POST', headers });
  asked.end(JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage]; // as Node documents the event
  response.pause();
  return response;
}
