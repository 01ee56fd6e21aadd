/** Secrets stay where they belong: in no log, in no file in clear, and in no environment of a command. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { ApiKeyCreated, QueryResponse, TokenPair } from './contract/api.ts';
import { findExecutable } from './runtime/processes/executable.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  withoutBubblewrap,
  writeSettings,
} from './server-process.ts';
import { clientOf } from './test-client.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(async () => {
  await upstream.stop();
});

const password = 'canary-password-of-ada';
const providerKey = 'canary-key-of-the-provider';

describe('with the log at its most talkative', () => {
  test('no secret that comes in, goes out or is kept is in the log, the summary or the database', async () => {
    const folder = await temporaryFolder();
    // As providers do: the refusal quotes the key.
    await upstream.script([
      {
        when: { last_user: '^refuse' },
        fail: { kind: 'status', status: 401, message: `Incorrect API key provided: ${providerKey}` },
      },
      { reply: { text: 'You said: {{last_user}}' } },
    ]);
    const server = await startServer({
      folder,
      variables: {
        SERVICE_DEBUG: 'true',
        SERVICE_ADMIN_EMAIL: 'admin@example.com',
        SERVICE_ADMIN_PASSWORD: 'canary-password-of-the-admin',
        OPENAI_API_KEY: providerKey,
        OPENAI_BASE_URL: `${upstream.url}/v1`,
      },
    });
    const secrets = await useEverySecret(server);
    const masterKey = await readFile(join(folder, 'data/master.key'), 'utf8');
    secrets.push(masterKey.trim());
    expect(secrets.length).toBeGreaterThan(10);
    await expectNowhere(folder, server, secrets, Buffer.from(masterKey, 'base64'));
    expect(await server.stop()).toBe(0);
    await expectNowhere(folder, server, secrets, Buffer.from(masterKey, 'base64'));
    // The log does say what happened, so that silence is not what passes here.
    expect(server.log()).toContain('"msg":"request"');
    expect(server.log()).toContain('a run failed');
  });

  test('no line of it can be forged by what a caller sends', async () => {
    const server = await startServer({ folder: await temporaryFolder(), args: ['--debug'] });
    await fetch(`${server.url}/api/v1/%0a%7b%22msg%22:%22forged%22%7d/%1b[31m`, {
      headers: { 'user-agent': 'forged', 'x-request-id': 'forged' },
    });
    await server.stop();
    const lines = server.log().trimEnd().split('\n');
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty('level');
    expect(lines.some((line) => JSON.parse(line).msg === 'forged')).toBe(false);
    expect(server.log()).not.toContain('\u001b');
  });
});

describe('a command that an agent runs', () => {
  const look = "env; cat /proc/self/environ | tr '\\\\0' '\\\\n'";

  test.skipIf(!findExecutable('bwrap'))(
    'sees nothing of the server’s environment, in the sandbox',
    async () => {
      const output = await runCommand(`${look}; cat /proc/[0-9]*/environ; cat ../*.key ../../*.key`, {});
      expect(output).toContain('PATH=');
      expect(output).not.toMatch(/canary|SERVICE_(?!COMMAND)|OPENAI_/);
    },
  );

  test('sees nothing of the server’s environment, without a sandbox', async () => {
    const output = await runCommand(look, await withoutBubblewrap('env', 'cat', 'tr'));
    expect(output).toMatch(/PATH=|PWD=/);
    expect(output).not.toMatch(/canary|SERVICE_(?!COMMAND)|OPENAI_/);
  });
});

/** Uses each kind of secret, rightly and wrongly; answers with all that were used. */
async function useEverySecret(server: ServerProcess): Promise<string[]> {
  const client = clientOf(server);
  const register = await client.post<TokenPair>('/api/v1/auth/register', {
    email: 'ada@example.com',
    password,
  });
  const login = await client.post<TokenPair>('/api/v1/auth/login', { email: 'ada@example.com', password });
  const { access_token, refresh_token } = login.body;
  const refreshed = await client.post<TokenPair>('/api/v1/auth/refresh', { refresh_token });
  const own = clientOf(server, access_token);
  const created = await own.post<ApiKeyCreated>('/api/v1/auth/api-keys', { name: 'a key' });
  expect([register.status, login.status, refreshed.status, created.status]).toEqual([201, 200, 200, 201]);
  const byKey = clientOf(server, created.body.key);
  expect((await byKey.post('/api/v1/query', { prompt: 'hello' })).status).toBe(200);
  expect((await byKey.post('/api/v1/query', { prompt: 'refuse' })).status).toBe(502);
  await misuse(server, created.body.key);
  return [
    password,
    'canary-password-of-the-admin',
    providerKey,
    ...[register.body, login.body, refreshed.body].flatMap((pair) => [pair.access_token, pair.refresh_token]),
    created.body.key,
    ...misused,
  ];
}

const misused = [
  'canary-wrong-password',
  'canary-broken-password',
  'canary-stray-password',
  `sk-${'canaryUnknownKey'.padEnd(50, 'x')}`,
  'canary-unknown-refresh-token',
  'canary-token-in-a-query',
  'canary-bootstrap-token',
];

/** Secrets in requests that fail: these are what an incautious log would quote. */
async function misuse(server: ServerProcess, key: string): Promise<void> {
  const client = clientOf(server);
  const [wrong, broken, stray, unknownKey, unknownToken, inQuery, bootstrap] = misused;
  const email = 'ada@example.com';
  const answers = await Promise.all([
    client.post('/api/v1/auth/login', { email, password: wrong }),
    client.post('/api/v1/auth/register', { email, password: stray, secret: stray }),
    client.post('/api/v1/auth/register', { email: 'eve@example.com', password, bootstrap_token: bootstrap }),
    client.post('/api/v1/auth/refresh', { refresh_token: unknownToken }),
    clientOf(server, unknownKey).get('/api/v1/users/me'),
    client.get(`/api/v1/users/me?access_token=${inQuery}&key=${key}`),
  ]);
  for (const { status } of answers) expect(status).toBeGreaterThanOrEqual(400);
  const raw = await fetch(`${server.url}/api/v1/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"email": "${email}", "password": "${broken}"`,
  });
  expect(raw.status).toBe(400);
  const twice = await fetch(`${server.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key, authorization: `Bearer ${unknownKey}` },
    body: '{}',
  });
  expect(twice.status).toBe(401);
}

/** Neither the secrets nor, for whoever searches with other tools, their base64 or percent forms. */
async function expectNowhere(
  folder: string,
  server: ServerProcess,
  secrets: readonly string[],
  masterKey: Buffer,
): Promise<void> {
  const files = await readdir(join(folder, 'data'), { recursive: true, withFileTypes: true });
  const kept = files.filter((file) => file.isFile() && file.name !== 'master.key');
  const contents = await Promise.all(
    kept.map(async (file) => ({
      name: file.name,
      bytes: await readFile(join(file.parentPath, file.name)),
    })),
  );
  contents.push({ name: 'the log', bytes: Buffer.from(server.log()) });
  contents.push({ name: 'the summary', bytes: Buffer.from(server.printed()) });
  expect(contents.map(({ name }) => name)).toContain('service.db');
  for (const { name, bytes } of contents) {
    for (const secret of secrets) expect(bytes.includes(secret), `${secret} in ${name}`).toBe(false);
    expect(bytes.includes(masterKey), `the master key in ${name}`).toBe(false);
  }
}

/** Has an agent run a command on a server whose environment is full of canaries; answers with the output. */
async function runCommand(command: string, variables: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'bash', arguments: { command } }] } },
    { reply: { text: 'Done.' } },
  ]);
  await writeSettings(folder, scriptedSettings(upstream.url));
  const server = await startServer({
    folder,
    variables: {
      CANARY: 'canary-of-the-shell',
      OPENAI_API_KEY: 'canary-key',
      SERVICE_ADMIN_EMAIL: 'admin@example.com',
      SERVICE_ADMIN_PASSWORD: 'canary-password',
      SERVICE_MODE: 'single',
      ...variables,
    },
  });
  const login = await clientOf(server).post<TokenPair>('/api/v1/auth/login', {
    email: 'admin@example.com',
    password: 'canary-password',
  });
  const answer = await clientOf(server, login.body.access_token).post<QueryResponse>('/api/v1/query', {
    prompt: 'Look around.',
    permission_mode: 'bypass',
  });
  const [result] = answer.body.tool_results;
  return result?.content ?? '';
}
