/** The part of the canary test about provider settings: keys and headers that are kept, changed, used and read back. */
import { expect, vi } from 'vitest';
import { startMcp } from '../contract-tests/mcp/start-mcp.ts';
import { mergePatch } from './test-app.ts';
import { confide, given, type Stage, send } from './test-canary-stage.ts';

/** A setting of an organization with secrets in each place, which are replaced once. */
export async function keepProviders(stage: Stage, token: string, baseUrl: string): Promise<void> {
  const { secrets } = stage;
  const place = '/api/v1/settings/providers';
  const members = ['api_key', 'extra_headers.*'] as const;
  const withSecrets = (when: string) => ({
    api_key: secrets.make(`the key of a provider setting, ${when}`),
    extra_headers: { 'X-Secret': secrets.make(`a header of a provider setting, ${when}`) },
  });
  const provider = { type: 'openai-compat', base_url: baseUrl, models: [{ id: 'scripted-1' }] };
  const setting = { scope: 'organization', provider_id: 'kept', ...provider, ...withSecrets('first') };
  const made = await confide(stage, ['createProviderSetting', ...members], setting, {
    token,
    headers: { 'idempotency-key': 'kept' },
  });
  expect(made.body).toMatchObject({ api_key_set: true, usable: true });
  for (const member of members) stage.sent.add(`updateProviderSetting ${member}`);
  const one = `${place}/${made.body.id}`;
  const changed = await send(stage, 'PATCH', one, {
    token,
    body: withSecrets('then'),
    headers: mergePatch,
  });
  expect(changed.status).toBe(200);
  expect((await send(stage, 'GET', one, { token })).status).toBe(200);
  await connectProvider(stage, { token, setting: one, token_url: `${baseUrl}/token` });
  const broken = {
    base_url: `${baseUrl}/?key=x`,
    api_key: `${secrets.make('a key that is refused')}\u2028x`,
  };
  expect((await send(stage, 'PATCH', one, { token, body: broken, headers: mergePatch })).status).toBe(400);
}

/** For how many seconds an MCP server is waited for that will never answer. */
export const timeout = 3;

/** MCP servers that do not speak the protocol: what they are sent and told is kept, and told to nobody else. */
export async function keepMcpServers(stage: Stage, token: string, url: string): Promise<void> {
  const place = '/api/v1/mcp/servers';
  // Without a credential it would ask for a login.
  const headers = (when: string) => ({
    Authorization: stage.secrets.make(`a header of an MCP server, ${when}`),
  });
  const env = (when: string) => ({ SECRET: stage.secrets.make(`a variable of an MCP server, ${when}`) });
  const remote = {
    scope: 'organization',
    name: 'remote',
    type: 'http',
    url: `${url}/mcp`,
    headers: headers('first'),
    timeout,
  };
  const local = {
    scope: 'installation',
    name: 'local',
    type: 'stdio',
    command: 'cat',
    env: env('first'),
    timeout,
  };
  const begun = [
    {
      made: await confide(stage, ['createMcpServer', 'headers.*'], remote, { token }),
      change: { headers: headers('then') },
    },
    {
      made: await confide(stage, ['createMcpServer', 'env.*'], local, { token }),
      change: { env: env('then') },
    },
  ];
  for (const { made, change } of begun) {
    expect(made.status).toBe(201);
    const one = `${place}/${made.body.id}`;
    const changed = await send(stage, 'PATCH', one, { token, body: change, headers: mergePatch });
    expect(changed.status).toBe(200);
    for (const member of Object.keys(change)) stage.sent.add(`updateMcpServer ${member}.*`);
    expect((await send(stage, 'POST', `${one}/test`, { token })).body.code).toBe('mcp_server_failed');
    expect((await send(stage, 'GET', `${one}/tools`, { token })).status).toBe(502);
    expect((await send(stage, 'GET', one, { token })).body).toMatchObject({ state: 'failed' });
    expect(
      (await send(stage, 'PATCH', one, { token, body: { disabled: true }, headers: mergePatch })).status,
    ).toBe(200);
  }
  expect((await send(stage, 'GET', place, { token })).status).toBe(200);
  await logInToMcpServer(stage, token);
}

/** What is sent for a login, and what a browser brings back, is told to the authorization server alone. */
async function logInToMcpServer(stage: Stage, token: string): Promise<void> {
  const { url, stop } = await startMcp();
  const place = '/api/v1/mcp/servers';
  const server = { scope: 'user', name: 'guarded', type: 'http', url };
  const made = await send(stage, 'POST', place, { token, body: server });
  const one = `${place}/${made.body.id}`;
  const client_secret = stage.secrets.make('the secret of a client of an MCP server');
  const begun = await send(stage, 'POST', `${one}/oauth/start`, {
    token,
    body: { client_id: 'c', client_secret },
  });
  expect(begun.status).toBe(201);
  const state = new URL(begun.body.authorize_url).searchParams.get('state') ?? '';
  given(stage, begun, 'the state of a login to an MCP server', state);
  const code = stage.secrets.make('the code of an MCP server');
  const back = await fetch(
    `${stage.server.url}/api/v1/mcp/oauth/callback?${new URLSearchParams({ state, code })}`,
    {
      redirect: 'manual',
    },
  );
  expect(back.headers.get('location')).toBe('/mcp/connected#mcp_server=guarded');
  for (const name of ['state', 'code']) stage.sent.add(`completeMcpOauth ${name}`);
  stage.sent.add('startMcpOauth client_secret');
  expect((await send(stage, 'GET', `${one}/tools`, { token })).status).toBe(200);
  expect((await send(stage, 'DELETE', `${one}/oauth`, { token })).status).toBe(204);
  await stop();
}

/** A bucket whose server is none: it refuses what is sent to it, and where files lie is then as it was. */
export async function keepStorage(stage: Stage, token: string, endpoint: string): Promise<void> {
  const place = '/api/v1/settings/storage';
  const body = {
    ...{ backend: 's3', endpoint, bucket: 'kept' },
    access_key_id: stage.secrets.make('the key of a bucket'),
    secret_access_key: stage.secrets.make('the secret of the key of a bucket'),
  };
  const headers = { ...mergePatch, 'if-match': '*' };
  const set = await send(stage, 'PATCH', place, { token, body, headers });
  expect(set.body).toMatchObject({ backend: 's3', credentials_set: true });
  stage.sent.add('updateStorage access_key_id').add('updateStorage secret_access_key');
  expect((await send(stage, 'GET', place, { token })).status).toBe(200);
  expect((await send(stage, 'POST', `${place}/test`, { token })).body.code).toBe('storage_test_failed');
  const back = await send(stage, 'PATCH', place, { token, body: { backend: 'fs' }, headers });
  expect(back.status).toBe(200);
}

/** A server that is none of git's: what was sent to it is told to nobody else. */
export async function keepSkillRepository(stage: Stage, token: string, place: string): Promise<void> {
  const path = '/api/v1/skills/repositories';
  const body = { url: `${place}/house/skills.git`, token: stage.secrets.make('the token of a repository') };
  const made = await send(stage, 'POST', path, { token, body });
  expect(made.body).toMatchObject({ has_token: true });
  const url = `${path}/${made.body.id}`;
  const other = { token: stage.secrets.make('another token of a repository') };
  const changed = await send(stage, 'PATCH', url, { token, body: other, headers: mergePatch });
  expect(changed.body).toMatchObject({ has_token: true });
  stage.sent.add('addSkillRepository token').add('updateSkillRepository token');
  expect((await send(stage, 'POST', `${url}/sync`, { token })).status).toBe(202);
  await vi.waitFor(
    async () => expect((await send(stage, 'GET', url, { token })).body.state).toBe('failed'),
    20_000,
  );
}

/** An engine that refuses the key: what was sent is told to nobody else. */
export async function keepSearchEngine(stage: Stage, token: string, base_url: string): Promise<void> {
  const place = '/api/v1/web/search/settings';
  const body = { engine: 'brave', base_url, api_key: stage.secrets.make('the key of a search engine') };
  const headers = { ...mergePatch, 'if-match': '*' };
  const set = await send(stage, 'PATCH', place, { token, body, headers });
  expect(set.body).toMatchObject({ engine: 'brave', api_key_set: true });
  stage.sent.add('updateWebSearchSettings api_key');
  expect((await send(stage, 'GET', place, { token })).status).toBe(200);
  const query = { query: 'x '.repeat(60) };
  const asked = await send(stage, 'POST', '/api/v1/web/search', { token, body: query });
  expect(asked.body.code).toBe('web_search_refused');
}

/** The upstream has no such place, and refuses: what was sent is told to nobody else. */
async function connectProvider(
  stage: Stage,
  {
    token,
    setting,
    token_url,
  }: { readonly token: string; readonly setting: string; readonly token_url: string },
): Promise<void> {
  const { secrets } = stage;
  const client = {
    client_id: 'service',
    client_secret: secrets.make('the secret of an OAuth client of a provider'),
    auth_url: 'https://auth.example.com/authorize',
    token_url,
  };
  const begun = await send(stage, 'POST', `${setting}/oauth/start`, {
    token,
    body: { flow: 'code', client },
  });
  expect(begun.status).toBe(201);
  const code = secrets.make('the code of a provider');
  const body = { state: begun.body.state, code };
  const refused = await send(stage, 'POST', `${setting}/oauth/complete`, { token, body });
  expect(refused.body.code).toBe('oauth_invalid');
  stage.sent.add('startProviderOauth client.client_secret').add('completeProviderOauth code');
}
