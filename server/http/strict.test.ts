/** In strict mode an answer that breaks the contract does not leave the server. */
import { afterEach, expect, test } from 'vitest';
import type { ServerEvent } from '../handler.ts';
import { startTestServer, type TestServer } from './test-server.ts';
import type { AnyReply } from './wire.ts';

let server: TestServer;
afterEach(() => server.close());

const id = 'ses_01k9w6r3h2e7xv5q0c8m4b1tza';
const page = { data: [], next_cursor: null };

const broken: readonly (readonly [
  string,
  'listSessions' | 'getHealth' | 'deleteSession' | 'getMe',
  AnyReply,
  string,
])[] = [
  [
    'a member too many',
    'getHealth',
    { status: 200, body: { status: 'ok', secret: 'x' } },
    'additional properties',
  ],
  [
    'a member of an item too many',
    'listSessions',
    { status: 200, body: { data: [{ id }], next_cursor: null } },
    'required',
  ],
  ['a wrong type', 'listSessions', { status: 200, body: { data: 5, next_cursor: null } }, 'must be array'],
  [
    'a status that is not declared, with a body of another',
    'listSessions',
    { status: 201, body: page },
    'media type',
  ],
  [
    'a media type that is not declared',
    'listSessions',
    { status: 200, type: 'text/plain', body: 'x' },
    'media type',
  ],
  ['a body where none belongs', 'deleteSession', { status: 204, body: page }, 'media type'],
  ['no body where one belongs', 'listSessions', { status: 200 }, 'the body is missing'],
  ['a header that is missing', 'getMe', { status: 304 }, 'ETag is missing'],
  ['a header that is not valid', 'getMe', { status: 304, headers: { ETag: 'x' } }, 'ETag is not valid'],
];

const paths = {
  listSessions: '/api/v1/sessions',
  getHealth: '/health',
  deleteSession: `/api/v1/sessions/${id}`,
  getMe: '/api/v1/users/me',
};

test.each(broken)('%s is a fault of ours', async (_title, operation, reply, named) => {
  server = await startTestServer({ handlers: { [operation]: async () => reply } });
  const answer = await server.request(operation === 'deleteSession' ? 'DELETE' : 'GET', paths[operation]);
  expect([answer.status, answer.json.code]).toEqual([500, 'internal_error']);
  expect(answer.text).not.toContain('secret');
  expect(JSON.stringify(server.log)).toContain(named);
});

test('without it, the same answers pass', async () => {
  server = await startTestServer({
    settings: { strict: false },
    handlers: { getHealth: async () => ({ status: 200, body: { status: 'ok', more: 1 } }) },
  });
  expect((await server.request('GET', '/health')).status).toBe(200);
});

test.each<[string, ServerEvent]>([
  ['a name that is not declared', { name: 'stranger', data: {} }],
  ['a payload that does not match its name', { name: 'runtime', data: { type: 'nonsense' } }],
  ['a chunk of no known type', { data: { type: 'nonsense' } }],
  ['a second member in an error', { name: 'error', data: { error: 'internal_error: x', more: 1 } }],
])('of a stream, %s becomes an error event', async (_title, event) => {
  server = await startTestServer({
    handlers: {
      streamRunEvents: async () => ({
        status: 200,
        type: 'text/event-stream',
        headers: { 'X-Run-Id': 'run_01k9w6r3h2e7xv5q0c8m4b1tza' },
        body: (async function* () {
          yield event;
        })(),
      }),
    },
  });
  const answer = await server.request('GET', '/api/v1/runs/run_01k9w6r3h2e7xv5q0c8m4b1tza/events');
  expect(answer.text).toMatch(/^: keepalive\n\nevent: error\ndata: \{"error":"internal_error: [^"]+"\}\n\n$/);
});
