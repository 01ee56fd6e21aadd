/** Who renews a login to an MCP server: one at a time, and no longer than the others are kept away. On both engines. */
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { createSealing } from '../identity/identity.ts';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { describeStores, newAccount } from '../store/test-stores.ts';
import { keptLogins, sealLogin } from './login-keeper.ts';

describeStores('A login to an MCP server', (store, { clock, sql }) => {
  it('is held by whoever renews it for longer than they may ask for it', async () => {
    const reach = await newAccount(store());
    const [serverId, url] = [newId('mcpServer'), 'https://mcp.example.com/mcp'];
    const owner = { scope: 'user' as const, organizationId: null, workspaceId: null };
    const content = { name: 'issues', entry: { type: 'http' as const, url }, envNames: [], headerNames: [] };
    await store().mcpServers.create(reach, owner, { ...content, id: serverId, secrets: null });
    const sealing = createSealing(randomBytes(32));
    const { userId } = reach;
    const sealed = sealLogin(sealing, serverId, userId, { url, login: 'old' });
    const attempt = { serverId, userId, stateHash: serverId };
    const expiresAt = clock.now().getTime() + 60_000;
    await store().mcpLogins.begin(reach, { ...attempt, sealed: 'attempt', expiresAt });
    await store().mcpLogins.take(attempt.stateHash);
    expect(await store().mcpLogins.connect(attempt, sealed)).toBe(true);
    const parts = {
      logins: store().mcpLogins,
      sealing,
      clock,
      log: createLog('silent'),
      renewing: new Set<Promise<unknown>>(),
      takeBack: () => Promise.reject(new Error('the login is kept')),
    };
    const keeper = keptLogins(parts, serverId, userId);
    await keeper.locked(url, async () => {
      const { lease_until } = await sql()('mcp_logins').where({ server_id: serverId }).first('lease_until');
      const heldMs = Number(lease_until) - clock.now().getTime();
      // What it asks for may still be on its way when it gives up.
      expect(heldMs).toBeGreaterThanOrEqual(keeper.holdsMs + 15_000);
      await keeper.write(url, 'new');
    });
    expect(await keeper.read(url)).toBe('new');
  });
});
