/** A client of the Messages surface that goes away ends its call, down to the provider. */
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isEvent, readFrames, type WireEvent } from '../wire-stream.ts';
import { hello, startVendor, type Vendor } from './vendor.ts';

let live: Vendor['live'];
let sdk: Vendor['sdk'];
beforeAll(async () => {
  ({ live, sdk } = await startVendor());
});
afterAll(() => live?.stop());

const inTheMiddle = {
  reply: { text: 'Half an answer', chunk_size: 2 },
  fail: { kind: 'hang', after_chunks: 4 },
};
const beforeTheFirst = { fail: { kind: 'hang' } };

test.each([
  ['waits for a whole answer', false, beforeTheFirst],
  ['waits for a whole answer that has begun', false, inTheMiddle],
  ['waits for the first piece of a stream', true, beforeTheFirst],
  ['reads a stream', true, inTheMiddle],
] as const)(
  'a client that %s and goes away ends the call of the model within five seconds',
  async (_, stream, rule) => {
    const took: number[] = [];
    // A busy machine takes its time: the best of some is what the server itself takes.
    while (took.length < 5 && !took.some((milliseconds) => milliseconds < 5000))
      took.push(await leave(stream, rule));
    expect(Math.min(...took)).toBeLessThan(5000);
  },
);

/** Leaves in the middle; the milliseconds until the call of the model had ended. */
async function leave(stream: boolean, rule: typeof inTheMiddle | typeof beforeTheFirst): Promise<number> {
  await live.upstream.script([rule]);
  const controller = new AbortController();
  // A short answer that nobody reads before its end would be asked for in one piece, which has no middle.
  const asked = { ...hello, max_tokens: 4096, stream };
  const call = leftAlone(live.post('/v1/messages', asked, controller.signal));
  await live.upstream.latest(
    ({ outcome, chunks_written }) => outcome === 'open' && chunks_written >= ('reply' in rule ? 4 : 0),
  );
  const left = Date.now();
  controller.abort();
  const record = await live.upstream.latest(({ outcome }) => outcome !== 'open');
  expect(record.outcome).toBe('aborted');
  expect(await live.upstream.requests()).toHaveLength(1);
  await call;
  return (record.ended_at ?? Number.POSITIVE_INFINITY) - left;
}

test('a client that goes away in a session leaves an interrupted run that says so', async () => {
  await live.upstream.script([inTheMiddle]);
  const { data: session } = await live.client.POST('/api/v1/sessions', { body: {} });
  const controller = new AbortController();
  const headers = { 'x-service-session-id': session.id };
  const stream = sdk.messages.stream(hello, { headers, signal: controller.signal });
  const ended = stream.done().catch((error: unknown) => error);
  await live.upstream.latest(({ chunks_written }) => chunks_written >= 4);
  controller.abort();
  expect(await ended).toBeInstanceOf(Anthropic.APIUserAbortError);
  await live.upstream.latest(({ outcome }) => outcome === 'aborted');
  const query = { session_id: session.id };
  await expect
    .poll(async () => (await live.client.GET('/api/v1/runs', { params: { query } })).data.data[0])
    .toMatchObject({ status: 'interrupted', interrupt_reason: 'client_disconnected' });
});

test('a client that waits in silence is kept alive by comments', async () => {
  await live.upstream.script([{ reply: { text: 'Late', hold_after_chunks: 0 } }]);
  const events: WireEvent[] = [];
  let comments = 0;
  for await (const frame of readFrames(await live.post('/v1/messages', { ...hello, stream: true }))) {
    if (isEvent(frame)) events.push(frame);
    // The model speaks only once so many have come.
    else if (++comments === 3) await live.upstream.releaseHeld();
  }
  expect(comments).toBeGreaterThanOrEqual(3);
  expect(events.at(-1)?.event).toBe('message_stop');
});

/** Reads what comes and takes the abort for an end. */
async function leftAlone(call: Promise<Response>): Promise<void> {
  await call.then((response) => response.text()).catch((error: unknown) => error);
}
