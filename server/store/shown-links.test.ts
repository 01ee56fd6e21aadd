/** Links to new passwords that are shown, as roles go: on both engines, whose rows are guarded differently. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { homeOf, organizationTools } from './test-organizations.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('A link that was shown', (store, engine) => {
  const { reachOf, colleague } = organizationTools(store, engine);

  /** Shown by an admin, in answer to a request with an Idempotency-Key. */
  async function shown(maker: Reach, owner: Reach, email: string) {
    const hash = randomUUID();
    const request = { principalId: maker.userId, userId: maker.userId, key: randomUUID(), fingerprint: 'f' };
    const expiresAt = new Date(engine.clock.now().getTime() + 3_600_000);
    const link = { email, hash, expiresAt, mailed: false, organizationId: homeOf(owner) };
    await store().keptRequests.once(
      request,
      () => store().passwords.addReset(link, { userId: maker.userId }),
      () => 'the link',
    );
    return {
      hash,
      isOpen: () => store().passwords.isOpen(hash, engine.clock.now()),
      isKept: async () => (await store().keptRequests.find(request)) !== null,
    };
  }

  it.each<[string, boolean, (by: Reach, id: string) => Promise<unknown>]>([
    ['admin still', true, (by, id) => store().members.setRole(by, homeOf(by), id, 'admin')],
    ['lowered', false, (by, id) => store().members.setRole(by, homeOf(by), id, 'member')],
    ['removed', false, (by, id) => store().members.remove(by, homeOf(by), id)],
    [
      'suspended',
      false,
      (by, id) => store().people.update({ ...by, operator: true }, id, { status: 'suspended' }),
    ],
    ['deleted', false, (by, id) => store().people.delete({ ...by, operator: true }, id, {})],
  ])('goes with its maker, and with it the answer that shows it: %s', async (_what, stays, act) => {
    const owner = await newAccount(store(), 'Owner');
    const [maker, other] = [await colleague(owner, 'owner'), await colleague(owner, 'admin')];
    const member = await colleague(owner, 'member');
    const link = await shown(maker, owner, member.email);
    const others = await shown(other, owner, (await colleague(owner, 'viewer')).email);
    await act(await reachOf(owner, 'admin'), maker.userId);
    expect([await link.isOpen(), await link.isKept()]).toEqual([stays, stays]);
    expect([await others.isOpen(), await others.isKept()]).toEqual([true, true]);
  });

  it('is good for nothing where it was made while the role of its maker was taken', async () => {
    const owner = await newAccount(store(), 'Owner');
    const [maker, member] = [await colleague(owner, 'admin'), await colleague(owner, 'member')];
    await store().members.setRole(await reachOf(owner, 'admin'), homeOf(owner), maker.userId, 'member');
    const { hash } = await shown(maker, owner, member.email);
    expect(await store().passwords.reset(hash, 'new', { userId: null }, engine.clock.now())).toBeNull();
    await store().members.setRole(await reachOf(owner, 'admin'), homeOf(owner), maker.userId, 'admin');
    expect(await store().passwords.reset(hash, 'new', { userId: null }, engine.clock.now())).not.toBeNull();
  });
});
