/** Paths, methods, ids of requests, and web pages of other origins. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import { child, follow, isNode, operationOf, parametersOf } from './contract-document.ts';
import { startTestServer, type TestAnswer, type TestServer } from './test-server.ts';

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer({
    handlers: { getHealth: async () => ({ status: 200, body: { status: 'ok' } }) },
  });
});
afterAll(() => server.close());

describe('paths', () => {
  test.each([
    ['/nowhere'],
    ['/Health'],
    ['/health/'],
    ['//health'],
    ['/api/v1/Sessions'],
    ['/api/v1/sessions/'],
    ['/api/v1/../../etc/passwd'],
    ['/api/v1/sessions%2fx'],
    ['/he%61lth'],
  ])('%s is no operation', async (path) => {
    const answer = await server.request('GET', path);
    expect(answer.status).toBe(404);
    expect(answer.json).toMatchObject({ code: 'operation_not_found', status: 404 });
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
  });

  test.each([
    '/docs/../../etc/passwd',
    '/docs/..%2f..%2fetc%2fpasswd',
    '/schemas/..%5c..%5cservice.json',
    '/schemas/service.json%00',
    '/schemas/%2e%2e/service.json',
    '/%2e%2e/%2e%2e/etc/passwd',
    '/openapi.json/..',
  ])('%s, sent as it stands, leads to no file', async (path) => {
    const text = await server.raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1.1 404 /);
    expect(text).toContain('"code":"operation_not_found"');
  });

  test('a path that cannot be decoded is refused, not a fault', async () => {
    const answer = await server.request('GET', '/api/v1/sessions/%ff');
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_encoding']);
  });

  test('a target that names the whole URL is served and validated like another', async () => {
    const host = `Host: 127.0.0.1\r\nConnection: close\r\n\r\n`;
    expect(await server.raw(`GET http://127.0.0.1/health HTTP/1.1\r\n${host}`)).toMatch(/^HTTP\/1.1 200 /);
    expect(await server.raw(`GET http://127.0.0.1/health?x=1 HTTP/1.1\r\n${host}`)).toMatch(
      /^HTTP\/1.1 400 /,
    );
  });

  test('the instance of a problem is a URI reference, whatever the path was', async () => {
    const text = await server.raw('GET /a"<|^%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    expect(text).toContain('"instance":"/a%22%3C');
    expect(text).toContain('%25zz"');
  });
});

describe('methods', () => {
  test.each([
    ['POST', '/health', 'GET, HEAD, OPTIONS'],
    ['TRACE', '/health', 'GET, HEAD, OPTIONS'],
    ['PUT', '/api/v1/sessions', 'GET, POST, HEAD, OPTIONS'],
    ['HEAD', '/api/v1/query', 'POST, OPTIONS'],
    ['BREW', '/health', null],
  ])('%s %s is refused with Allow: %s', async (method, path, allow) => {
    const text = await server.raw(`${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    if (allow === null) expect(text).toMatch(/^HTTP\/1.1 400 /);
    else {
      expect(text).toMatch(/^HTTP\/1.1 405 /);
      expect(text).toContain(`Allow: ${allow}\r\n`);
    }
  });

  test('HEAD answers as GET does, without the body', async () => {
    const get = await server.request('GET', '/health');
    const head = await server.request('HEAD', '/health');
    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    for (const name of ['content-type', 'content-length', 'x-content-type-options'])
      expect(head.headers.get(name)).toBe(get.headers.get(name));
  });

  test('HEAD is validated as GET is', async () => {
    expect((await server.request('HEAD', '/health?x=1')).status).toBe(400);
    expect((await server.request('HEAD', '/api/v1/sessions', { token: null })).status).toBe(401);
  });

  test('OPTIONS tells the methods without a credential', async () => {
    const answer = await server.request('OPTIONS', '/api/v1/sessions', { token: null });
    expect(answer.status).toBe(204);
    expect(answer.headers.get('allow')).toBe('GET, POST, HEAD, OPTIONS');
    expect((await server.request('OPTIONS', '/nowhere')).status).toBe(404);
  });

  test('CONNECT is refused with a problem', async () => {
    const text = await server.raw('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n');
    expect(text).toMatch(/^HTTP\/1.1 405 /);
    expect(text).toContain('method_not_allowed');
  });
});

test('who asks for a proxy and resets the connection harms nobody else', async () => {
  for (let time = 0; time < 20; time += 1) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
    await once(socket, 'connect');
    const head = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n';
    socket.write(head, () => socket.resetAndDestroy());
    await once(socket, 'close');
  }
  // Nobody hears of an error here: it would end the process of the test.
  expect((await server.request('GET', '/health')).status).toBe(200);
});

describe('request ids', () => {
  test('every answer has one, and a problem names it', async () => {
    const answer = await server.request('GET', '/nowhere');
    expect(answer.headers.get('x-request-id')).toMatch(/^req_[0-9a-z]{26}$/);
    expect(answer.json.request_id).toBe(answer.headers.get('x-request-id'));
  });

  test('a sane one of the caller is taken over, another is not', async () => {
    const id = async (given: string) =>
      (await server.request('GET', '/health', { headers: { 'x-request-id': given } })).headers.get(
        'x-request-id',
      );
    expect(await id('My-Trace_1.2')).toBe('My-Trace_1.2');
    expect(await id('with spaces')).toMatch(/^req_/);
    expect(await id('x'.repeat(129))).toMatch(/^req_/);
  });

  test('under /v1 it goes by the name that Messages clients read, too', async () => {
    const answer = await server.request('GET', '/v1/nowhere');
    expect(answer.headers.get('request-id')).toBe(answer.headers.get('x-request-id'));
    expect((await server.request('GET', '/nowhere')).headers.get('request-id')).toBeNull();
  });
});

test('no answer names the software behind it', async () => {
  const answer = await server.request('GET', '/health');
  for (const name of ['x-powered-by', 'server', 'etag']) expect(answer.headers.get(name)).toBeNull();
});

test.each([
  ['GET', '/health', 'no-cache'],
  ['GET', '/api/v1/sessions', 'private, no-cache'],
  ['POST', '/api/v1/auth/login', 'no-store'],
])('%s %s is cached as %s', async (method, path, caching) => {
  expect((await server.request(method, path)).headers.get('cache-control')).toBe(caching);
});

test('a request is logged with its route, status, id and user, and nothing of its query', async () => {
  const answer = await server.request('GET', '/api/v1/sessions/ses_01k9w6r3h2e7xv5q0c8m4b1tza');
  await expect.poll(() => server.log.at(-1)?.request_id).toBe(answer.headers.get('x-request-id'));
  expect(server.log.at(-1)).toMatchObject({
    method: 'GET',
    route: '/api/v1/sessions/{session_id}',
    path: '/api/v1/sessions/ses_01k9w6r3h2e7xv5q0c8m4b1tza',
    status: 404,
    user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  });
  await server.request('GET', '/health?password=hunter2');
  expect(JSON.stringify(server.log)).not.toContain('hunter2');
});

describe('web pages of other origins', () => {
  const ask = async (
    settings: { corsOrigins?: string[]; debug?: boolean },
    origin: string,
    method = 'GET',
  ) => {
    const other = await startTestServer({
      settings,
      handlers: { getHealth: async () => ({ status: 200, body: { status: 'ok' } }) },
    });
    const preflight = method === 'OPTIONS' ? { 'access-control-request-method': 'GET' } : {};
    const answer = await other.request(method, '/health', { headers: { origin, ...preflight } });
    await other.close();
    return answer;
  };

  test.each([
    ['no setting', {}, 'http://localhost:3000', null],
    ['debug, a page on this machine', { debug: true }, 'http://localhost:3000', 'http://localhost:3000'],
    ['debug, its address', { debug: true }, 'http://127.0.0.1', 'http://127.0.0.1'],
    ['debug, another page', { debug: true }, 'https://evil.example', null],
    ['debug, a look-alike', { debug: true }, 'http://localhost.evil.example', null],
    ['listed', { corsOrigins: ['https://app.example'] }, 'https://app.example', 'https://app.example'],
    ['not listed', { corsOrigins: ['https://app.example'] }, 'https://evil.example', null],
    [
      'a list goes before debug',
      { debug: true, corsOrigins: ['https://a.example'] },
      'http://localhost',
      null,
    ],
    ['any', { corsOrigins: ['*'] }, 'https://evil.example', 'https://evil.example'],
    ['null', { debug: true }, 'null', null],
  ])('%s', async (_title, settings, origin, allowed) => {
    const answer = await ask(settings, origin);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-allow-origin')).toBe(allowed);
    expect(answer.headers.get('vary')).toBe(Object.keys(settings).length > 0 ? 'Origin' : null);
    if (allowed) expect(answer.headers.get('access-control-expose-headers')).toContain('X-Run-Id');
  });

  test('a preflight of an allowed page learns methods and headers; another learns nothing', async () => {
    const answer = await ask({ debug: true }, 'http://localhost:3000', 'OPTIONS');
    expect(answer.status).toBe(204);
    expect(answer.headers.get('access-control-allow-methods')).toBe('GET, HEAD, OPTIONS');
    expect(answer.headers.get('access-control-allow-headers')).toContain('Authorization');
    const other = await ask({ debug: true }, 'https://evil.example', 'OPTIONS');
    expect(other.headers.get('access-control-allow-methods')).toBeNull();
  });

  test('may send every header that an operation takes, and read every one that an answer has', async () => {
    const namesIn = (answer: TestAnswer, header: string) =>
      new Set((answer.headers.get(header) ?? '').toLowerCase().split(', '));
    const allowed = namesIn(
      await ask({ debug: true }, 'http://localhost:3000', 'OPTIONS'),
      'access-control-allow-headers',
    );
    const exposed = namesIn(
      await ask({ debug: true }, 'http://localhost:3000'),
      'access-control-expose-headers',
    );
    const missing = routes.flatMap((route) => {
      const sent = parametersOf(route).filter((parameter) => parameter.in === 'header');
      const answered = Object.values(child(operationOf(route), 'responses')).flatMap((response) =>
        isNode(response) ? Object.keys(child(follow(response), 'headers')) : [],
      );
      return [
        ...sent.flatMap(({ name }) => (allowed.has(name.toLowerCase()) ? [] : [`${name} is not allowed`])),
        ...answered.flatMap((name) => (exposed.has(name.toLowerCase()) ? [] : [`${name} is not exposed`])),
      ];
    });
    expect([...new Set(missing)]).toEqual([]);
    // What is in no operation of the contract, and is sent to all of them.
    for (const name of ['authorization', 'x-api-key', 'content-type', 'x-request-id', 'x-stainless-os'])
      expect(allowed).toContain(name);
  });
});
