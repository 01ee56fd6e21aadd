/** What is half-sent to a server that is told no limits. */
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import express from 'express';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createHttpServer } from './server.ts';

test('a request that is half-sent is gone within a minute', async () => {
  const begun = Promise.withResolvers<void>();
  const app = express().post('/', (request) => void request.once('data', () => begun.resolve()));
  const { server, drain } = createHttpServer(app);
  onTestFinished(() => drain(0));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // Of a head Node itself counts the time, with a clock that no test sets; the types do not know how often it looks.
  const { connectionsCheckingInterval } = server as unknown as { connectionsCheckingInterval: number };
  expect(server.headersTimeout).toBeGreaterThan(0);
  const leftForBody = 60_000 - server.headersTimeout - connectionsCheckingInterval;

  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { port } = server.address() as AddressInfo; // a TCP server has no other kind of address
  const socket = connect(port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{');
  await begun.promise;
  vi.advanceTimersByTime(leftForBody);
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 408 /);
});
