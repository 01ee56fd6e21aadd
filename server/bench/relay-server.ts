/** What the runtime is measured against: a server that passes a provider's stream on to the caller, and does nothing else. */
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

const upstream = process.argv[2] ?? '';

const server = createServer((asked, response) => {
  const passed = request(
    `${upstream}/v1/chat/completions`,
    { method: 'POST', headers: { authorization: 'Bearer k', 'content-type': 'application/json' } },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' });
      answer.pipe(response);
    },
  );
  asked.pipe(passed);
});
server.listen(0, '127.0.0.1', () => {
  // A server that listens on a port has an address of this kind.
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => process.exit(0));
