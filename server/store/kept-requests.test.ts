/** What a request with an Idempotency-Key sets going for others, on both databases. */
import { expect, it } from 'vitest';
import { heldTransaction } from './held-transaction.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('What a kept request sets going', (store) => {
  const newRequest = async () => {
    const { userId } = await newAccount(store());
    return { principalId: userId, userId, key: 'k', fingerprint: 'f' };
  };
  const begun: unknown[] = [];
  const note = () => begun.push(heldTransaction());

  it('begins once all is committed that the request has written, and in no transaction of it', async () => {
    await store().keptRequests.once(
      await newRequest(),
      async () => {
        await newAccount(store());
        store().keptRequests.whenCommitted(note);
        expect(begun.splice(0)).toEqual([]);
      },
      () => 'answered',
    );
    expect(begun.splice(0)).toEqual([null]);
  });

  it('never begins where the request comes to nothing, and at once where nothing is held', async () => {
    const refused = store().keptRequests.once(
      await newRequest(),
      async () => {
        await newAccount(store());
        store().keptRequests.whenCommitted(note);
        throw new Error('refused');
      },
      () => null,
    );
    await expect(refused).rejects.toThrow('refused');
    expect(begun.splice(0)).toEqual([]);
    store().keptRequests.whenCommitted(note);
    expect(begun.splice(0)).toEqual([null]);
  });
});
