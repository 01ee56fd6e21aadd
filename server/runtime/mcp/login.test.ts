/** Logins to remote MCP servers, with a real authorization server on loopback. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { McpServer } from '../../contract/config.ts';
import { createOutbound, fetchFrom } from '../../outbound/outbound.ts';
import type { ToolOutput } from '../tools/tool.ts';
import { oauthSettingsOf } from './entry.ts';
import { logIn } from './login.ts';
import { keepLoginsInMemory, type LoginKeeper } from './login-keeper.ts';
import { call, testContext, testMcp, testWorkspace } from './test-mcp.ts';
import { type OauthServer, startOauthServer } from './test-oauth-server.ts';

test('a server that asks for a login is absent, and its state says so', async () => {
  const { url, clients, grants } = await startOauthServer();
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'http', url } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })).toEqual([
    {
      name: 'guarded',
      state: 'failed',
      detail: 'it asks for a login; a person logs in with: service mcp login guarded',
    },
  ]);
  // Nothing was tried that only a person can end.
  expect(clients()).toBe(0);
  expect(grants).toEqual([]);
});

test('a login that cannot be read for a reason that a person can mend says which', async () => {
  const { url } = await startOauthServer();
  const workspacePath = testWorkspace();
  const away = Object.assign(new Error('its login is in a keyring that is locked'), {
    name: 'LoginUnreadable',
  });
  const mcpLogins = { ...keepLoginsInMemory(), read: () => Promise.reject(away) };
  const mcp = testMcp({ guarded: { type: 'http', url } }, { mcpLogins });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })).toMatchObject([{ state: 'failed', detail: away.message }]);
});

test('a person logs in with PKCE as a client that is registered for it, and the server can be used', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  expect(server.clients()).toBe(1);
  expect(await answerOf({ type: 'http', url: server.url }, keeper)).toBe('done');
});

test('many requests that meet an ended token renew it once', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins: keeper });
  const tools = await mcp.tools({ workspacePath });
  server.grants.length = 0;
  server.revoke();
  const { context } = testContext(workspacePath);
  const results = await Promise.all(
    Array.from({ length: 12 }, () => call(tools, 'mcp_guarded_act', {}, context)),
  );
  expect(results.every(({ content }) => content === 'done')).toBe(true);
  expect(server.grants.map((asked) => asked.get('grant_type'))).toEqual(['refresh_token']);
});

test('another process that has renewed the login spares this one the work', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  const [one, two] = [testWorkspace(), testWorkspace()].map((workspacePath) => ({
    workspacePath,
    mcp: testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins: keeper }),
  }));
  if (!one || !two) throw new Error('there are two');
  await one.mcp.tools(one);
  const tools = await two.mcp.tools(two);
  server.grants.length = 0;
  server.revoke();
  const { context } = testContext(one.workspacePath);
  await call(await one.mcp.tools(one), 'mcp_guarded_act', {}, context);
  expect(await call(tools, 'mcp_guarded_act', {}, context)).toMatchObject({ content: 'done' });
  expect(server.grants).toHaveLength(1);
});

/** A server that somebody is logged in to, by a keeper that keeps others from renewing that for so long. */
async function guardedWith(holdsMs: number) {
  const server = await startOauthServer();
  const keeper = { ...keepLoginsInMemory(), holdsMs };
  await loggedIn(server, {}, keeper);
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins: keeper });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  return { server, keeper, act: () => call(tools, 'mcp_guarded_act', {}, context) };
}

test('an authorization server that does not answer is waited for no longer than others are kept away, and costs no login', async () => {
  const { server, act } = await guardedWith(3000);
  server.revoke();
  server.pauses.before = ({ path }) => (path === '/token' ? new Promise(() => undefined) : undefined);
  expect(await act()).toEqual({
    content:
      'The MCP server guarded did not do it: its login cannot be renewed now: the authorization server did not answer within 3 s.',
    is_error: true,
  });
  server.pauses.before = () => undefined;
  expect(await act()).toMatchObject({ content: 'done' });
});

test('others are kept away while a refresh token is on its way: sent by two, it may cost the login', async () => {
  const { server, keeper, act } = await guardedWith(2000);
  const { locked } = keeper;
  const onTheirWay: number[] = [];
  keeper.locked = (name, action) =>
    locked(name, async () => {
      try {
        return await action();
      } finally {
        // The other side needs a moment to see that nobody waits any more.
        await delay(1000);
        onTheirWay.push(server.unanswered('/token'));
      }
    });
  server.revoke();
  server.pauses.before = ({ path }) => (path === '/token' ? new Promise(() => undefined) : undefined);
  expect((await act()).content).toContain('did not answer within 2 s');
  expect(onTheirWay).toEqual([0]);
});

test('a login that a person makes while the one before is renewed is the one that counts', async () => {
  const { server, keeper, act } = await guardedWith(10_000);
  server.revoke();
  server.pauses.after = ({ body }) => (body.includes('refresh_token') ? delay(1000) : undefined);
  const acting = act();
  await expect.poll(() => server.unanswered('/token')).toBe(1);
  await loggedIn(server, {}, keeper);
  const made = await keeper.read(server.url);
  expect(await acting).toMatchObject({ content: 'done' });
  expect(await act()).toMatchObject({ content: 'done' });
  expect(await keeper.read(server.url)).toBe(made);
});

test('whoever cannot have a login renewed, since its keeper is away, is told so', async () => {
  const server = await startOauthServer();
  const locked = async () => {
    throw new Error('connect ECONNREFUSED 10.0.0.7:5432');
  };
  const kept = keepLoginsInMemory();
  await loggedIn(server, {}, kept);
  const workspacePath = testWorkspace();
  const mcpLogins = { ...kept, locked };
  const mcp = testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins });
  const tools = await mcp.tools({ workspacePath });
  server.revoke();
  const { content } = await call(tools, 'mcp_guarded_act', {}, testContext(workspacePath).context);
  expect(content).toBe('The MCP server guarded did not do it: its login cannot be renewed now.');
});

test('a login that cannot be renewed is over: a person is needed again', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  server.revoke(true);
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins: keeper });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })[0]?.detail).toContain('service mcp login guarded');
  expect(await keeper.read(server.url)).toBeNull();
});

test('a login that ends while it is in use says so, and counts again once a person has logged in', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  const workspacePath = testWorkspace();
  const guarded = { type: 'http' as const, url: server.url };
  const mcp = testMcp({ guarded }, { mcpLogins: keeper }, { backOffMs: 10, longestBackOffMs: 10 });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const act = async () => (await call(tools, 'mcp_guarded_act', {}, context)).content;
  expect(await act()).toBe('done');
  server.revoke(true);
  const hint = 'it asks for a login; a person logs in with: service mcp login guarded';
  expect(await act()).toContain(hint);
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'guarded', state: 'failed', detail: hint }]);
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  await loggedIn(server, {}, keeper);
  await expect.poll(act).toBe('done');
  expect(mcp.states({ workspacePath })[0]?.state).toBe('ready');
});

test('a renewal takes no header of the setting to the authorization server', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  const workspacePath = testWorkspace();
  const guarded = { type: 'http' as const, url: server.url, headers: { 'X-Key': 'canary' } };
  const mcp = testMcp({ guarded }, { mcpLogins: keeper });
  const tools = await mcp.tools({ workspacePath });
  server.asked.length = 0;
  server.revoke();
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_guarded_act', {}, context)).toMatchObject({ content: 'done' });
  expect(server.asked.map(({ path }) => path)).toContain('/token');
  const told = server.asked.filter(({ headers }) => headers['x-key'] === 'canary');
  expect(new Set(told.map(({ path }) => path))).toEqual(new Set(['/mcp']));
});

test('a renewal that outlives its connection over sse opens none that nobody closes', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, {}, keeper);
  server.revoke();
  server.asked.length = 0;
  const [renewing, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  server.pauses.before = ({ path }) => {
    if (path !== '/token') return undefined;
    renewing.resolve();
    return late.promise;
  };
  const before = await keeper.read(server.url);
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'sse', url: server.url, timeout: 1 } }, { mcpLogins: keeper });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  await renewing.promise;
  late.resolve();
  await expect.poll(() => keeper.read(server.url)).not.toBe(before);
  await delay(500);
  expect(server.asked.filter(({ path }) => path === '/mcp')).toHaveLength(1);
});

test('an answer that belongs to another login is refused', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  const forged = loggedIn(server, {}, keeper, (answer) => answer.set('state', 'forged'));
  await expect(forged).rejects.toThrow('the answer belongs to another login');
  expect(await keeper.read(server.url)).toBeNull();
});

test('an address to log in at that is no page is not visited', async () => {
  const server = await startOauthServer();
  server.claims.authorization = { authorization_endpoint: 'file:///etc/passwd' };
  const visited: URL[] = [];
  const login = loggedIn(server, {}, keepLoginsInMemory(), (_, url) => visited.push(url));
  await expect(login).rejects.toThrow('its authorization server names no page to log in on');
  expect(visited).toEqual([]);
});

test('`mcp.*.oauth` false never logs in', async () => {
  const { url, grants } = await startOauthServer();
  const workspacePath = testWorkspace();
  const entry: McpServer = { type: 'http', url, oauth: false, oauth_grant: 'client_credentials' };
  const mcp = testMcp({ guarded: { ...entry, oauth_client_id: 'known', oauth_client_secret: 'its secret' } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(grants).toEqual([]);
});

/** Calls of the tool of a server to which the service logs in by itself. */
async function actingByItself({ url }: { readonly url: string }): Promise<() => Promise<ToolOutput>> {
  const workspacePath = testWorkspace();
  const entry: McpServer = { type: 'http', url, oauth_grant: 'client_credentials' };
  const known = { oauth_client_id: 'known', oauth_client_secret: 'its secret' };
  const mcp = testMcp({ guarded: { ...entry, ...known } });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  return () => call(tools, 'mcp_guarded_act', {}, context);
}

test('`mcp.*.oauth_grant` client_credentials: the service logs in by itself, and anew when that ends', async () => {
  const server = await startOauthServer();
  const act = await actingByItself(server);
  expect(await act()).toMatchObject({ content: 'done' });
  server.revoke();
  expect(await act()).toMatchObject({ content: 'done' });
  expect(server.grants).toHaveLength(2);
  expect(server.clients()).toBe(0);
});

test('`mcp.*.oauth_grant` client_credentials: a token that has ended by our clock is replaced once for all who call', async () => {
  const server = await startOauthServer();
  // It ends before anybody refuses it, and is good until then although it is short.
  server.lifetime.seconds = 1;
  const act = await actingByItself(server);
  await delay(1100);
  server.lifetime.seconds = 3600;
  server.grants.length = 0;
  const results = await Promise.all([act(), act(), act(), act()]);
  expect(results.map(({ content }) => content)).toEqual(Array(4).fill('done'));
  expect(await act()).toMatchObject({ content: 'done' });
  expect(server.grants).toHaveLength(1);
});

test.each([0, 9])('a token that lasts %i s is used for what it lasts', async (seconds) => {
  const server = await startOauthServer();
  server.lifetime.seconds = seconds;
  const act = await actingByItself(server);
  expect(await act()).toMatchObject({ content: 'done' });
  expect(server.grants).toHaveLength(1);
});

test('a login without a refresh token asks for its person once it has ended', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  const tokens = { access_token: 'ended', token_type: 'Bearer', expires_in: 3600 };
  const login = { client: { client_id: 'known' }, tokens, expiresAt: Date.now() - 1000 };
  await keeper.write(server.url, JSON.stringify(login));
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: { type: 'http', url: server.url } }, { mcpLogins: keeper });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })[0]?.detail).toBe(
    'it asks for a login; a person logs in with: service mcp login guarded',
  );
  expect(server.grants).toEqual([]);
});

test('`mcp.*.oauth_client_secret` a wrong one is told without being shown', async () => {
  const { url } = await startOauthServer();
  const workspacePath = testWorkspace();
  const entry: McpServer = { type: 'http', url, oauth_grant: 'client_credentials' };
  const mcp = testMcp({ guarded: { ...entry, oauth_client_id: 'known', oauth_client_secret: 'wrong-one' } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  const [state] = mcp.states({ workspacePath });
  expect(state?.detail).toBe('the login failed: invalid_client');
});

test('`mcp.*.oauth_client_id` a client that is known registers no other', async () => {
  const server = await startOauthServer();
  const keeper = keepLoginsInMemory();
  await loggedIn(server, { oauth_client_id: 'known' }, keeper);
  expect(server.clients()).toBe(0);
  expect(server.grants[0]?.get('client_id')).toBe('known');
  expect(await answerOf({ type: 'http', url: server.url, oauth_client_id: 'known' }, keeper)).toBe('done');
});

test('where no client can register by itself, it is said how to name one', async () => {
  const server = await startOauthServer();
  server.claims.authorization = { registration_endpoint: undefined };
  await expect(loggedIn(server, {}, keepLoginsInMemory())).rejects.toThrow(/name it as oauth_client_id/);
  await loggedIn(server, { oauth_client_id: 'known' }, keepLoginsInMemory());
});

test('`mcp.*.oauth_scope` is what the login asks for', async () => {
  const server = await startOauthServer();
  const asked: string[] = [];
  const settings = { oauth_scope: 'read write' };
  await loggedIn(server, settings, keepLoginsInMemory(), (_answer, url) => {
    asked.push(url.searchParams.get('scope') ?? '');
  });
  expect(asked).toEqual(['read write']);
});

test('`mcp.*.oauth_issuer` the secret goes to no other authorization server', async () => {
  const { url, grants } = await startOauthServer();
  const workspacePath = testWorkspace();
  const entry: McpServer = { type: 'http', url, oauth_grant: 'client_credentials' };
  const known = { oauth_client_id: 'known', oauth_client_secret: 'its secret' };
  const mcp = testMcp({ guarded: { ...entry, ...known, oauth_issuer: 'https://auth.example.com' } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(grants).toEqual([]);
});

/** Logs in as a browser does whose person agrees; `meddle` may change what it comes back with. */
async function loggedIn(
  { url }: OauthServer,
  settings: Partial<McpServer>,
  keeper: LoginKeeper,
  meddle: (answer: URLSearchParams, authorizationUrl: URL) => void = () => undefined,
): Promise<void> {
  const outbound = createOutbound({ shared: () => false });
  const entry: McpServer = { type: 'http', url, ...settings };
  await logIn(new URL(url), oauthSettingsOf(entry), keeper, fetchFrom(new URL(url), outbound, 'operator'), {
    redirectUrl: 'http://127.0.0.1:1/callback',
    visit: async (authorizationUrl) => {
      const { headers } = await fetch(authorizationUrl, { redirect: 'manual' });
      const answer = new URL(headers.get('location') ?? '').searchParams;
      meddle(answer, authorizationUrl);
      return answer;
    },
  });
  await outbound.close();
}

async function answerOf(entry: McpServer, keeper: LoginKeeper): Promise<string> {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ guarded: entry }, { mcpLogins: keeper });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  return (await call(tools, 'mcp_guarded_act', {}, context)).content;
}
