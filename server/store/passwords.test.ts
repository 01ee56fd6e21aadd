/** What the store keeps of passwords, links to new ones, second factors and attempts. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { describeStores, newAccount } from './test-stores.ts';

const anybody = { userId: null };

describeStores('Passwords', (store, engine) => {
  const minutes = (count: number): Date => new Date(engine.clock.now().getTime() + count * 60_000);
  const begin = (userId: string) =>
    store().logins.create({ userId, refreshHash: randomUUID(), expiresAt: minutes(10_000) });
  const isEnded = async (loginId: string) =>
    (await store().principals.byLogin(loginId, engine.clock.now()))?.login.ended;
  const link = async (email: string, mailed = false) => {
    const hash = randomUUID();
    const user = await store().passwords.addReset({ email, hash, expiresAt: minutes(60), mailed }, anybody);
    return { hash, user };
  };
  const passwordOf = async (email: string) => (await store().users.findForLogin(email))?.passwordHash;

  it('are set by a link once, which ends all logins and every other link', async () => {
    const [ada, mallory] = [await newAccount(store()), await newAccount(store(), 'Mallory')];
    const logins = [await begin(ada.userId), await begin(ada.userId)];
    const others = await begin(mallory.userId);
    const [first, second] = [await link(ada.email.toUpperCase(), true), await link(ada.email, true)];
    expect(first.user).toMatchObject({ id: ada.userId });
    expect(await store().passwords.isOpen(first.hash, engine.clock.now())).toBe(true);
    const owner = await store().passwords.reset(first.hash, 'new', anybody, engine.clock.now());
    expect(owner).toMatchObject({ user: { id: ada.userId, email: ada.email }, removed: 0 });
    expect(await passwordOf(ada.email)).toBe('new');
    expect(await Promise.all([...logins, others].map(isEnded))).toEqual([true, true, false]);
    for (const { hash } of [first, second]) {
      expect(await store().passwords.isOpen(hash, engine.clock.now())).toBe(false);
      expect(await store().passwords.reset(hash, 'newer', anybody, engine.clock.now())).toBeNull();
    }
    expect(await passwordOf(ada.email)).toBe('new');
  });

  it('are set by one of ten that use a link at once', async () => {
    const ada = await newAccount(store());
    const { hash } = await link(ada.email);
    const other = await engine.open();
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? store() : other).passwords.reset(hash, `password ${index}`, anybody, engine.clock.now()),
      ),
    );
    expect(outcomes.filter((outcome) => outcome !== null)).toHaveLength(1);
    expect(await passwordOf(ada.email)).toBe(`password ${outcomes.findIndex((one) => one !== null)}`);
  });

  it('are not set by a link that has expired, is unknown, or is for nobody', async () => {
    const ada = await newAccount(store());
    const { hash } = await link(ada.email);
    engine.clock.advance(60 * 60_000);
    expect(await store().passwords.isOpen(hash, engine.clock.now())).toBe(false);
    expect(await store().passwords.reset(hash, 'new', anybody, engine.clock.now())).toBeNull();
    expect(await store().passwords.reset('unknown', 'new', anybody, engine.clock.now())).toBeNull();
    expect(await passwordOf(ada.email)).toBe('argon2id');
    expect((await link('nobody@example.com')).user).toBeNull();
    expect(await store().passwords.noteForgotten('nobody@example.com', anybody)).toBeNull();
    expect(await store().passwords.prune(minutes(1))).toBe(1);
  });

  it('are changed by who knows the one that holds, and other logins end', async () => {
    const ada = await newAccount(store());
    const [here, there] = [await begin(ada.userId), await begin(ada.userId)];
    const { hash } = await link(ada.email);
    expect(await store().passwords.find(ada)).toBe('argon2id');
    expect(await store().passwords.change(ada, { from: 'another', to: 'new' }, here)).toBe(false);
    expect([await passwordOf(ada.email), await isEnded(there)]).toEqual(['argon2id', false]);
    expect(await store().passwords.change(ada, { from: 'argon2id', to: 'new' }, here)).toBe(true);
    expect([await isEnded(here), await isEnded(there)]).toEqual([false, true]);
    expect(await store().passwords.isOpen(hash, engine.clock.now())).toBe(false);
  });

  it('are recorded in the audit log, without what is secret', async () => {
    const ada = await newAccount(store());
    const origin = { requestId: 'req_1', address: '203.0.113.9', credential: null };
    const hash = randomUUID();
    await store().passwords.addReset(
      { email: ada.email, hash, expiresAt: minutes(60), mailed: true },
      { userId: null, origin },
    );
    await store().passwords.reset(hash, 'a-secret-hash', { userId: null, origin }, engine.clock.now());
    const entries = await engine.sql()('audit_entries').where({ target_id: ada.userId }).orderBy('sequence');
    expect(entries.map(({ action, actor_id, ip }) => [action, actor_id, ip])).toEqual([
      ['user.create', null, null],
      ['password_reset.create', null, '203.0.113.9'],
      ['password.reset', ada.userId, '203.0.113.9'],
    ]);
    expect(JSON.stringify(entries)).not.toContain(hash);
    expect(JSON.stringify(entries)).not.toContain('a-secret-hash');
  });
});

describeStores('Second factors', (store) => {
  const codes = ['one', 'two'];

  it('count from their confirmation on, and each step of time once', async () => {
    const ada = await newAccount(store());
    const factors = store().secondFactors;
    expect(await factors.find(ada.userId)).toBeNull();
    await factors.enroll(ada, 'sealed first');
    await factors.enroll(ada, 'sealed');
    expect(await factors.find(ada.userId)).toEqual({
      sealedSecret: 'sealed',
      confirmedAt: null,
      recoveryCodesLeft: 0,
    });
    await expect(factors.confirm(ada, 'sealed first', 5, codes)).rejects.toMatchObject({
      code: 'mfa_conflict',
    });
    await factors.confirm(ada, 'sealed', 5, codes);
    await expect(factors.confirm(ada, 'sealed', 6, ['three'])).rejects.toMatchObject({
      code: 'mfa_conflict',
    });
    await expect(factors.enroll(ada, 'sealed again')).rejects.toMatchObject({ code: 'mfa_conflict' });
    expect(await factors.find(ada.userId)).toMatchObject({ sealedSecret: 'sealed', recoveryCodesLeft: 2 });
    expect(await factors.takeStep(ada.userId, 'sealed', 5)).toBe(false);
    expect(await factors.takeStep(ada.userId, 'sealed', 4)).toBe(false);
    const outcomes = await Promise.all(
      [6, 6, 6, 6].map((step) => factors.takeStep(ada.userId, 'sealed', step)),
    );
    expect(outcomes.filter(Boolean)).toHaveLength(1);
  });

  it('have codes for when the app is lost, each good once and for its owner', async () => {
    const [ada, mallory] = [await newAccount(store()), await newAccount(store(), 'Mallory')];
    const factors = store().secondFactors;
    for (const one of [ada, mallory]) await factors.enroll(one, 'sealed');
    await factors.confirm(ada, 'sealed', 5, codes);
    expect(await factors.takeRecoveryCode(mallory, 'one')).toBe(false);
    const outcomes = await Promise.all(codes.map(() => factors.takeRecoveryCode(ada, 'one')));
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    expect((await factors.find(ada.userId))?.recoveryCodesLeft).toBe(1);
    expect([await factors.remove(mallory), await factors.remove(mallory)]).toEqual([true, false]);
    expect(await factors.find(ada.userId)).not.toBeNull();
    expect(await factors.remove(ada)).toBe(true);
    expect(await factors.takeRecoveryCode(ada, 'two')).toBe(false);
  });
});

describeStores('Login addresses', (store, engine) => {
  it('are known for the account that came from there, until it does so no more', async () => {
    const [ada, mallory] = [await newAccount(store()), await newAccount(store(), 'Mallory')];
    const { loginAddresses } = store();
    await loginAddresses.remember(ada.userId, '203.0.113.9');
    await loginAddresses.remember(ada.userId, '203.0.113.9');
    expect(await loginAddresses.isKnown(ada.email.toUpperCase(), '203.0.113.9')).toBe(true);
    expect(await loginAddresses.isKnown(ada.email, '203.0.113.10')).toBe(false);
    expect(await loginAddresses.isKnown(mallory.email, '203.0.113.9')).toBe(false);
    expect(await loginAddresses.isKnown('nobody@example.com', '203.0.113.9')).toBe(false);
    engine.clock.advance(1000);
    expect(await loginAddresses.prune(engine.clock.now())).toBe(1);
    expect(await loginAddresses.isKnown(ada.email, '203.0.113.9')).toBe(false);
  });
});
