// A scripted upstream: plays model providers over HTTP, in their own wire formats, from the command line.
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { createFront } from './front.ts';
import { parseScript } from './script.ts';

const help = `Usage: node contract-tests/upstream/upstream.ts [options]

Plays OpenAI (chat completions, Responses), Anthropic (Messages), Azure OpenAI, Gemini and Vertex AI from a script.
Prints one line of JSON, {"url": "http://…"}, once it listens. Ends on SIGTERM or SIGINT.

  --port N          port to listen on; 0, the default, takes a free one
  --host ADDRESS    address to bind; default 127.0.0.1
  --script FILE     the script (JSON); default: default-script.json beside this program
  --follow-stdin    also end when standard input closes, as it does when the parent dies
  --help            print this text

The script format and the control endpoints are described in README.md beside this program.`;

const options = {
  port: { type: 'string', default: '0' },
  host: { type: 'string', default: '127.0.0.1' },
  script: { type: 'string' },
  'follow-stdin': { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const; // parseArgs types its result by these literals.

try {
  start();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}

function start(): void {
  const { values } = parseArgs({ options });
  if (values.help) {
    console.log(help);
    return;
  }
  const port = Number(values.port);
  if (!Number.isInteger(port) || port < 0 || port > 65535)
    throw new Error(`--port: not a port: ${values.port}`);
  const path = values.script ?? new URL('default-script.json', import.meta.url);
  const server = createServer(createFront(parseScript(JSON.parse(readFileSync(path, 'utf8')))));
  // Longer than any client keeps an idle connection, so that none is closed as a request sets out on it.
  server.keepAliveTimeout = 600_000;
  server.on('error', (error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
  server.listen(port, values.host, () => announce(server));
  const stop = () => {
    server.close();
    server.closeAllConnections();
    process.stdin.destroy();
  };
  process.once('SIGTERM', stop).once('SIGINT', stop);
  if (values['follow-stdin']) process.stdin.resume().once('end', stop);
}

function announce(server: Server): void {
  const { address, family, port } = server.address() as AddressInfo; // It listens on TCP, so it has one.
  console.log(JSON.stringify({ url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}` }));
}
