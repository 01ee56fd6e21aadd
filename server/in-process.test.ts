/** The server inside the process of a command: its folder is the workspace, its key dies with it. */
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createServiceClient, type ServiceClient } from '../clients/typescript/client.ts';
import { replyPermission } from '../clients/typescript/reply.ts';
import { streamQuery } from '../clients/typescript/stream.ts';
import type { ClientConfig } from './contract/config.ts';
import { createLog } from './log.ts';
import { type RunningServer, startServer } from './main.ts';
import { localServerSettings } from './server-settings/server-settings.ts';

let home: string;
let folder: string;
let config: ClientConfig;
const servers: RunningServer[] = [];

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'service-in-process-')));
  folder = join(home, 'project');
  await mkdir(folder);
  config = {};
});
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  await rm(home, { recursive: true });
});

test('its tools work in the folder of the command, and a question is answered through the contract', async () => {
  const { client } = await start();
  const events: string[] = [];
  for await (const { event, data } of streamQuery(client, { prompt: 'Write a file named hello.txt' })) {
    events.push(event === 'runtime' ? data.type : event);
    if (event === 'runtime' && data.type === 'permission_requested')
      await replyPermission(client, data.request, { decision: 'allow_once' });
  }
  expect(events).toContain('permission_requested');
  expect(events.at(-1)).toBe('done');
  expect(await readFile(join(folder, 'hello.txt'), 'utf8')).toContain('demonstration');
});

test('what it keeps lies in its data directory, its master key with the person', async () => {
  await start();
  expect(await readdir(folder)).toEqual(['.service']);
  expect(await readdir(join(folder, '.service'))).toContain('service.db');
  expect((await stat(join(home, 'data/master.key'))).mode & 0o777).toBe(0o600);
});

test('the key acts for the operator, is stored nowhere, and ends with the process', async () => {
  const { server, client } = await start();
  const { data: me } = await client.GET('/api/v1/users/me');
  expect(me.operator).toBe(true);
  const { data: keys } = await client.GET('/api/v1/auth/api-keys');
  expect(keys.data).toEqual([]);
  expect(server.firstCredential).toBeNull();
  const key = server.processKey ?? '';
  await server.stop();
  const stored = await Promise.all(
    (await readdir(join(folder, '.service'))).map((name) =>
      readFile(join(folder, '.service', name), 'latin1'),
    ),
  );
  expect(stored.join('')).not.toContain(key.slice(4, 20));
  const again = await start();
  const stranger = createServiceClient({ baseUrl: again.server.url, token: key });
  await expect(stranger.GET('/api/v1/users/me')).rejects.toMatchObject({ code: 'credential_invalid' });
});

test('others on this machine, who can reach its port, get no account and with it no way into the folder', async () => {
  const { server } = await start();
  const stranger = createServiceClient({ baseUrl: server.url, token: '' });
  const body = { email: 'stranger@example.com', password: 'long enough a password' };
  await expect(stranger.POST('/api/v1/auth/register', { body })).rejects.toMatchObject({
    code: 'registration_refused',
  });
  expect(await server.services.identity.accounts()).toBe(1);
});

test('two commands may start at once in a new folder, and see each other’s sessions', async () => {
  const [one, other] = await Promise.all([start(), start()]);
  const { data: session } = await one.client.POST('/api/v1/sessions', { body: { title: 'Shared' } });
  const { data: found } = await other.client.GET('/api/v1/sessions/{session_id}', {
    params: { path: { session_id: session.id } },
  });
  expect(found.title).toBe('Shared');
});

test('`options.disabled_tools` and new providers count from the next query on, without a restart', async () => {
  const { client } = await start();
  await ask(client, 'Write a file named one.txt');
  config = { ...config, options: { disabled_tools: ['write'] } };
  await ask(client, 'Write a file named two.txt');
  expect((await readdir(folder)).filter((name) => name.endsWith('.txt'))).toEqual(['one.txt']);
  config = {
    ...config,
    providers: { here: { type: 'openai-compat', base_url: 'http://127.0.0.1:9/v1', models: [{ id: 'm' }] } },
  };
  await expect(ask(client, 'Hello')).rejects.toMatchObject({ message: expect.stringContaining('provider') });
});

test('a right that the settings lose counts no more at the next tool call of the same run', async () => {
  config = { permissions: { allowed_tools: ['write'] } };
  const { client } = await start();
  await writeFile(join(folder, 'seen.txt'), 'seen');
  let asked = 0;
  for await (const { event, data } of streamQuery(client, { prompt: 'Write a file named hello.txt' })) {
    if (event === 'runtime' && data.type === 'run_started') config = {};
    if (event === 'runtime' && data.type === 'permission_requested') {
      asked += 1;
      await replyPermission(client, data.request, { decision: 'deny' });
    }
  }
  expect(asked).toBe(1);
});

async function ask(client: ServiceClient, prompt: string): Promise<void> {
  for await (const { event, data } of streamQuery(client, { prompt })) {
    if (event === 'runtime' && data.type === 'permission_requested')
      await replyPermission(client, data.request, { decision: 'allow_once' });
    if (event === 'error') throw new Error(data.error);
  }
}

async function start(): Promise<{ server: RunningServer; client: ServiceClient }> {
  const settings = localServerSettings(join(folder, '.service'));
  const server = await startServer(
    { ...settings, strict: true },
    {
      environment: {},
      log: createLog('silent'),
      project: {
        folder,
        keyDirectory: join(home, 'data'),
        settings: {
          current: async () => loadedSettings(),
          onChange: () => undefined,
          close: () => undefined,
        },
      },
    },
  );
  servers.push(server);
  return { server, client: createServiceClient({ baseUrl: server.url, token: server.processKey ?? '' }) };
}

/** As `followSettings` gives them: the same object until something changes. */
let loaded: { config: ClientConfig; diagnostics: readonly [] } = { config: {}, diagnostics: [] };
function loadedSettings() {
  if (loaded.config !== config) loaded = { config, diagnostics: [] };
  return loaded;
}
