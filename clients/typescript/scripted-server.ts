/** A server for tests that plays the service's contract on loopback, answer by answer, and can cut connections. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A request as it arrived. */
export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers the request; `count` is how many came before it. */
export type Script = (request: Received, response: ServerResponse, count: number) => void | Promise<void>;

export interface ScriptedServer {
  readonly url: string;
  /** Everything that came, in order. */
  readonly received: readonly Received[];
  close(): Promise<void>;
}

/** Starts a server on a free port. */
export async function startScriptedServer(script: Script): Promise<ScriptedServer> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request;
    const body = await text(request).catch(() => null);
    if (body === null) return; // It was broken off.
    const arrived = { method, url, headers, body };
    received.push(arrived);
    await script(arrived, response, received.length - 1);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url: `http://127.0.0.1:${port}`, received, close };
}

/** Answers with JSON. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  const type = status < 400 ? 'application/json' : 'application/problem+json';
  response.writeHead(status, { 'Content-Type': type, ...headers }).end(JSON.stringify(body));
}

/** Answers with a problem body. */
export function sendProblem(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
): void {
  const body = {
    type: `/docs#${code}`,
    title: 'A title.',
    status,
    detail: 'What happened.',
    instance: '/',
    code,
  };
  sendJson(response, status, { ...body, request_id: 'req_1' }, headers);
}

/** Opens a stream of server-sent events. */
export function openStream(response: ServerResponse, runId: string | null = 'run_1'): void {
  response.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'X-SSE-Version': '1',
    ...(runId !== null && { 'X-Run-Id': runId }),
  });
  response.write(': keepalive\n\n');
}

/** One event as it stands on the wire. */
export function frame(id: number | null, name: string | null, data: unknown): string {
  const idLine = id === null ? '' : `id: ${id}\n`;
  const nameLine = name === null ? '' : `event: ${name}\n`;
  return `${idLine}${nameLine}data: ${JSON.stringify(data)}\n\n`;
}
