/** What is wrong about a request is refused with what to do about it, and nothing half-written remains. */
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Account, type RequestOptions, type TestApp, testApp } from './test-app.ts';

let app: TestApp;
let ada: Account;
let bob: Account;
let sessionOfBob: string;
let now = new Date();
/** An access token whose fifteen minutes are over. */
let expired: string;

beforeAll(async () => {
  app = await testApp({ clock: { now: () => now } });
  expired = (await app.register('early')).token;
  now = new Date(now.getTime() + 16 * 60_000);
  ada = await app.register('ada');
  bob = await app.register('bob');
  const { body } = await app.request('POST', '/api/v1/sessions', { token: bob.token, body: {} });
  sessionOfBob = body.id;
});
afterAll(() => app.close());

const query = '/api/v1/query';
const vendor = { model: 'demo:demo-1', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] };
const inflating = () => ({
  body: gzipSync(Buffer.alloc(40_000_000, ' ')),
  headers: { 'content-encoding': 'gzip' },
});

type Row = [string, string, string, () => RequestOptions, number, string, RegExp];
const rows: Row[] = [
  [
    'wrong JSON',
    'POST',
    query,
    () => ({ body: '{"prompt": "x"' }),
    400,
    'invalid_json',
    /line 1, column \d+/,
  ],
  [
    'an unknown field',
    'POST',
    query,
    () => ({ body: { prompt: 'x', promt: 'x' } }),
    400,
    'invalid_request',
    /promt/,
  ],
  [
    'a wrong type',
    'POST',
    query,
    () => ({ body: { prompt: 5 } }),
    400,
    'invalid_request',
    /prompt: must be string/,
  ],
  [
    'too large a body',
    'POST',
    '/api/v1/sessions',
    () => ({ body: { title: 'x'.repeat(4_194_304) } }),
    413,
    'body_too_large',
    /4194304|4 MiB/,
  ],
  ['a body that inflates', 'POST', query, inflating, 413, 'body_too_large', /33554432|32 MiB/],
  [
    'an unknown operation',
    'POST',
    '/api/v1/querry',
    () => ({ body: { prompt: 'x' } }),
    404,
    'operation_not_found',
    /querry|openapi|docs/,
  ],
  ['a wrong method', 'PUT', query, () => ({ body: { prompt: 'x' } }), 405, 'method_not_allowed', /POST/],
  [
    'a wrong content type',
    'POST',
    query,
    () => ({ body: 'prompt=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
    415,
    'unsupported_media_type',
    /application\/json/,
  ],
  [
    'a bad token',
    'POST',
    query,
    () => ({ token: 'sk-wrong', body: { prompt: 'x' } }),
    401,
    'credential_invalid',
    /may have been revoked/,
  ],
  [
    'an expired token',
    'POST',
    query,
    () => ({ token: expired, body: { prompt: 'x' } }),
    401,
    'credential_expired',
    /refresh|log in/i,
  ],
  [
    'two credentials',
    'POST',
    '/v1/messages',
    () => ({ headers: { 'x-api-key': app.operatorKey }, body: vendor }),
    401,
    'authentication_error',
    /one/,
  ],
  [
    'a session of another',
    'POST',
    query,
    () => ({ body: { prompt: 'x', session_id: sessionOfBob } }),
    404,
    'not_found',
    /session/i,
  ],
  [
    '__proto__ as a key',
    'POST',
    query,
    () => ({ body: '{"prompt":"x","__proto__":{"a":1}}' }),
    400,
    'invalid_request',
    /__proto__/,
  ],
  ['a NUL', 'POST', query, () => ({ body: { prompt: 'a\0b' } }), 400, 'invalid_encoding', /leave it out/],
  [
    'broken UTF-8',
    'POST',
    query,
    () => ({ body: Buffer.from('{"prompt":"\xff"}', 'latin1') }),
    400,
    'invalid_encoding',
    /encode it/,
  ],
];

test.each(rows)(
  '%s is refused, and leaves nothing',
  async (_, method, path, options, status, code, advice) => {
    const before = await kept();
    const answer = await app.request(method, path, { token: ada.token, ...options() });
    const said = answer.body.error?.message ?? answer.body.detail;
    expect([answer.status, answer.body.code ?? answer.body.error.type, said]).toEqual([
      status,
      code,
      expect.stringMatching(advice),
    ]);
    expect(await kept()).toEqual(before);
  },
);

/** All that the two accounts have, and what the server counts in all. */
async function kept() {
  const lists = ['/api/v1/sessions', '/api/v1/runs'];
  const asked = [ada, bob].flatMap(({ token }) => lists.map((path) => app.request('GET', path, { token })));
  const messages = app.request('GET', `/api/v1/sessions/${sessionOfBob}/messages`, { token: bob.token });
  const { body: counted } = await app.request('GET', '/api/v1/metrics', { token: app.operatorKey });
  expect(counted.sessions).toBe(1);
  return [(await Promise.all([...asked, messages])).map(({ body }) => body.data), counted.runs];
}
