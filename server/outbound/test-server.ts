/** A web server on this machine that answers as a test says, and a guard that may reach it. */
import { execFileSync } from 'node:child_process';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createSecureServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { onTestFinished } from 'vitest';
import { createOutbound, type Outbound, type OutboundOptions } from './outbound.ts';

export interface TestServer {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly requests: Pick<IncomingMessage, 'method' | 'url' | 'headers'>[];
}

/** Stops at the end of the test, whatever is still open. With a certificate it speaks https. */
export async function serveAnswers(
  answer: RequestListener,
  host = '127.0.0.1',
  certificate?: Pick<ServerOptions, 'key' | 'cert'>,
): Promise<TestServer> {
  const requests: TestServer['requests'] = [];
  const listener: RequestListener = (request, response) => {
    const { method, url, headers } = request;
    requests.push({ method, url, headers });
    // Clients that refuse an answer hang up in the middle of it.
    response.on('error', () => undefined);
    answer(request, response);
  };
  const server = certificate ? createSecureServer(certificate, listener) : createServer(listener);
  await new Promise<void>((resolve) => void server.listen(0, host, resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  const { port } = server.address() as AddressInfo; // it listens on a port, not on a pipe
  const scheme = certificate ? 'https' : 'http';
  return { url: `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`, host, port, requests };
}

/** A certificate for this machine, which is believed until the end of the test. */
export function believedCertificate(openssl: string): { readonly key: string; readonly cert: string } {
  const words =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test -keyout - -out -';
  const args = [...words.split(' '), '-addext', 'subjectAltName=IP:127.0.0.1'];
  const both = execFileSync(openssl, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const before = getCACertificates('default');
  setDefaultCACertificates([...before, both]);
  onTestFinished(() => setDefaultCACertificates(before));
  return { key: both, cert: both };
}

/** Closes at the end of the test. */
export function testOutbound(options: Partial<OutboundOptions> = {}): Outbound {
  const outbound = createOutbound({ shared: () => true, ...options });
  onTestFinished(() => outbound.close());
  return outbound;
}
