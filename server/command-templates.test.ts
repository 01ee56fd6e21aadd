/** A $(command) in the settings: run when its provider is asked, and by nothing else that a server does. */
import { access, mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import { listProviders } from './config/config.ts';
import type { ClientConfig, Provider } from './contract/config.ts';
import { testApp } from './test-app.ts';

let folder: string;
let upstream: Upstream;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-templates-'));
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
  await rm(folder, { recursive: true });
});

test('`providers.*.api_key` may be a command, which is not run before the provider is asked', async () => {
  const canary = join(folder, 'canary');
  const house: Provider = {
    type: 'openai-compat',
    base_url: `${upstream.url}/v1`,
    api_key: `$(env > ${canary}; pwd >> ${canary}; echo key-from-a-command)`,
    models: [{ id: 'm' }],
  };
  const config: ClientConfig = { providers: { house }, models: { large: { provider: 'house', model: 'm' } } };
  const environment = { PATH: process.env.PATH ?? '', SERVICE_MASTER_KEY: 'canary-secret' };
  const app = await testApp({ config, environment });
  try {
    expect(await listProviders(config, environment)).toMatchObject([{ id: 'house', state: 'usable' }]);
    const ada = await app.register('ada');
    expect((await app.request('GET', '/ready')).status).toBe(200);
    const session = { token: ada.token, body: { model: 'house:m' } };
    expect((await app.request('POST', '/api/v1/sessions', session)).status).toBe(201);
    await expect(access(canary)).rejects.toThrow('ENOENT');
    const answer = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'hello' },
    });
    expect(answer.status).toBe(200);
    const seen = await readFile(canary, 'utf8');
    expect(seen).toMatch(new RegExp(`^${homedir()}$`, 'm'));
    expect(seen).not.toContain('canary-secret');
    const { headers } = await upstream.latest(() => true);
    expect(headers.authorization).toBe('Bearer key-from-a-command');
  } finally {
    await app.close();
  }
});

test('a command that fails refuses the question, and says why only in the log', async () => {
  const house: Provider = {
    type: 'openai-compat',
    base_url: `${upstream.url}/v1`,
    api_key: '$(echo canary; exit 7)',
    models: [{ id: 'm' }],
  };
  const app = await testApp({ config: { providers: { house } } });
  try {
    const ada = await app.register('ada');
    const answer = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'hello' },
    });
    expect(answer).toMatchObject({ status: 502, body: { code: 'provider_refused' } });
    expect(JSON.stringify(answer.body)).not.toMatch(/canary|exit/);
    const body = { model: 'house:m', max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] };
    expect((await app.request('POST', '/v1/messages', { token: ada.token, body })).status).toBe(502);
  } finally {
    await app.close();
  }
});
