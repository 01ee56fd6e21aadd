/** OAuth tokens of providers: used while they last, renewed at a real token server on loopback. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { OauthToken } from '../../contract/config.ts';
import { resolveProviders } from './providers.ts';

const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

interface Asked {
  readonly authorization: string | undefined;
  readonly form: Record<string, string>;
}

/** Answers each request in turn; the last answer again and again. */
async function tokenServer(...answers: { status?: number; body: unknown }[]) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { authorization } = request.headers;
    const { status = 200, body } = answers[Math.min(asked.length, answers.length - 1)] ?? { body: null };
    asked.push({ authorization, form: Object.fromEntries(new URLSearchParams(text)) });
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
    response.end(JSON.stringify(body));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return { asked, url: `http://127.0.0.1:${port}/token` };
}

const hour = 3600;
const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;

function provided(oauth: OauthToken, more: object = {}, id = 'anthropic') {
  return resolveProviders(
    { providers: { [id]: { oauth, ...more } } },
    { ANTHROPIC_API_KEY: 'of the environment' },
  );
}

function ended(url: string, refreshToken: string, client: OauthToken['client'] = {}): OauthToken {
  const whole = { client_id: 'me', client_secret: 'hidden', token_url: url, ...client };
  return { access_token: 'old', refresh_token: refreshToken, expires_in: hour, expires_at: 0, client: whole };
}

async function tokenOf(oauth: OauthToken): Promise<string | undefined> {
  return (await provided(oauth).candidates[0]?.connect())?.authToken;
}

test('`providers.*.oauth.access_token` is sent where there is no api_key, before what the environment holds', async () => {
  const oauth = { access_token: 'token', expires_in: hour, expires_at: inSeconds(hour) };
  expect(await provided(oauth).candidates[0]?.connect()).toMatchObject({ authToken: 'token' });
  expect(await provided(oauth, { api_key: 'key' }).candidates[0]?.connect()).toMatchObject({ apiKey: 'key' });
  const local = { type: 'openai-compat', base_url: 'http://127.0.0.1:1', models: [{ id: 'm' }] };
  expect(await provided(oauth, local, 'gateway').candidates[0]?.connect()).toMatchObject({ apiKey: 'token' });
});

test.each([0, 1, inSeconds(20)])(
  '`providers.*.oauth.expires_at` of %i: a token that has ended, or ends too soon, is not used',
  (expires_at) => {
    const { candidates, diagnostics } = provided({ access_token: 'token', expires_in: hour, expires_at });
    expect(candidates).toEqual([]);
    expect(diagnostics[0]?.message).toBe('The oauth token has ended and cannot be renewed');
  },
);

test('`providers.*.oauth.client.client_id`, `providers.*.oauth.client.client_secret` and `providers.*.oauth.client.token_url` renew a token that has ended, once for all that ask', async () => {
  const { url, asked } = await tokenServer({ body: { access_token: 'new', expires_in: hour } });
  const oauth = ended(url, 'once', { auth_style: 1 });
  expect(await Promise.all([tokenOf(oauth), tokenOf(oauth)])).toEqual(['new', 'new']);
  expect(await tokenOf(oauth)).toBe('new');
  const form = {
    grant_type: 'refresh_token',
    refresh_token: 'once',
    client_id: 'me',
    client_secret: 'hidden',
  };
  expect(asked).toEqual([{ authorization: undefined, form }]);
});

test('`providers.*.oauth.refresh_token` is what the first renewal asks with, the next with what the last one brought', async () => {
  const { url, asked } = await tokenServer(
    { body: { access_token: 'short', expires_in: 1, refresh_token: 'second' } },
    { body: { access_token: 'long', expires_in: hour } },
  );
  const oauth = ended(url, 'first', { auth_style: 2 });
  expect(await tokenOf(oauth)).toBe('short');
  expect(await tokenOf(oauth)).toBe('long');
  expect(asked.map(({ form }) => form.refresh_token)).toEqual(['first', 'second']);
  expect(asked[0]?.authorization).toBe(`Basic ${btoa('me:hidden')}`);
  expect(asked[0]?.form).not.toHaveProperty('client_secret');
});

test.each([
  [hour, 1],
  [1, 2],
])(
  '`providers.*.oauth.expires_in` of %i is how long a renewed token counts where the server does not say',
  async (expires_in, renewals) => {
    const { url, asked } = await tokenServer({ body: { access_token: 'new' } });
    const oauth = { ...ended(url, `unsaid-${expires_in}`, { auth_style: 1 }), expires_in };
    expect([await tokenOf(oauth), await tokenOf(oauth)]).toEqual(['new', 'new']);
    expect(asked).toHaveLength(renewals);
  },
);

test('`providers.*.oauth.client.auth_style` of 0 asks a server that does not take the header with the body', async () => {
  const { url, asked } = await tokenServer(
    { status: 401, body: {} },
    { body: { access_token: 'new', expires_in: hour } },
  );
  expect(await tokenOf(ended(url, 'tried', { auth_style: 0 }))).toBe('new');
  expect(asked.map(({ authorization }) => Boolean(authorization))).toEqual([true, false]);
});

test('a refusal is told without the words of the server, and tried anew the next time', async () => {
  const { url } = await tokenServer(
    { status: 400, body: { error: 'canary' } },
    { body: { access_token: 'new', expires_in: hour } },
  );
  const oauth = ended(url, 'refused', { auth_style: 1 });
  await expect(tokenOf(oauth)).rejects.toThrow('did not renew it: it answered with status 400');
  expect(await tokenOf(oauth)).toBe('new');
});

test.each(['http://example.com/token', 'ftp://127.0.0.1/token', 'nonsense'])(
  'the refresh token is not sent to %s',
  (url) => {
    const { candidates, diagnostics } = provided(ended(url, 'kept'));
    expect(candidates).toEqual([]);
    expect(diagnostics[0]?.message).toBe('client.token_url of oauth is no https URL');
  },
);

test('a redirect is not followed: the refresh token would go with it', async () => {
  const { url, asked } = await tokenServer({ body: { access_token: 'stolen', expires_in: hour } });
  const server = createServer((_request, response) => response.writeHead(307, { location: url }).end());
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  await expect(tokenOf(ended(`http://127.0.0.1:${port}/`, 'redirected'))).rejects.toThrow(
    'could not be reached',
  );
  expect(asked).toEqual([]);
});
