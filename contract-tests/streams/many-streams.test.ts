/** Many streaming runs at once: each is whole or refused before it begins, and the server gives back what it took. */
import { readdirSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { readEvents, sha256, textOf } from '../wire-stream.ts';
import { collectingWhenTold, memoryOf } from './server-memory.ts';

const allowed = 50;
const refused = 5;

test(`${allowed} streaming runs at once lose no event, and those beyond the limit are told when to come again`, async () => {
  const live = await startLive({ ...collectingWhenTold, SERVICE_STREAMS_PER_USER: String(allowed) });
  onTestFinished(() => live.stop());
  await live.upstream.script([
    {
      when: { last_user: '^many (?<name>\\S+)$' },
      reply: { text: 'I am {{match.name}}. ', repeat: 40, chunk_delay_ms: 5, hold_after_chunks: 3 },
    },
  ]);
  const sessions = await Promise.all(Array.from({ length: allowed + refused }, () => newSession(live)));
  const descriptors = openDescriptors(live);
  const memory = await memoryOf(live);

  // Held in the middle, so that all are open at once.
  const open = await Promise.all(sessions.slice(0, allowed).map((id, index) => ask(live, id, index)));
  const reads = open.map(readEvents);
  await live.upstream.latest(({ chunks_written }) => chunks_written === 3);
  for (const id of sessions.slice(allowed)) {
    const answer = await ask(live, id, 0);
    expect(answer.status).toBe(429);
    expect(Number(answer.headers.get('Retry-After'))).toBeGreaterThan(0);
    expect(await answer.json()).toMatchObject({ code: 'too_many_streams' });
  }
  expect((await live.client.GET('/health')).data).toEqual({ status: 'ok' });
  const all = Promise.all(reads);
  await released(live, all);

  for (const [index, events] of (await all).entries()) {
    expect(events.map(({ id }) => Number(id))).toEqual(events.map((_, place) => place + 1));
    expect(events.flatMap(({ event }) => (event === 'done' || event === 'error' ? [event] : []))).toEqual([
      'done',
    ]);
    expect(sha256(textOf(events))).toBe(sha256(`I am s${index}. `.repeat(40)));
  }
  await expect.poll(() => openDescriptors(live)).toBeLessThanOrEqual(descriptors + 20);
  await expect.poll(() => memoryOf(live)).toBeLessThanOrEqual(memory * 1.5);
});

async function newSession(live: Live): Promise<string> {
  // With a title of its own no model is asked for one.
  const { data } = await live.client.POST('/api/v1/sessions', { body: { title: 'One of many' } });
  return data.id;
}

function ask(live: Live, sessionId: string, index: number): Promise<Response> {
  return live.post('/api/v1/query/stream', { session_id: sessionId, prompt: `many s${index}` });
}

/** An answer may come to its hold after a release: released until all have ended. */
async function released(live: Live, all: Promise<unknown>): Promise<void> {
  const releasing = setInterval(() => void live.upstream.release(), 100);
  await all.finally(() => clearInterval(releasing));
}

function openDescriptors({ server }: Live): number {
  return readdirSync(`/proc/${server.pid}/fd`).length;
}
