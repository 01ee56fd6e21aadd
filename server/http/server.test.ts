/** What breaks HTTP itself, what does not arrive, and how the server stops: over raw sockets. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { CreateMessageRequest } from '../contract/api.ts';
import { schemaCompiler } from './contract-schemas.ts';
import { startTestServer, type TestServer, type TestServerOptions } from './test-server.ts';

let server: TestServer;
afterEach(() => server.close());

const handlers: TestServerOptions['handlers'] = {
  getHealth: async () => ({ status: 200, body: { status: 'ok' } }),
};

/** The body of a raw answer, which has to be a whole Problem. */
function problemIn(answer: string): Record<string, unknown> {
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  expect(head).toMatch(/content-type: application\/problem\+json/i);
  expect(head).toMatch(/connection: close/i);
  expect(head).toMatch(/x-request-id: req_/i);
  const problem = JSON.parse(body);
  const schema = { $ref: '#/components/schemas/Problem' };
  const validate = schemaCompiler({ allErrors: false }).compile(schema);
  expect(validate(problem) || validate.errors).toBe(true);
  return problem;
}

describe('broken HTTP gets a problem, and the connection is closed', () => {
  const post =
    'POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nContent-Type: application/json\r\n';

  test.each([
    ['no HTTP', 'nonsense\r\n\r\n', 400, 'malformed_http'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'malformed_http'],
    ['no Host', 'GET /health HTTP/1.1\r\n\r\n', 400, 'malformed_http'],
    ['two Hosts', 'GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n', 400, 'malformed_http'],
    ['two Hosts alike', 'GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n', 400, 'malformed_http'],
    [
      'length and chunks',
      `${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
      'malformed_http',
    ],
    ['two lengths', `${post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`, 400, 'malformed_http'],
    ['a negative length', `${post}Content-Length: -1\r\n\r\n`, 400, 'malformed_http'],
    [
      'a chunk size that is none',
      `${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
      400,
      'malformed_http',
    ],
    [
      'a chunk longer than it says',
      `${post}Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`,
      400,
      'malformed_http',
    ],
    ['a folded header', 'GET /health HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n 2\r\n\r\n', 400, 'malformed_http'],
    ['a bare CR', 'GET /health HTTP/1.1\r\nHost: x\rX-A: 1\r\n\r\n', 400, 'malformed_http'],
    ['a space before the colon', 'GET /health HTTP/1.1\r\nHost : x\r\n\r\n', 400, 'malformed_http'],
    ['a NUL in a header', 'GET /health HTTP/1.1\r\nHost: x\r\nX-A: \0\r\n\r\n', 400, 'malformed_http'],
    [
      'headers too large',
      `GET /health HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(17_000)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    [
      'a target too large',
      `GET /${'a'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
      431,
      'headers_too_large',
    ],
  ])('%s', async (_title, bytes, status, code) => {
    server = await startTestServer({ handlers });
    const answer = await server.raw(bytes);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(problemIn(answer)).toMatchObject({ status, code });
    expect((await server.request('GET', '/health')).status).toBe(200);
  });

  test('HTTP/1.0 needs no Host', async () => {
    server = await startTestServer({ handlers });
    expect(await server.raw('GET /health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1.1 200 /);
  });
});

async function* slowly(parts: readonly string[], pauseMs: number): AsyncGenerator<string> {
  for (const part of parts) {
    await sleep(pauseMs);
    yield part;
  }
}

describe('what does not arrive', () => {
  const limits = { headersMs: 200, requestMs: 400, checkMs: 50 };

  test.each([
    ['headers', 'GET /health HTTP/1.1\r\nHost: x\r\nX-A'],
    [
      'a body',
      'POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
    ],
  ])('%s cut in the middle are given up', async (_title, bytes) => {
    server = await startTestServer({ handlers, limits });
    const started = Date.now();
    const answer = await server.raw(bytes);
    expect(problemIn(answer)).toMatchObject({ status: 408, code: 'request_timeout' });
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  const messages =
    'POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nX-Request-Id: mine\r\n';
  const json = 'Content-Type: application/json\r\n';

  test.each([
    ['late', `${messages}${json}Content-Length: 9\r\n\r\n{`, 408],
    ['broken', `${messages}${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`, 400],
  ])(
    'a body that is %s is refused as the surface of its request refuses, under its id',
    async (_, bytes, status) => {
      server = await startTestServer({ handlers, limits: { ...limits, headersMs: 20_000 } });
      const [head = '', body = ''] = (await server.raw(bytes)).split('\r\n\r\n');
      expect(head).toContain(`HTTP/1.1 ${status} `);
      expect(head).toMatch(/^content-type: application\/json/im);
      expect(head).toMatch(/^x-request-id: mine\r?$/im);
      expect(head).toMatch(/^request-id: mine\r?$/im);
      const schema = { $ref: '#/components/schemas/MessagesError' };
      const validate = schemaCompiler({ allErrors: false }).compile(schema);
      expect(validate(JSON.parse(body)) || validate.errors).toBe(true);
    },
  );

  test('a problem names the path of the request', async () => {
    server = await startTestServer({ handlers, limits: { ...limits, headersMs: 20_000 } });
    const head = 'POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\n';
    const answer = await server.raw(`${head}${json}Content-Length: 9\r\n\r\n{`);
    expect(problemIn(answer)).toMatchObject({ instance: '/api/v1/sessions' });
  });

  test('a large body may take longer, as long as it comes', async () => {
    const createMessage = async (call: { readonly body: unknown }) => {
      const [message] = (call.body as CreateMessageRequest).messages;
      const content = [{ type: 'text', text: String(message?.content?.length) }];
      const said = { id: 'msg_01k9w6r3h2e7xv5q0c8m4b1tza', model: 'demo:demo-1', content };
      const ended = {
        stop_reason: 'end_turn',
        stop_sequence: null,
        usage: { input_tokens: 2, output_tokens: 1 },
      };
      return { status: 200, body: { type: 'message', role: 'assistant', ...said, ...ended } };
    };
    server = await startTestServer({
      handlers: { ...handlers, createMessage },
      limits: { ...limits, headersMs: 20_000, requestMs: 4000 },
    });
    const parts = [
      '{"model":"demo:demo-1","max_tokens":16,"messages":[{"role":"user","content":"',
      ...Array.from({ length: 4 }, () => 'x'.repeat(1.2 * 1024 ** 2)),
      '"}]}',
    ];
    const body = ReadableStream.from(slowly(parts, 1500)).pipeThrough(new TextEncoderStream());
    const answer = await fetch(`${server.url}/v1/messages`, {
      ...{ method: 'POST', body, duplex: 'half' },
      headers: { authorization: 'Bearer login', 'content-type': 'application/json' },
    });
    expect(await answer.json()).toMatchObject({
      content: [{ text: String(parts.slice(1, -1).join('').length) }],
    });
  });

  test('400 of them leave the server free, and are gone', async () => {
    server = await startTestServer({ handlers, limits: { ...limits, headersMs: 2000, requestMs: 4000 } });
    const sockets = Array.from({ length: 400 }, () => {
      const socket = connect(server.port, '127.0.0.1', () => socket.write('GET /health HTTP/1.1\r\nX-'));
      socket.on('error', () => undefined).resume();
      return new Promise((resolve) => socket.on('close', resolve));
    });
    const started = performance.now();
    expect((await server.request('GET', '/health')).status).toBe(200);
    expect(performance.now() - started).toBeLessThan(20_000);
    await Promise.all(sockets);
    // All at the first look after their time, and not one look after the other; the rest is for busy machines.
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  test('an answer may take longer than a request', async () => {
    const slow = async () => {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return { status: 200, body: { status: 'ok' } };
    };
    server = await startTestServer({
      handlers: { getHealth: slow },
      limits: { ...limits, headersMs: 20_000 },
    });
    expect((await server.request('GET', '/health')).status).toBe(200);
  });
});

test('a body that waits for its reader is not late', async () => {
  let read = 0;
  const appendUpload: NonNullable<TestServerOptions['handlers']>['appendUpload'] = async ({ body }) => {
    const { content } = body as { readonly content: AsyncIterable<Uint8Array> };
    for await (const chunk of content) {
      // As a storage that takes its time for what came first.
      if (read === 0) await sleep(1500);
      read += chunk.length;
    }
    return { status: 204, headers: { 'Upload-Offset': String(read) } };
  };
  const limits = { headersMs: 20_000, requestMs: 400, checkMs: 50 };
  server = await startTestServer({ handlers: { appendUpload }, limits });
  const answer = await server.request('PATCH', '/api/v1/files/uploads/upl_01k9w6r3h2e7xv5q0c8m4b1tza', {
    body: new Uint8Array(32 * 1024 ** 2),
    headers: { 'content-type': 'application/octet-stream', 'upload-offset': '0' },
  });
  expect([answer.status, read]).toEqual([204, 32 * 1024 ** 2]);
});

describe('draining', () => {
  const run = 'run_01k9w6r3h2e7xv5q0c8m4b1tza';
  let begun: PromiseWithResolvers<void>;
  beforeEach(() => {
    begun = Promise.withResolvers();
  });

  test('open answers are ended, idle connections are closed, new ones are refused', async () => {
    const answering = Promise.withResolvers<void>();
    const listTools = async () => {
      begun.resolve();
      await answering.promise;
      return { status: 200, body: { data: [], next_cursor: null } } as const;
    };
    server = await startTestServer({ handlers: { ...handlers, listTools } });
    await server.request('GET', '/health');
    const open = server.request('GET', '/api/v1/tools');
    await begun.promise;
    server.state.draining = true;
    const drained = server.drain(20_000);
    answering.resolve();
    const answer = await open;
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close']);
    await drained;
    await expect(server.request('GET', '/health')).rejects.toThrow();
  });

  test('streams that go on are told why they end', async () => {
    async function* silent() {
      begun.resolve();
      await new Promise(() => undefined);
      yield { data: {} };
    }
    const headers = { 'X-Run-Id': run };
    const streamRunEvents = async () => ({ status: 200, type: 'text/event-stream', headers, body: silent() });
    server = await startTestServer({ handlers: { ...handlers, streamRunEvents } });
    const stream = server.request('GET', `/api/v1/runs/${run}/events`);
    await begun.promise;
    const started = Date.now();
    await server.drain(30_000);
    expect((await stream).text).toMatch(/event: error\ndata: \{"error":"draining: [^"]+"\}\n\n$/);
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  test('streams that begin only then are told as well', async () => {
    const thought = Promise.withResolvers<void>();
    async function* silent() {
      await new Promise(() => undefined);
      yield { data: {} };
    }
    const headers = { 'X-Run-Id': run };
    const streamRunEvents = async () => {
      begun.resolve();
      await thought.promise;
      return { status: 200, type: 'text/event-stream', headers, body: silent() } as const;
    };
    server = await startTestServer({ handlers: { ...handlers, streamRunEvents } });
    const stream = server.request('GET', `/api/v1/runs/${run}/events`);
    await begun.promise;
    const started = Date.now();
    const drained = server.drain(30_000);
    // The others are told after a second.
    await sleep(2000);
    thought.resolve();
    expect((await stream).text).toMatch(/event: error\ndata: \{"error":"draining: [^"]+"\}\n\n$/);
    await drained;
    expect(Date.now() - started).toBeLessThan(20_000);
  });

  test('what does not end is cut off', async () => {
    const listTools = () => {
      begun.resolve();
      return new Promise<never>(() => undefined);
    };
    server = await startTestServer({ handlers: { ...handlers, listTools } });
    const open = server.request('GET', '/api/v1/tools').catch(() => 'cut');
    await begun.promise;
    await server.drain(300);
    expect(await open).toBe('cut');
  });
});
