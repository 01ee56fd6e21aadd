/** Finding model servers on this machine, against real ones on loopback. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { discoverLocalProviders } from './local-providers.ts';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return `http://127.0.0.1:${port}`;
}

function answering(path: string, body: unknown, status = 200): RequestListener {
  return (request, response) => {
    response.writeHead(request.url === path ? status : 404, { 'content-type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}

/** Takes a request and never answers. */
function silent(request: IncomingMessage): void {
  request.resume();
}

/** An address where nothing listens any more. */
async function nobody(): Promise<string> {
  const address = await serve(silent);
  await new Promise((resolve) => servers.pop()?.close(resolve));
  return address;
}

test('Ollama and LM Studio are found with their models, and asked where they are', async () => {
  const ollama = await serve(
    answering('/api/tags', {
      models: [
        { name: 'qwen3:8b', details: { family: 'qwen3' } },
        { name: 'nomic-embed-text:latest', details: { family: 'nomic-bert' } },
        { name: 'llama4:latest' },
      ],
    }),
  );
  const lmstudio = await serve(
    answering('/v1/models', { data: [{ id: 'text-embedding-nomic' }, { id: 'gemma-4-27b' }] }),
  );
  const found = await discoverLocalProviders(fetch, 1000, { ollama, lmstudio });
  const connected = found.map(async ({ connect, ...plain }) => ({ ...plain, connection: await connect() }));
  expect(await Promise.all(connected)).toEqual([
    {
      id: 'ollama',
      name: 'Ollama',
      type: 'openai-compat',
      origin: 'discovered',
      onlyListed: true,
      flatRate: true,
      models: [
        { id: 'qwen3:8b', name: 'qwen3:8b' },
        { id: 'llama4:latest', name: 'llama4:latest' },
      ],
      connection: { baseUrl: `${ollama}/v1` },
    },
    {
      id: 'lmstudio',
      name: 'LM Studio',
      type: 'openai-compat',
      origin: 'discovered',
      onlyListed: true,
      flatRate: true,
      models: [{ id: 'gemma-4-27b', name: 'gemma-4-27b' }],
      connection: { baseUrl: `${lmstudio}/v1` },
    },
  ]);
});

test('where nothing listens, nothing is found', async () => {
  const address = await nobody();
  expect(await discoverLocalProviders(fetch, 1000, { ollama: address, lmstudio: address })).toEqual([]);
});

test.each([
  ['an error', '{"error":"no"}', 500],
  ['no JSON', '<html>', 200],
  ['null', 'null', 200],
  ['another shape', '{"models":"many","data":{"id":"x"}}', 200],
  ['odd entries', '{"models":[null,7,{"name":5},{"name":""}],"data":[{},[]]}', 200],
  ['no models', '{"models":[],"data":[]}', 200],
])('a server that answers with %s is left out', async (_what, body, status) => {
  const ollama = await serve(answering('/api/tags', body, status));
  const lmstudio = await serve(answering('/v1/models', body, status));
  expect(await discoverLocalProviders(fetch, 1000, { ollama, lmstudio })).toEqual([]);
});

test('a redirect is not followed', async () => {
  let followed = false;
  const target = await serve((_request, response) => {
    followed = true;
    response.end('{"models":[{"name":"x"}]}');
  });
  const ollama = await serve((_request, response) => {
    response.writeHead(302, { location: `${target}/api/tags` }).end();
  });
  expect(await discoverLocalProviders(fetch, 1000, { ollama, lmstudio: await nobody() })).toEqual([]);
  expect(followed).toBe(false);
});

test('a server that hangs, before or within its answer, costs no more than the time limit', async () => {
  const ollama = await serve(silent);
  const lmstudio = await serve((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"data":[');
  });
  const start = performance.now();
  expect(await discoverLocalProviders(fetch, 200, { ollama, lmstudio })).toEqual([]);
  expect(performance.now() - start).toBeLessThan(10_000);
});
