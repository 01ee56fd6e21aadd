/** Thousands of requests made from the contract, valid and hostile ones, against a live server: it keeps its word. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServiceClient } from '@service/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operations } from '../contract.ts';
import { type OpenId, openIdVariables, startOpenId } from '../openid/start-openid.ts';
import { type Server, startServer } from '../start-server.ts';
import { startUpstream, type Upstream } from '../upstream/start-upstream.ts';
import { type FuzzResult, runFuzzer } from './run-fuzzer.ts';

let upstream: Upstream;
let openid: OpenId;
let server: Server;
let result: FuzzResult;
let folder: string | undefined;

beforeAll(async () => {
  upstream = await startUpstream();
  openid = await startOpenId();
  await openid.person({ sub: 'fuzz', email: 'fuzz@corp.example', email_verified: true });
  // The brake on guessing would answer in the place of what is tried here.
  const variables = {
    SERVICE_LOGIN_ATTEMPTS: '100000',
    // Where a provider is played that gives tokens.
    SERVICE_OUTBOUND_ALLOW: '127.0.0.1',
    ...openIdVariables(openid.url),
    ...(await database()),
  };
  server = await startServer({ upstreamUrl: upstream.url, variables });
  result = await runFuzzer(server.url, server.operatorKey);
  console.log(shares(result));
  if (result.exitCode !== 0) console.error(result.output);
  // Two minutes of two processors; where others want them too, it takes as long as it takes.
}, 1_800_000);
afterAll(async () => {
  await server?.stop();
  await openid?.stop();
  await upstream?.stop();
  if (folder) await rm(folder, { recursive: true });
});

describe.each(operations)('$operationId', ({ operationId, label, successStatuses }) => {
  test('keeps what the contract says of it', () => {
    const failures = result.report.failures.filter((failure) => failure.operations.includes(label));
    expect(failures.map(({ code, title }) => `${code} ${title}`)).toEqual([]);
  });

  test('was brought to one of its successes', () => {
    const reached = Object.keys(result.statuses[operationId] ?? {}).map(Number);
    expect(
      successStatuses.some((status) => reached.includes(status)),
      `only got ${reached}`,
    ).toBe(true);
  });
});

test('every phase ran over every operation, without a failure or an error between them', () => {
  const { phases, errors, failures, operations: counts } = result.report;
  expect(errors).toEqual([]);
  expect(failures).toEqual([]);
  expect(counts).toMatchObject({ total: operations.length, tested: operations.length });
  expect(Object.entries(phases).map(([name, { status }]) => `${name} ${status}`)).toEqual([
    'examples success',
    'coverage success',
    'fuzzing success',
    'stateful success',
  ]);
  expect(result.exitCode).toBe(0);
});

test('the server logged no fault of its own', () => {
  const faults = server
    .log()
    .split('\n')
    .filter((line) => line.includes('"code":"internal_error"'));
  expect(faults).toEqual([]);
});

test('what was accepted has poisoned nothing: a fresh client is served', async () => {
  expect(server.running()).toBe(true);
  const visitor = createServiceClient({ baseUrl: server.url });
  const body = { email: 'fresh@example.com', password: 'correct-horse-battery' };
  const { data: pair } = await visitor.POST('/api/v1/auth/register', { body });
  const client = createServiceClient({ baseUrl: server.url, token: pair.access_token });
  const { data: session } = await client.POST('/api/v1/sessions', { body: { title: 'Fresh' } });
  const { data: answer } = await client.POST('/api/v1/query', {
    body: { prompt: 'Hello', session_id: session.id },
  });
  expect(answer).toMatchObject({ status: 'completed', content: [{ type: 'text', text: 'You said: Hello' }] });
  const params = { path: { session_id: session.id } };
  const { data: messages } = await client.GET('/api/v1/sessions/{session_id}/messages', { params });
  expect(messages.data.map(({ role }) => role)).toEqual(['user', 'assistant']);
  expect((await client.GET('/health')).data).toEqual({ status: 'ok' });
});

/** An empty PostgreSQL in the place of SQLite: `make contract ON=postgres`. */
async function database(): Promise<Record<string, string>> {
  const url = process.env.FUZZ_DATABASE_URL;
  if (url === undefined) return {};
  // There no server makes a key of its own: another one could not read what it seals.
  folder = await mkdtemp(join(tmpdir(), 'service-fuzz-key-'));
  const file = join(folder, 'master.key');
  await writeFile(file, randomBytes(32).toString('base64'), { mode: 0o600 });
  return { DATABASE_URL: url, SERVICE_MASTER_KEY_FILE: file };
}

/** The share of successes of each operation, for people: a low one says that the fuzzer mostly meets refusals. */
function shares({ statuses }: FuzzResult): string {
  const rows = operations.map(({ operationId, successStatuses }) => {
    const counts = Object.entries(statuses[operationId] ?? {});
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    const successes = counts.reduce(
      (sum, [status, count]) => sum + (successStatuses.includes(Number(status)) ? count : 0),
      0,
    );
    const share = all === 0 ? 0 : Math.round((100 * successes) / all);
    return `${operationId.padEnd(24)}${`${share} %`.padStart(6)} of ${String(all).padStart(4)} answers were a success`;
  });
  return rows.join('\n');
}
