/** A web server on this machine that answers as a test says, and a guard that may reach it. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { createOutbound, type Outbound, type OutboundOptions } from './outbound.ts';

export interface TestServer {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly requests: Pick<IncomingMessage, 'method' | 'url' | 'headers'>[];
}

/** Stops at the end of the test, whatever is still open. */
export async function serveAnswers(answer: RequestListener, host = '127.0.0.1'): Promise<TestServer> {
  const requests: TestServer['requests'] = [];
  const server = createServer((request, response) => {
    const { method, url, headers } = request;
    requests.push({ method, url, headers });
    // Clients that refuse an answer hang up in the middle of it.
    response.on('error', () => undefined);
    answer(request, response);
  });
  await new Promise<void>((resolve) => void server.listen(0, host, resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  const { port } = server.address() as AddressInfo; // it listens on a port, not on a pipe
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, host, port, requests };
}

/** Closes at the end of the test. */
export function testOutbound(options: Partial<OutboundOptions> = {}): Outbound {
  const outbound = createOutbound({ shared: () => true, ...options });
  onTestFinished(() => outbound.close());
  return outbound;
}
