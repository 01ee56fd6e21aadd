import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { describeStores, newAccount, reachOfNobody } from './test-stores.ts';

describeStores('Accounts', (store, engine) => {
  const later = (): Date => new Date(engine.clock.now().getTime() + 60_000);
  const account = (email: string = `${randomUUID()}@example.com`) => ({
    email,
    name: 'Ada',
    passwordHash: 'hash',
  });
  const rows = async (): Promise<Record<string, number>> => {
    const counts = ['users', 'organizations', 'memberships', 'workspaces'].map(async (table) => {
      const [row] = await engine.sql()(table).count<{ count: number | string }[]>({ count: '*' });
      return [table, Number(row?.count)] as const;
    });
    return Object.fromEntries(await Promise.all(counts));
  };

  it('make a person, an organization named after them, and a default workspace together', async () => {
    const reach = await newAccount(store(), 'Grace');
    const login = await store().logins.create({
      userId: reach.userId,
      refreshHash: randomUUID(),
      expiresAt: later(),
    });
    const owner = await store().principals.byLogin(login, engine.clock.now());
    const workspace = await store().workspaces.defaultOf(reach);
    expect(owner?.memberships).toEqual([
      {
        organizationId: reach.organizationIds[0],
        organizationName: 'Grace',
        role: 'owner',
        defaultWorkspaceId: workspace?.id,
      },
    ]);
    expect(owner?.user).toMatchObject({
      name: 'Grace',
      operator: false,
      created_at: '2026-11-21T08:00:00.000Z',
    });
    expect(await store().workspaces.find(reach, workspace?.id ?? '')).toEqual(workspace);
    expect(await store().workspaces.find(await newAccount(store()), workspace?.id ?? '')).toBeNull();
  });

  it('have one address, however it is spelled, and a refused one leaves nothing', async () => {
    await store().users.createAccount(account('Same@Example.com'));
    const before = await rows();
    await expect(store().users.createAccount(account('same@example.COM'))).rejects.toMatchObject({
      code: 'email_taken',
    });
    expect(await rows()).toEqual(before);
    const found = await store().users.findForLogin('SAME@example.com');
    expect(found).toMatchObject({ user: { email: 'Same@Example.com' }, passwordHash: 'hash' });
    expect(await store().users.findForLogin('other@example.com')).toBeNull();
  });

  it('registered at once with one address are one account', async () => {
    const before = await store().users.count();
    const attempts = Array.from({ length: 20 }, () =>
      store().users.createAccount(account('race@example.com')),
    );
    const outcomes = await Promise.allSettled(attempts);
    const refused = outcomes.filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(19);
    for (const outcome of refused) expect(outcome).toMatchObject({ reason: { code: 'email_taken' } });
    expect(await store().users.count()).toBe(before + 1);
  });

  it('made by fifty uses at once of the bootstrap token are one operator', async () => {
    const token = { kind: 'bootstrap', hash: randomUUID() } as const;
    await store().invitations.add({ ...token, expiresAt: later() });
    expect(await store().invitations.hasOpenBootstrap()).toBe(true);
    expect(await store().users.hasOperator()).toBe(false);
    const before = await store().users.count();
    const other = await engine.open();
    const attempts = Array.from({ length: 50 }, (_, index) =>
      (index % 2 ? store() : other).users.createAccount({
        ...account(),
        token: { ...token, at: engine.clock.now() },
      }),
    );
    const outcomes = await Promise.allSettled(attempts);
    const made = outcomes.filter((outcome) => outcome.status === 'fulfilled');
    expect(made).toMatchObject([{ value: { operator: true } }]);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect(outcome.reason).toMatchObject({ code: 'registration_refused' });
    expect(await store().users.count()).toBe(before + 1);
    expect(await store().invitations.hasOpenBootstrap()).toBe(false);
    expect(await store().users.hasOperator()).toBe(true);
  });

  it('with a second bootstrap token get no second operator', async () => {
    const token = { kind: 'bootstrap', hash: randomUUID() } as const;
    await store().invitations.add({ ...token, expiresAt: later() });
    const refused = store().users.createAccount({
      ...account(),
      token: { ...token, at: engine.clock.now() },
    });
    await expect(refused).rejects.toMatchObject({ code: 'registration_refused' });
  });

  it('need a token that is known, of that kind, not used, not withdrawn and not expired', async () => {
    const before = await rows();
    const [used, expired, wrongKind, withdrawn] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    await store().invitations.add({ kind: 'invitation', hash: withdrawn, expiresAt: later() });
    expect(await store().invitations.withdraw('invitation')).toBe(1);
    await store().invitations.add({ kind: 'invitation', hash: used, expiresAt: later() });
    await store().invitations.add({ kind: 'invitation', hash: expired, expiresAt: engine.clock.now() });
    await store().invitations.add({ kind: 'invitation', hash: wrongKind, expiresAt: later() });
    const register = (hash: string, kind: 'invitation' | 'bootstrap' = 'invitation') =>
      store().users.createAccount({ ...account(), token: { kind, hash, at: engine.clock.now() } });
    expect(await register(used)).toMatchObject({ operator: false });
    const look = (hash: string, kind: 'invitation' | 'bootstrap' = 'invitation') =>
      store().invitations.requireOpen({ kind, hash, at: engine.clock.now() });
    await look(wrongKind);
    await expect(look(wrongKind, 'bootstrap')).rejects.toMatchObject({ code: 'registration_refused' });
    for (const hash of [used, expired, withdrawn, 'unknown'])
      for (const use of [register, look])
        await expect(use(hash)).rejects.toMatchObject({ code: 'registration_refused' });
    const forOperators = { kind: 'bootstrap', hash: randomUUID(), expiresAt: later() } as const;
    await store().invitations.add(forOperators);
    await expect(register(forOperators.hash)).rejects.toMatchObject({ code: 'registration_refused' });
    await expect(register(wrongKind, 'bootstrap')).rejects.toMatchObject({ code: 'registration_refused' });
    expect((await rows()).users).toBe((before.users ?? 0) + 1);
  });

  it('keep a token whose account was refused', async () => {
    const token = { kind: 'invitation', hash: randomUUID() } as const;
    await store().invitations.add({ ...token, expiresAt: later() });
    const taken = (await newAccount(store())).email;
    await expect(
      store().users.createAccount({ ...account(taken), token: { ...token, at: engine.clock.now() } }),
    ).rejects.toMatchObject({
      code: 'email_taken',
    });
    await expect(
      store().users.createAccount({ ...account(), token: { ...token, at: engine.clock.now() } }),
    ).resolves.toBeDefined();
  });

  it('change their name only if they are still as they were read', async () => {
    const reach = await newAccount(store(), 'Ida');
    const first = await store().users.find(reach);
    const renamed = await store().users.update(reach, { name: 'Ada Lovelace' }, first?.etag);
    expect(renamed.user.name).toBe('Ada Lovelace');
    expect(await store().users.find(reach)).toEqual(renamed);
    for (const stale of [first?.etag, `W/${renamed.etag}`, '"other"', '"a", "b"'])
      await expect(store().users.update(reach, { name: 'No' }, stale)).rejects.toMatchObject({
        code: 'precondition_failed',
      });
    const again = await store().users.update(reach, { name: 'Ada' }, `"other", ${renamed.etag}`);
    expect(again.etag).not.toBe(renamed.etag);
    await expect(store().users.update(reach, { name: 'Ida' }, '*')).resolves.toBeDefined();
    await expect(store().users.update(reach, { name: 'Ada' })).resolves.toBeDefined();
    await expect(store().users.update(reachOfNobody(), { name: 'No' })).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('hold any text that both engines give back unchanged, and refuse the rest', async () => {
    for (const name of [
      'Ünïcödé',
      '日本語',
      '👩🏽‍🚀',
      "O'Brien; drop table users; --",
      '\u202eright to left',
      '\u001b[31m',
    ])
      expect((await store().users.createAccount({ ...account(), name })).name).toBe(name);
    const before = await rows();
    for (const name of ['nul\0', 'half \ud800 pair', '\udc00'])
      await expect(store().users.createAccount({ ...account(), name })).rejects.toMatchObject({
        code: 'invalid_encoding',
      });
    expect(await rows()).toEqual(before);
  });
});
