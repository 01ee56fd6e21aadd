/** MCP servers over REST that lead elsewhere, where many share a server: no address that anybody names opens the network inside, no credential goes along, and processes are the operator's and see nothing. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { answerMcp } from '../../contract-tests/mcp/answers.ts';
import { type OauthServer, startOauthServer } from '../runtime/mcp/test-oauth-server.ts';
import { sandboxHere } from '../runtime/processes/test-sandbox.ts';
import { type Account, type Answer, coded, mergePatch, type TestApp, testApp } from '../test-app.ts';

/** What stands for the internet, and what for the network of the server. */
const [outside, inside] = ['127.0.0.1', '127.0.0.2'] as const;
const servers = '/api/v1/mcp/servers';

let app: TestApp;
let ada: Account;
let grace: Account;
/** What a name leads to, look-up by look-up; the last of them stays. */
const names = new Map<string, string[]>();

beforeAll(async () => {
  const resolver = async (name: string) => {
    const addresses = names.get(name) ?? [];
    const address = (addresses.length > 1 ? addresses.shift() : addresses[0]) ?? inside;
    return [{ address, family: 4 }];
  };
  app = await testApp({ resolver, settings: { mode: 'multi', outboundAllow: [outside] } });
  [ada, grace] = [await app.register('ada'), await app.register('grace')];
});
afterAll(() => app.close());
beforeEach(() => names.clear());

const send = (method: string, place: string, body?: object): Promise<Answer> =>
  app.request(method, place, { token: ada.token, ...(body && { body }) });

async function make(url: string, more: object = {}): Promise<string> {
  const answer = await send('POST', servers, { scope: 'user', name: 'odd', type: 'http', url, ...more });
  expect(coded(answer)).toEqual([201, null]);
  onTestFinished(async () => {
    await send('DELETE', `${servers}/${answer.body.id}`);
  });
  return `${servers}/${answer.body.id}`;
}

interface Listening {
  readonly port: number;
  /** Whoever connects is counted, whether or not they ask for anything. */
  readonly connections: () => number;
  readonly asked: IncomingHttpHeaders[];
  /** What is open is closed, so that the next request has to find its way anew. */
  hangUp(): void;
}

async function listen(host: string, answer: RequestListener, port = 0): Promise<Listening> {
  let connections = 0;
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers);
    answer(request, response);
  });
  server.on('connection', () => {
    connections += 1;
  });
  await once(server.listen(port, host), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port, // it listens on TCP
    ...{ connections: () => connections, asked, hangUp: () => server.closeAllConnections() },
  };
}

/** Something in the network of the server that would answer whatever it is asked. */
const secret = (port = 0) =>
  listen(inside, (_request, response) => void response.writeHead(200).end('{"secret":"inside"}'), port);

/** An MCP server as it should be. */
const honest: RequestListener = async (request, response) => {
  let sent = '';
  for await (const chunk of request) sent += String(chunk);
  const { status, body } = answerMcp(request.method, sent);
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body === null ? '' : JSON.stringify(body));
};

const redirecting =
  (location: string, status = 307): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, { location }).end();

describe('the address of a server', () => {
  const test_ = (one: string) => send('POST', `${one}/test`);

  test.each(['http', 'sse'])('by a name that leads inside is not asked, over %s', async (type) => {
    const hidden = await secret();
    const one = await make(`http://inside.example:${hidden.port}/mcp`, { type });
    const answers = [await test_(one), await send('GET', `${one}/tools`), await send('GET', one)];
    expect(answers.map(({ status }) => status)).toEqual([502, 502, 200]);
    expect(coded(answers[0] as Answer)[1]).toBe('mcp_server_failed');
    expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain(inside);
    expect(hidden.connections()).toBe(0);
  });

  test('by a name that was public and turns inside is asked no more', async () => {
    const public_ = await listen(outside, honest);
    const hidden = await secret(public_.port);
    names.set('turning.example', [outside]);
    const one = await make(`http://turning.example:${public_.port}/mcp`);
    expect((await test_(one)).body).toMatchObject({ ok: true, tool_count: 1 });
    names.set('turning.example', [inside]);
    public_.hangUp();
    expect(coded(await test_(one))).toEqual([502, 'mcp_server_failed']);
    // Between one look-up and the next, too: what was checked is what is connected to.
    names.set('turning.example', [outside, inside]);
    await test_(one);
    expect(hidden.connections()).toBe(0);
  });

  test.each([
    ['http', 307],
    ['http', 302],
    ['sse', 302],
  ])('that redirects inside leads nowhere: over %s with %i', async (type, status) => {
    const hidden = await secret();
    for (const host of [inside, 'inside.example', `2130706434`, `[::ffff:7f00:2]`]) {
      const to = redirecting(`http://${host}:${hidden.port}/mcp`, status as number);
      const { port } = await listen(outside, to);
      const one = await make(`http://${outside}:${port}/mcp`, { type, name: `odd${port}` });
      expect(coded(await test_(one))).toEqual([502, 'mcp_server_failed']);
    }
    expect(hidden.connections()).toBe(0);
  });

  test('that redirects to another public server takes no header of the setting there', async () => {
    const other = await listen(outside, honest);
    for (const [type, status] of [
      ['http', 307],
      ['http', 302],
      ['sse', 302],
    ] as const) {
      const to = redirecting(`http://${outside}:${other.port}/mcp`, status);
      const { port } = await listen(outside, to);
      const headers = { Authorization: 'Bearer canary', 'X-Key': 'canary' };
      const one = await make(`http://${outside}:${port}/mcp`, { type, name: `odd${port}`, headers });
      await test_(one);
    }
    expect(JSON.stringify(other.asked)).not.toContain('canary');
  });
});

describe('what a server says about logins', () => {
  const start = (one: string) => send('POST', `${one}/oauth/start`, {});
  /** As the browser of the person does: where it ends up, or what was answered. */
  const follow = async ({ body }: Answer): Promise<string> => {
    const page = await fetch(body.authorize_url, { redirect: 'manual' });
    const { pathname, search } = new URL(page.headers.get('location') ?? '');
    const back = await fetch(`${app.url}${pathname}${search}`, { redirect: 'manual' });
    return back.headers.get('location') ?? '';
  };
  const failed = '/mcp/connected#mcp_server=odd&mcp_error=mcp_server_failed';

  /** How an endpoint is made to lead inside. */
  const ways: readonly [string, (port: number) => Promise<string>][] = [
    ['an address', async (port) => `http://${inside}:${port}/x`],
    ['a name', async (port) => `http://inside.localhost:${port}/x`],
    ['a name with TLS', async (port) => `https://inside.example:${port}/x`],
    [
      'a redirect',
      async (port) => {
        const by = await listen(outside, redirecting(`http://${inside}:${port}/x`));
        return `http://${outside}:${by.port}/x`;
      },
    ],
  ];
  /** What a server says of itself, by the place where it says it. */
  const claims: Readonly<Record<string, (url: string) => Partial<OauthServer['claims']>>> = {
    resource_metadata: (url) => ({ challenge: url }),
    authorization_servers: (url) => ({ resource: { authorization_servers: [new URL(url).origin] } }),
    registration_endpoint: (url) => ({ authorization: { registration_endpoint: url } }),
    token_endpoint: (url) => ({ authorization: { token_endpoint: url } }),
    revocation_endpoint: (url) => ({ authorization: { revocation_endpoint: url } }),
  };

  test.each(
    Object.entries(claims).flatMap(([place, claim]) =>
      ways.map(([way, lead]) => ({ place, way, claim, lead })),
    ),
  )('leads nobody inside: its $place by $way', async ({ place, claim, lead }) => {
    const hidden = await secret();
    const guarded = await startOauthServer();
    const one = await make(guarded.url);
    Object.assign(guarded.claims, claim(await lead(hidden.port)));
    const begun = await start(one);
    if (['token_endpoint', 'revocation_endpoint'].includes(place)) {
      const to = await follow(begun);
      expect(to).toBe(place === 'token_endpoint' ? failed : '/mcp/connected#mcp_server=odd');
      expect((await send('DELETE', `${one}/oauth`)).status).toBe(204);
    } else if (begun.status !== 201) expect(coded(begun)).toEqual([502, 'mcp_server_failed']);
    expect(JSON.stringify(begun.body)).not.toMatch(/secret.{0,5}inside/);
    expect(hidden.connections()).toBe(0);
  });

  test('whoever was public at the login and turns inside is not asked to renew it', async () => {
    const hidden = await secret();
    const guarded = await startOauthServer();
    const one = await make(guarded.url);
    expect(await follow(await start(one))).toBe('/mcp/connected#mcp_server=odd');
    guarded.revoke();
    guarded.claims.authorization = { token_endpoint: `http://turned.localhost:${hidden.port}/token` };
    expect(coded(await send('POST', `${one}/test`))).toEqual([502, 'mcp_server_failed']);
    expect(hidden.connections()).toBe(0);
    // Nothing was asked of anybody with the refresh token: it is good for later.
    guarded.claims.authorization = {};
    expect((await send('POST', `${one}/test`)).body).toMatchObject({ ok: true });
  });

  test('another authorization server than that of the login is told none of its tokens and secrets', async () => {
    const guarded = await startOauthServer();
    const thief = await startOauthServer();
    const one = await make(guarded.url);
    const begun = await send('POST', `${one}/oauth/start`, { client_id: 'known', client_secret: 'canary' });
    expect(await follow(begun)).toBe('/mcp/connected#mcp_server=odd');
    guarded.revoke();
    guarded.claims.resource = { authorization_servers: [thief.origin] };
    expect(coded(await send('POST', `${one}/test`))).toEqual([502, 'mcp_server_failed']);
    expect(thief.grants).toEqual([]);
    expect(JSON.stringify(thief.asked)).not.toMatch(/canary|["=]known/);
    // That was the server's whim, and costs the person nothing.
    guarded.claims.resource = {};
    expect((await send('POST', `${one}/test`)).body).toMatchObject({ ok: true });
    expect((await send('DELETE', `${one}/oauth`)).status).toBe(204);
    expect([guarded.takenBack.length, thief.takenBack.length]).toEqual([2, 0]);
  });

  test.each(['token_endpoint', 'registration_endpoint', 'revocation_endpoint'])(
    'what is sent to its %s goes nowhere else by a redirect',
    async (endpoint) => {
      const other = await listen(outside, (_request, response) => void response.end('{}'));
      const to = await listen(outside, redirecting(`http://${outside}:${other.port}/x`));
      const guarded = await startOauthServer();
      guarded.claims.authorization = { [endpoint]: `http://${outside}:${to.port}/x` };
      const one = await make(guarded.url);
      const begun = await start(one);
      if (begun.status === 201) await follow(begun);
      await send('DELETE', `${one}/oauth`);
      expect(to.connections()).toBeGreaterThan(0);
      expect(other.asked).toEqual([]);
    },
  );

  test('tokens are taken back over TLS, or on this machine, and nowhere else', async () => {
    const open = await listen(outside, (_request, response) => void response.end('{}'));
    names.set('open.example', [outside]);
    const guarded = await startOauthServer();
    guarded.claims.authorization = { revocation_endpoint: `http://open.example:${open.port}/revoke` };
    const one = await make(guarded.url);
    expect(await follow(await start(one))).toBe('/mcp/connected#mcp_server=odd');
    expect((await send('DELETE', `${one}/oauth`)).status).toBe(204);
    expect(open.asked).toEqual([]);
  });
});

/** A shell that speaks the protocol, since the sandbox shows the programs of the system alone. What it finds it says as the name of its server. */
const program = (found: string) => `
  sleep 98.7654321 & (setsid sleep 98.7654321 &)
  n=0
  while read -r line; do
    case "$line" in
      *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"'"$( (${found}) | tr '\\n' ' ' )"'","version":"0"}}' ;;
      *'"method":"tools/list"'*) result='{"tools":[{"name":"act","inputSchema":{"type":"object"}}]}' ;;
      *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\\n' "$n" "$result"
    n=$((n+1))
  done`;

/** The arguments of every process of this machine. */
function processes(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')];
      } catch {
        return []; // It has just ended.
      }
    });
}

const sandbox = await sandboxHere();
describe.skipIf('unavailable' in sandbox)('a process that the operator names', () => {
  const asOperator = (method: string, place: string, body?: object) =>
    app.request(method, place, {
      token: app.operatorKey,
      headers: method === 'PATCH' ? mergePatch : {},
      ...(body && { body }),
    });
  const left = () => processes().filter((one) => one.startsWith('sleep 98.7654321')).length;
  const body = (found: string) => ({
    ...{ scope: 'installation', name: 'shell', type: 'stdio', command: '/bin/sh' },
    ...{ args: ['-c', program(found)], env: { TOKEN: 'canary-of-the-process' } },
  });

  /** Removed at the end of the test, where it is still there. */
  async function started(found: string) {
    const made = await asOperator('POST', servers, body(found));
    expect(coded(made)).toEqual([201, null]);
    const one = `${servers}/${made.body.id}`;
    onTestFinished(async () => {
      await asOperator('DELETE', one);
    });
    return { one, made: made.body };
  }

  test('sees one workspace and what it was given: no data, no variables and no network of the server', async () => {
    const { dataDirectory } = app;
    const found = [
      'echo $(env | grep -v "^_" | cut -d= -f1 | sort) .',
      'test $(printf %s "$TOKEN" | wc -c) = 21 && echo has it .',
      `test -e ${dataDirectory}/service.db || echo no data .`,
      'grep -c : /proc/net/dev',
    ];
    const { one, made } = await started(found.join('; '));
    const tried = await send('POST', `${one}/test`);
    expect(tried.body).toMatchObject({ ok: true, tool_count: 1 });
    expect(tried.body.server).toMatch(/has it . no data . 1 0$/);
    expect(tried.body.server).not.toMatch(/SERVICE|NODE|VITEST/);
    expect(JSON.stringify([made, tried.body])).not.toContain('canary');
    const raw = await Promise.all(
      ['service.db', 'service.db-wal'].map((name) => bytesOf(dataDirectory, name)),
    );
    expect(Buffer.concat(raw).includes('canary-of-the-process')).toBe(false);
    await expect.poll(left).toBe(0);
  });

  test.each([
    ['a change', (one: string) => asOperator('PATCH', one, { env: { TOKEN: 'another' } })],
    ['a new connection', (one: string) => asOperator('POST', `${one}/reconnect`)],
    ['its switch', (one: string) => asOperator('PATCH', one, { disabled: true })],
    ['its removal', (one: string) => asOperator('DELETE', one)],
  ])('ends with all that it has started by %s', async (_by, end) => {
    const { one } = await started('echo shell');
    const tools = (token: string) => app.request('GET', `${one}/tools`, { token });
    // Each workspace has a process of its own.
    for (const { token } of [ada, grace]) expect((await tools(token)).status).toBe(200);
    await expect.poll(left).toBe(4);
    expect(processes().filter((line) => line.includes('canary-of-the-process'))).toEqual([]);
    await end(one);
    await expect.poll(left).toBe(0);
  });

  test('is named by nobody else, by no detour', async () => {
    const one = await make(`http://${outside}:9/mcp`);
    const change = (patch: object) =>
      app.request('PATCH', one, { token: ada.token, headers: mergePatch, body: patch });
    for (const patch of [
      { command: '/bin/sh' },
      { type: 'stdio', command: '/bin/sh' },
      { url: null, command: '/bin/sh', args: ['-c', 'id'] },
      { env: { LD_PRELOAD: '/tmp/x.so' } },
    ])
      expect([patch, (await change(patch)).status]).toEqual([patch, 400]);
    expect((await send('GET', one)).body).toMatchObject({ type: 'http', command: null });
  });
});

async function bytesOf(folder: string, name: string): Promise<Buffer> {
  return await readFile(join(folder, name));
}
