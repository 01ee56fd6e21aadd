/** The end of a stream whose reader does not read, over a real socket. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { ServerEvent } from '../handler.ts';
import { sendEvents } from './sse.ts';

const stallMs = 500;
const data = { type: 'notice_given', message: 'x'.repeat(8000) } as const;

/** Events until one waits that the system does not take, which is too little for a drain; after a while so many more. */
async function* untilFull(
  response: ServerResponse,
  afterMs: number,
  more: number,
): AsyncGenerator<ServerEvent> {
  const isFull = async () => {
    await nextTurn();
    if (response.writableLength > 0) await sleep(100);
    return response.writableLength > 0;
  };
  while (!(await isFull())) yield { name: 'runtime', data };
  expect(response.writableNeedDrain).toBe(false);
  await sleep(afterMs);
  for (let count = 0; count < more; count += 1) yield { name: 'runtime', data };
}

test.each([
  ['ends', 0, 0],
  ['ends after a while', 3 * stallMs, 0],
  ['goes on after a while', 3 * stallMs, 10_000],
])(
  'a stream that %s while its reader takes nothing is not held for ever, however little is left of it',
  async (_, afterMs, more) => {
    const { promise: closed, resolve: close } = Promise.withResolvers<boolean>();
    const plain = createServer((_request, response) => {
      response.once('close', () => close(response.writableFinished));
      void sendEvents(response, untilFull(response, afterMs, more), {
        ...{ keepaliveMs: 60_000, stallMs, end: new AbortController().signal },
        ...{
          stalled: () => null,
          lastEvent: () => ({ name: 'error', data: { error: 'internal_error: It failed.' } }),
          check: () => undefined,
          cut: () => undefined,
        },
      });
    });
    plain.listen(0, '127.0.0.1');
    await once(plain, 'listening');
    const socket = connect((plain.address() as AddressInfo).port, '127.0.0.1').pause();
    socket.on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await closed).toBe(false);
    socket.destroy();
    plain.close();
  },
);

test('a piece that fails once something else has ended the stream is no failure that nobody hears of', async () => {
  const unheard: unknown[] = [];
  const hear = (error: unknown) => unheard.push(error);
  process.on('unhandledRejection', hear);
  onTestFinished(() => void process.off('unhandledRejection', hear));
  async function* failing(): AsyncGenerator<ServerEvent> {
    yield { name: 'runtime', data: { type: 'notice_given', message: 'One.' } };
    await sleep(10);
    throw new Error('The provider has gone away.');
  }
  const end = new AbortController();
  const plain = createServer((_request, response) => {
    void sendEvents(response, failing(), {
      ...{ keepaliveMs: 60_000, stallMs: 1000, end: end.signal, stalled: () => null },
      lastEvent: () => ({ name: 'error', data: { error: 'internal_error: It failed.' } }),
      check: () => end.abort(new Error('The key was revoked.')),
      cut: () => undefined,
    });
  });
  onTestFinished(() => void plain.close());
  plain.listen(0, '127.0.0.1');
  await once(plain, 'listening');
  const answer = await fetch(`http://127.0.0.1:${(plain.address() as AddressInfo).port}`);
  expect(await answer.text()).toContain('event: error');
  await sleep(100);
  expect(unheard).toEqual([]);
});
