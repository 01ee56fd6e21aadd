/** Logins to MCP servers, and what renews them while their person logs out and in: on both engines. */
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('A login to an MCP server', (store, engine) => {
  const begin = async () => {
    const reach = await newAccount(store());
    const id = newId('mcpServer');
    const entry = { type: 'http' as const, url: 'https://mcp.example.com/mcp' };
    const owner = { scope: 'user' as const, organizationId: null, workspaceId: null };
    const content = { name: 'issues', entry, envNames: [], headerNames: [], secrets: null };
    await store().mcpServers.create(reach, owner, { ...content, id });
    const whose = { serverId: id, userId: reach.userId };
    const find = async () => {
      const login = await store().mcpLogins.find(id, reach.userId);
      if (!login) throw new Error('there is one');
      return login;
    };
    let attempts = 0;
    /** An attempt that was taken, and may end meanwhile. */
    const connect = async (sealed: string, meanwhile: () => Promise<unknown> = async () => undefined) => {
      attempts += 1;
      const attempt = { ...whose, stateHash: `${id} ${attempts}` };
      await store().mcpLogins.begin(reach, { ...attempt, sealed: 'attempt', expiresAt: later() });
      expect(await store().mcpLogins.take(attempt.stateHash)).toMatchObject(whose);
      await meanwhile();
      return store().mcpLogins.connect(attempt, sealed);
    };
    return { reach, whose, find, connect };
  };
  const later = () => engine.clock.now().getTime() + 60_000;

  it('takes what a renewal has brought once', async () => {
    const { whose, find, connect } = await begin();
    const { serverId, userId } = whose;
    expect(await connect('first')).toBe(true);
    const { revision } = await find();
    expect(await store().mcpLogins.claim(serverId, userId, later())).toBe(true);
    expect(await store().mcpLogins.claim(serverId, userId, later())).toBe(false);
    await store().mcpLogins.renewed(serverId, userId, revision, 'renewed');
    await store().mcpLogins.renewed(serverId, userId, revision, 'renewed by one who was late');
    expect(await find()).toMatchObject({ sealed: 'renewed', fault: null });
    expect(await store().mcpLogins.claim(serverId, userId, later())).toBe(true);
  });

  it.each(['at once', 'after a disconnect'])(
    'that came %s after another takes nothing of its renewal',
    async (how) => {
      const { reach, whose, find, connect } = await begin();
      const { serverId, userId } = whose;
      await connect('of one account');
      const { revision } = await find();
      if (how === 'after a disconnect') await store().mcpLogins.disconnect(reach, serverId);
      await connect('of another');
      await store().mcpLogins.renewed(serverId, userId, revision, 'of one account, renewed');
      await store().mcpLogins.release(serverId, userId, revision, 'it is refused');
      expect(await find()).toMatchObject({ sealed: 'of another', fault: null });
    },
  );

  it('whose attempt ends while its code is traded is none, and one that came before it stays as that left it', async () => {
    const { reach, whose, find, connect } = await begin();
    const { serverId, userId } = whose;
    const other = await engine.open();
    expect(await connect('too late', () => other.mcpLogins.disconnect(reach, serverId))).toBe(false);
    expect(await store().mcpLogins.find(serverId, userId)).toBeNull();
    expect(await connect('first')).toBe(true);
    const begunAnew = { ...whose, sealed: 'attempt', stateHash: `${serverId} anew`, expiresAt: later() };
    expect(await connect('too late', () => other.mcpLogins.begin(reach, begunAnew))).toBe(false);
    expect(await find()).toMatchObject({ sealed: 'first' });
    expect(await store().mcpLogins.take(begunAnew.stateHash)).toMatchObject(whose);
    expect(await store().mcpLogins.take(begunAnew.stateHash)).toBeNull();
    await store().mcpLogins.end(begunAnew.stateHash);
    expect(await store().mcpLogins.connect(begunAnew, 'too late')).toBe(false);
  });

  it('is begun by several at once, of whom the last can go on', async () => {
    const { reach, whose } = await begin();
    const stateHashes = Array.from({ length: 8 }, (_, index) => `${whose.serverId} ${index}`);
    const beginWith = (stateHash: string) =>
      store().mcpLogins.begin(reach, { ...whose, sealed: stateHash, stateHash, expiresAt: later() });
    await Promise.all(stateHashes.map(beginWith));
    const taken = [];
    for (const stateHash of stateHashes) taken.push(await store().mcpLogins.take(stateHash));
    const [left, ...more] = taken.filter((attempt) => attempt !== null);
    expect(more).toEqual([]);
    expect(left).toMatchObject(whose);
    await beginWith('earlier');
    await beginWith('later');
    expect(await store().mcpLogins.take('earlier')).toBeNull();
    expect(await store().mcpLogins.take('later')).toMatchObject({ sealed: 'later' });
  });
});
