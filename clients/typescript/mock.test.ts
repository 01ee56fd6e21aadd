/** The client against the mock that Prism makes of the contract: what it sends and reads is what the contract says. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createServiceClient, type ServiceClient } from './client.ts';
import { ServiceError } from './errors.ts';
import { paginate } from './pagination.ts';
import { replyPermission, replyPrompt } from './reply.ts';
import { streamQuery, streamRunEvents } from './stream.ts';

const root = join(import.meta.dirname, '../..');
const id = '01k9w6r3h2e7xv5q0c8m4b1tza';
const session = { session_id: `ses_${id}` };
let mock: ChildProcess;
let client: ServiceClient;
let baseUrl: string;

beforeAll(async () => {
  const document = join(root, 'server/contract/openapi.mock.json');
  const prism = join(root, 'node_modules/.bin/prism');
  mock = spawn(process.execPath, [prism, 'mock', '-p', '0', '--errors', document], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  baseUrl = await announced(mock);
  client = createServiceClient({ baseUrl, token: 'sk-test' });
});

afterAll(() => {
  mock.kill();
});

async function announced({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('The mock has no output.');
  for await (const line of createInterface({ input: stdout })) {
    const url = /listening on (http:\S+)/.exec(line)?.[1];
    if (url) {
      stdout.resume(); // What it logs from here on is not read; a full pipe would hold it.
      return url;
    }
  }
  throw new Error('The mock ended before it listened; has `make generate` been run?');
}

test('a session is created, read, changed, listed and deleted', async () => {
  const created = await client.POST('/api/v1/sessions', { body: { title: 'New idea', tags: ['example'] } });
  expect(created.data.id).toMatch(/^ses_/);
  expect(created.response.status).toBe(201);
  expect(created.response.headers.get('ETag')).not.toBeNull();
  const params = { path: session };
  expect((await client.GET('/api/v1/sessions/{session_id}', { params })).data.tags).toEqual(['example']);
  const change = { params: { path: session, header: { 'If-Match': '"1"' } }, body: { title: 'First steps' } };
  expect((await client.PATCH('/api/v1/sessions/{session_id}', change)).data.title).toBe('First steps');
  const sessions = paginate((page) =>
    client.GET('/api/v1/sessions', { params: { query: { ...page, archived: false } } }),
  );
  expect((await Array.fromAsync(sessions)).map(({ title }) => title)).toEqual(['First steps']);
  const deleted = await client.DELETE('/api/v1/sessions/{session_id}', { params });
  expect(deleted.data).toBeUndefined();
});

test('an account is registered and logs in, without a credential', async () => {
  const anonymous = createServiceClient({ baseUrl });
  const login = { email: 'grace@example.com', password: 'correct-horse-battery' };
  const registered = await anonymous.POST('/api/v1/auth/register', { body: { ...login, name: 'Grace' } });
  const { data } = await anonymous.POST('/api/v1/auth/login', { body: login });
  expect(registered.data.token_type).toBe('Bearer');
  expect(data.user.email).toContain('@');
});

test('a query is answered, and one is streamed', async () => {
  const body = { prompt: 'Say hello.', model: 'demo:demo-1' };
  const { data } = await client.POST('/api/v1/query', { body });
  expect(data.content[0]?.type).toBe('text');
  const expected = ['runtime', 'runtime', 'message', 'runtime', 'runtime', 'done'];
  const streamed = await Array.fromAsync(streamQuery(client, body));
  expect(streamed.map(({ event }) => event)).toEqual(expected);
  const replayed = await Array.fromAsync(streamRunEvents(client, `run_${id}`, { follow: false }));
  expect(replayed).toEqual(streamed);
});

test('requests of a run are answered', async () => {
  const permission = { ...session, id: `prm_${id}` };
  const answered = await replyPermission(client, permission, { decision: 'allow_once' });
  expect(answered.decision).toBe('allow_once');
  const prompt = { ...session, id: `prq_${id}` };
  const reply = { answers: [{ question_id: 'colour', fill_in_text: 'green' }] };
  expect((await replyPrompt(client, prompt, reply)).status).toBe('answered');
  expect((await replyPrompt(client, prompt, { cancelled: true })).reply_schema).toBe('PromptReply');
});

test('the Messages surface answers in its own shape', async () => {
  const messages = [{ role: 'user' as const, content: 'Say hello.' }];
  const { data } = await client.POST('/v1/messages', {
    body: { model: 'demo:demo-1', max_tokens: 256, messages },
  });
  expect(data.role).toBe('assistant');
  expect(data.content[0]?.text).toContain('demonstration');
});

test('text is read as text', async () => {
  const { data } = await client.GET('/metrics', { parseAs: 'text' });
  expect(typeof data).toBe('string');
});

test('a missing credential and a wrong body are errors with a code', async () => {
  const anonymous = createServiceClient({ baseUrl });
  await expect(anonymous.GET('/api/v1/users/me')).rejects.toMatchObject({
    status: 401,
    code: 'credential_missing',
  });
  // @ts-expect-error The compiler refuses it too; here the mock has to.
  const wrong = client.POST('/api/v1/query', { body: {} });
  await expect(wrong).rejects.toBeInstanceOf(ServiceError);
  await expect(wrong).rejects.toMatchObject({ status: 400, code: 'invalid_request' });
});
