/** Bodies: their types, codings, sizes and texts, and what strangers do with them. */
import { connect } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { watchLoop } from '../test-cpu.ts';
import { startTestServer, type TestAnswer, type TestServer } from './test-server.ts';

let server: TestServer;
const seen: unknown[] = [];

beforeAll(async () => {
  server = await startTestServer({
    handlers: {
      getHealth: async () => ({ status: 200, body: { status: 'ok' } }),
      logout: async ({ body }) => {
        seen.push(body);
        return { status: 204 };
      },
    },
  });
});
afterAll(() => server.close());

const sessions = '/api/v1/sessions';
const session = `${sessions}/ses_01k9w6r3h2e7xv5q0c8m4b1tza`;
const limit = 4_194_304;

/** 404 is what the handlers here answer: the body was let through. */
const passed = [404, 'not_found'];
const outcome = (answer: TestAnswer) => [answer.status, answer.json?.code];
const post = (body: unknown, headers: Record<string, string> = {}) =>
  server.request('POST', sessions, { body, headers });

describe('content types', () => {
  test.each([
    ['application/json', passed],
    ['application/json; charset=utf-8', passed],
    ['application/json;charset="UTF-8"', passed],
    ['APPLICATION/JSON', passed],
    ['application/json; charset=utf-16', [415, 'unsupported_media_type']],
    ['application/json; charset=iso-8859-1', [415, 'unsupported_media_type']],
    ['text/plain', [415, 'unsupported_media_type']],
    ['application/x-www-form-urlencoded', [415, 'unsupported_media_type']],
    ['multipart/form-data; boundary=x', [415, 'unsupported_media_type']],
    ['application/merge-patch+json', [415, 'unsupported_media_type']],
    ['nonsense', [415, 'unsupported_media_type']],
    ['', [415, 'unsupported_media_type']],
  ])('%s', async (type, expected) => {
    expect(outcome(await post('{}', { 'content-type': type }))).toEqual(expected);
  });

  test('a merge patch may come as plain JSON', async () => {
    for (const type of ['application/merge-patch+json', 'application/json']) {
      const headers = { 'content-type': type };
      expect(outcome(await server.request('PATCH', session, { body: { title: 'x' }, headers }))).toEqual(
        passed,
      );
    }
  });

  test('a body without a type is refused, and told which types there are', async () => {
    const head = `POST ${sessions} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nConnection: close\r\n`;
    const text = await server.raw(`${head}Content-Length: 2\r\n\r\n{}`);
    expect(text).toMatch(/^HTTP\/1.1 415 /);
    expect(text).toContain('application/json');
  });
});

describe('what is accepted', () => {
  test.each([
    ['*/*', 200],
    ['application/*', 200],
    ['application/json', 200],
    ['application/json;charset=utf-8', 200],
    ['text/html, application/json;q=0.1', 200],
    ['text/html', 406],
    ['application/problem+json', 406],
    ['application/json;q=0', 406],
    ['application/json;q=0, */*', 406],
    ['application/*;q=0, application/json', 200],
    ['*/*;q=0', 406],
    ['text/html, */*;q=0.1', 200],
    ['nonsense', 406],
    ['', 200],
  ])('Accept: %s gets %i', async (accept, status) => {
    const answer = await server.request('GET', '/health', { headers: { accept } });
    expect(answer.status).toBe(status);
    if (status === 406) expect(answer.headers.get('content-type')).toBe('application/problem+json');
  });

  test('an answer without a body is acceptable to everybody', async () => {
    const headers = { accept: 'image/png' };
    expect((await server.request('POST', '/api/v1/auth/logout', { body: {}, headers })).status).toBe(204);
  });
});

describe('codings', () => {
  const plain = Buffer.from(JSON.stringify({ title: 'x' }));
  const bomb = Buffer.from(`{"title":"${'x'.repeat(limit)}"}`);

  test.each([
    ['gzip', gzipSync(plain), passed],
    ['x-gzip', gzipSync(plain), passed],
    ['deflate', deflateSync(plain), passed],
    ['br', brotliCompressSync(plain), passed],
    ['identity', plain, passed],
    ['gzip', gzipSync(bomb), [413, 'body_too_large']],
    ['deflate', deflateSync(bomb), [413, 'body_too_large']],
    ['br', brotliCompressSync(bomb), [413, 'body_too_large']],
    ['gzip', plain, [400, 'invalid_encoding']],
    ['gzip', gzipSync(plain).subarray(0, 12), [400, 'invalid_encoding']],
    ['compress', plain, [415, 'unsupported_media_type']],
    ['gzip, gzip', gzipSync(gzipSync(plain)), [415, 'unsupported_media_type']],
  ])('%s (%#)', async (coding, body, expected) => {
    expect(outcome(await post(body, { 'content-encoding': coding }))).toEqual(expected);
  });
});

describe('sizes', () => {
  const ofSize = (bytes: number) => `{"metadata":{"k":"${'x'.repeat(bytes - 21)}"}}`;
  const head = `POST ${sessions} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nContent-Type: application/json\r\n`;

  test('the limit itself is read, one byte more is not', async () => {
    expect(outcome(await post(ofSize(limit)))).toEqual([400, 'invalid_request']);
    expect(outcome(await post(ofSize(limit + 1)))).toEqual([413, 'body_too_large']);
  });

  test('a declaration of a terabyte is refused unread, and the connection closed', async () => {
    const text = await server.raw(`${head}Content-Length: 1099511627776\r\n\r\n{`);
    expect(text).toMatch(/^HTTP\/1.1 413 /);
    expect(text).toContain('Connection: close');
  });

  test('a caller that is still sending gets the whole answer', async () => {
    const started = Date.now();
    const text = await new Promise<string>((resolve, reject) => {
      const socket = connect(server.port, '127.0.0.1');
      let received = '';
      const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
      const pump = () => {
        while (!socket.destroyed && socket.write(chunk));
      };
      socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
      socket.on('drain', pump).on('error', reject);
      socket.on('data', (data) => {
        received += data;
        if (received.includes('"request_id"')) socket.destroy();
      });
      socket.on('close', () => resolve(received));
      pump();
    });
    expect(text).toMatch(/^HTTP\/1.1 413 /);
    expect(text).toContain('Connection: close');
    expect(Date.now() - started).toBeLessThan(10_000);
  });

  test('a caller that waits for 100 Continue is refused before it sends', async () => {
    const text = await server.raw(
      `${head}Content-Length: ${limit + 1}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1.1 413 /);
    const fine = await server.raw(
      `${head}Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`,
      '{}',
    );
    expect(fine).toMatch(/^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 404 /);
  });

  test('/v1/messages has a limit of its own, and its clients get the shape they know', async () => {
    const message = (bytes: number) => ({
      model: 'm',
      max_tokens: 1,
      messages: [{ role: 'user', content: 'x'.repeat(bytes) }],
    });
    expect((await server.request('POST', '/v1/messages', { body: message(5_000_000) })).status).toBe(404);
    const answer = await server.request('POST', '/v1/messages', { body: message(33_554_432) });
    expect([answer.status, answer.json.error.type]).toEqual([413, 'request_too_large']);
    // Whoever is still sending reads it, too.
    const open = head.replace(sessions, '/v1/messages');
    const text = await server.raw(`${open}Content-Length: 33554433\r\n\r\n{"model": "m", `);
    expect(text).toMatch(/^HTTP\/1.1 413 /);
    expect(text).toContain('"type":"request_too_large"');
  });
});

describe('texts', () => {
  const utf16 = Buffer.from('{"title":"x"}', 'utf16le');
  test.each([
    ['broken JSON', '{"title": }', 'invalid_json'],
    ['nothing but spaces', '  ', 'invalid_json'],
    ['a comment', '{} // x', 'invalid_json'],
    ['a trailing comma', '{"title":"x",}', 'invalid_json'],
    ['two values', '{}{}', 'invalid_json'],
    ['NaN', '{"title":NaN}', 'invalid_json'],
    ['an unclosed string', '{"title":"x', 'invalid_json'],
    ['a raw control character', '{"title":"a\nb"}', 'invalid_json'],
    ['an overlong sequence', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 'invalid_encoding'],
    ['an encoded surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'invalid_encoding'],
    ['a cut sequence', Buffer.from([0x22, 0xe2, 0x82]), 'invalid_encoding'],
    ['UTF-16', utf16, 'invalid_encoding'],
    ['UTF-16 with a mark', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), 'invalid_encoding'],
    ['a lone surrogate escape', '{"title":"\\ud800"}', 'invalid_encoding'],
    ['a NUL escape', '{"title":"\\u0000"}', 'invalid_encoding'],
    ['a NUL escape in a name', '{"\\u0000":1}', 'invalid_encoding'],
    ['__proto__', '{"__proto__":{"polluted":1}}', 'invalid_request'],
    ['__proto__, escaped', '{"\\u005f_proto__":{"polluted":1}}', 'invalid_request'],
    ['__proto__, deeper', '{"metadata":{"__proto__":"x"}}', 'invalid_request'],
    ['constructor', '{"constructor":{"prototype":{"polluted":1}}}', 'invalid_request'],
    ['toString', '{"metadata":{"toString":"x"}}', 'invalid_request'],
    ['hasOwnProperty', '{"metadata":{"hasOwnProperty":"x"}}', 'invalid_request'],
    ['prototype', '{"metadata":{"prototype":"x"}}', 'invalid_request'],
    ['a list', '[]', 'invalid_request'],
    ['null', 'null', 'invalid_request'],
    ['a number', '5', 'invalid_request'],
    ['a text', '"x"', 'invalid_request'],
  ])('%s is refused', async (_title, body, code) => {
    expect(outcome(await post(body))).toEqual([400, code]);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });

  test('as many values are read as the operation takes, and no more', async () => {
    const values = (count: number) => `{"messages":[${Array(count - 2).fill(1)}]}`;
    const many = async (path: string, count: number) => {
      const heldUp = watchLoop();
      const { json } = await server.request('POST', path, { body: values(count) });
      expect(heldUp()).toBeLessThan(400);
      return json.detail.includes('values');
    };
    expect([await many(sessions, 100_000), await many(sessions, 100_001)]).toEqual([false, true]);
    const imports = `${sessions}/import`;
    expect([await many(imports, 500_000), await many(imports, 500_001)]).toEqual([false, true]);
  });

  test('broken JSON is told where it breaks', async () => {
    const answer = await post('{\n  "title": }');
    expect(answer.json.detail).toBe('The body is not JSON: line 2, column 12 (offset 13).');
  });

  test('a mark at the beginning, and any text that is one, get through', async () => {
    expect(outcome(await post(Buffer.from('\ufeff{"title":"x"}')))).toEqual(passed);
    expect(outcome(await post({ title: 'Grüße 👋 \u2028 \r\n {["' }))).toEqual(passed);
  });
});

describe('absurd bodies are refused within a second, and block nobody', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
  const many = (count: number, entry: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => entry(index)).join(',');
  test.each([
    ['nested 100 000 deep', nested(100_000)],
    ['nested 65 deep', nested(65)],
    ['nested and not closed', '{"a":'.repeat(100_000)],
    ['two million items without commas', `[${'1 '.repeat(2_000_000)}`],
    ['two million lines before a fault', `{${'\n'.repeat(2_000_000)}:}`],
    ['a million items', `[${many(1_000_000, () => '1')}]`],
    ['200 000 members', `{${many(200_000, (index) => `"k${index}":1`)}}`],
    ['5001 members', `{${many(5001, (index) => `"k${index}":1`)}}`],
    ['4999 members that are not known', `{${many(4999, (index) => `"k${index}":1`)}}`],
    [
      '1600 names of one length',
      `{"metadata":{${many(1600, (index) => `"${'A'.repeat(999)}${index}":"x"`)}}}`,
    ],
    ['99 000 wrong items', `{"tags":[${many(99_000, () => '1')}]}`],
    ['a name of three megabytes', `{"${'x'.repeat(3_000_000)}":1}`],
    ['backslashes', `{"title":"${'\\\\'.repeat(1_000_000)}"}`],
  ])('%s', async (_title, body) => {
    await post('{}');
    const heldUp = watchLoop();
    const answer = await post(body);
    // The client shares this loop, so that the bar for the server alone is a little lower than this.
    expect(heldUp()).toBeLessThan(400);
    expect(outcome(answer)).toEqual([400, expect.stringMatching(/^invalid_(request|json)$/)]);
    expect(answer.text.length).toBeLessThan(10_000);
  });
});

describe('bodies where none belongs', () => {
  test('an empty one is none', async () => {
    const chunked = `GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n`;
    expect(await server.raw(chunked)).toMatch(/^HTTP\/1.1 200 /);
    const empty = `GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
    expect(await server.raw(empty)).toMatch(/^HTTP\/1.1 200 /);
  });

  test('another is refused, declared or not', async () => {
    const declared = `GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`;
    expect(await server.raw(declared)).toMatch(/^HTTP\/1.1 400 [\s\S]*invalid_request/);
    const chunked = `GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`;
    expect(await server.raw(chunked)).toMatch(/^HTTP\/1.1 400 [\s\S]*invalid_request/);
  });

  test('where a body is optional, none is none, and defaults fill what is absent', async () => {
    seen.length = 0;
    expect((await server.request('POST', '/api/v1/auth/logout')).status).toBe(204);
    expect((await server.request('POST', '/api/v1/auth/logout', { body: {} })).status).toBe(204);
    expect(seen).toEqual([undefined, { all_devices: false }]);
  });

  test('where it is needed, its absence is named', async () => {
    const answer = await server.request('POST', sessions);
    expect(outcome(answer)).toEqual([400, 'invalid_request']);
    expect(answer.json.errors).toEqual([
      { in: 'body', pointer: '', message: 'is required by this operation', code: 'required' },
    ]);
  });
});

test('24 000 wrong messages are refused as fast', async () => {
  const body = { model: 'm', max_tokens: 1, messages: Array(24_000).fill({ role: 'user', content: 5 }) };
  const heldUp = watchLoop();
  const answer = await server.request('POST', '/v1/messages', { body });
  expect(heldUp()).toBeLessThan(400);
  expect(answer.json.error.message).toBe('messages.0.content: must be string or array');
});

test('a caller that goes away in the middle of its body leaves nothing behind', async () => {
  const before = server.log.length;
  const socket = connect(server.port, '127.0.0.1');
  socket.write(`POST ${sessions} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\n`);
  const sent = Promise.withResolvers<unknown>();
  socket.write('Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"title":', sent.resolve);
  await sent.promise;
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.destroy();
  await expect.poll(() => server.log.length).toBeGreaterThan(before);
  expect(server.log.at(-1)).toMatchObject({ msg: 'request', aborted: true });
  expect((await server.request('GET', '/health')).status).toBe(200);
});

test('a connection serves on after a refused request with a small body', async () => {
  const request = (path: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer login\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`;
  const text = await server.raw(
    request('/nowhere', '{"a":1}'),
    request(sessions, '{'),
    'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  );
  expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 400', 'HTTP/1.1 200']);
});
