/** Logins to MCP servers over real processes: what two of them need at once is renewed once, and whoever is killed meanwhile leaves it to the other. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { McpOauthStarted, McpServer, McpServerTest } from './contract/api.ts';
import { type OauthServer, startOauthServer } from './runtime/mcp/test-oauth-server.ts';
import { type ServerProcess, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import { canShiftClocks, shiftedClocks } from './test-clock.ts';
import { databases, newDatabase, newMasterKey } from './test-database.ts';

const forever = () => new Promise<never>(() => undefined);
const ended = { ok: false, error: expect.objectContaining({ code: 'login_needed' }) };

test.skipIf(!canShiftClocks).each(databases)(
  'on %s, two processes renew a login once between them, and whoever is killed -9 while it does loses it for nobody',
  { timeout: 240_000 },
  async (database) => {
    const guarded = await startOauthServer();
    const folder = await temporaryFolder();
    await writeSettings(folder, {});
    const clock = await (await shiftedClocks(folder))('survivor');
    const variables = {
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
      ...(database === 'postgresql' && { DATABASE_URL: await newDatabase() }),
    };
    const start = (more = {}) => startServer({ folder, variables: { ...variables, ...more } });
    const first = await start();
    const survivor = await start(clock.variables);
    const post = postingAs(first.key);
    const server = { scope: 'user', name: 'guarded', type: 'http', url: guarded.url };
    const { id } = await post<McpServer>(first, '/api/v1/mcp/servers', server);
    const one = `/api/v1/mcp/servers/${id}`;
    const tried = (node: ServerProcess) => post<McpServerTest>(node, `${one}/test`);
    const logIn = async () => {
      const { authorize_url } = await post<McpOauthStarted>(survivor, `${one}/oauth/start`);
      // The browser of the person, which follows to the end; what stands behind the # is its own affair.
      expect((await fetch(authorize_url)).url).toBe(`${survivor.url}/mcp/connected`);
    };
    await logIn();
    const renewals = () =>
      guarded.grants.filter((grant) => grant.get('grant_type') === 'refresh_token').length;

    guarded.revoke();
    const all = await Promise.all([first, survivor, first, survivor, survivor, first].map(tried));
    expect([all.map(({ ok }) => ok), renewals()]).toEqual([Array(6).fill(true), 1]);

    // Before it had an answer: the token that is there is good, and nobody uses it before the time of the dead is over.
    guarded.revoke();
    await killedAt(first, () => tried(first), guarded, 'before', isRenewal);
    const waiting = tried(survivor);
    await sleep(1000);
    expect(renewals()).toBe(1);
    await clock.shift(1);
    expect([(await waiting).ok, renewals()]).toEqual([true, 2]);

    // The rest is the same statements in the same order, and each of them costs the start of a process.
    if (database === 'postgresql') return;
    // When it had stored the answer: nobody has to renew anything, nor to wait.
    const second = await start();
    guarded.revoke();
    await killedAt(
      second,
      () => tried(second),
      guarded,
      'before',
      (asked) => isUse(asked) && renewals() === 3,
    );
    expect([(await tried(survivor)).ok, renewals()]).toEqual([true, 3]);

    // In between the new token is lost with whoever had asked. The old one is tried once, and the person is told.
    const third = await start();
    guarded.revoke();
    await killedAt(third, () => tried(third), guarded, 'after', isRenewal);
    expect([await tried(survivor), renewals()]).toEqual([expect.objectContaining(ended), 5]);
    expect([await tried(survivor), renewals()]).toEqual([expect.objectContaining(ended), 5]);
    await logIn();
    expect((await tried(survivor)).ok).toBe(true);
  },
);

test('what was quoted of a renewal that is refused stands nowhere, and what the library says of it is a line of the log', async () => {
  const guarded = await startOauthServer();
  const folder = await temporaryFolder();
  await writeSettings(folder, {});
  const node = await startServer({ folder });
  const post = postingAs(node.key);
  const server = { scope: 'user', name: 'guarded', type: 'http', url: guarded.url };
  const { id } = await post<McpServer>(node, '/api/v1/mcp/servers', server);
  const { authorize_url } = await post<McpOauthStarted>(node, `/api/v1/mcp/servers/${id}/oauth/start`);
  expect((await fetch(authorize_url)).url).toBe(`${node.url}/mcp/connected`);
  // It repeats what it was sent, and the refresh token with it.
  guarded.pauses.before = ({ path, body }) => {
    if (path === '/token') guarded.claims.refusal = { error_description: body };
  };
  guarded.revoke(true);
  const told = await post<McpServerTest>(node, `/api/v1/mcp/servers/${id}/test`);
  expect(told).toMatchObject(ended);
  await node.stop();
  const [token = ''] = guarded.grants.flatMap((asked) => asked.get('refresh_token') ?? []);
  expect(token).not.toBe('');
  expect(JSON.stringify(told) + node.log()).not.toContain(token);
  const lines: { said?: string }[] = node
    .log()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.filter(({ said }) => said?.startsWith('[mcp-sdk] OAuth'))).toHaveLength(1);
});

type Heard = OauthServer['asked'][number];

const isRenewal = ({ path, body }: Heard) => path === '/token' && body.includes('refresh_token');
const isUse = ({ path, authorization }: Heard) => path === '/mcp' && authorization !== undefined;

/** Kills the process where the authorization server has come to that request of it. */
async function killedAt(
  { pid, exited }: ServerProcess,
  work: () => Promise<unknown>,
  { pauses }: OauthServer,
  when: keyof OauthServer['pauses'],
  wanted: (asked: Heard) => boolean,
): Promise<void> {
  const come = Promise.withResolvers<void>();
  pauses[when] = (asked) => {
    if (!wanted(asked)) return undefined;
    come.resolve();
    return forever();
  };
  const cut = expect(work()).rejects.toThrow();
  await come.promise;
  process.kill(pid, 'SIGKILL');
  await Promise.all([exited, cut]);
  pauses[when] = () => undefined;
}

function postingAs(key: string) {
  return async <Body>({ url }: ServerProcess, path: string, body?: object): Promise<Body> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    expect(response.ok, await response.clone().text()).toBe(true);
    return (await response.json()) as Body; // as the contract has it
  };
}
