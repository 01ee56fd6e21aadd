/** Whoever calls can end the call, however long it takes: what collects garbage meanwhile makes no signal unheard. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createServiceClient, type ServiceClient } from './client.ts';
import { collectGarbage } from './garbage.ts';
import { startScriptedServer } from './scripted-server.ts';

type Answer = (response: ServerResponse) => void;
const nothing: Answer = () => undefined;
/** The beginning of an answer, and no more of it. */
function beginning(status: number): Answer {
  return (response) => void response.writeHead(status, { 'Content-Type': 'application/json' }).write('{');
}

async function readAll(body: ReadableStream<Uint8Array> | null): Promise<void> {
  for await (const _ of body ?? []);
}

function form(): FormData {
  const data = new FormData();
  data.append('file', new Blob(['some']), 'some.txt');
  return data;
}

test.each<[what: string, answer: Answer, call: (client: ServiceClient, signal: AbortSignal) => unknown]>([
  ['a question without an answer', nothing, (client, signal) => client.GET('/health', { signal })],
  [
    'something sent without an answer',
    nothing,
    (client, signal) => client.POST('/api/v1/sessions', { body: {}, signal }),
  ],
  [
    'a file sent without an answer',
    nothing,
    (client, signal) => client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: form, signal }),
  ],
  ['an answer under way', beginning(200), (client, signal) => client.GET('/health', { signal })],
  ['a refusal under way', beginning(500), (client, signal) => client.GET('/health', { signal })],
  [
    'an answer that the caller reads',
    beginning(200),
    async (client, signal) => readAll((await client.GET('/health', { parseAs: 'stream', signal })).data),
  ],
])('%s can be ended, and its connection with it', async (_, answer, call) => {
  // The last time is sent in another way than those before.
  for (const limit of [3, 0]) {
    const asked = Promise.withResolvers<ServerResponse>();
    const server = await startScriptedServer((_request, response) => {
      answer(response);
      asked.resolve(response);
    });
    onTestFinished(server.close);
    const client = createServiceClient({ baseUrl: server.url, retries: { limit } });
    const controller = new AbortController();
    const outcome = Promise.resolve(call(client, controller.signal)).then(
      () => 'it succeeded',
      (reason: unknown) => reason,
    );
    const closed = once(await asked.promise, 'close');
    await collectGarbage();
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await outcome).toBe(reason);
    await closed;
  }
});
