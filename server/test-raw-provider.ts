/** A provider that says on the wire, word for word, what a test has it say: for answers that no honest one gives. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Json } from './test-app.ts';

type Say = (response: ServerResponse, asked: { readonly url: string; readonly body: Json }) => void;

export interface RawProvider {
  readonly url: string;
  /** How often it was asked. */
  readonly asked: number;
  /** From now on. */
  says(say: Say): void;
  stop(): Promise<void>;
}

export async function startRawProvider(): Promise<RawProvider> {
  let say: Say = (response) => void response.end();
  let asked = 0;
  const server = createServer(async (request, response) => {
    // Whoever asks may hang up.
    response.on('error', () => undefined);
    asked += 1;
    say(response, { url: request.url ?? '', body: await json(request) });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a port, not on a pipe
  return {
    url: `http://127.0.0.1:${port}`,
    get asked() {
      return asked;
    },
    says(next) {
      say = next;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The beginning of a stream of events, each of them with its name where it has a type; the connection stays open. */
export function sayEvents(response: ServerResponse, ...events: readonly Json[]): void {
  if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events) {
    const name = event.type ? `event: ${event.type}\n` : '';
    response.write(`${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`);
  }
}

/** An answer in one piece. */
export function sayWhole(response: ServerResponse, answer: Json): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(answer));
}
