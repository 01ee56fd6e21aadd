/** Journeys through what a session does right now, before a query and after it, and through its document. */
import { type RunEvent, streamQuery } from '@service/client/stream';
import { expect, test } from 'vitest';
import { eventFaults } from '../contract.ts';
import { isEvent, readEvents } from '../wire-stream.ts';
import { example, expectShape, type Target } from './target.ts';

const url = '/api/v1/sessions/{session_id}';

export function liveJourneys(target: () => Target): void {
  test('a query is estimated, its session inspected and summed up', async () => {
    const { client, liveOnly } = target();
    const body = { prompt: 'Say hello.' };
    const { data: estimate } = await client.POST('/api/v1/query/estimate', { body });
    expectShape('QueryEstimate', estimate);
    const { data: answer } = await client.POST('/api/v1/query', { body });
    const params = { path: { session_id: answer.session_id } };
    const { data: inspection } = await client.GET(`${url}/inspect`, { params });
    expectShape('SessionInspection', inspection);
    const todos = await client.GET(`${url}/todos`, { params });
    expectShape('TodoList', todos.data);
    const children = await client.GET(`${url}/children`, { params });
    expectShape('SessionChildPage', children.data);
    const summary = await client.POST(`${url}/summarize`, { params, body: {} });
    expect(summary.response.status).toBe(202);
    expectShape('Run', summary.data);
    await liveOnly(() => {
      expect(estimate.model).toBe(answer.model);
      expect(inspection.session_id).toBe(answer.session_id);
    });
  });

  test('what waits in a session is listed, and the queue cleared while its run goes on', async () => {
    const { client, liveOnly } = target();
    const path = { session_id: example.session };
    let working: AsyncGenerator<RunEvent> | undefined;
    let waiting: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      const { data: session } = await client.POST('/api/v1/sessions', { body: {} });
      path.session_id = session.id;
      const ask = JSON.stringify({ questions: [{ id: 'q', type: 'free_text', text: 'And?' }] });
      working = streamQuery(client, { prompt: `use tool ask_user with ${ask}`, session_id: session.id });
      for await (const { event, data } of untilThen(working))
        if (event === 'runtime' && data.type === 'prompt_requested') break;
      waiting = streamQuery(client, { prompt: 'Afterwards', session_id: session.id });
      await waiting.next();
    });
    const params = { path };
    const { data: queue } = await client.GET(`${url}/queue`, { params });
    expectShape('QueuedPromptPage', queue);
    expect(queue.data).toHaveLength(1);
    expect((await client.DELETE(`${url}/queue`, { params })).response.status).toBe(204);
    await liveOnly(async () => {
      expect(queue.data[0]?.prompt).toBe('Afterwards');
      const left = await Array.fromAsync(waiting ?? []);
      expect(left.at(-1)).toMatchObject({ event: 'done', data: { status: 'interrupted' } });
      await client.POST(`${url}/interrupt`, { params });
      expect((await Array.fromAsync(working ?? [])).at(-1)?.event).toBe('done');
    });
  });

  test('a session goes out as a document and comes in again', async () => {
    const { client, liveOnly } = target();
    const { data: answer } = await client.POST('/api/v1/query', { body: { prompt: 'Say hello.' } });
    const params = { path: { session_id: answer.session_id } };
    const { data: document } = await client.GET(`${url}/export`, { params });
    expectShape('SessionExport', document);
    const { data: imported, response } = await client.POST('/api/v1/sessions/import', { body: document });
    expect(response.status).toBe(201);
    expectShape('Session', imported);
    await liveOnly(() => expect(imported.message_count).toBe(document.messages.length));
  });

  test('what happened in the workspace is told in one sequence', async () => {
    const { client, liveOnly } = target();
    await client.POST('/api/v1/query', { body: { prompt: 'Say hello.' } });
    const { data, response } = await client.GET('/api/v1/events', {
      params: { query: { follow: false, after: 0 } },
      parseAs: 'stream',
    });
    expect(response.headers.get('x-sse-version')).toBe('1');
    const events = (await readEvents(new Response(data))).filter(isEvent);
    expect(events.flatMap((event) => eventFaults('WorkspaceStreamEvent', event))).toEqual([]);
    await liveOnly(() => {
      const numbers = events.map(({ id }) => Number(id));
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
      expect(events.some(({ data }) => data.includes('"run_ended"'))).toBe(true);
    });
  });
}

/** The same generator, which a loop that is left does not close. */
function untilThen(events: AsyncGenerator<RunEvent>): AsyncIterable<RunEvent> {
  return { [Symbol.asyncIterator]: () => ({ next: () => events.next() }) };
}
