/** Logins to MCP servers over real processes: what two of them need at once is renewed once, and outlives the one that renewed it. */
import { expect, inject, test } from 'vitest';
import type { McpOauthStarted, McpServer, McpServerTest } from './contract/api.ts';
import { startOauthServer } from './runtime/mcp/test-oauth-server.ts';
import { type ServerProcess, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

test.skipIf(inject('postgresUrl') === null)(
  'two processes on one database renew a login once between them, and one goes on where the other was killed',
  { timeout: 240_000 },
  async () => {
    const guarded = await startOauthServer();
    const folder = await temporaryFolder();
    await writeSettings(folder, {});
    const variables = {
      DATABASE_URL: await newDatabase(),
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
    };
    const first = await startServer({ folder, variables });
    const second = await startServer({ folder, variables });
    const headers = { authorization: `Bearer ${first.key}`, 'content-type': 'application/json' };
    const post = async <Body>({ url }: ServerProcess, path: string, body?: object): Promise<Body> => {
      const response = await fetch(url + path, {
        method: 'POST',
        headers,
        ...(body && { body: JSON.stringify(body) }),
      });
      expect(response.ok, await response.clone().text()).toBe(true);
      return (await response.json()) as Body; // as the contract has it
    };
    const server = { scope: 'user', name: 'guarded', type: 'http', url: guarded.url };
    const { id } = await post<McpServer>(first, '/api/v1/mcp/servers', server);
    const one = `/api/v1/mcp/servers/${id}`;
    const { authorize_url } = await post<McpOauthStarted>(first, `${one}/oauth/start`);
    // The browser of the person, which follows to the end; what stands behind the # is its own affair.
    expect((await fetch(authorize_url)).url).toBe(`${first.url}/mcp/connected`);

    const refreshes = () =>
      guarded.grants.filter((grant) => grant.get('grant_type') === 'refresh_token').length;
    const tried = (nodes: readonly ServerProcess[]) =>
      Promise.all(nodes.map((node) => post<McpServerTest>(node, `${one}/test`)));
    guarded.revoke();
    const all = await tried([first, second, first, second, second, first]);
    expect([all.map(({ ok }) => ok), refreshes()]).toEqual([Array(6).fill(true), 1]);

    process.kill(first.pid, 'SIGKILL');
    guarded.revoke();
    expect([(await tried([second]))[0]?.ok, refreshes()]).toEqual([true, 2]);
  },
);
