/** Journeys of a run: it is watched, watched again from the middle, found in lists, and stopped. */
import { type RunEvent, streamQuery, streamRunEvents } from '@service/client/stream';
import { expect, test } from 'vitest';
import { eventFaults } from '../contract.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/runs/{run_id}';

export function runJourneys(target: () => Target): void {
  test('a query is streamed in numbered events, and ends in done', async () => {
    const { client, liveOnly } = target();
    const events = await Array.fromAsync(streamQuery(client, { prompt: 'Say hello.' }));
    for (const { event, data } of events)
      expect(eventFaults('StreamEvent', { event, data: JSON.stringify(data) })).toEqual([]);
    expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => index + 1));
    expect(events.filter(({ event }) => event === 'done' || event === 'error')).toHaveLength(1);
    const done = events.at(-1);
    expect(done).toMatchObject({ event: 'done', data: { status: 'completed', stop_reason: 'end_turn' } });
    await liveOnly(() => {
      expect(textOf(events)).toBe('You said: Say hello.');
      expect(done).toMatchObject({ data: { content: [{ type: 'text', text: 'You said: Say hello.' }] } });
    });
  });

  test('a stream that was left is continued after the last event that was seen', async () => {
    const { client, liveOnly } = target();
    const seen: RunEvent[] = [];
    const body = { prompt: 'think about the weather' };
    for await (const event of streamQuery(client, body)) {
      seen.push(event);
      if (seen.length === 2) break;
    }
    const runId = await latestRun(target());
    for await (const event of streamRunEvents(client, runId, { after: 2 }))
      if (event.id !== null) seen.push(event);
    expect(seen.map(({ id }) => id)).toEqual(seen.map((_, index) => index + 1));
    expect(seen.at(-1)?.event).toBe('done');
    await liveOnly(async () => {
      const replayed = await Array.fromAsync(streamRunEvents(client, runId, { follow: false }));
      expect(replayed).toEqual(seen);
    });
    const params = { path: { run_id: runId }, header: { 'Last-Event-ID': '99999' } };
    const beyond = client.GET(`${url}/events`, { params, parseAs: 'text', ...preferring(400) });
    expect(await refusal(beyond)).toMatchObject({ status: 400, code: 'invalid_request' });
  });

  test('a query that is asked again with its key gives the stream of the same run', async () => {
    const { client, liveOnly } = target();
    const options = { idempotencyKey: crypto.randomUUID() };
    const ask = () => Array.fromAsync(streamQuery(client, { prompt: 'Say hello.' }, options));
    const [first, second] = [await ask(), await ask()];
    expect(first.at(-1)?.event).toBe('done');
    await liveOnly(() => expect(second).toEqual(first));
  });

  test('runs are listed and read', async () => {
    const { client, liveOnly } = target();
    const { data: answer } = await client.POST('/api/v1/query', { body: { prompt: 'Hello' } });
    const query = { session_id: answer.session_id };
    const { data: page } = await client.GET('/api/v1/runs', { params: { query } });
    expectShape('RunPage', page);
    expect(page.data).toHaveLength(1);
    const { data: run } = await client.GET(url, { params: { path: { run_id: answer.run_id } } });
    expectShape('Run', run);
    expect(run).toMatchObject({ status: 'completed', trigger: 'api', error: null });
    await liveOnly(() => expect(page.data).toEqual([run]));
  });

  test('a run is interrupted, and what it had is kept', async () => {
    const { client, liveOnly } = target();
    const path = { run_id: example.run };
    let rest: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      rest = await waitingRun(client);
      path.run_id = await latestRun(target());
    });
    const interrupted = await client.POST(`${url}/interrupt`, { params: { path } });
    expect(interrupted.response.status).toBe(202);
    expectShape('Run', interrupted.data);
    await liveOnly(async () => {
      const done = (await Array.fromAsync(rest ?? [])).at(-1);
      expect(done).toMatchObject({
        event: 'done',
        data: { status: 'interrupted', interrupt_reason: 'requested' },
      });
    });
    const again = await refusal(client.POST(`${url}/interrupt`, { params: { path }, ...preferring(409) }));
    expect(again).toMatchObject({ status: 409, code: 'run_ended' });
  });

  test('a session is interrupted with all that waits in it, and cannot be deleted before', async () => {
    const { client, liveOnly } = target();
    const path = { session_id: example.session };
    let rest: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      const { data: session } = await client.POST('/api/v1/sessions', { body: {} });
      path.session_id = session.id;
      rest = await waitingRun(client, session.id);
    });
    const deletion = client.DELETE('/api/v1/sessions/{session_id}', { params: { path }, ...preferring(409) });
    expect(await refusal(deletion)).toMatchObject({ status: 409, code: 'session_busy' });
    const interrupt = '/api/v1/sessions/{session_id}/interrupt';
    const { data: runs, response } = await client.POST(interrupt, { params: { path } });
    expect(response.status).toBe(202);
    expectShape('RunPage', runs);
    await liveOnly(async () => {
      expect((await Array.fromAsync(rest ?? [])).at(-1)).toMatchObject({ data: { status: 'interrupted' } });
    });
    const again = await refusal(client.POST(interrupt, { params: { path }, ...preferring(409) }));
    expect(again).toMatchObject({ status: 409, code: 'run_ended' });
  });
}

/** A run that waits for an answer; what it yields from here on is left in the generator. */
async function waitingRun(client: Target['client'], sessionId?: string): Promise<AsyncGenerator<RunEvent>> {
  const questions = [{ id: 'q', type: 'free_text', text: 'And?' }];
  const prompt = `use tool ask_user with ${JSON.stringify({ questions })}`;
  const events = streamQuery(client, { prompt, ...(sessionId && { session_id: sessionId }) });
  for (let next = await events.next(); !next.done; next = await events.next()) {
    const { event, data } = next.value;
    if (event === 'runtime' && data.type === 'prompt_requested') return events;
  }
  throw new Error('The run ended without asking');
}

async function latestRun({ client }: Target): Promise<string> {
  const { data } = await client.GET('/api/v1/runs', { params: { query: { limit: 1 } } });
  return data.data[0]?.id ?? '';
}

function textOf(events: readonly RunEvent[]): string {
  return events
    .map(({ event, data }) => (event === 'message' && data.type === 'text_delta' ? data.text : ''))
    .join('');
}
