import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createServiceClient, type ServiceClient } from './client.ts';
import { BrokenStreamError } from './errors.ts';
import {
  frame,
  openStream,
  type Script,
  type ScriptedServer,
  sendJson,
  sendProblem,
  startScriptedServer,
} from './scripted-server.ts';
import { type RunEvent, type StreamOptions, streamQuery, streamRunEvents } from './stream.ts';

const text = (words: string) => ({ type: 'text_delta', message_id: 'msg_1', text: words });
const started = {
  type: 'run_started',
  run_id: 'run_1',
  session_id: 'ses_1',
  model: 'demo:demo-1',
  agent_slug: 'coder',
};
const result = { id: 'msg_1', run_id: 'run_1', status: 'completed' };

/** The run of most tests: events 1 to 4. */
const whole = [
  frame(1, 'runtime', started),
  frame(2, null, text('Hel')),
  frame(3, null, text('lo')),
  frame(4, 'done', result),
];
const names = ['1 runtime', '2 message', '3 message', '4 done'];
const query = { prompt: 'Say hello.' };

async function talk(
  script: Script,
  maxDelayMs = 2,
): Promise<{ client: ServiceClient; server: ScriptedServer }> {
  const server = await startScriptedServer(script);
  onTestFinished(server.close);
  const retries = { limit: 1, baseDelayMs: 1, maxDelayMs };
  return { server, client: createServiceClient({ baseUrl: server.url, token: 'sk-test', retries }) };
}

function named(events: readonly RunEvent[]): string[] {
  return events.map(({ id, event }) => `${id} ${event}`);
}

/** Sends pieces of a stream, each of them by itself, and cuts the connection. */
async function sendAndCut(response: ServerResponse, pieces: readonly (string | Buffer)[]): Promise<void> {
  openStream(response);
  for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
  await nextTurn();
  response.destroy();
}

/** What was read before the stream failed, and how it failed. */
async function readUntilFailure(
  events: AsyncIterable<RunEvent>,
): Promise<{ read: string[]; error: unknown }> {
  const read: RunEvent[] = [];
  try {
    for await (const event of events) read.push(event);
  } catch (error) {
    return { read: named(read), error };
  }
  throw new Error('The stream did not fail.');
}

test('a query yields its typed events up to done, and sends the query once', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response);
    response.end(whole.join(''));
  });
  const events = await Array.fromAsync(streamQuery(client, query));
  expect(named(events)).toEqual(names);
  const written = events.map((event) =>
    event.event === 'message' && event.data.type === 'text_delta' ? event.data.text : '',
  );
  expect(written.join('')).toBe('Hello');
  expect(events.at(-1)?.data).toEqual(result);
  expect(server.received).toHaveLength(1);
  expect(server.received[0]).toMatchObject({
    method: 'POST',
    url: '/api/v1/query/stream',
    body: '{"prompt":"Say hello."}',
  });
});

test.each([
  ['is cut', (response: ServerResponse) => response.destroy()],
  ['ends too early', (response: ServerResponse) => response.end()],
  [
    'is cut within an event',
    (response: ServerResponse) => response.write('id: 3\nda', () => response.destroy()),
  ],
  [
    'is cut after an event without its empty line',
    (response: ServerResponse) => response.write(`id: 3\ndata: {}\n`, () => response.destroy()),
  ],
])('a stream that %s is continued after the last event, without a second query', async (_, cut) => {
  const { client, server } = await talk((request, response) => {
    openStream(response);
    if (request.method === 'GET') response.end(whole.slice(2).join(''));
    else response.write(whole.slice(0, 2).join(''), () => setImmediate(cut, response));
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(names);
  expect(server.received.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'POST /api/v1/query/stream',
    'GET /api/v1/runs/run_1/events?follow=true',
  ]);
  expect(server.received[1]?.headers).toMatchObject({
    'last-event-id': '2',
    authorization: 'Bearer sk-test',
  });
});

test('a stream that is cut after every event still gives each once and in order', async () => {
  const { client, server } = await talk(async (request, response) => {
    const seen = Number(request.headers['last-event-id'] ?? 0);
    await sendAndCut(response, whole.slice(seen, seen + 1));
  });
  const options = { reconnectLimit: 1 };
  expect(named(await Array.fromAsync(streamQuery(client, query, options)))).toEqual(names);
  expect(server.received.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '1', '2', '3']);
});

test.each([
  ['LF', '\n'],
  ['CR', '\r'],
  ['CRLF', '\r\n'],
])('a replay that ends within an event is continued, where lines end with %s', async (_, lineEnd) => {
  const lines = (frames: readonly string[]) => frames.join('').replaceAll('\n', lineEnd);
  const { client, server } = await talk((request, response) => {
    openStream(response);
    if (request.headers['last-event-id'] === '1') response.end(lines(whole.slice(1, 3)));
    else response.end(lines([...whole.slice(0, 1), 'id: 2\ndata: {"type":"text_delta"}\n']));
  });
  const events = await Array.fromAsync(streamRunEvents(client, 'run_1', { follow: false }));
  expect(named(events)).toEqual(names.slice(0, 3));
  expect(server.received).toHaveLength(2);
});

test.each([
  ['with a length of 0', { 'Content-Length': '0' }],
  ['that ends before anything came', {}],
])('a stream %s is a lost connection', async (_, headers) => {
  const { client, server } = await talk((_request, response, count) => {
    const all = { 'Content-Type': 'text/event-stream', 'X-Run-Id': 'run_1', ...headers };
    if (count % 2 === 0) return void response.writeHead(200, all).end();
    openStream(response);
    response.end(whole.join(''));
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(names);
  const replay = streamRunEvents(client, 'run_1', { follow: false });
  expect(named(await Array.fromAsync(replay))).toEqual(names);
  expect(server.received).toHaveLength(4);
});

test('events that come again are not delivered again', async () => {
  const { client } = await talk(async (request, response) => {
    if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 2));
    openStream(response);
    response.end(whole.join('') + frame(3, null, text('late')));
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(names);
});

test('what follows the last event is not read', async () => {
  const { client } = await talk((_, response) => {
    openStream(response);
    response.end(whole.join('') + frame(5, null, text('stray')));
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(names);
});

test.each([
  ['in the query stream', 'POST'],
  ['after a reconnection', 'GET'],
])('a missing event %s is an error that says where the run can be read on', async (_, method) => {
  const { client } = await talk(async (request, response) => {
    if (request.method !== method) return sendAndCut(response, whole.slice(0, 1));
    const missing = method === 'GET' ? [whole[2], whole[3]] : [whole[0], whole[2], whole[3]];
    openStream(response);
    response.end(missing.join(''));
  });
  const { read, error } = await readUntilFailure(streamQuery(client, query));
  expect(read).toEqual(['1 runtime']);
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(error).toMatchObject({ runId: 'run_1', lastEventId: 1 });
  expect(String(error)).toContain('Event 3 came where 2 was due. Run run_1 was read up to event 1');
});

test('events and members of later versions are passed over, and leave no gap', async () => {
  const { client } = await talk((_, response) => {
    openStream(response);
    const later = [frame(1, 'runtime', { ...started, later: true }), frame(2, 'telemetry', 'not for us')];
    response.end(`${later.join('')}unknown-field: x\nretry: 5\n\n${frame(3, 'done', result)}`);
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(['1 runtime', '3 done']);
});

test.each([
  [null, 'credential_invalid: The credential was revoked.'],
  [2, 'draining: The run was told so.'],
])('an error with the id %s that says "%s" ends the stream', async (id, error) => {
  const { client, server } = await talk((_, response) => {
    openStream(response);
    response.end(whole[0] + frame(id, 'error', { error }));
  });
  const events = await Array.fromAsync(streamQuery(client, query));
  expect(events.at(-1)).toEqual({ id, event: 'error', data: { error } });
  expect(server.received).toHaveLength(1);
});

const passing = ['draining: The server is stopping.', 'database_unavailable: The database does not answer.'];

test.each(passing)('a stream that ends with "%s" is continued after the last event', async (error) => {
  const { client, server } = await talk((request, response) => {
    openStream(response);
    const last = frame(null, 'error', { error });
    if (request.method === 'POST') response.end(`${whole[0]}${whole[1]}${last}`);
    else response.end(whole.slice(2).join(''));
  });
  expect(named(await Array.fromAsync(streamQuery(client, query)))).toEqual(names);
  expect(server.received.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '2']);
});

test('a trouble of the server that does not pass is told in the end', async () => {
  const [, error = ''] = passing;
  const { client, server } = await talk((_, response) => {
    openStream(response);
    response.end(frame(null, 'error', { error }));
  });
  const { error: thrown } = await readUntilFailure(streamQuery(client, query, { reconnectLimit: 2 }));
  expect(thrown).toBeInstanceOf(BrokenStreamError);
  expect(thrown).toMatchObject({ runId: 'run_1', lastEventId: 0, cause: { message: error } });
  expect(server.received).toHaveLength(3);
});

test.each([
  ['a run without a name', (client: ServiceClient) => streamQuery(client, query)],
  ['a replay', (client: ServiceClient) => streamRunEvents(client, 'run_1', { follow: false })],
])('where nothing is continued, as with %s, each error is the last event', async (_, read) => {
  const failure = { error: passing[0] };
  const { client, server } = await talk((_request, response) => {
    openStream(response, null);
    response.end(whole[0] + frame(null, 'error', failure));
  });
  const events = await Array.fromAsync(read(client));
  expect(events.at(-1)).toEqual({ id: null, event: 'error', data: failure });
  expect(server.received).toHaveLength(1);
});

test.each([
  ['LF', '\n'],
  ['CR', '\r'],
  ['CRLF', '\r\n'],
])(
  'lines may end with %s, bytes arrive one by one, and characters split between them',
  async (_, lineEnd) => {
    const words = 'Grüße 👋 \u2028 \u2029 \u0085 naïve';
    const body = [':', ': keepalive', '', 'id: 1', `data: ${JSON.stringify(text(words)).slice(0, 20)}`];
    // A JSON text may be spread over data lines where it may hold a line break.
    const spread = [
      'id: 1',
      'data: {"type":"text_delta","message_id":"msg_1",',
      `data: "text":${JSON.stringify(words)}}`,
    ];
    const lines = [
      ...body.slice(0, 3),
      ...spread,
      '',
      'id:2',
      'event:done',
      `data:${JSON.stringify(result)}`,
      '',
      '',
    ];
    const bytes = Buffer.from(lines.join(lineEnd));
    const { client } = await talk(async (_request, response) => {
      openStream(response);
      for (const byte of bytes) {
        response.write(Buffer.from([byte]));
        await nextTurn();
      }
      response.end();
    });
    const events = await Array.fromAsync(streamQuery(client, query));
    expect(named(events)).toEqual(['1 message', '2 done']);
    expect(events[0]?.data).toEqual(text(words));
  },
);

test.each([
  ['that is not JSON', 'id: 1\ndata: {"type":\n\n', 'An event is not JSON.'],
  ['whose id is no number', 'id: one\ndata: {}\n\n', 'An event has the id "one"'],
  ['whose data is nothing', 'event: error\ndata: null\n\n', 'The data of an event is no object.'],
  ['whose data is a text', 'id: 1\ndata: "text"\n\n', 'The data of an event is no object.'],
  ['with an empty id', 'id:\ndata: {}\n\n', 'An event has the id ""'],
])('an event %s is an error', async (_, event, message) => {
  const { client } = await talk((_request, response) => {
    openStream(response);
    response.end(event);
  });
  await expect(Array.fromAsync(streamQuery(client, query))).rejects.toThrow(message);
});

test('an event that cannot be read is not passed over where the run is read on', async () => {
  const { client } = await talk((_, response) => {
    openStream(response);
    response.end(`${whole[0]}id: 2\ndata: {"type":\n\n`);
  });
  const { read, error } = await readUntilFailure(streamQuery(client, query));
  expect(read).toEqual(['1 runtime']);
  expect(error).toMatchObject({ runId: 'run_1', lastEventId: 1 });
});

test('a stream that brings nothing new any more is given up, and says so', async () => {
  const { client, server } = await talk(async (request, response) => {
    if (request.method === 'POST') await sendAndCut(response, whole.slice(0, 2));
    else await sendAndCut(response, [': keepalive\n\n']);
  });
  const { read, error } = await readUntilFailure(streamQuery(client, query, { reconnectLimit: 3 }));
  expect(read).toEqual(['1 runtime', '2 message']);
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(String(error)).toContain('could not be continued. Run run_1 was read up to event 2');
  expect(server.received).toHaveLength(4);
});

test.each([
  ['is starting', 503, 'database_unavailable'],
  ['has a fault', 500, 'internal_error'],
  ['is not reached by its proxy', 521, 'unrecognized_answer'],
])('a reconnection survives a server that %s, and stops at one that refuses', async (_, status, code) => {
  const { client, server } = await talk(async (request, response) => {
    if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 1));
    if (server.received.length < 6) return sendProblem(response, status, code);
    sendProblem(response, 410, 'events_expired');
  });
  const { error } = await readUntilFailure(streamQuery(client, query));
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(error).toMatchObject({
    runId: 'run_1',
    lastEventId: 1,
    cause: { status: 410, code: 'events_expired' },
  });
  expect(String(error)).toContain(
    'could not be continued (GET /api/v1/runs/run_1/events: 410 events_expired',
  );
});

test('where no token can be had to go on, the error says where to; an abort stays what it is', async () => {
  const server = await startScriptedServer((_, response) => sendAndCut(response, whole.slice(0, 1)));
  onTestFinished(server.close);
  const read = async (beforeGoingOn: () => void, options: StreamOptions = {}) => {
    let asked = 0;
    const token = async () => {
      if (asked++ === 0) return 'sk-test';
      beforeGoingOn();
      throw new TypeError('fetch failed');
    };
    const client = createServiceClient({ baseUrl: server.url, token, retries: { baseDelayMs: 1 } });
    return (await readUntilFailure(streamQuery(client, query, options))).error;
  };
  const error = await read(() => undefined);
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(error).toMatchObject({ runId: 'run_1', lastEventId: 1, cause: { message: 'fetch failed' } });
  const controller = new AbortController();
  const reason = new Error('enough');
  expect(await read(() => controller.abort(reason), { signal: controller.signal })).toBe(reason);
});

test('a server that asks to wait is not asked again before, and not at all where that is too long', async () => {
  const arrivals: number[] = [];
  let seconds = 1;
  const { client, server } = await talk(async (request, response) => {
    arrivals.push(performance.now());
    if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 2));
    if (arrivals.length < 4)
      return sendProblem(response, 503, 'overloaded', { 'Retry-After': String(seconds) });
    openStream(response);
    response.end(whole.slice(2).join(''));
  }, 1500);
  const impatient = createServiceClient({ baseUrl: server.url, retries: { limit: 0, maxDelayMs: 1500 } });
  const read: RunEvent[] = [];
  for await (const event of streamQuery(impatient, query)) read.push(event);
  expect(named(read)).toEqual(names);
  const [, second = 0, third = 0, fourth = 0] = arrivals;
  expect(Math.min(third - second, fourth - third)).toBeGreaterThan(990);
  arrivals.length = 0;
  seconds = 120;
  const { error } = await readUntilFailure(streamQuery(client, query));
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(error).toMatchObject({ lastEventId: 2, cause: { retryAfterSeconds: 120 } });
  expect(arrivals).toHaveLength(2);
});

test('where the answer whether a run has ended breaks off, the stream is continued', async () => {
  const { client } = await talk(async (request, response, count) => {
    if (request.url.endsWith('/run_1')) {
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '1000' });
      response.write('{', () => response.destroy());
      return;
    }
    if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 2));
    openStream(response);
    response.end(count < 5 ? ': keepalive\n\n' : whole.slice(2).join(''));
  });
  const read: RunEvent[] = [];
  for await (const event of streamQuery(client, query)) read.push(event);
  expect(named(read)).toEqual(names);
});

test('connections that last are no failures, however many there are', async () => {
  // From one look at it to the next 40 s pass, so that each connection has lasted by the time that it is heard.
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 40_000;
    return nowMs;
  });
  onTestFinished(() => clock.mockRestore());
  const { client, server } = await talk(async (request, response, count) => {
    expect(request.url).toContain('/events');
    if (count < 6) return await sendAndCut(response, [': keepalive\n\n']);
    openStream(response);
    response.end(whole.join(''));
  });
  const events = await Array.fromAsync(streamRunEvents(client, 'run_1', { reconnectLimit: 1 }));
  expect(named(events)).toEqual(names);
  expect(server.received).toHaveLength(7);
});

test('a server that takes long to answer, and then brings nothing new, is given up', async () => {
  // It goes on while the server has not answered, and stands still from then on, however busy the machine is.
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  const { client, server } = await talk((_, response) => {
    nowMs += 120;
    return sendAndCut(response, [': keepalive\n\n']);
  });
  const options = { reconnectLimit: 1, idleTimeoutMs: 200, signal: AbortSignal.timeout(30_000) };
  const { error } = await readUntilFailure(streamQuery(client, query, options));
  expect(error).toBeInstanceOf(BrokenStreamError);
  expect(server.received).toHaveLength(2);
});

test('a silent connection counts as lost', async () => {
  const { client, server } = await talk((request, response) => {
    openStream(response);
    const seen = Number(request.headers['last-event-id'] ?? 0);
    if (request.method === 'GET') response.end(whole.slice(seen).join(''));
    else response.write(whole[0]);
  });
  // Where the machine is busy, what is there is read later than it came.
  const events = streamQuery(client, query, { idleTimeoutMs: 1000 });
  expect(named(await Array.fromAsync(events))).toEqual(names);
  expect(server.received).toHaveLength(2);
});

test('where no silence is too long, a connection may be silent', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response);
    setTimeout(() => response.end(whole.join('')), 100);
  });
  const events = streamQuery(client, query, { idleTimeoutMs: Number.POSITIVE_INFINITY });
  expect(named(await Array.fromAsync(events))).toEqual(names);
  expect(server.received).toHaveLength(1);
});

test('a query that is refused, or whose connection is cut before the answer, is not sent again', async () => {
  const { client, server } = await talk((_, response, count) => {
    if (count === 0) response.destroy();
    else sendProblem(response, 503, 'no_provider_configured');
  });
  await expect(Array.fromAsync(streamQuery(client, query))).rejects.toThrow('no answer from');
  await expect(Array.fromAsync(streamQuery(client, query))).rejects.toThrow('no_provider_configured');
  expect(server.received).toHaveLength(2);
});

test('a query with a key whose connection is cut before the answer is sent again, for the stream of the same run', async () => {
  const { client, server } = await talk((_, response, count) => {
    if (count === 0) return void response.destroy();
    openStream(response);
    response.end(whole.join(''));
  });
  const events = streamQuery(client, query, { idempotencyKey: 'key-1' });
  expect(named(await Array.fromAsync(events))).toEqual(names);
  expect(server.received.map(({ headers }) => headers['idempotency-key'])).toEqual(['key-1', 'key-1']);
  expect(server.received[1]?.body).toBe(server.received[0]?.body);
});

test('a stream whose run has no name cannot be continued', async () => {
  const { client, server } = await talk((_, response) => {
    openStream(response, null);
    response.end(whole[0]);
  });
  await expect(Array.fromAsync(streamQuery(client, query))).rejects.toThrow(
    'the server named no run to continue',
  );
  expect(server.received).toHaveLength(1);
});

test.each([
  ['of another version', { 'Content-Type': 'text/event-stream', 'X-SSE-Version': '2' }, 'Update the client'],
  ['that is no stream', { 'Content-Type': 'application/json' }, 'not a stream'],
])('an answer %s is an error', async (_, headers, message) => {
  const { client } = await talk((_request, response) => void response.writeHead(200, headers).end('{}'));
  await expect(Array.fromAsync(streamQuery(client, query))).rejects.toThrow(message);
});

test.each([
  ['the signal', (controller: AbortController): unknown => controller.abort()],
  ['breaking out of the loop', () => 'break'],
])('%s closes the connection, and nothing reconnects', async (_, stop) => {
  const closed = Promise.withResolvers<void>();
  const { client, server } = await talk(async (_request, response) => {
    openStream(response);
    response.write(whole[0]);
    await once(response, 'close');
    closed.resolve();
  });
  const controller = new AbortController();
  const read = async () => {
    for await (const _event of streamQuery(client, query, { signal: controller.signal }))
      if (stop(controller) === 'break') return 'left';
    return 'ended';
  };
  const outcome = await read().catch((error: unknown) => (error as Error).name); // Only errors are thrown there.
  expect(['AbortError', 'left']).toContain(outcome);
  await closed.promise;
  expect(server.received).toHaveLength(1);
});

test.each([
  ['a query', (client: ServiceClient) => streamQuery(client, query)],
  ['a run', (client: ServiceClient) => streamRunEvents(client, 'run_1')],
])('%s of which nothing comes, not even an answer, can be left', async (_, read) => {
  const asked = Promise.withResolvers<ServerResponse>();
  const { client } = await talk((_request, response) => asked.resolve(response));
  const events = read(client);
  const waiting = events.next();
  const closed = once(await asked.promise, 'close');
  expect(await events.return()).toEqual({ done: true, value: undefined });
  expect(await waiting).toEqual({ done: true, value: undefined });
  await closed;
});

test('what is thrown into a stream of which nothing comes ends it, and comes back', async () => {
  const asked = Promise.withResolvers<ServerResponse>();
  const { client } = await talk((_request, response) => asked.resolve(response));
  const events = streamQuery(client, query);
  const waiting = events.next();
  const closed = once(await asked.promise, 'close');
  await expect(events.throw(new Error('Enough.'))).rejects.toThrow('Enough.');
  expect(await waiting).toEqual({ done: true, value: undefined });
  await closed;
});

test('who reads a stream is told that its connection is lost, and that it is there again, each once', async () => {
  const { client } = await talk(async (request, response, count) => {
    if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 2));
    if (count < 6) return sendProblem(response, 503, 'database_unavailable');
    if (count === 6) return sendAndCut(response, whole.slice(2, 3));
    openStream(response);
    response.end(whole[3]);
  });
  const seen: unknown[] = [];
  const onConnection = (change: string) => void seen.push(change);
  for await (const { id } of streamQuery(client, query, { onConnection })) seen.push(id);
  expect(seen).toEqual([1, 2, 'lost', 'restored', 3, 'lost', 'restored', 4]);
});

test.each(['lost', 'restored'])(
  'what is thrown where a connection is told to be %s ends the stream as it is, and its connection',
  async (told) => {
    const closed = Promise.withResolvers<unknown>();
    const { client } = await talk(async (request, response) => {
      if (request.method === 'POST') return sendAndCut(response, whole.slice(0, 1));
      openStream(response);
      response.write(': keepalive\n\n');
      closed.resolve(once(response, 'close'));
    });
    const failure = new Error('not a matter of the stream');
    const onConnection = (change: string) => {
      if (change === told) throw failure;
    };
    expect((await readUntilFailure(streamQuery(client, query, { onConnection }))).error).toBe(failure);
    if (told === 'restored') await closed.promise;
  },
);

test('the signal ends the pause before a reconnection', async () => {
  const controller = new AbortController();
  const reason = new Error('enough');
  const { client, server } = await talk((_, response) => {
    // From here on: a busy machine may take longer than that to ask.
    setTimeout(() => controller.abort(reason), 300);
    return sendAndCut(response, whole.slice(0, 1));
  }, 20_000);
  const slow = { ...client, retries: { ...client.retries, baseDelayMs: 20_000 } };
  const start = performance.now();
  const events = streamQuery(slow, query, { signal: controller.signal });
  await expect(Array.fromAsync(events)).rejects.toBe(reason);
  expect(performance.now() - start).toBeLessThan(5_000);
  expect(server.received).toHaveLength(1);
});

test('the events of a run are read after a number, with or without following it', async () => {
  const { client, server } = await talk((request, response) => {
    openStream(response);
    const seen = Number(request.headers['last-event-id'] ?? 0);
    response.end(whole.slice(seen, request.url.endsWith('false') ? 3 : 4).join(''));
  });
  const stored = await Array.fromAsync(streamRunEvents(client, 'run_1', { follow: false }));
  const followed = await Array.fromAsync(streamRunEvents(client, 'run_1', { after: 2 }));
  expect(named(stored)).toEqual(names.slice(0, 3));
  expect(named(followed)).toEqual(names.slice(2));
  expect(server.received.map(({ url }) => url)).toEqual([
    '/api/v1/runs/run_1/events?follow=false',
    '/api/v1/runs/run_1/events?follow=true',
  ]);
});

test.each([
  ['has ended', '2026-11-21T08:00:00.000Z', 2],
  ['goes on', null, 3],
])(
  'nothing after the last event of a run that %s is told from a lost connection',
  async (_, ended_at, requests) => {
    const { client, server } = await talk((request, response, count) => {
      if (request.url === '/api/v1/runs/run_1')
        return sendJson(response, 200, { ended_at, last_event_id: 3 });
      openStream(response);
      response.end(count === 0 ? '' : whole[3]);
    });
    const events = await Array.fromAsync(streamRunEvents(client, 'run_1', { after: 3 }));
    expect(named(events)).toEqual(ended_at === null ? ['4 done'] : []);
    expect(server.received).toHaveLength(requests);
  },
);
