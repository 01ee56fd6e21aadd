/** How a form is read: its file no faster than whoever stores it takes it. */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import type { UploadedFile } from '../handler.ts';
import type { Exchange } from './exchange.ts';
import { readForm } from './form.ts';

const route = routes.find(({ operationId }) => operationId === 'uploadFile');
const opened = Promise.withResolvers<UploadedFile>();
const server = createServer(async (asked, response) => {
  if (!route) throw new Error('no uploadFile in the contract');
  // Reading needs no more of an exchange than these two.
  const exchange = { request: asked, response } as unknown as Exchange;
  const { file } = await readForm(exchange, route, {
    limit: 2 ** 30,
    excess: () => new Error('long') as never,
  });
  opened.resolve(file as UploadedFile); // the form below has one
});

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test('who takes nothing of the file holds up its sender', async () => {
  const { port } = server.address() as AddressInfo; // it listens on a port
  const sending = request({
    port,
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
  });
  sending.on('error', () => undefined);
  const chunk = Buffer.alloc(1024 * 1024);
  sending.write('--x\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n');
  let accepted = 0;
  while (accepted < 64) {
    const full = !sending.write(chunk);
    const left = await Promise.race([full ? once(sending, 'drain') : [], setTimeout(1500, 'held')]);
    if (left === 'held') break;
    accepted += 1;
  }
  // What the sockets of both sides hold besides.
  expect(accepted).toBeLessThan(24);
  await opened.promise;
  sending.destroy();
});
