import { expect, onTestFinished, test } from 'vitest';
import { type ClientOptions, createServiceClient, type ServiceClient } from './client.ts';
import { ConnectionError, ServiceError } from './errors.ts';
import {
  type Script,
  type ScriptedServer,
  sendJson,
  sendProblem,
  startScriptedServer,
} from './scripted-server.ts';

const session = { id: 'ses_1', title: 'First' };

async function talk(
  script: Script,
  options: Partial<ClientOptions> = {},
): Promise<{ client: ServiceClient; server: ScriptedServer }> {
  const server = await startScriptedServer(script);
  onTestFinished(server.close);
  const retries = { limit: 3, baseDelayMs: 1, maxDelayMs: 20_000 };
  return { server, client: createServiceClient({ baseUrl: server.url, retries, ...options }) };
}

async function errorOf(call: Promise<unknown>): Promise<ServiceError> {
  const error: unknown = await call.then(
    () => 'it succeeded',
    (reason: unknown) => reason,
  );
  if (error instanceof ServiceError) return error;
  throw new Error(`Not a ServiceError: ${error}`, { cause: error });
}

test('a call sends path, query, body, credential and headers, and gives data and response', async () => {
  const { client, server } = await talk(
    (_, response) => sendJson(response, 201, session, { ETag: '"1"', Location: '/api/v1/sessions/ses_1' }),
    { token: 'sk-test', headers: { 'X-Request-Id': 'mine' } },
  );
  const { data, response } = await client.POST('/api/v1/sessions', { body: { title: 'First' } });
  expect(data.title).toBe('First');
  expect(response.headers.get('ETag')).toBe('"1"');
  const [received] = server.received;
  expect(received).toMatchObject({ method: 'POST', url: '/api/v1/sessions', body: '{"title":"First"}' });
  expect(received?.headers).toMatchObject({
    authorization: 'Bearer sk-test',
    'content-type': 'application/json',
    'x-request-id': 'mine',
  });
});

test('a token function is asked for each request', async () => {
  let asked = 0;
  const token = async () => `token-${++asked}`;
  const { client, server } = await talk((_, response) => sendJson(response, 200, {}), { token });
  await client.GET('/health');
  await client.GET('/health');
  expect(server.received.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer token-1',
    'Bearer token-2',
  ]);
});

test('a token function is asked for each attempt, and what it throws is thrown', async () => {
  const tokens = ['token-1', 'token-2'];
  const { client, server } = await talk((_, response) => sendProblem(response, 429, 'rate_limited'), {
    async token() {
      const [next] = tokens.splice(0, 1);
      if (next === undefined) throw new RangeError('Log in again.');
      return next;
    },
  });
  await expect(client.GET('/health')).rejects.toThrow(new RangeError('Log in again.'));
  expect(server.received.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer token-1',
    'Bearer token-2',
  ]);
});

test('a signal ends a call that waits for its token', async () => {
  const [asked, given] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const { client, server } = await talk((_, response) => sendJson(response, 200, {}), {
    token() {
      asked.resolve();
      return given.promise;
    },
  });
  const giving = new AbortController();
  const call = client.GET('/health', { signal: giving.signal });
  await asked.promise;
  giving.abort(new Error('Given up.'));
  await expect(call).rejects.toThrow('Given up.');
  given.reject(new Error('The issuer says no.')); // To nobody: unhandled, it would fail the run of the tests.
  expect(server.received).toEqual([]);
});

test.each([
  ['two lines', 'sk-mine\nsk-other'],
  ['lines behind a line break', '\n sk-mine\nsk-other'],
  ['a letter that is not of Latin-1', 'sk-mine\u2013other'],
])('a token of %s is refused without being shown', async (_, token) => {
  const { client, server } = await talk((_request, response) => sendJson(response, 200, {}), { token });
  const error = await client.GET('/health').catch((refused: unknown) => refused);
  expect(error).toBeInstanceOf(TypeError);
  expect(String(error)).toContain('The token has a line break, a NUL or a letter beyond Latin-1 in it');
  expect(String(error)).not.toContain('sk-');
  expect(server.received).toEqual([]);
});

test('a token is sent without what a file has around it', async () => {
  const { client, server } = await talk((_, response) => sendJson(response, 200, {}), {
    token: '\r\nsk-mine\n',
  });
  await client.GET('/health');
  expect(server.received[0]?.headers.authorization).toBe('Bearer sk-mine');
});

test('what is empty is an empty text, no bytes, and an empty stream', async () => {
  const { client } = await talk((_, response) => void response.writeHead(200, { 'Content-Length': 0 }).end());
  const params = { path: { file_id: 'file_1' } };
  const read = <As extends 'text' | 'arrayBuffer' | 'blob' | 'stream'>(parseAs: As) =>
    client.GET('/api/v1/files/{file_id}/content', { params, parseAs });
  expect((await read('text')).data).toBe('');
  expect((await read('arrayBuffer')).data.byteLength).toBe(0);
  expect((await read('blob')).data.size).toBe(0);
  expect(await Array.fromAsync((await read('stream')).data ?? expect.fail())).toEqual([]);
});

test.each([301, 302, 303, 307, 308])('a redirect by %i is followed by no call', async (status) => {
  const { client, server } = await talk((request, response) => {
    if (request.url === '/elsewhere') return sendJson(response, 200, { data: [] });
    response.writeHead(status, { Location: `${server.url}/elsewhere?of=anybody` }).end();
  });
  const headers = { 'x-api-key': 'sk-mine' };
  const refused = { status, code: 'unrecognized_answer' };
  const error = await errorOf(client.POST('/api/v1/sessions', { body: {}, headers }));
  expect(error).toMatchObject(refused);
  expect(error.message).toContain(`The answer is a redirect to ${server.url} that is not followed`);
  expect(await errorOf(client.GET('/api/v1/sessions', { headers }))).toMatchObject(refused);
  expect(server.received.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'POST /api/v1/sessions',
    'GET /api/v1/sessions',
  ]);
});

test('a credential given for one request is the only one sent', async () => {
  const { client, server } = await talk((_, response) => sendJson(response, 200, {}), { token: 'sk-mine' });
  await client.GET('/health', { headers: { Authorization: 'Bearer other' } });
  await client.GET('/health', { headers: { 'x-api-key': 'sk-other' } });
  expect(server.received[0]?.headers.authorization).toBe('Bearer other');
  expect(server.received[1]?.headers.authorization).toBeUndefined();
});

test('a PATCH is sent as a merge patch, and its path parameters are encoded', async () => {
  const { client, server } = await talk((_, response) => sendJson(response, 200, session));
  const path = { session_id: 'a/../b?c' };
  await client.PATCH('/api/v1/sessions/{session_id}', { params: { path }, body: { title: 'New' } });
  expect(server.received[0]).toMatchObject({ url: '/api/v1/sessions/a%2F..%2Fb%3Fc' });
  expect(server.received[0]?.headers['content-type']).toBe('application/merge-patch+json');
});

test('a PATCH of bytes is sent as the caller says', async () => {
  const { client, server } = await talk((_, response) => {
    response.writeHead(204).end();
  });
  await client.PATCH('/api/v1/files/uploads/{upload_id}', {
    params: { path: { upload_id: 'upl_1' }, header: { 'Upload-Offset': 3 } },
    headers: { 'Content-Type': 'application/octet-stream' },
    body: 'some bytes',
  });
  const { body, headers } = server.received[0] ?? {};
  expect([body, headers?.['content-type'], headers?.['upload-offset']]).toEqual([
    ...['some bytes', 'application/octet-stream', '3'],
  ]);
});

test.each(['', '.', '..'])('the id "%s" is refused, since it would name another path', async (session_id) => {
  const { client, server } = await talk((_, response) => sendJson(response, 204, {}));
  const call = client.DELETE('/api/v1/sessions/{session_id}', { params: { path: { session_id } } });
  await expect(call).rejects.toThrow('session_id is');
  expect(server.received).toEqual([]);
});

test.each([
  ['no ids', { params: { path: {} } }],
  ['no parameters', {}],
  ['null for an id', { params: { path: { session_id: null } } }],
])('where no types say what is missing, a call with %s is refused', async (_, init) => {
  const { client, server } = await talk((_request, response) => void response.writeHead(204).end());
  const call = client.DELETE('/api/v1/sessions/{session_id}', init as never);
  await expect(call).rejects.toThrow(
    'session_id is "", which cannot stand in /api/v1/sessions/{session_id}.',
  );
  expect(server.received).toEqual([]);
});

test('an answer without a body gives undefined', async () => {
  const { client } = await talk((_, response) => void response.writeHead(204).end());
  const path = { session_id: 'ses_1' };
  const { data } = await client.DELETE('/api/v1/sessions/{session_id}', { params: { path } });
  expect(data).toBeUndefined();
});

test('a problem is thrown with all that it says', async () => {
  const errors = [{ in: 'body', pointer: '/title', message: 'must be string', code: 'type' }];
  const problem = {
    type: '/docs#invalid_request',
    title: 'The request does not match the contract.',
    status: 400,
    detail: 'body/title: must be string',
    instance: '/api/v1/sessions',
    code: 'invalid_request',
    request_id: 'req_7',
    errors,
  };
  const { client, server } = await talk((_, response) => sendJson(response, 400, problem));
  const error = await errorOf(client.POST('/api/v1/sessions', { body: {} }));
  expect(error).toMatchObject({
    status: 400,
    code: 'invalid_request',
    title: problem.title,
    requestId: 'req_7',
  });
  expect(error).toMatchObject({ detail: problem.detail, errors, retryAfterSeconds: null });
  expect(error.message).toBe(
    'POST /api/v1/sessions: 400 invalid_request: body/title: must be string (request req_7)',
  );
  expect(server.received).toHaveLength(1);
});

test('an error of the Messages surface is understood', async () => {
  const { client } = await talk((_, response) =>
    sendJson(response, 401, {
      type: 'error',
      error: { type: 'authentication_error', message: 'The credential is not valid.' },
      request_id: 'req_8',
    }),
  );
  const body = { model: 'demo:demo-1', max_tokens: 5, messages: [{ role: 'user' as const, content: 'Hi' }] };
  const error = await errorOf(client.POST('/v1/messages', { body }));
  expect(error).toMatchObject({ status: 401, code: 'authentication_error', requestId: 'req_8' });
  expect(error.message).toContain('The credential is not valid.');
});

test.each([
  ['text/html', '<h1>Bad gateway</h1>'],
  ['application/json', '{"error":'],
  ['application/json', '{"error":"boom"}'],
  ['application/json', 'null'],
])('an error of a proxy, %s %s, says that it is not from the service', async (type, body) => {
  const { client } = await talk((_, response) => {
    response.writeHead(418, { 'Content-Type': type, 'X-Request-Id': 'req_9' }).end(body);
  });
  const error = await errorOf(client.GET('/health'));
  expect(error).toMatchObject({ status: 418, code: 'unrecognized_answer', requestId: 'req_9' });
  expect(error.message).toContain(`GET /health: 418 unrecognized_answer: The answer is ${type}`);
  expect(error.message).not.toContain('Bad gateway');
});

test('a page of a proxy in place of JSON is an error, and text can be asked for', async () => {
  const { client } = await talk((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end('<h1>Welcome</h1>');
  });
  const error = await errorOf(client.GET('/health'));
  expect(error).toMatchObject({ status: 200, code: 'unrecognized_answer' });
  expect(error.message).toContain('text/html, not JSON');
  expect((await client.GET('/docs', { parseAs: 'text' })).data).toBe('<h1>Welcome</h1>');
});

test('an answer that has not changed is thrown as not_modified', async () => {
  const { client } = await talk((_, response) => void response.writeHead(304, { ETag: '"1"' }).end());
  const params = { path: { session_id: 'ses_1' }, header: { 'If-None-Match': '"1"' } };
  const error = await errorOf(client.GET('/api/v1/sessions/{session_id}', { params }));
  expect(error).toMatchObject({ status: 304, code: 'not_modified' });
  expect(error.headers.get('ETag')).toBe('"1"');
});

test.each([
  ['localhost:8090', 'baseUrl is "localhost:8090"; it has to be an address'],
  ['http://127.0.0.1:8090/?a=b', 'a query or a fragment cannot stand in it'],
  ['http://127.0.0.1:8090/#top', 'a query or a fragment cannot stand in it'],
  ['http://127.0.0.1:8090?', 'a query or a fragment cannot stand in it'],
])('%s is refused as an address at once', (baseUrl, message) => {
  expect(() => createServiceClient({ baseUrl })).toThrow(message);
});

test.each([
  'http://ada:hunter2@127.0.0.1:8090',
  'http://ada:hunter2@127.0.0.1:99999/?x',
  'https://hunter2@127.0.0.1',
  'ada:hunter2@127.0.0.1:8090',
  'http:ada:hunter2@127.0.0.1',
  'http:\\\\ada:hunter2@127.0.0.1',
])('an address with a password is refused, and not shown: %s', (baseUrl) => {
  expect(() => createServiceClient({ baseUrl })).toThrow(
    new TypeError('baseUrl has a name or a password in it; the credential is given as token.'),
  );
});

test('an address has what stands around it taken off', async () => {
  const { server } = await talk((_, response) => sendJson(response, 200, {}));
  await createServiceClient({ baseUrl: ` ${server.url}/below/ \n` }).GET('/health');
  expect(server.received[0]?.url).toBe('/below/health');
});

test('a server that is not there is a ConnectionError that says where, and never shows the token', async () => {
  const { client, server } = await talk(() => undefined, { token: 'sk-secret' });
  await server.close();
  const call = client.GET('/api/v1/sessions', { params: { query: { tag: 'private' } } });
  const error: unknown = await call.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ConnectionError);
  expect(String(error)).toContain(`GET /api/v1/sessions: no answer from ${server.url} (connect ECONNREFUSED`);
  expect(`${String(error)} ${JSON.stringify(error)}`).not.toMatch(/sk-secret|private/);
});

test.each([
  ['GET', 502, 'bad_gateway', 2],
  ['GET', 503, 'database_unavailable', 2],
  ['DELETE', 504, 'gateway_timeout', 2],
  ['POST', 429, 'too_many_streams', 2],
  ['POST', 503, 'draining', 2],
  ['POST', 503, 'overloaded', 2],
  ['PATCH', 503, 'draining', 2],
  ['POST', 502, 'provider_failed', 1],
  ['POST', 503, 'database_unavailable', 1],
  ['POST', 503, 'no_provider_configured', 1],
  ['PATCH', 503, 'database_unavailable', 1],
  ['GET', 500, 'internal_error', 1],
  ['GET', 404, 'not_found', 1],
] as const)('%s answered with %i %s is sent %i time(s)', async (method, status, code, times) => {
  const { client, server } = await talk((_, response, count) => {
    if (count === 0) sendProblem(response, status, code);
    else sendJson(response, 200, session);
  });
  const calls = {
    GET: () => client.GET('/health'),
    DELETE: () =>
      client.DELETE('/api/v1/sessions/{session_id}', { params: { path: { session_id: 'ses_1' } } }),
    POST: () => client.POST('/api/v1/query', { body: { prompt: 'Hi' } }),
    PATCH: () => client.PATCH('/api/v1/users/me', { body: { name: 'Grace' } }),
  };
  if (times === 1) expect(await errorOf(calls[method]())).toMatchObject({ status, code });
  else await calls[method]();
  expect(server.received).toHaveLength(times);
  expect(new Set(server.received.map(({ body }) => body)).size).toBe(1);
});

test.each([
  ['GET', 2],
  ['POST', 1],
] as const)('a %s whose connection is cut is sent %i time(s)', async (method, times) => {
  const { client, server } = await talk((_, response, count) => {
    if (count === 0) response.destroy();
    else sendJson(response, 200, session);
  });
  if (method === 'GET') await client.GET('/health');
  else {
    const call = client.POST('/api/v1/query', { body: { prompt: 'Hi' } });
    await expect(call).rejects.toThrow(ConnectionError);
    await expect(call).rejects.toThrow(/no answer from http.* What was asked may be done\.$/);
  }
  expect(server.received).toHaveLength(times);
});

const keyed = { params: { header: { 'Idempotency-Key': 'key-1' } }, body: { prompt: 'Hi' } };

test.each<[string, number, Script]>([
  ['whose connection is cut', 2, (_, response) => void response.destroy()],
  [
    'whose answer breaks off',
    2,
    (_, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '1000' });
      response.write('{"id":', () => response.destroy());
    },
  ],
  ['whose proxy lost it', 2, (_, response) => void response.writeHead(502).end('<h1>Bad gateway</h1>')],
  ['of which the first is at work', 2, (_, response) => sendProblem(response, 409, 'idempotency_key_in_use')],
  ['that may be done', 2, (_, response) => sendProblem(response, 503, 'database_unavailable')],
  ['whose run failed', 1, (_, response) => sendProblem(response, 502, 'provider_failed')],
  ['that is in conflict', 1, (_, response) => sendProblem(response, 409, 'session_busy')],
  ['that is not possible here', 1, (_, response) => sendProblem(response, 503, 'no_provider_configured')],
])('a POST with an Idempotency-Key %s is sent %i time(s)', async (_, times, first) => {
  const { client, server } = await talk(async (request, response, count) => {
    if (count === 0) await first(request, response, count);
    else sendJson(response, 200, session);
  });
  if (times === 1) await errorOf(client.POST('/api/v1/query', keyed));
  else expect((await client.POST('/api/v1/query', keyed)).data).toEqual(session);
  expect(server.received.map(({ headers }) => headers['idempotency-key'])).toEqual(
    Array(times).fill('key-1'),
  );
});

test.each([
  ['GET', 2],
  ['POST', 1],
] as const)('a %s whose answer breaks off is sent %i time(s)', async (method, times) => {
  const { client, server } = await talk((_, response, count) => {
    if (count > 0) return sendJson(response, 200, session);
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '1000' });
    response.write('{"id":', () => response.destroy());
  });
  if (method === 'GET') {
    const { data, response } = await client.GET('/health');
    expect([data, new URL(response.url).pathname]).toEqual([session, '/health']);
  } else {
    const call = client.POST('/api/v1/query', { body: { prompt: 'Hi' } });
    await expect(call).rejects.toThrow(ConnectionError);
    await expect(call).rejects.toThrow(/an answer that broke off from http.* may be done\.$/);
  }
  expect(server.received).toHaveLength(times);
});

test('a refusal whose body breaks off is repeated as any other', async () => {
  const { client, server } = await talk(
    (_, response, count) => {
      if (count > 0) return sendJson(response, 200, {});
      response.writeHead(503, { 'Content-Type': 'application/problem+json', 'Content-Length': '1000' });
      response.write('{', () => response.destroy());
    },
    {
      async fetch(request) {
        const response = await fetch(request);
        // Until it is known that nothing more comes.
        if (!response.ok)
          await response
            .clone()
            .text()
            .catch(() => undefined);
        return response;
      },
    },
  );
  await client.GET('/health');
  expect(server.received).toHaveLength(2);
});

test.each([
  ['has no end', '{"id":"ses_1"', {}],
  ['is not there', '', {}],
  ['is empty', '', { 'Content-Length': '0' }],
])('JSON that %s is no answer', async (_, body, headers) => {
  const { client } = await talk((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json', ...headers }).end(body);
  });
  const error = await errorOf(client.GET('/health'));
  expect(error).toMatchObject({ status: 200, code: 'unrecognized_answer' });
  expect(error.message).toContain('The answer is application/json, not JSON to its end.');
});

test.each([
  [{}, 2],
  [{ 'If-Match': '"3"' }, 1],
] as const)('a PUT with the headers %o whose connection is cut is sent %i time(s)', async (header, times) => {
  const { client, server } = await talk((_, response, count) => {
    if (count === 0) response.destroy();
    else sendProblem(response, 412, 'precondition_failed');
  });
  const call = client.PUT('/api/v1/settings/providers/default-models', { params: { header }, body: {} });
  // Nobody else has changed it: the first attempt may have.
  if (times === 1) await expect(call).rejects.toThrow(ConnectionError);
  else expect(await errorOf(call)).toMatchObject({ status: 412 });
  expect(server.received).toHaveLength(times);
});

test('a change of one version is repeated where the server refused before it acted', async () => {
  const { client, server } = await talk((_, response, count) => {
    if (count < 2) sendProblem(response, [429, 503][count] ?? 0, ['rate_limited', 'draining'][count] ?? '');
    else sendJson(response, 200, {});
  });
  const params = { header: { 'If-Match': '"3"' } };
  await client.PUT('/api/v1/settings/providers/default-models', { params, body: {} });
  expect(server.received).toHaveLength(3);
});

test('where fetch waits no longer, the error says what may be at work, and how to ask', async () => {
  const cause = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
  const late = () => Promise.reject(new TypeError('fetch failed', { cause }));
  const client = createServiceClient({ baseUrl: 'http://127.0.0.1:9', fetch: late });
  const call = client.POST('/api/v1/query', { body: { prompt: 'Hi' } });
  await expect(call).rejects.toThrow(/\(Headers Timeout Error\).* still be at work .* streamQuery/);
  await expect(call).rejects.not.toThrow('Is the server running');
});

test('what a fetch of the caller gives up is thrown in its own words, and not sent again', async () => {
  const sent: string[] = [];
  const own = async ({ method }: Request) => {
    sent.push(method);
    throw new ConnectionError('The tunnel is closed.');
  };
  const client = createServiceClient({ baseUrl: 'http://127.0.0.1:9', fetch: own });
  await expect(client.GET('/api/v1/sessions')).rejects.toThrow(/^The tunnel is closed\.$/);
  expect(sent).toEqual(['GET']);
});

test('repetition ends at its limit with the last error', async () => {
  const { client, server } = await talk((_, response) => sendProblem(response, 503, 'draining'));
  expect(await errorOf(client.GET('/ready'))).toMatchObject({ code: 'draining' });
  expect(server.received).toHaveLength(4);
});

test('a member of retries that is undefined counts as not given, and what can be no number of times is refused', async () => {
  const retries = { baseDelayMs: 1, ...({ limit: undefined } as object) };
  const { client, server } = await talk((_, response) => sendProblem(response, 503, 'draining'), { retries });
  expect(await errorOf(client.GET('/ready'))).toMatchObject({ code: 'draining' });
  expect(server.received).toHaveLength(5);
  for (const limit of [Number.NaN, -1])
    expect(() => createServiceClient({ baseUrl: server.url, retries: { limit } })).toThrow(
      `retries.limit is ${limit}`,
    );
});

test.each([
  ['seconds', () => '1', 990],
  // A date has no fractions of a second, so that two seconds ahead is more than one from now.
  ['a date', () => new Date(Date.now() + 2_000).toUTCString(), 990],
])('Retry-After in %s is waited for', async (_, value, atLeastMs) => {
  const { client } = await talk((_request, response, count) => {
    if (count === 0) sendProblem(response, 429, 'too_many_streams', { 'Retry-After': value() });
    else sendJson(response, 200, {});
  });
  const start = performance.now();
  await client.GET('/health');
  expect(performance.now() - start).toBeGreaterThan(atLeastMs);
});

test('a wait longer than the longest allowed is left to the caller', async () => {
  const { client, server } = await talk((_, response) =>
    sendProblem(response, 429, 'too_many_streams', { 'Retry-After': '21' }),
  );
  const error = await errorOf(client.GET('/health'));
  expect(error.retryAfterSeconds).toBe(21);
  expect(error.message).toContain('Try again in 21 s.');
  expect(server.received).toHaveLength(1);
});

test('a wait that is longer than a timer can hold is no short one', async () => {
  const headers = { 'Retry-After': '3000000' };
  const retries = { baseDelayMs: 1, maxDelayMs: Number.POSITIVE_INFINITY };
  const controller = new AbortController();
  const reason = new Error('enough');
  const { client, server } = await talk(
    (_, response) => {
      // From here on: a busy machine may take longer than that to ask.
      setTimeout(() => controller.abort(reason), 300);
      sendProblem(response, 429, 'rate_limited', headers);
    },
    { retries },
  );
  await expect(client.GET('/health', { signal: controller.signal })).rejects.toBe(reason);
  expect(server.received).toHaveLength(1);
});

test('a signal ends the wait for a repetition, and a call under way, with its own reason', async () => {
  const { client } = await talk((request, response) => {
    if (request.url === '/health') sendProblem(response, 429, 'too_many_streams', { 'Retry-After': '19' });
    // Any other request gets no answer.
  });
  const start = performance.now();
  for (const path of ['/health', '/ready'] as const) {
    const signal = AbortSignal.timeout(50);
    await expect(client.GET(path, { signal })).rejects.toThrow(
      expect.objectContaining({ name: 'TimeoutError' }),
    );
  }
  expect(performance.now() - start).toBeLessThan(5_000);
});
