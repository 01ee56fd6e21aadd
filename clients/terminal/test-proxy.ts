/** A network between the command and a server, for tests: what it does to a request is what the test says. */
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A way to one server. */
export interface TestProxy {
  readonly url: string;
  /** The next request of this kind, as `POST /path`, does not reach the server: it gets this status, no answer, or waits for one. */
  spoil(kind: RegExp, how: number | 'dropped' | 'unanswered'): void;
  /** Those that were spoilt, as `POST /path`. */
  spoilt(): readonly string[];
}

/** It is gone after the test. */
export async function startTestProxy(server: string): Promise<TestProxy> {
  const plans: { readonly kind: RegExp; readonly how: number | 'dropped' | 'unanswered' }[] = [];
  const spoilt: string[] = [];
  const proxy = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const line = `${method} ${url}`;
    const at = plans.findIndex(({ kind }) => kind.test(line));
    const [plan] = at < 0 ? [] : plans.splice(at, 1);
    if (plan) {
      spoilt.push(line);
      if (plan.how === 'dropped') request.socket.destroy();
      else if (plan.how !== 'unanswered') response.writeHead(plan.how).end('Spoilt.');
      return;
    }
    const onward = forward(new URL(url, server), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response).on('close', () => answer.destroy());
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    proxy.close();
    proxy.closeAllConnections();
  });
  const { port } = proxy.address() as AddressInfo; // it listens at a port
  return {
    url: `http://127.0.0.1:${port}`,
    spoil: (kind, how) => void plans.push({ kind, how }),
    spoilt: () => spoilt,
  };
}
