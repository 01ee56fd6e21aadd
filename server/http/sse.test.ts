/** The end of a stream whose reader does not read, over a real socket. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ServerEvent } from '../handler.ts';
import { sendEvents } from './sse.ts';

test('a stream that ends while its reader takes nothing is not held for ever, however little is left of it', async () => {
  const { promise: closed, resolve: close } = Promise.withResolvers<boolean>();
  const plain = createServer((_request, response) => {
    response.once('close', () => close(response.writableFinished));
    /** Ends with the first event that the system does not take: it waits then, and is too little for a drain. */
    async function* untilFull(): AsyncGenerator<ServerEvent> {
      const data = { type: 'notice_given', message: 'x'.repeat(8000) } as const;
      while (!(await isFull())) yield { name: 'runtime', data };
      expect(response.writableNeedDrain).toBe(false);
    }
    const isFull = async () => {
      await nextTurn();
      if (response.writableLength > 0) await sleep(100);
      return response.writableLength > 0;
    };
    void sendEvents(response, untilFull(), {
      ...{ keepaliveMs: 60_000, stallMs: 1000, end: new AbortController().signal },
      ...{
        stalled: () => null,
        lastEvent: () => ({ name: 'error', data: { error: 'internal_error: It failed.' } }),
        check: () => undefined,
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
});
