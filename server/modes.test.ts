/** Single and multi: who may come in, which model answers, and what is off on a machine without a sandbox. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { QueryResponse, TokenPair, Tool } from './contract/api.ts';
import {
  runToEnd,
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  withoutBubblewrap,
  writeSettings,
} from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(async () => {
  await upstream.stop();
});

const password = 'correct-horse-battery';

interface Readiness {
  readonly status: string;
  readonly mode: string;
  readonly sandbox: boolean;
  readonly providers: readonly string[];
  readonly off: readonly string[];
}

describe('which model answers', () => {
  test('in single without any provider it is the demonstration, which says so', async () => {
    const server = await startServer({ folder: await temporaryFolder() });
    expect(server.printed()).toMatch(/^ {2}providers {2,}demo, a scripted demonstration/m);
    const answer = await ask(clientOf(server, server.key), 'hello');
    expect(answer.body.model).toBe('demo:demo-1');
  });

  test('a key in the environment is found and used', async () => {
    const variables = { OPENAI_API_KEY: 'a-key-of-openai', OPENAI_BASE_URL: `${upstream.url}/v1` };
    const server = await startServer({ folder: await temporaryFolder(), variables });
    expect(server.printed()).toMatch(/^ {2}providers {2,}openai \(environment\)$/m);
    const answer = await ask(clientOf(server, server.key), 'hello');
    expect(answer).toMatchObject({
      status: 200,
      body: { model: expect.stringMatching(/^openai:/), content: [{ text: 'You said: hello' }] },
    });
    expect((await latestRequest()).headers.authorization).toBe('Bearer a-key-of-openai');
  });

  test('a key of Anthropic is found, too, and its API is spoken', async () => {
    const variables = { ANTHROPIC_API_KEY: 'a-key-of-anthropic', ANTHROPIC_BASE_URL: `${upstream.url}/v1` };
    const server = await startServer({ folder: await temporaryFolder(), variables });
    const answer = await ask(clientOf(server, server.key), 'hello');
    expect(answer.body.model).toMatch(/^anthropic:/);
    expect((await latestRequest()).headers['x-api-key']).toBe('a-key-of-anthropic');
  });

  test('the global service.json names providers and models, with $VARIABLES for what is secret', async () => {
    const folder = await temporaryFolder();
    await writeSettings(folder, {
      providers: {
        house: {
          type: 'openai-compat',
          base_url: '$HOUSE_URL/v1',
          api_key: '$HOUSE_KEY',
          models: [{ id: 'small' }, { id: 'big' }],
        },
      },
      models: { large: { provider: 'house', model: 'big' } },
    });
    const variables = { HOUSE_URL: upstream.url, HOUSE_KEY: 'the-key-of-the-house' };
    const server = await startServer({ folder, variables });
    expect(server.printed()).toMatch(/^ {2}providers {2,}house \(settings\)$/m);
    const answer = await ask(clientOf(server, server.key), 'hello');
    expect(answer.body.model).toBe('house:big');
    expect((await latestRequest()).headers.authorization).toBe('Bearer the-key-of-the-house');
  });

  test('a variable that is demanded and not set is told of at the start, and its provider is left out', async () => {
    const folder = await temporaryFolder();
    const demanded = `\${HOUSE_KEY:?}`;
    await writeSettings(folder, {
      providers: {
        house: {
          type: 'openai-compat',
          base_url: `${upstream.url}/v1`,
          api_key: demanded,
          models: [{ id: 'm' }],
        },
      },
    });
    const server = await startServer({ folder });
    expect(server.printed()).toContain('HOUSE_KEY');
    expect(server.printed()).toMatch(/^ {2}providers {2,}demo/m);
  });

  test('in multi without any provider it is none: 503 says what to set, unless the demonstration is named', async () => {
    const server = await startServer({ folder: await temporaryFolder(), args: ['--mode', 'multi'] });
    const client = clientOf(server, server.key);
    const refused = await client.post('/api/v1/query', { prompt: 'hello' });
    expect(refused).toMatchObject({ status: 503, body: { code: 'no_provider_configured' } });
    expect(refused.body.detail).toContain('OPENAI_API_KEY');
    expect(await ready(server)).toMatchObject({ mode: 'multi', providers: [] });
    expect((await ready(server)).off.join('\n')).toMatch(/^queries: no model provider/m);
    const named = await ask(client, 'hello', { model: 'demo:demo-1' });
    expect(named).toMatchObject({ status: 200, body: { model: 'demo:demo-1' } });
  });
});

describe('a second account', () => {
  test('switches the running server to multi: no command without a sandbox, no demonstration', async () => {
    const folder = await temporaryFolder();
    const server = await startServer({ folder, variables: await withoutBubblewrap() });
    const client = clientOf(server, server.key);
    expect(await ready(server)).toMatchObject({ mode: 'single', sandbox: false, providers: ['demo'] });
    expect((await toolNamed(client, 'bash'))?.disabled_by).toBeNull();

    const account = await client.post<TokenPair>('/api/v1/auth/register', {
      email: 'ada@example.com',
      password,
    });
    expect(account).toMatchObject({ status: 201, body: { user: { operator: false } } });
    const after = await ready(server);
    expect(after).toMatchObject({ mode: 'multi', sandbox: false, providers: [] });
    expect(after.off.join('\n')).toMatch(/^tool bash: no sandbox/m);
    expect((await toolNamed(client, 'bash'))?.disabled_by).toBe('no sandbox on this machine');
    const refused = await client.post('/api/v1/query', { prompt: 'hello' });
    expect(refused).toMatchObject({ status: 503, body: { code: 'no_provider_configured' } });

    await server.stop();
    const again = await startServer({ folder, variables: await withoutBubblewrap() });
    expect(again.printed()).toMatch(/^ {2}mode {2,}multi/m);
  });
});

test.skipIf(inject('postgresUrl') === null)(
  'a second account that registers at one node switches the others over the same database to multi',
  async () => {
    const folder = await temporaryFolder();
    const variables = {
      DATABASE_URL: await newDatabase(),
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
    };
    const [one, other] = [await startServer({ folder, variables }), await startServer({ folder, variables })];
    expect((await ready(other)).mode).toBe('single');
    const person = { email: 'ada@example.com', password };
    expect((await clientOf(one).post('/api/v1/auth/register', person)).status).toBe(201);
    await expect.poll(async () => (await ready(other)).mode).toBe('multi');
    // Nothing that was found on the machine, or that shows what the program can do, is for many.
    expect((await ready(other)).providers).toEqual([]);
  },
);

describe('multi on a machine without a sandbox', () => {
  test('has no command tool: the model is told that there is none, and the start says why', async () => {
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const variables = await withoutBubblewrap();
    const server = await startServer({ folder, variables, args: ['--mode', 'multi'] });
    expect(server.printed()).toMatch(/^ {2}sandbox {2,}no: bubblewrap \(bwrap\) is not installed$/m);
    expect(server.printed()).toMatch(/^ {2}off {2,}tool bash: no sandbox on this machine$/m);
    const answer = await ask(clientOf(server, server.key), 'use tool bash with {"command":"touch made"}', {
      permission_mode: 'bypass',
    });
    expect(answer.body.tool_results).toMatchObject([
      { is_error: true, content: expect.stringContaining('There is no tool bash') },
    ]);
    const { body } = await latestRequest();
    expect(JSON.stringify(body)).not.toContain('"name":"bash","description"');
  });
});

describe('registration by invitation', () => {
  test('refuses without a token; the command prints one, which works once', async () => {
    const folder = await temporaryFolder();
    const variables = { SERVICE_REGISTRATION: 'invite' };
    const server = await startServer({ folder, variables });
    const client = clientOf(server);
    const register = (email: string, token?: string) =>
      client.post<TokenPair & { code: string }>('/api/v1/auth/register', {
        email,
        password,
        ...(token && { invitation_token: token }),
      });
    const without = await register('ada@example.com');
    expect(without).toMatchObject({ status: 403, body: { code: 'registration_refused' } });
    const args = ['--data-dir', join(folder, 'data')];
    const invitation = await runToEnd({ folder, program: 'maintenance/invite.ts', args });
    expect(invitation.code).toBe(0);
    const token = invitation.stdout.trim();
    expect(await register('ada@example.com', token)).toMatchObject({
      status: 201,
      body: { user: { operator: false } },
    });
    expect(await register('grace@example.com', token)).toMatchObject({
      status: 403,
      body: { code: 'registration_refused' },
    });
    expect(await register('grace@example.com', 'a-token-that-nobody-printed')).toMatchObject({ status: 403 });
  });
});

function ask(client: Client, prompt: string, more: object = {}) {
  return client.post<QueryResponse>('/api/v1/query', { prompt, ...more });
}

async function ready(server: ServerProcess): Promise<Readiness> {
  const { status, body } = await clientOf(server).get<Readiness>('/ready');
  expect(status).toBe(200);
  return body;
}

async function toolNamed(client: Client, name: string): Promise<Tool | undefined> {
  const { body } = await client.get<{ data: readonly Tool[] }>('/api/v1/tools');
  return body.data.find((tool) => tool.name === name);
}

async function latestRequest() {
  const record = (await upstream.requests()).at(-1);
  if (!record) throw new Error('The upstream was never asked.');
  return record;
}
