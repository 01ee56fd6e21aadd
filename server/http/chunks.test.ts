/** Answers that come piece by piece, and not to the length that was told: the connection says so. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestServer, type TestServer } from './test-server.ts';

let server: TestServer;
let pieces: readonly string[];
/** What the handler waits for, and gives then. */
let given: (signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>;

async function* bytes() {
  for (const piece of pieces) yield Buffer.from(piece);
}

beforeAll(async () => {
  server = await startTestServer({
    settings: { strict: false },
    handlers: {
      downloadFile: async ({ signal }) => ({
        status: 200,
        headers: {
          ...{ ETag: '"x"', 'Accept-Ranges': 'bytes', 'Content-Disposition': 'attachment' },
          'Content-Length': '10',
        },
        type: 'application/octet-stream',
        body: await given(signal),
      }),
    },
  });
});
beforeEach(() => {
  given = async () => bytes();
});
afterAll(() => server.close());

const ask = (path: string, more = '') =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer login\r\n${more}\r\n`;
const file = ask('/api/v1/files/file_01k9w6r3h2e7xv5q0c8m4b1tza/content');
/** Sent with the first: what a server has not read when it cuts off is a reset for whoever sent it. */
const next = ask('/api/v1/version', 'Connection: close\r\n');

test.each([
  ['too few', ['0123']],
  ['none', []],
  ['too many', ['01234567', '89ab']],
])('of %s bytes is cut off, and the next answer is not taken for its rest', async (_, sent) => {
  pieces = sent;
  const before = server.log.length;
  const answer = await server.raw(file + next);
  // What was written before the connection was cut may have been on its way, or not.
  expect((answer.match(/HTTP\/1\.1/g) ?? []).length).toBeLessThan(sent.length > 0 ? 2 : 1);
  // The head holds an id, of which these letters may be a part.
  expect(answer.split('\r\n\r\n').slice(1).join()).not.toContain('ab');
  const lines = () =>
    server.log.slice(before).filter(({ msg }) => msg === 'failed after the answer had begun');
  await expect.poll(lines).toEqual([expect.objectContaining({ request_id: expect.stringMatching(/^req_/) })]);
});

test('of the bytes that were told is whole, and the connection goes on', async () => {
  pieces = ['01234', '56789'];
  const answer = await server.raw(file + next);
  expect(answer).toContain('\r\n\r\n0123456789HTTP/1.1 404');
});

test('for which nobody waits any more is closed unread, and no fault of the server', async () => {
  const before = server.log.length;
  const unread = Readable.from(['0123456789']);
  const caller = connect(server.port, '127.0.0.1');
  given = async (signal) => {
    caller.destroy();
    await once(signal, 'abort');
    return unread;
  };
  caller.write(file);
  await once(unread, 'close');
  expect(server.log.slice(before).filter(({ level }) => level === 50)).toEqual([]);
});
