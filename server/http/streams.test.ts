/** Streams over a real socket: framing, keepalive, the last event, disconnects, slow readers, caps, revocation. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { ServerEvent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { isHeld } from '../test-garbage.ts';
import { revokedWithinMs } from '../test-revocation.ts';
import type { AnyCall } from './ports.ts';
import { startTestServer, type TestServer, type TestServerOptions } from './test-server.ts';

let server: TestServer;
afterEach(() => server.close());

const run = 'run_01k9w6r3h2e7xv5q0c8m4b1tza';
const events = `/api/v1/runs/${run}/events`;
const messageId = 'msg_01k9w6r3h2e7xv5q0c8m4b1tza';

const delta = (text: string, seq = 1): ServerEvent => ({
  name: 'message',
  seq,
  data: { type: 'text_delta', message_id: messageId, text },
});
const notice = (message: string, seq = 1): ServerEvent => ({
  name: 'runtime',
  seq,
  data: { type: 'notice_given', message },
});
const failed: ServerEvent = { name: 'error', seq: 3, data: { error: 'provider_failed: It failed.' } };

type Source = (call: AnyCall) => AsyncIterable<ServerEvent>;

/** A server whose runs give these events. */
async function serve(
  source: Source,
  settings: TestServerOptions['settings'] = {},
  looksUp: () => Promise<void> = async () => undefined,
): Promise<TestServer> {
  server = await startTestServer({
    settings,
    looksUp,
    handlers: {
      streamRunEvents: async (call) => ({
        status: 200,
        type: 'text/event-stream',
        headers: { 'X-Run-Id': run },
        body: source(call),
      }),
      createMessage: async (call) => ({ status: 200, type: 'text/event-stream', body: source(call) }),
      getHealth: async () => ({ status: 200, body: { status: 'ok' } }),
    },
  });
  return server;
}

async function* of(...given: readonly (ServerEvent | Error)[]): AsyncGenerator<ServerEvent> {
  for (const one of given) {
    if (one instanceof Error) throw one;
    yield one;
  }
}

/** Yields one event, then nothing until the caller has gone. */
async function* untilAborted({ signal }: Pick<AnyCall, 'signal'>): AsyncGenerator<ServerEvent> {
  yield delta('x');
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

describe('what is on the wire', () => {
  test('frames and headers', async () => {
    await serve(() => of(delta('a\r\nb\u2028\n\nc 👋'), notice('n', 2), failed));
    const answer = await server.request('GET', events);
    expect(answer.text).toBe(
      [
        ': keepalive\n\n',
        `id: 1\ndata: {"type":"text_delta","message_id":"${messageId}","text":"a\\r\\nb\u2028\\n\\nc 👋"}\n\n`,
        'id: 2\nevent: runtime\ndata: {"type":"notice_given","message":"n"}\n\n',
        'id: 3\nevent: error\ndata: {"error":"provider_failed: It failed."}\n\n',
      ].join(''),
    );
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      'x-sse-version': '1',
      'x-run-id': run,
    });
  });

  test('HEAD has the headers, and begins no stream', async () => {
    await serve(() => of(delta('x')));
    const answer = await server.request('HEAD', events);
    expect([answer.status, answer.text, answer.headers.get('x-run-id')]).toEqual([200, '', run]);
  });

  test('the headers and a comment come before the first event, and comments while nothing happens', async () => {
    await serve(untilAborted, { keepaliveSeconds: 0.05 });
    const response = await fetch(`${server.url}${events}`, { headers: { authorization: 'Bearer login' } });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while ((text.match(/: keepalive\n\n/g) ?? []).length < 4) text += (await reader?.read())?.value ?? '';
    expect(text.startsWith(': keepalive\n\n')).toBe(true);
    await reader?.cancel();
  });

  test('the Messages surface has no version of ours, and names its events', async () => {
    await serve(() =>
      of({ name: 'ping', data: { type: 'ping' } }, { name: 'message_stop', data: { type: 'message_stop' } }),
    );
    const answer = await askMessages();
    expect(answer.text).toContain('event: ping\ndata: {"type":"ping"}\n\n');
    expect(answer.headers.get('x-sse-version')).toBeNull();
    expect(answer.headers.get('request-id')).toBe(answer.headers.get('x-request-id'));
  });
});

const streamedMessage = {
  ...{ model: 'm', max_tokens: 1, stream: true },
  messages: [{ role: 'user', content: 'x' }],
};

function askMessages() {
  const headers = { accept: 'application/json' };
  return server.request('POST', '/v1/messages', { body: streamedMessage, headers });
}

describe('the end', () => {
  test.each([
    ['a problem', new Problem('provider_timeout', 'Too late.'), 'provider_timeout: Too late.'],
    [
      'a fault',
      new Error('SELECT secret'),
      'internal_error: The server failed; its log has the cause under the id of this request.',
    ],
  ])('%s becomes the last event', async (_title, error, sentence) => {
    await serve(() => of(delta('x'), error));
    const answer = await server.request('GET', events);
    expect(answer.status).toBe(200);
    expect(answer.text.endsWith(`event: error\ndata: ${JSON.stringify({ error: sentence })}\n\n`)).toBe(true);
    expect(answer.text).not.toContain('secret');
  });

  test('under /v1 it has the shape that its clients know', async () => {
    await serve(() => of(new Problem('provider_rate_limited', 'Slow down.')));
    const answer = await askMessages();
    expect(answer.text).toContain('event: error\ndata: {"type":"error","error":{"type":"overloaded_error"');
  });

  test('nothing follows an error', async () => {
    await serve(() => of(failed, delta('y', 4)));
    expect((await server.request('GET', events)).text).not.toContain('"y"');
  });

  test('what fails before the stream begins is an ordinary problem', async () => {
    server = await startTestServer({
      handlers: {
        streamRunEvents: async () => {
          throw new Problem('events_expired', 'Gone.');
        },
      },
    });
    const answer = await server.request('GET', events);
    expect([answer.status, answer.json.code]).toEqual([410, 'events_expired']);
    expect(answer.headers.get('x-sse-version')).toBeNull();
  });
});

describe('a caller that goes away', () => {
  test('aborts the call and ends the source', async () => {
    let aborted = false;
    let returned = false;
    await serve(async function* (call) {
      call.signal.addEventListener('abort', () => {
        aborted = true;
      });
      try {
        yield* untilAborted(call);
        yield delta('y');
      } finally {
        returned = true;
      }
    });
    const leave = new AbortController();
    const response = await fetch(`${server.url}${events}`, {
      headers: { authorization: 'Bearer login' },
      signal: leave.signal,
    });
    await response.body?.getReader().read();
    leave.abort();
    await expect.poll(() => [aborted, returned]).toEqual([true, true]);
  });

  test('is noticed before the first event, too, and when the source does not listen', async () => {
    let returned = false;
    const stuck: AsyncIterable<ServerEvent> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => undefined),
        return: async () => {
          returned = true;
          return { done: true, value: undefined };
        },
      }),
    };
    await serve(() => stuck);
    const leave = new AbortController();
    await fetch(`${server.url}${events}`, {
      headers: { authorization: 'Bearer login' },
      signal: leave.signal,
    });
    leave.abort();
    await expect.poll(() => returned).toBe(true);
  });
});

describe('a caller that has gone before its stream begins', () => {
  /** Sends a request, leaves while it is looked after, and waits until the server has noticed. */
  const leaveEarly = async (request: string, held: { readonly reached: Promise<void>; letGo(): void }) => {
    const socket = connect(server.port, '127.0.0.1');
    socket.write(request);
    await held.reached;
    socket.destroy();
    await expect.poll(() => server.log.filter(({ aborted }) => aborted)).toHaveLength(1);
    held.letGo();
  };
  /** Something that waits, the first time, until it is let go. */
  const holding = () => {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { promise: going, resolve: letGo } = Promise.withResolvers<void>();
    const wait = () => {
      reach();
      return going;
    };
    return { reached, letGo, wait };
  };

  test('leaves no place taken', async () => {
    const held = holding();
    await serve(() => of(failed), { streamsPerUser: 1 }, held.wait);
    await leaveEarly(`GET ${events} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer login\r\n\r\n`, held);
    expect((await server.request('GET', events)).status).toBe(200);
    await expect.poll(() => server.metrics()).toMatch(/^service_open_streams 0$/m);
  });

  test('leaves no Idempotency-Key in use', async () => {
    const held = holding();
    server = await startTestServer({
      handlers: {
        async createMessage() {
          await held.wait();
          const last = { name: 'message_stop', data: { type: 'message_stop' } } as const;
          return { status: 200, type: 'text/event-stream', body: of(last) };
        },
      },
    });
    const headers = { 'idempotency-key': 'one' };
    const content = JSON.stringify(streamedMessage);
    const lines = [
      'POST /v1/messages HTTP/1.1',
      ...['Host: a', 'Authorization: Bearer login', 'Content-Type: application/json', 'Idempotency-Key: one'],
      ...[`Content-Length: ${content.length}`, '', content],
    ];
    await leaveEarly(lines.join('\r\n'), held);
    const again = await server.request('POST', '/v1/messages', { body: streamedMessage, headers });
    expect(again.status).toBe(200);
  });
});

describe('an answer that nobody reads', () => {
  const large = 'x'.repeat(30_000_000);
  const ask = (path: string) => {
    const socket = connect(server.port, '127.0.0.1').pause();
    socket.on('error', () => undefined);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer login\r\n\r\n`);
    return socket;
  };
  const serveLarge = async (stallSeconds: number) => {
    server = await startTestServer({
      settings: { stallSeconds, strict: false },
      handlers: {
        getHealth: async () => ({ status: 200, body: { status: large } }),
        streamRunEvents: async () => ({
          status: 200,
          type: 'text/event-stream',
          body: of({ name: 'error', seq: 1, data: { error: `provider_failed: ${large}` } }),
        }),
      },
    });
  };

  test.each([
    ['in one piece', '/health'],
    ['whose last event is large', events],
  ])('%s is not held for ever', async (_title, path) => {
    await serveLarge(1);
    const socket = ask(path);
    await expect.poll(() => server.log.filter(({ aborted }) => aborted)).toHaveLength(1);
    socket.destroy();
  });

  test.each([
    ['in one piece', '/health'],
    ['whose last event is large', events],
  ])('%s is sent as long as it is read, however slowly', async (_title, path) => {
    const stallSeconds = 3;
    await serveLarge(stallSeconds);
    const socket = ask(path);
    let received = 0;
    const begun = performance.now();
    const until = begun + 2.5 * stallSeconds * 1000;
    // What the system holds between the two is read first; after that each piece makes room for another.
    for await (const piece of socket) {
      received += piece.length;
      if (received > large.length) break;
      // By the time that has passed: the system tells in large steps that there is room again.
      while (performance.now() < until && received - 6_000_000 > (performance.now() - begun) * 2000)
        await sleep(10);
    }
    expect(received).toBeGreaterThan(large.length);
    expect(performance.now()).toBeGreaterThan(until);
  });
});

test('a reader that takes nothing for long is told to resume, and holds nothing any more', async () => {
  const ended = Promise.withResolvers<void>();
  const big = 'x'.repeat(200_000);
  async function* endless(): AsyncGenerator<ServerEvent> {
    try {
      for (let seq = 1; ; seq += 1) yield delta(big, seq);
    } finally {
      ended.resolve();
    }
  }
  // As long again the server waits for its last words to be read: at a loaded machine, too, that is enough.
  const { port } = await serve(endless, { stallSeconds: 8, strict: false });
  const socket = connect(port, '127.0.0.1').pause();
  socket.write(
    `GET ${events} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer login\r\nConnection: close\r\n\r\n`,
  );
  await ended.promise;
  let tail = '';
  socket.on('data', (bytes: Buffer) => {
    tail = (tail + bytes.toString('latin1')).slice(-100);
  });
  socket.resume();
  await new Promise((resolve) => socket.once('close', resolve));
  expect(tail).toContain(': resume\n\n');
  expect(tail).not.toContain('event: error');
});

test('an open stream holds nothing of what was asked for it', async () => {
  const asked: WeakRef<object>[] = [];
  server = await startTestServer({
    handlers: {
      async streamQuery(call) {
        asked.push(new WeakRef(call.body as object)); // the contract wants one
        return {
          status: 200,
          type: 'text/event-stream',
          headers: { 'X-Run-Id': run },
          body: untilAborted({ signal: call.signal }),
        };
      },
    },
  });
  const open = (headers: Record<string, string>) =>
    fetch(`${server.url}/api/v1/query/stream`, {
      method: 'POST',
      headers: { authorization: 'Bearer login', 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ prompt: 'Hello.' }),
    });
  const streams = [await open({}), await open({ 'Idempotency-Key': 'one' })];
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  await expect.poll(() => asked.map(isHeld)).toEqual([false, false]);
});

test('a slow reader holds the source back instead of filling the memory', async () => {
  let given = 0;
  const text = 'x'.repeat(10_000);
  await serve(
    async function* () {
      for (;;) {
        given += 1;
        yield delta(text, given);
      }
    },
    { strict: false },
  );
  const socket = connect(server.port, '127.0.0.1');
  socket.write(`GET ${events} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\n\r\n`);
  socket.pause();
  await expect.poll(() => given).toBeGreaterThan(0);
  // What the kernel buffers is beyond us: a few megabytes on loopback.
  const most = 20_000_000 / text.length;
  for (let before = -1; given !== before && given < most; await sleep(500)) before = given;
  expect(given).toBeLessThan(most);
  expect((await server.request('GET', '/health')).status).toBe(200);
  socket.destroy();
});

describe('caps', () => {
  const open = async (token: string) => {
    const leave = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${server.url}${events}`, { headers, signal: leave.signal });
    return { status: response.status, headers: response.headers, leave, response };
  };

  test('a user has so many streams, and one more when one ends', async () => {
    await serve(untilAborted, { streamsPerUser: 2 });
    const first = await open('login');
    await open('key');
    const third = await open('login');
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '5']);
    expect(await third.response.json()).toMatchObject({ code: 'too_many_streams' });
    expect((await open('operator')).status).toBe(200);
    first.leave.abort();
    await expect.poll(async () => (await open('login')).status).toBe(200);
  });

  test('the server has so many in all', async () => {
    await serve(untilAborted, { streamsTotal: 1 });
    await open('login');
    const second = await open('operator');
    expect([second.status, second.headers.get('retry-after')]).toEqual([503, '5']);
    expect((await server.request('GET', '/health')).status).toBe(200);
  });

  test('under /v1 only what is streamed counts', async () => {
    await serve(untilAborted, { streamsTotal: 1 });
    await open('login');
    const answer = await askMessages();
    expect([answer.status, answer.json.error.type]).toEqual([529, 'overloaded_error']);
    const body = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] };
    const plain = await fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: 'Bearer login', 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(20_000),
    });
    expect(plain.status).toBe(200);
  });
});

describe('streams that have to end', () => {
  test('a revoked credential ends its streams within five seconds, and no others', async () => {
    await serve(untilAborted);
    const leave = new AbortController();
    const other = await fetch(`${server.url}${events}`, {
      headers: { authorization: 'Bearer login' },
      signal: leave.signal,
    });
    let fastestMs = Number.POSITIVE_INFINITY;
    for (const token of ['key', 'operator']) {
      const mine = await fetch(`${server.url}${events}`, { headers: { authorization: `Bearer ${token}` } });
      const started = performance.now();
      server.callers.delete(token);
      expect(await mine.text()).toMatch(/event: error\ndata: \{"error":"credential_invalid: [^"]+"\}\n\n$/);
      fastestMs = Math.min(fastestMs, performance.now() - started);
      // Another one only where a busy machine was late.
      if (fastestMs < 5000) break;
    }
    expect(fastestMs).toBeLessThan(5000);
    const received: string[] = [];
    const write = (text: string) => void received.push(text);
    const reading = other.body?.pipeThrough(new TextDecoderStream()).pipeTo(new WritableStream({ write }));
    const whole = /^: keepalive\n\nid: 1\ndata: [^\n]+\n\n(: keepalive\n\n)*$/;
    await expect.poll(() => received.join('')).toMatch(whole);
    leave.abort();
    // Only the leaving ended it.
    await expect(reading).rejects.toThrow(/aborted/);
    expect(received.join('')).toMatch(whole);
  });

  test('what goes on for a stream ends with it, also where its reader has read all of the end', async () => {
    const ended = Promise.withResolvers<void>();
    await serve(async function* (call: AnyCall) {
      call.signal.addEventListener('abort', () => ended.resolve());
      yield* untilAborted(call);
    });
    const mine = await fetch(`${server.url}${events}`, { headers: { authorization: 'Bearer key' } });
    server.callers.delete('key');
    expect(await mine.text()).toContain('event: error');
    await ended.promise;
  });

  test('so it does where the reader has stopped to read', async () => {
    const begun = Promise.withResolvers<void>();
    await serve(
      async function* () {
        begun.resolve();
        for (let seq = 1; ; seq += 1) yield delta('x'.repeat(10_000), seq);
      },
      { strict: false },
    );
    const socket = connect(server.port, '127.0.0.1');
    socket.write(`GET ${events} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n\r\n`);
    socket.pause();
    await begun.promise;
    server.callers.delete('key');
    await expect
      .poll(() => server.log.some((line) => line.route !== undefined), { timeout: revokedWithinMs })
      .toBe(true);
    socket.destroy();
  });
});
