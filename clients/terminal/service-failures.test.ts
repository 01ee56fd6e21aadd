/** What a command says where a stream that was lost cannot be read on. */
import { once } from 'node:events';
import { createServer, type OutgoingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BrokenStreamError, ConnectionError } from '@service/client/errors';
import { expect, onTestFinished, test } from 'vitest';
import { failureOf } from './service-failures.ts';
import { testHome } from './test-command.ts';

const started = { type: 'run_started', run_id: 'run_1', session_id: 'ses_1', model: 'demo:demo-1' };
const problem = (status: number, code: string) => ({
  ...{ type: `/docs#${code}`, title: 'A title.', status, detail: 'What happened.', instance: '/', code },
  request_id: 'req_1',
});

function refuse(response: ServerResponse, status: number, code: string, headers: OutgoingHttpHeaders = {}) {
  response.writeHead(status, { 'Content-Type': 'application/problem+json', ...headers });
  response.end(JSON.stringify(problem(status, code)));
}

/** Loses the stream of each query after its first event, and answers whoever asks for the rest in this way. */
async function startLosingServer(status: number, code: string): Promise<string> {
  return await startServer((request, response) => {
    if (request.method !== 'POST') return refuse(response, status, code, { 'Retry-After': '60' });
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Run-Id': 'run_1' });
    response.end(`id: 1\nevent: runtime\ndata: ${JSON.stringify(started)}\n\n`);
  });
}

async function startServer(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  return `http://127.0.0.1:${port}`;
}

test.each([
  [
    401,
    'credential_invalid',
    4,
    'What happened. (credential_invalid)\nLog in again with service login; a key that SERVICE_API_KEY has for that server goes before',
  ],
  [410, 'events_expired', 1, 'What happened. (events_expired)\n'],
  [503, 'overloaded', 4, 'The stream was lost, and could not be continued. Run run_1 was read up to event 1'],
])('a run that is lost, and refused with %i %s, ends with %i', async (status, code, exitCode, words) => {
  const variables = { SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: await startLosingServer(status, code) };
  const { code: ended, stderr } = await testHome().service(['run', 'hello'], { variables });
  expect(stderr).toContain(`service: ${words}`);
  expect(ended).toBe(exitCode);
});

test('what kept a stream from being read on is told beside its loss', () => {
  const lost = new BrokenStreamError('It was lost.', 'run_1', 1, new ConnectionError('A lock is held.'));
  expect(failureOf(lost)).toMatchObject({ message: 'It was lost.\nA lock is held.', exitCode: 4 });
});

test('a query that a server has, and whose answer was lost, is not to be asked again without a look', async () => {
  const url = await startServer((_, response) => refuse(response, 409, 'idempotency_key_in_use'));
  const variables = { SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: url };
  const { code, stderr } = await testHome().service(['run', 'hello'], { variables });
  expect(stderr).toMatch(
    /\(idempotency_key_in_use\)\nThe server may be at work at it: service sessions list/,
  );
  expect(code).toBe(1);
});
