/** A network between the command and a server, for tests: what it does to a request is what the test says. */
import { createServer, request as forward } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * What becomes of a request: it does not reach the server, and gets this status, is told that its login is over, loses its
 * connection, or waits for an answer; or it is done, and the answer does not arrive, or is kept back until the test lets it go.
 */
type Spoilt = number | 'expired' | 'dropped' | 'unanswered' | 'answer_lost' | 'answer_kept';

/** A way to one server. */
export interface TestProxy {
  readonly url: string;
  /** What becomes of the next request of this kind, as `POST /path`. */
  spoil(kind: RegExp, how: Spoilt): void;
  /** Cuts the connections of all requests of this kind, and of those that come, until the given function is called. */
  cut(kind: RegExp): () => void;
  /** Lets go of the answers that are kept back. */
  letGo(): void;
  /** Those that were spoilt, as `POST /path`; one whose answer is kept back stands here once it is done. */
  spoilt(): readonly string[];
}

/** It is gone after the test. */
export async function startTestProxy(server: string): Promise<TestProxy> {
  const plans: { readonly kind: RegExp; readonly how: Spoilt }[] = [];
  const cut = new Set<RegExp>();
  const open = new Map<Socket, string>();
  const spoilt: string[] = [];
  const kept: (() => void)[] = [];
  const proxy = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const line = `${method} ${url}`;
    if ([...cut].some((kind) => kind.test(line))) return void request.socket.destroy();
    open.set(request.socket, line);
    response.on('close', () => open.delete(request.socket));
    const at = plans.findIndex(({ kind }) => kind.test(line));
    const [plan] = at < 0 ? [] : plans.splice(at, 1);
    const how = plan?.how ?? null;
    if (how !== null && how !== 'answer_kept') spoilt.push(line);
    if (how === 'dropped') return void request.socket.destroy();
    if (how === 'unanswered') return;
    if (how === 'expired') {
      const facts = { type: 'about:blank', title: 'Expired', detail: 'It is over.', request_id: 'req_1' };
      response.writeHead(401, { 'content-type': 'application/problem+json' });
      return void response.end(JSON.stringify({ ...facts, status: 401, code: 'credential_expired' }));
    }
    if (typeof how === 'number') return void response.writeHead(how).end('Spoilt.');
    const onward = forward(new URL(url, server), { method, headers }, (answer) => {
      if (how === 'answer_lost') {
        answer.destroy();
        return void request.socket.destroy();
      }
      const passOn = () => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response).on('close', () => answer.destroy());
      };
      if (how !== 'answer_kept') return passOn();
      kept.push(passOn);
      spoilt.push(line);
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
    cut(kind) {
      cut.add(kind);
      for (const [socket, line] of open) if (kind.test(line)) socket.destroy();
      return () => void cut.delete(kind);
    },
    letGo: () => {
      for (const passOn of kept.splice(0)) passOn();
    },
    spoilt: () => spoilt,
  };
}
