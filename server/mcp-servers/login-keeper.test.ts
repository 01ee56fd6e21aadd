/** Who renews a login to an MCP server: one at a time, and no longer than the others are kept away. On both engines. */
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { createSealing } from '../identity/identity.ts';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { describeStores, newAccount } from '../store/test-stores.ts';
import { keptLogins, type LoginRecords, sealLogin } from './login-keeper.ts';

describeStores('A login to an MCP server', (store, { clock, sql }) => {
  const url = 'https://mcp.example.com/mcp';

  /** Of somebody who has logged in; `logins` takes the place of some of what the store does. */
  async function connected(logins: Partial<LoginRecords> = {}) {
    const reach = await newAccount(store());
    const serverId = newId('mcpServer');
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
      logins: { ...store().mcpLogins, ...logins },
      sealing,
      apart: store().keptRequests.apart,
      clock,
      log: createLog('silent'),
      renewing: new Set<Promise<unknown>>(),
      takeBack: () => Promise.reject(new Error('the login is kept')),
    };
    return { serverId, keeper: keptLogins(parts, serverId, userId) };
  }

  it('is held by whoever renews it for longer than they may ask for it', async () => {
    const { serverId, keeper } = await connected();
    await keeper.locked(url, async () => {
      const { lease_until } = await sql()('mcp_logins').where({ server_id: serverId }).first('lease_until');
      const heldMs = Number(lease_until) - clock.now().getTime();
      // What it asks for may still be on its way when it gives up.
      expect(heldMs).toBeGreaterThanOrEqual(keeper.holdsMs + 15_000);
      await keeper.write(url, 'new');
    });
    expect(await keeper.read(url)).toBe('new');
  });

  it('is held no longer by whoever could not read it once it was theirs', async () => {
    let looked = 0;
    const { keeper } = await connected({
      async find(...whose) {
        looked += 1;
        if (looked === 2) throw new Error('connect ECONNREFUSED 10.0.0.7:5432');
        return await store().mcpLogins.find(...whose);
      },
    });
    await expect(keeper.locked(url, async () => 'renewed')).rejects.toThrow('ECONNREFUSED');
    expect(await keeper.locked(url, () => keeper.read(url))).toBe('old');
  });

  it('is renewed for good, also where what it was renewed for is undone', async () => {
    const { keeper } = await connected();
    const undone = store().transaction(async () => {
      await keeper.locked(url, () => keeper.write(url, 'new'));
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect(await keeper.read(url)).toBe('new');
  });
});
