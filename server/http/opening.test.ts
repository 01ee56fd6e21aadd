/** A server that has its port, but is not open yet. */
import { once } from 'node:events';
import express from 'express';
import { expect, test } from 'vitest';
import { createHttpServer } from './server.ts';

test('requests that come before the server is open wait, and are answered then', async () => {
  const opened = Promise.withResolvers<void>();
  const app = express().get('/', (_request, response) => {
    response.end('answered');
  });
  const { server, drain } = createHttpServer(app, undefined, opened.promise);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  let answered = false;
  const answer = fetch(`http://127.0.0.1:${port}/`).then((response) => {
    answered = true;
    return response.text();
  });
  await once(server, 'request');
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(answered).toBe(false);
  opened.resolve();
  expect(await answer).toBe('answered');
  await drain(100);
});
