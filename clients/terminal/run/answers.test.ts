/** An answer on its way to a server that says nothing, or refuses it late. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServiceClient } from '@service/client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { deliver, type Send } from './answers.ts';

test('an answer that a server says nothing to is given up, and sent again', async () => {
  let heard = 0;
  const send = await senderTo((_, response) => {
    heard += 1;
    // The first one is never answered, as where a network has gone without a word.
    if (heard > 1) response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  onTestFinished(() => said.mockRestore());
  expect(await deliver(send, new AbortController().signal, { limitMs: 300 })).toBe(null);
  // More often than twice where the machine is too busy to answer the second one in time.
  expect(heard).toBeGreaterThan(1);
  expect(said.mock.calls.join('')).toContain('is sent again.\nThe server said nothing for 0.3 s.');
});

test('an answer that is refused is not sent again, however long that took', async () => {
  let heard = 0;
  const send = await senderTo((_, response) => {
    heard += 1;
    const problem = { type: 'about:blank', title: 'No', detail: 'It is none.', request_id: 'req_1' };
    response.writeHead(400, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ ...problem, status: 400, code: 'bad_request' }));
  });
  // Its time is over by the moment that the refusal is read.
  const late: Send = (signal) =>
    send(new AbortController().signal).finally(() => signal.aborted || once(signal, 'abort'));
  expect(await deliver(late, new AbortController().signal, { limitMs: 300 })).toMatchObject({ status: 400 });
  expect(heard).toBe(1);
});

test.each([404, 409, 410])(
  'only the service itself says that a question is over: a page of a proxy with %i does not',
  async (status) => {
    let heard = 0;
    const send = await senderTo((_, response) => {
      heard += 1;
      if (heard > 1) response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      else response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>Not found</h1>');
    });
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => said.mockRestore());
    expect(await deliver(send, new AbortController().signal)).toBe(null);
    expect(heard).toBe(2);
    expect(said.mock.calls.join('')).toContain('The answer did not arrive, and is sent again.');
  },
);

/** Sends an interrupt to a server that answers so. */
async function senderTo(listener: RequestListener): Promise<Send> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  const client = createServiceClient({ baseUrl: `http://127.0.0.1:${port}` });
  const params = { path: { run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tze' } };
  return (signal) => client.POST('/api/v1/runs/{run_id}/interrupt', { params, signal });
}
