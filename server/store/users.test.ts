import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Accounts', (store, engine) => {
  const later = (): Date => new Date(engine.clock.now().getTime() + 60_000);

  it('make a person, an organization named after them, and a default workspace together', async () => {
    const reach = await newAccount(store(), 'Grace');
    const login = await store().logins.create({
      userId: reach.userId,
      refreshHash: randomUUID(),
      expiresAt: later(),
    });
    const owner = await store().principals.byLogin(login, engine.clock.now());
    expect(owner?.memberships).toEqual([
      {
        organizationId: reach.organizationIds[0],
        organizationName: 'Grace',
        role: 'owner',
        defaultWorkspaceId: (await store().workspaces.defaultOf(reach))?.id,
      },
    ]);
    expect(owner?.user).toMatchObject({
      name: 'Grace',
      operator: false,
      created_at: '2026-11-21T08:00:00.000Z',
    });
  });
});
