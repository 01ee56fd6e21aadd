/** What is sealed, as it is walked through on the day on which the master key changes. */
import { expect, it } from 'vitest';
import type { SealedValue } from './store.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('What was sealed with another key', (store) => {
  it('is told once, page by page, whatever becomes of it meanwhile', async () => {
    const told: SealedValue[] = [];
    const { userId } = await newAccount(store());
    const keyOf = (nth: number) => `key ${String(nth).padStart(3, '0')}`;
    for (let nth = 0; nth < 450; nth += 1) {
      const request = { principalId: userId, userId, key: keyOf(nth), fingerprint: 'f' };
      await store().keptRequests.add(request, `v1.${nth % 3 === 0 ? 'new' : 'old'}.${nth}`);
    }
    await store().signingKeys.add({ kid: 'first', sealedPrivateKey: 'v1.old.of a key', publicJwk: {} });
    // Every other one is sealed anew; those that stay are not told again all the same.
    let pages = 0;
    for (let last: SealedValue | null = null; pages < 10; pages += 1) {
      const some = await store().sealedValues.notUnder('new', last);
      for (const [at, value] of some.entries())
        if (at % 2 === 0) await store().sealedValues.replace(value, `v1.new.${value.sealed}`);
      told.push(...some);
      last = some.at(-1) ?? null;
      if (last === null) break;
    }
    const old = Array.from({ length: 450 }, (_, nth) => nth).filter((nth) => nth % 3 !== 0);
    expect(told.map(({ rowId }) => rowId)).toEqual([
      'signing_keys/first',
      ...old.map((nth) => `kept_requests/${userId}/${keyOf(nth)}`),
    ]);
  });
});
