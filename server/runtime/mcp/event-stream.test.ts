/** Event streams that end, are refused and come back: what a server says by them is heard, and it is not asked too often. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { testMcp, testWorkspace } from './test-mcp.ts';

interface Message {
  readonly id?: number;
  readonly method?: string;
}

/** A server with the tools of that name; `stream` answers who asks for its events, `prompts` is waited for by who lists them. */
async function serve(stream: (response: ServerResponse) => void, prompts?: () => Promise<void>) {
  const has = { tool: 'old', session: 's1' };
  const asked: string[] = [];
  const capabilities = { tools: { listChanged: true }, ...(prompts && { prompts: {} }) };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const { id, method = '' } = JSON.parse(body || '{}') as Message; // the client is ours
    asked.push(method || (request.method ?? ''));
    const { 'mcp-session-id': session } = request.headers;
    if (method !== 'initialize' && session !== has.session) return void response.writeHead(404).end();
    if (request.method === 'GET') return stream(response);
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'prompts/list') await prompts?.();
    const serverInfo = { name: 'p', version: '0' };
    const result =
      method === 'initialize'
        ? { protocolVersion: '2025-06-18', capabilities, serverInfo }
        : method === 'prompts/list'
          ? { prompts: [] }
          : { tools: [{ name: has.tool, inputSchema: { type: 'object' } }] };
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': has.session });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('no port');
  const count = (what: string) => asked.filter((one) => one === what).length;
  return { url: `http://127.0.0.1:${address.port}/mcp`, has, count };
}

function uses(url: string) {
  const place = { workspacePath: testWorkspace() };
  const mcp = testMcp({ p: { type: 'http', url } });
  return {
    names: async () => (await mcp.tools(place)).map(({ name }) => name),
    states: () => mcp.states(place),
    close: () => mcp.close(),
  };
}

/** A stream that can be cut, and refused for a while. */
function cuttable() {
  const open = new Set<ServerResponse>();
  const now = { refusing: false };
  const stream = (response: ServerResponse) => {
    if (now.refusing) return void response.writeHead(503).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
    open.add(response);
    response.on('close', () => open.delete(response));
  };
  const cut = () => {
    for (const response of open) response.destroy();
    open.clear();
  };
  const say = (text: string) => {
    for (const response of open) response.write(text);
  };
  return { open, now, stream, cut, say };
}

test('a server that wants to be asked again at once is asked once a second', async () => {
  const times: number[] = [];
  const server = await serve((response) => {
    times.push(performance.now());
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('retry: 0\n\ndata: \n\n');
  });
  await uses(server.url).names();
  await expect.poll(() => times.length).toBeGreaterThanOrEqual(3);
  const [first = 0, second = 0, third = 0] = times;
  // What is asked late is heard late; of three the two pauses are two seconds all the same.
  expect(third - first).toBeGreaterThan(1800);
  expect(second).toBeGreaterThan(first);
});

test('a stream that was away longer than a restart takes comes back, and what was said meanwhile is asked for', async () => {
  const { open, now, stream, cut, say } = cuttable();
  const server = await serve(stream);
  const { names, states } = uses(server.url);
  expect(await names()).toEqual(['mcp_p_old']);
  await expect.poll(() => open.size).toBe(1);
  now.refusing = true;
  cut();
  // The tries of the library would be over.
  await delay(3500);
  server.has.tool = 'new';
  now.refusing = false;
  await expect.poll(() => open.size).toBe(1);
  await expect.poll(names).toEqual(['mcp_p_new']);
  server.has.tool = 'newest';
  say('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n');
  await expect.poll(names).toEqual(['mcp_p_newest']);
  expect(states()).toMatchObject([{ state: 'ready' }]);
  expect(server.count('initialize')).toBe(1);
});

test('tools that change while the server is listed for the first time are listed again', async () => {
  const { open, stream, say } = cuttable();
  const server = await serve(stream, async () => {
    if (server.has.tool === 'new') return;
    await expect.poll(() => open.size).toBe(1);
    await expect.poll(() => server.count('tools/list')).toBe(1);
    server.has.tool = 'new';
    say('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n');
    // The library waits for more of the kind before it tells of it.
    await delay(500);
  });
  await expect.poll(uses(server.url).names).toEqual(['mcp_p_new']);
});

test('a stream whose session is gone when it comes back has the next use begin another', async () => {
  const { open, stream, cut } = cuttable();
  const server = await serve(stream);
  const { names } = uses(server.url);
  await names();
  await expect.poll(() => open.size).toBe(1);
  Object.assign(server.has, { session: 's2', tool: 'new' });
  cut();
  await expect.poll(names).toEqual(['mcp_p_new']);
  expect(server.count('initialize')).toBe(2);
  await expect.poll(() => open.size).toBe(1);
});

test('a stream that the server fails to open at first is asked for again, and what was said meanwhile is asked for', async () => {
  const { open, now, stream, say } = cuttable();
  const server = await serve(stream);
  const { names, states } = uses(server.url);
  now.refusing = true;
  expect(await names()).toEqual(['mcp_p_old']);
  await expect.poll(() => server.count('GET')).toBeGreaterThanOrEqual(2);
  server.has.tool = 'new';
  now.refusing = false;
  await expect.poll(() => open.size).toBe(1);
  await expect.poll(names).toEqual(['mcp_p_new']);
  server.has.tool = 'newest';
  say('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n');
  await expect.poll(names).toEqual(['mcp_p_newest']);
  expect(states()).toMatchObject([{ state: 'ready' }]);
});

test('a connection that is closed before its stream has opened asks for it no more', async () => {
  const { now, stream } = cuttable();
  const server = await serve(stream);
  const { names, close } = uses(server.url);
  now.refusing = true;
  await names();
  await expect.poll(() => server.count('GET')).toBeGreaterThanOrEqual(1);
  await close();
  const asked = server.count('GET');
  await delay(1500 * asked);
  expect(server.count('GET')).toBe(asked);
});

test.each([405, 404, 401, 501])(
  'a server that answers %i to who asks for a stream is asked once',
  async (status) => {
    const server = await serve((response) => void response.writeHead(status).end());
    const { names, states } = uses(server.url);
    await names();
    await delay(1500);
    expect(await names()).toEqual(['mcp_p_old']);
    expect(states()).toMatchObject([{ state: 'ready' }]);
    expect([server.count('GET'), server.count('initialize')]).toEqual([1, 1]);
  },
);

test('a connection that is closed asks for its stream no more', async () => {
  const { open, now, stream, cut } = cuttable();
  const server = await serve(stream);
  const { names, close } = uses(server.url);
  await names();
  await expect.poll(() => open.size).toBe(1);
  now.refusing = true;
  cut();
  await expect.poll(() => server.count('GET')).toBeGreaterThanOrEqual(2);
  await close();
  const asked = server.count('GET');
  await delay(1000 * asked);
  expect(server.count('GET')).toBe(asked);
});
