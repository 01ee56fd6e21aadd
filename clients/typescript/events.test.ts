import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { createServiceClient } from './client.ts';
import { BrokenStreamError } from './errors.ts';
import { type StreamedEvent, streamEvents, type WorkspaceEventsOptions } from './events.ts';
import {
  frame,
  openStream,
  type Script,
  sendJson,
  sendProblem,
  startScriptedServer,
} from './scripted-server.ts';

const workspace = { workspace_id: 'ws_1' };
const told = (id: number) =>
  frame(id, 'workspace', { ...workspace, event: { type: 'run_queued', run_id: `run_${id}` } });
const failed = (error: string) => frame(null, 'error', { error });

async function talk(script: Script) {
  const server = await startScriptedServer(script);
  onTestFinished(server.close);
  const retries = { limit: 1, baseDelayMs: 1, maxDelayMs: 2 };
  return { server, client: createServiceClient({ baseUrl: server.url, token: 'sk-test', retries }) };
}

/** Reads until the stream ends, fails, or has given so many events. */
async function read(events: AsyncIterable<StreamedEvent>, most = Number.POSITIVE_INFINITY) {
  const seen: StreamedEvent[] = [];
  for await (const event of events) if (seen.push(event) === most) break;
  return seen;
}
const named = (events: readonly StreamedEvent[]) => events.map(({ id, event }) => `${id} ${event}`);

test('asks for what is wanted, and yields typed events, whose numbers may have gaps', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response, null);
    response.write(frame(7, 'opened', workspace) + told(9) + frame(10, 'later', 'not for us') + told(15));
  });
  const options = { workspaceId: 'ws_1', sessionId: 'ses_1', types: ['run_queued', 'run_ended'] };
  const events = await read(streamEvents(client, options), 3);
  expect(named(events)).toEqual(['7 opened', '9 workspace', '15 workspace']);
  expect(events[1]?.event === 'workspace' && events[1].data.event).toEqual({
    type: 'run_queued',
    run_id: 'run_9',
  });
  const [request] = server.received;
  expect(Object.fromEntries(new URL(`http://x${request?.url}`).searchParams)).toEqual({
    follow: 'true',
    workspace_id: 'ws_1',
    session_id: 'ses_1',
    types: 'run_queued,run_ended',
  });
  expect(request?.headers).toMatchObject({ authorization: 'Bearer sk-test' });
  expect(request?.headers).not.toHaveProperty('last-event-id');
});

test.each([
  ['a connection that is cut', ''],
  ['a server that stops', failed('draining: The server is stopping; connect again.')],
  ['a database that is away', failed('database_unavailable: The database does not answer.')],
])(
  '%s is continued behind the last event, also where nothing but the beginning was told',
  async (_, last) => {
    const { client, server } = await talk((request, response, count) => {
      openStream(response, null);
      const begun = request.headers['last-event-id'];
      if (count === 0) return void response.end(frame(7, 'opened', workspace) + last);
      if (count === 1) return void response.end(told(8) + last);
      response.write(told(Number(begun)) + told(9));
    });
    expect(named(await read(streamEvents(client), 3))).toEqual(['7 opened', '8 workspace', '9 workspace']);
    expect(server.received.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '7', '8']);
  },
);

test('is continued behind what passed without fitting, which is not delivered', async () => {
  const { client, server } = await talk((_, response, count) => {
    openStream(response, null);
    if (count === 0) response.end(frame(7, 'opened', workspace) + frame(5000, 'passed', workspace));
    else response.write(told(5001));
  });
  const events = await read(streamEvents(client, { types: ['run_queued'] }), 2);
  expect(named(events)).toEqual(['7 opened', '5001 workspace']);
  expect(server.received.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '5000']);
});

test('goes on after a number, 0 included; a replay ends with what is stored', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response, null);
    response.end(told(1) + told(2));
  });
  expect(named(await read(streamEvents(client, { after: 0, follow: false })))).toHaveLength(2);
  expect(named(await read(streamEvents(client, { after: 1, follow: false })))).toEqual(['2 workspace']);
  expect(named(await read(streamEvents(client, { follow: false })))).toHaveLength(2);
  expect(server.received.map(({ url, headers }) => [url, headers['last-event-id']])).toEqual([
    ['/api/v1/events?follow=false', '0'],
    ['/api/v1/events?follow=false', '1'],
    ['/api/v1/events?follow=false', undefined],
  ]);
});

test('an error that is no passing one is the last event', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response, null);
    response.write(told(1) + failed('credential_invalid: The credential was revoked.') + told(2));
  });
  const events = await read(streamEvents(client));
  expect(events.at(-1)).toEqual({
    id: null,
    event: 'error',
    data: { error: 'credential_invalid: The credential was revoked.' },
  });
  expect([events.length, server.received.length]).toEqual([2, 1]);
});

test.each([
  [410, 'events_expired'],
  [401, 'credential_invalid'],
])('a refusal with %i when it connects again is thrown, with where to go on', async (status, code) => {
  const { client } = await talk((_, response, count) => {
    if (count > 0) return sendProblem(response, status, code);
    openStream(response, null);
    response.end(told(1));
  });
  const error = { name: 'BrokenStreamError', lastEventId: 1, cause: { status, code } };
  await expect(read(streamEvents(client))).rejects.toMatchObject(error);
});

test('a workspace that cannot be reached any more is given up, and the error says where to go on', async () => {
  const { client, server } = await talk((_, response, count) => {
    if (count > 0) return sendProblem(response, 503, 'database_unavailable');
    openStream(response, null);
    response.end(told(4));
  });
  const options: WorkspaceEventsOptions = { reconnectLimit: 2 };
  const error = await read(streamEvents(client, options)).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(error).toMatchObject({ runId: null, lastEventId: 4 });
  expect(String(error)).toContain('The workspace was read up to event 4.');
  expect(server.received.length).toBeGreaterThan(2);
});

test('where nothing could be read, going on begins as before, and not at the first event of all', async () => {
  const { client, server } = await talk((_, response, count) => {
    openStream(response, null);
    response.end(count === 0 ? 'id: 7\nevent: opened\ndata: {\n\n' : told(8));
  });
  const error: unknown = await read(streamEvents(client)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ runId: null, lastEventId: null });
  const after = (error as BrokenStreamError).lastEventId; // as the line above says
  expect(named(await read(streamEvents(client, { after }), 1))).toEqual(['8 workspace']);
  expect(server.received.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, undefined]);
});

test('what is no stream is an error, and so is an event that is no JSON', async () => {
  const { client } = await talk((request, response) => {
    if (request.url.includes('types=a')) return sendJson(response, 200, {});
    openStream(response, null);
    response.end('id: 1\nevent: workspace\ndata: {\n\n');
  });
  await expect(read(streamEvents(client, { types: ['a'] }))).rejects.toThrow('not a stream');
  await expect(read(streamEvents(client))).rejects.toThrow('An event is not JSON.');
});

test('the signal and leaving the loop close the connection', async () => {
  const closed: Promise<unknown>[] = [];
  const { client } = await talk((_, response) => {
    closed.push(once(response, 'close'));
    openStream(response, null);
    response.write(frame(7, 'opened', workspace));
  });
  const leave = new AbortController();
  const reading = read(streamEvents(client, { signal: leave.signal }));
  await expect.poll(() => closed.length).toBe(1);
  leave.abort(new Error('enough'));
  await expect(reading).rejects.toThrow('enough');
  await read(streamEvents(client), 1);
  await Promise.all(closed);
});

test('a stream that is quiet can be left: return() closes the connection, and ends what waits for the next event', async () => {
  const closed = Promise.withResolvers<void>();
  const { client } = await talk((_, response) => {
    openStream(response, null);
    response.write(frame(7, 'opened', workspace));
    const alive = setInterval(() => response.write(': keepalive\n\n'), 10);
    response.on('close', () => {
      clearInterval(alive);
      closed.resolve();
    });
  });
  const events = streamEvents(client);
  await events.next();
  const waiting = events.next();
  expect(await events.return()).toEqual({ done: true, value: undefined });
  expect(await waiting).toEqual({ done: true, value: undefined });
  await closed.promise;
});
