/** What a request with an Idempotency-Key sets going for others, and what it keeps them from, on both databases. */
import { expect, it } from 'vitest';
import { heldTransaction } from './held-transaction.ts';
import { beginRun } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

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

describeStores('What a kept request reads of files', (store) => {
  it('is kept for all at once, whatever becomes of the request, and holds no transaction open', async () => {
    const { userId, organizationIds } = await newAccount(store());
    const bytes = { organizationId: organizationIds[0] ?? '', sha256: 'a'.repeat(64), parser: 'text 1' };
    const refused = store().keptRequests.once(
      { principalId: userId, userId, key: 'k', fingerprint: 'f' },
      async () => {
        await store().extractedTexts.keep(bytes, { text: 'Hello' }, 5);
        expect(store().keptRequests.holds()).toBe(false);
        throw new Error('refused');
      },
      () => null,
    );
    await expect(refused).rejects.toThrow('refused');
    const id = await store().extractedTexts.find(bytes);
    expect(await store().extractedTexts.read(id ?? '')).toEqual({ text: 'Hello' });
  });
});

describeStores('What a kept request tells', (store, engine) => {
  it('is told once, and not by a part that came to nothing', async () => {
    const ada = { ...(await newAccount(store())), operator: true };
    await beginRun(store(), ada);
    const mostRequests = { requests: { day: { hard: 1 } } };
    await store().quotas.put(ada, { type: 'user', id: ada.userId }, mostRequests);
    const toldOf = (session_id: string | undefined) =>
      engine.sql()('workspace_events').where({ session_id }).pluck('type');
    const [sequence] = await engine.sql()('audit_head').pluck('sequence');
    const made: string[] = [];
    await store().keptRequests.once(
      { principalId: ada.userId, userId: ada.userId, key: 'k', fingerprint: 'f' },
      async () => {
        made.push((await store().sessions.create(ada, {})).session.id);
        const refused = beginRun(store(), ada, { sessionId: made[0] ?? '' });
        await expect(refused).rejects.toMatchObject({ code: 'quota_exceeded' });
        made.push((await store().sessions.create(ada, {})).session.id);
        await newAccount(store());
      },
      () => 'answered',
    );
    expect(await toldOf(made[0])).toEqual(['session_created']);
    expect(await toldOf(made[1])).toEqual(['session_created']);
    const records = engine.sql()('audit_entries').where('sequence', '>', sequence).orderBy('sequence');
    expect(await records.pluck('action')).toEqual(['user.create', 'login.create']);
  });
});

describeStore('postgresql', 'What a kept request on PostgreSQL', (store, engine) => {
  it('holds no row that others need, however many of its parts have been written: these are written at its end', async () => {
    const ada = await newAccount(store());
    await store().sessions.create(ada, {});
    const workspace = ada.workspaces[0]?.id ?? '';
    const lockAtOnce = (table: string, where: object) =>
      engine.sql().transaction((sql) => sql(table).where(where).forUpdate().noWait().first());
    await store().keptRequests.once(
      { principalId: ada.userId, userId: ada.userId, key: 'k', fingerprint: 'f' },
      async () => {
        await store().sessions.create(ada, {});
        await newAccount(store());
        await expect(lockAtOnce('workspace_streams', { workspace_id: workspace })).resolves.toBeDefined();
        await expect(lockAtOnce('audit_head', { id: 1 })).resolves.toBeDefined();
      },
      () => 'answered',
    );
  });
});
