/** Somebody whose rights a measurement asks with. */
import type { Reach, Store } from '../store/store.ts';

export async function newReach(store: Store): Promise<Reach> {
  const account = { email: 'bench@example.com', name: 'Bench', passwordHash: 'none' };
  const { id: userId } = await store.users.createAccount(account);
  const { memberships = [], workspaces = [] } = (await store.principals.byUser(userId)) ?? {};
  return {
    userId,
    memberships,
    workspaces,
    organizationIds: memberships.map(({ organizationId }) => organizationId),
  };
}
