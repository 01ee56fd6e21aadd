/** Who may call what: credentials, and the access table. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let server: TestServer;
let made = 0;

beforeAll(async () => {
  server = await startTestServer({
    handlers: {
      getHealth: async () => ({ status: 200, body: { status: 'ok' } }),
      getPrometheusMetrics: async () => ({ status: 200, type: 'text/plain', body: 'x 1\n' }),
      logout: async () => {
        made += 1;
        return { status: 204 };
      },
    },
  });
});
afterAll(() => server.close());

const path = '/api/v1/sessions/ses_01k9w6r3h2e7xv5q0c8m4b1tza';

test.each([
  ['none', {}, 'credential_missing', 'Bearer realm="service"'],
  ['an empty key header', { 'x-api-key': '' }, 'credential_missing', 'Bearer realm="service"'],
  ['another scheme', { authorization: 'Basic dTpw' }, 'credential_invalid', 'error="invalid_token"'],
  ['no token', { authorization: 'Bearer' }, 'credential_invalid', 'error="invalid_token"'],
  ['two words', { authorization: 'Bearer a b' }, 'credential_invalid', 'error="invalid_token"'],
  ['an unknown token', { authorization: 'Bearer nobody' }, 'credential_invalid', 'error="invalid_token"'],
  ['an expired token', { authorization: 'Bearer expired' }, 'credential_expired', 'error="invalid_token"'],
  [
    'a key where only bearers are taken',
    { 'x-api-key': 'login' },
    'credential_missing',
    'Bearer realm="service"',
  ],
])('%s is refused', async (_title, headers, code, challenge) => {
  const answer = await server.request('GET', path, { token: null, headers });
  expect([answer.status, answer.json.code]).toEqual([401, code]);
  expect(answer.headers.get('www-authenticate')).toContain(challenge);
});

test('the scheme is read in any case', async () => {
  const answer = await server.request('GET', path, {
    token: null,
    headers: { authorization: 'bearer login' },
  });
  expect(answer.status).toBe(404);
});

test('a second Authorization header cannot hide behind the first', async () => {
  const lines = 'Authorization: Bearer login\r\nAuthorization: Bearer key\r\n';
  const text = await server.raw(`GET ${path} HTTP/1.1\r\nHost: x\r\n${lines}Connection: close\r\n\r\n`);
  expect(text).toMatch(/^HTTP\/1.1 401 /);
  expect(text).toContain('credential_conflict');
});

test('a request that is sent slowly does nothing once its credential has ended', async () => {
  const send = async (meanwhile: () => unknown) => {
    const socket = connect(server.port, '127.0.0.1');
    const body = JSON.stringify({ all_devices: true });
    const headers = ['Authorization: Bearer login', 'Content-Type: application/json', 'Connection: close'];
    const about = [...headers, `Content-Length: ${body.length}`, 'Expect: 100-continue'].join('\r\n');
    socket.write(`POST /api/v1/auth/logout HTTP/1.1\r\nHost: x\r\n${about}\r\n\r\n`);
    // The body is asked for once the credential was found good.
    expect(String(await once(socket, 'data'))).toMatch(/^HTTP\/1.1 100 /);
    await meanwhile();
    const answer: Buffer[] = [];
    socket.on('data', (chunk) => answer.push(chunk));
    socket.write(body);
    await once(socket, 'close');
    return Buffer.concat(answer).toString('latin1');
  };
  const before = made;
  expect(await send(() => undefined)).toMatch(/^HTTP\/1.1 204 /);
  const caller = server.callers.get('login');
  const refused = await send(async () => {
    server.callers.delete('login');
    // What takes no longer than a second is not asked for again.
    await sleep(1100);
  });
  if (caller) server.callers.set('login', caller);
  expect(refused).toMatch(/^HTTP\/1.1 401 /);
  expect(refused).toContain('credential_invalid');
  expect(made - before).toBe(1);
});

describe('where keys have a header of their own', () => {
  const message = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] };
  const call = (headers: Record<string, string>) =>
    server.request('POST', '/v1/messages', { token: null, headers, body: message });

  test('it is taken, alone or with the same bearer', async () => {
    expect((await call({ 'x-api-key': 'login' })).status).toBe(404);
    expect((await call({ 'x-api-key': 'login', authorization: 'Bearer login' })).status).toBe(404);
  });

  test('two that differ are refused', async () => {
    const answer = await call({ 'x-api-key': 'login', authorization: 'Bearer key' });
    expect([answer.status, answer.json.error.type]).toEqual([401, 'authentication_error']);
  });
});

/** What asks for no credential; a new one is thought about before it stands here. */
const everybodys = [
  'completeMcpOauth',
  'completeOidcLogin',
  'getAuthConfig',
  'getConfigSchema',
  'getDevicePage',
  'getDocs',
  'getHealth',
  'getInvitationPage',
  'getMcpConnectedPage',
  'getOpenapiJson',
  'getOpenapiYaml',
  'getPasswordResetPage',
  'getPrometheusMetrics',
  'getReadiness',
  'getSdkOpenapi',
  'getVersion',
  'login',
  'pollDeviceLogin',
  'redeemLoginCode',
  'refreshToken',
  'registerUser',
  'requestPasswordReset',
  'resetPassword',
  'startDeviceLogin',
  'startOidcLogin',
];

describe('the access table', () => {
  test.each([
    ['a scope that the key lacks', 'POST', '/api/v1/sessions', 'key', 'scope_required', 'sessions:write'],
    ['a login is needed', 'POST', '/api/v1/auth/logout', 'key', 'login_required', 'log in'],
  ])('%s', async (_title, method, target, token, code, named) => {
    const answer = await server.request(method, target, { token, body: {} });
    expect([answer.status, answer.json.code]).toEqual([403, code]);
    expect(answer.json.detail).toContain(named);
  });

  test('a key with the scope gets through, and so does a login', async () => {
    expect((await server.request('GET', path, { token: 'key' })).json.code).toBe('not_found');
    expect((await server.request('POST', '/api/v1/auth/logout')).status).toBe(204);
  });

  test('a public operation looks at no credential', async () => {
    const headers = { authorization: 'Basic nonsense' };
    expect((await server.request('GET', '/health', { token: null, headers })).status).toBe(200);
  });

  test('every operation but the public ones refuses a stranger before anything else', async () => {
    const closed = routes.filter((route) => route.access.allow !== 'public');
    const open = routes.filter((route) => !closed.includes(route));
    expect(open.map(({ operationId }) => operationId).toSorted()).toEqual(everybodys);
    for (const route of closed) {
      const target = route.path.replaceAll(/\{\w+\}/g, 'x');
      const headers = { accept: 'image/png', 'content-type': 'image/png' };
      const answer = await server.request(route.method.toUpperCase(), target, { token: null, headers });
      expect([route.operationId, answer.status]).toEqual([route.operationId, 401]);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="service"');
    }
  });
});

describe('what a server tells of itself', () => {
  const handlers = {
    getPrometheusMetrics: async () => ({ status: 200, type: 'text/plain', body: 'x 1\n' }) as const,
    getDocs: async () =>
      ({ status: 200, headers: { ETag: '"1"' }, type: 'text/html', body: '<!doctype html>' }) as const,
  };

  test.each([
    ['public', null, 200, undefined],
    ['public', 'nonsense', 200, undefined],
    ['operator', null, 401, 'credential_missing'],
    ['operator', 'login', 403, 'role_required'],
    ['operator', 'operator', 200, undefined],
    ['off', 'operator', 404, 'operation_not_found'],
  ] as const)('where it is %s, %s gets %i', async (openness, token, status, code) => {
    for (const [setting, target] of [
      ['metrics', '/metrics'],
      ['docs', '/docs'],
    ]) {
      const other = await startTestServer({ settings: { [setting ?? '']: openness }, handlers });
      const answer = await other.request('GET', target ?? '', { token });
      await other.close();
      expect([target, answer.status, answer.json?.code]).toEqual([target, status, code]);
    }
  });
});
