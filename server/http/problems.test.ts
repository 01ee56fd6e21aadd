/** Failures: the code list and its statuses, both shapes, and what others throw. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { Problem, problems } from '../problem.ts';
import { child, contractDocument, type Node } from './contract-document.ts';
import { schemaCompiler } from './contract-schemas.ts';
import { renderProblem, toProblem } from './problems.ts';
import { startTestServer, type TestServer } from './test-server.ts';

const codes = Object.keys(problems) as Problem['code'][]; // the record is typed by the codes
const schemas = child(child(contractDocument(), 'components'), 'schemas');
const compiler = schemaCompiler({ allErrors: false });
const fits = (schema: string, value: unknown) => compiler.compile(schemas[schema] as Node)(value); // named below

describe('the list of codes', () => {
  test('the contract, its table and the map of the server hold the same codes and statuses', () => {
    const yaml = readFileSync(join(import.meta.dirname, '../../schemas/problem.yaml'), 'utf8');
    const rows = [...yaml.matchAll(/\| `(\w+)` \| (\d+) \|/g)].map(([, code, status]) => [
      code,
      Number(status),
    ]);
    expect(Object.fromEntries(rows)).toEqual(
      Object.fromEntries(codes.map((code) => [code, problems[code].status])),
    );
    expect(child(schemas, 'ProblemCode').enum).toEqual(codes);
  });
});

describe('rendering', () => {
  test.each(codes)('%s is a Problem, and a MessagesError under /v1', (code) => {
    const problem = new Problem(code, 'It happened; do this.');
    const native = renderProblem(problem, { path: '/api/v1/x', requestId: 'req_1', surface: 'native' });
    expect(native.type).toBe('application/problem+json');
    expect(native.body).toMatchObject({
      type: `/docs#${code}`,
      code,
      status: native.status,
      request_id: 'req_1',
    });
    expect(fits('Problem', native.body)).toBe(true);
    const messages = renderProblem(problem, {
      path: '/v1/messages',
      requestId: 'req_1',
      surface: 'messages',
    });
    expect(messages.type).toBe('application/json');
    expect(fits('MessagesError', messages.body)).toBe(true);
    expect('WWW-Authenticate' in native.headers).toBe(native.status === 401);
  });

  test.each<[Problem['code'], number, string]>([
    ['invalid_request', 400, 'invalid_request_error'],
    ['invalid_json', 400, 'invalid_request_error'],
    ['credential_invalid', 401, 'authentication_error'],
    ['scope_required', 403, 'permission_error'],
    ['model_not_found', 404, 'not_found_error'],
    ['method_not_allowed', 405, 'invalid_request_error'],
    ['request_timeout', 408, 'timeout_error'],
    ['body_too_large', 413, 'request_too_large'],
    ['too_many_streams', 429, 'rate_limit_error'],
    ['internal_error', 500, 'api_error'],
    ['provider_failed', 502, 'api_error'],
    ['provider_timeout', 504, 'timeout_error'],
    ['provider_rate_limited', 529, 'overloaded_error'],
    ['overloaded', 529, 'overloaded_error'],
    ['no_provider_configured', 503, 'api_error'],
  ])('under /v1 %s is %i %s', (code, status, type) => {
    const rendered = renderProblem(new Problem(code, 'x'), {
      path: '/v1/messages',
      requestId: 'r',
      surface: 'messages',
    });
    expect(rendered).toMatchObject({ status, body: { error: { type } } });
  });
});

test.each<[Problem['code'], string | undefined]>([
  ['credential_invalid', 'false'],
  ['model_not_found', 'false'],
  ['invalid_request', 'false'],
  ['provider_refused', 'false'],
  ['rate_limited', undefined],
  ['provider_failed', undefined],
  ['provider_rate_limited', undefined],
])('under /v1 %s says whether asking again may help', (code, said) => {
  const occasion = { path: '/v1/messages', requestId: 'r' };
  const problem = new Problem(code, 'x');
  expect(renderProblem(problem, { ...occasion, surface: 'messages' }).headers['x-should-retry']).toBe(said);
  expect(renderProblem(problem, { ...occasion, surface: 'native' }).headers).not.toHaveProperty(
    'x-should-retry',
  );
});

describe('what others throw', () => {
  const withStatus = (status: number) => Object.assign(new Error('node_modules/secret'), { status });
  test.each([
    ['a text', 'boom', 'internal_error'],
    ['nothing', undefined, 'internal_error'],
    ['an error', new Error('SELECT * FROM users'), 'internal_error'],
    ['an error of the router', withStatus(400), 'invalid_encoding'],
    ['an unknown path', withStatus(404), 'operation_not_found'],
    ['a wrong method', withStatus(405), 'method_not_allowed'],
    ['nothing acceptable', withStatus(406), 'not_acceptable'],
    ['too much', withStatus(413), 'body_too_large'],
    ['a wrong type', withStatus(415), 'unsupported_media_type'],
    ['a server error', withStatus(502), 'internal_error'],
    [
      'a form that is too large',
      Object.assign(new Error(), { name: 'MulterError', code: 'LIMIT_FILE_SIZE' }),
      'body_too_large',
    ],
    [
      'a broken form',
      Object.assign(new Error(), { name: 'MulterError', code: 'LIMIT_PART_COUNT' }),
      'invalid_encoding',
    ],
  ])('%s', (_title, thrown, code) => {
    const problem = toProblem(thrown);
    expect(problem.code).toBe(code);
    expect(problem.message).not.toMatch(/secret|SELECT|boom/);
  });
});

describe('over HTTP', () => {
  let server: TestServer;
  afterEach(() => server.close());

  test('a handler that panics is a fixed sentence outside, and the cause in the log under the same id', async () => {
    server = await startTestServer({
      handlers: {
        getHealth: async () => {
          throw new Error('at /srv/secret.ts SELECT');
        },
      },
    });
    const answer = await server.request('GET', '/health');
    expect([answer.status, answer.json.code]).toEqual([500, 'internal_error']);
    expect(answer.text).not.toMatch(/secret|SELECT|\.ts/);
    const line = server.log.find((one) => one.request_id === answer.json.request_id && one.err !== undefined);
    expect(JSON.stringify(line)).toContain('/srv/secret.ts');
  });

  test('a problem brings its headers along', async () => {
    server = await startTestServer({
      handlers: {
        getHealth: async () => {
          throw new Problem('database_unavailable', 'Later.', { headers: { 'Retry-After': '7' } });
        },
        getReadiness: async () => {
          throw new Problem('draining', 'Later.');
        },
      },
    });
    expect((await server.request('GET', '/health')).headers.get('retry-after')).toBe('7');
    const ready = await server.request('GET', '/ready');
    expect([ready.status, ready.headers.get('retry-after')]).toEqual([503, '5']);
  });
});
