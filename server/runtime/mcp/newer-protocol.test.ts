/** A remote server that speaks only the newer protocol: what its tools want as headers, and what it says by its stream. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { call, testContext, testMcp, testWorkspace } from './test-mcp.ts';

interface Message {
  readonly id?: number | string;
  readonly method?: string;
}

const region = { type: 'string', 'x-mcp-header': 'Region' };

async function serve() {
  const has = { tool: 'old' };
  const asked: { method: string; headers: IncomingHttpHeaders }[] = [];
  const streams = new Set<ServerResponse>();
  const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const results: Readonly<Record<string, () => object>> = {
    'server/discover': () => ({
      ...{ ...complete, supportedVersions: ['2026-07-28'] },
      ...{ capabilities: { tools: { listChanged: true } }, serverInfo: { name: 'new', version: '0' } },
    }),
    'tools/list': () => ({
      ...complete,
      tools: [{ name: has.tool, inputSchema: { type: 'object', properties: { region } } }],
    }),
    'tools/call': () => ({ resultType: 'complete', content: [{ type: 'text', text: 'done' }] }),
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const { id, method = '' } = JSON.parse(body || '{}') as Message; // the client is ours
    asked.push({ method, headers: request.headers });
    if (request.method !== 'POST') return void response.writeHead(405).end();
    if (method === 'subscriptions/listen') return void listen(response, id);
    const result = results[method]?.();
    const said = result ? { result } : { error: { code: -32601, message: 'Method not found' } };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...said }));
  });
  const listen = (response: ServerResponse, id: unknown) => {
    streams.add(response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const _meta = { 'io.modelcontextprotocol/subscriptionId': id };
    const params = { _meta, notifications: { toolsListChanged: true } };
    const told = { jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params };
    response.write(`data: ${JSON.stringify(told)}\n\n`);
  };
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('no port');
  return { url: `http://127.0.0.1:${address.port}/mcp`, has, asked, streams };
}

test('what a tool wants as a header is sent as one', async () => {
  const { url, asked } = await serve();
  const workspacePath = testWorkspace();
  const tools = await testMcp({ p: { type: 'http', url } }).tools({ workspacePath });
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_p_old', { region: 'eu' }, context)).toMatchObject({ content: 'done' });
  const called = asked.find(({ method }) => method === 'tools/call');
  expect(called?.headers['mcp-param-region']).toBe('eu');
});

test('a server that ends the stream of its changes is begun with anew', async () => {
  const { url, has, streams } = await serve();
  const workspacePath = testWorkspace();
  const mcp = testMcp({ p: { type: 'http', url } });
  const names = async () => (await mcp.tools({ workspacePath })).map(({ name }) => name);
  expect(await names()).toEqual(['mcp_p_old']);
  expect(streams.size).toBe(1);
  has.tool = 'new';
  for (const stream of streams) stream.destroy();
  await expect.poll(names).toEqual(['mcp_p_new']);
  expect(streams.size).toBe(2);
});
