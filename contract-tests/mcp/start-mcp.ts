// A small MCP server for tests: it listens in their process, and goes with it.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { answerLogin, answerMcp } from './answers.ts';

export interface TestMcpServer {
  readonly url: string;
  /** The methods that were asked for, with the headers of their requests. */
  readonly asked: { readonly method: string; readonly headers: IncomingHttpHeaders }[];
  stop(): Promise<void>;
}

export async function startMcp(): Promise<TestMcpServer> {
  const asked: TestMcpServer['asked'] = [];
  const server = createServer(async (request, response) => {
    const sent = await text(request);
    const granted = answerLogin(request.url ?? '', `http://${request.headers.host}`);
    if (granted) {
      response.writeHead(granted.status, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify(granted.body));
    }
    asked.push({ method: sent && JSON.parse(sent).method, headers: request.headers });
    const { status, body } = answerMcp(request.method, sent);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body === null ? '' : JSON.stringify(body));
  }).unref();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    asked,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
