/** What was begun before the login that began it, or all logins of somebody, ended, and would become one afterwards: on both engines. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { describeStores, newAccount } from './test-stores.ts';

const anybody = { userId: null };
const origin = { requestId: 'req_1', address: '192.0.2.7', credential: null };

describeStores('What was begun', (store, engine) => {
  const now = (): Date => engine.clock.now();
  const later = (): Date => new Date(now().getTime() + 60_000);
  let codes = 0;

  /** Somebody whom an admin manages. */
  const newPerson = async () => {
    const boss = { ...(await newAccount(store(), 'Boss')), needs: 'admin' as const };
    const email = `ada-${randomUUID()}@example.com`;
    const { account } = await store().people.create(boss, {
      ...{ email, name: 'Ada', passwordHash: 'argon2id', role: 'member' },
    });
    const reach = { userId: account.id, memberships: [], organizationIds: [], workspaces: [] };
    return { boss, reach, email };
  };
  const newDevice = async () => {
    codes += 1;
    const [deviceHash, userCode] = [randomUUID(), `CCCC-${String(codes).padStart(4, 'C')}`];
    const asking = { deviceHash, userCode, clientName: null, address: null, place: randomUUID() };
    await store().deviceLogins.open({ ...asking, intervalSeconds: 5, expiresAt: later() }, 20, now());
    return { deviceHash, userCode };
  };
  const device = async (reach: Reach, decision: 'allow' | 'deny') => {
    const { deviceHash, userCode } = await newDevice();
    expect(await store().deviceLogins.reply(reach, userCode, decision, now())).toBe('replied');
    return deviceHash;
  };
  const begin = async (reach: Reach) => {
    const { userId, origin } = reach;
    const [allowed, denied] = [await device(reach, 'allow'), await device(reach, 'deny')];
    const secrets = { browserHash: 'browser', userId, expiresAt: later() };
    const code = { ...secrets, codeHash: randomUUID() };
    const attempt = { ...secrets, origin, stateHash: randomUUID(), provider: 'corp', returnTo: '/device' };
    await store().oidc.issueCode(code);
    await store().oidc.begin(attempt);
    return { allowed, denied, code, attempt };
  };
  /** What can still be made of it. */
  const left = async ({ allowed, denied, code, attempt }: Awaited<ReturnType<typeof begin>>) => [
    typeof (await store().deviceLogins.poll(allowed, now())),
    await store().deviceLogins.poll(denied, now()),
    (await store().oidc.takeCode(code, now())) !== null,
    (await store().oidc.take(attempt, now())) !== null,
  ];
  const link = async (email: string) => {
    const hash = randomUUID();
    await store().passwords.addReset({ email, hash, expiresAt: later(), mailed: false }, anybody);
    return hash;
  };
  const newLogin = (userId: string) => ({ userId, refreshHash: randomUUID(), expiresAt: later() });

  it.each<[string, (person: Awaited<ReturnType<typeof newPerson>>) => Promise<unknown>]>([
    [
      'a changed password',
      ({ reach }) => store().passwords.change(reach, { from: 'argon2id', to: 'new' }, 'lgn_x'),
    ],
    [
      'a new one',
      async ({ email }) => store().passwords.reset(await link(email), 'new', anybody, engine.clock.now()),
    ],
    ['the end of all logins', ({ reach }) => store().logins.endAll(reach.userId, anybody)],
    ['that by an admin', ({ boss, reach }) => store().people.revokeLogins(boss, reach.userId)],
    ['a suspension', ({ boss, reach }) => store().people.update(boss, reach.userId, { status: 'suspended' })],
  ])('ends with %s, and what others have begun goes on', async (_, end) => {
    const [person, other] = [await newPerson(), await newPerson()];
    const [theirs, others] = [await begin(person.reach), await begin(other.reach)];
    await end(person);
    expect(await left(theirs)).toEqual(['string', 'access_denied', false, false]);
    expect(await left(others)).toEqual(['object', 'access_denied', true, true]);
  });

  /** A request that a login was good for when it came. */
  const request = async (reach: Reach): Promise<Reach> => {
    const id = await store().logins.create(newLogin(reach.userId));
    return { ...reach, origin: { ...origin, credential: { kind: 'login', id } } };
  };
  const logInBy = async (deviceHash: string) => {
    const found = await store().deviceLogins.poll(deviceHash, now());
    if (typeof found === 'string') return null;
    const login = { ...newLogin(found.user.id), deviceHash };
    return await store().logins.createUnchanged(login, found.passwordHash);
  };
  const idOf = ({ origin }: Reach): string => origin?.credential?.id ?? '';

  it.each<[string, string, (by: Reach, tokens: string[]) => Promise<unknown>]>([
    ['is revoked', 'string', (by) => store().logins.revoke(by, idOf(by))],
    ['has its token used twice', 'string', (_by, [used = '']) => store().logins.rotate(used, 'x', now())],
    // The page that lets a device in logs out at once.
    ['logs out, but for the devices that it let in', 'object', (by) => store().logins.end(idOf(by), by)],
  ])('by a login ends when that %s, and what other logins have begun goes on', async (_, allowed, end) => {
    const reach = await newAccount(store(), 'Ada');
    const [used, next] = [randomUUID(), randomUUID()];
    const id = await store().logins.create({ ...newLogin(reach.userId), refreshHash: used });
    await store().logins.rotate(used, next, now());
    const by: Reach = { ...reach, origin: { ...origin, credential: { kind: 'login', id } } };
    const [own, others] = [await begin(by), await begin(await request(reach))];
    await end(by, [used]);
    expect((await left(own)).filter((_one, at) => at !== 2)).toEqual([allowed, 'access_denied', false]);
    expect(await left(others)).toEqual(['object', 'access_denied', true, true]);
    expect((await logInBy(own.allowed)) !== null).toBe(allowed === 'object');
    expect(await logInBy(others.allowed)).toMatch(/^lgn_/);
    expect(await logInBy(others.allowed)).toBeNull();
  });

  it('by a login that ends before it gets any further, becomes neither a login nor a link', async () => {
    const by = await request(await newAccount(store(), 'Ada'));
    const { allowed, attempt } = await begin(by);
    const found = await store().deviceLogins.poll(allowed, now());
    const taken = await store().oidc.take(attempt, now());
    await store().logins.revoke(by, idOf(by));
    if (typeof found === 'string' || !taken?.account) throw new Error('nothing was begun');
    const login = { ...newLogin(by.userId), deviceHash: allowed };
    expect(await store().logins.createUnchanged(login, found.passwordHash)).toBeNull();
    const identity = { issuer: 'https://a.example', subject: randomUUID() };
    expect(await store().oidc.link(identity, taken.account, origin)).toBe('changed');
    await expect(store().oidc.begin({ ...attempt, stateHash: randomUUID() })).rejects.toMatchObject(ended);
  });

  const newKey = { name: 'k', scopes: ['query' as const], prefix: 'sk-12345678' };
  const ended = { code: 'credential_invalid' };

  it('by a request is refused where its login ended while it came, and nothing is left of it', async () => {
    const reach = await request(await newAccount(store(), 'Ada'));
    const { deviceHash, userCode } = await newDevice();
    await store().logins.endAll(reach.userId, anybody);
    const reply = store().deviceLogins.reply(reach, userCode, 'allow', now());
    await expect(reply).rejects.toMatchObject(ended);
    const key = { ...newKey, hash: randomUUID() };
    await expect(store().apiKeys.create(reach, key)).rejects.toMatchObject(ended);
    expect(await store().deviceLogins.poll(deviceHash, now())).toBe('authorization_pending');
    expect((await store().apiKeys.list(reach, {})).data).toEqual([]);
    const again = await request(reach);
    expect(await store().deviceLogins.reply(again, userCode, 'allow', now())).toBe('replied');
    expect((await store().apiKeys.create(again, key)).apiKey.name).toBe('k');
  });

  it('by a key that was ended, or by somebody who was suspended, is refused too', async () => {
    const { boss, reach } = await newPerson();
    const { apiKey } = await store().apiKeys.create(reach, { ...newKey, hash: randomUUID() });
    const asking = {
      ...reach,
      origin: { ...origin, credential: { kind: 'api_key', id: apiKey.id } },
    } as const;
    const make = () => store().apiKeys.create(asking, { ...newKey, hash: randomUUID() });
    expect((await make()).apiKey.name).toBe('k');
    await store().apiKeys.update(reach, apiKey.id, { disabled: true });
    await expect(make()).rejects.toMatchObject(ended);
    await store().apiKeys.update(reach, apiKey.id, { disabled: false });
    await store().people.update(boss, reach.userId, { status: 'suspended' });
    await expect(make()).rejects.toMatchObject(ended);
  });

  // SQLite has one writer at a time.
  if (engine.dialect === 'postgresql')
    it.each<[string, (by: Reach) => Promise<void>]>([
      ['all logins', ({ userId }) => store().logins.endAll(userId, anybody)],
      ['its login', (by) => store().logins.revoke(by, idOf(by))],
    ])('at the same moment ends with %s', async (_, end) => {
      const reach = await request(await newAccount(store(), 'Ada'));
      const { deviceHash, userCode } = await newDevice();
      const held = await engine.sql().transaction(async (holder) => {
        // What a reply comes to last.
        await holder('audit_head').forUpdate().first();
        const both = [store().deviceLogins.reply(reach, userCode, 'allow', now())];
        await expect.poll(() => waiting(engine.sql())).toBe(1);
        const ending = end(reach);
        await expect.poll(() => waiting(engine.sql())).toBe(2);
        return { both: [...both, ending] };
      });
      expect(await Promise.all(held.both)).toEqual(['replied', undefined]);
      expect(await store().deviceLogins.poll(deviceHash, now())).toBe('expired_token');
    });

  it('by a password becomes no login once there is another, or the account is suspended', async () => {
    const { boss, reach, email } = await newPerson();
    const login = () => store().logins.createUnchanged(newLogin(reach.userId), 'argon2id');
    expect(await login()).toMatch(/^lgn_/);
    await store().people.update(boss, reach.userId, { status: 'suspended' });
    expect(await login()).toBeNull();
    await store().people.update(boss, reach.userId, { status: 'active' });
    expect(await login()).toMatch(/^lgn_/);
    await store().passwords.reset(await link(email), 'new', anybody, engine.clock.now());
    expect(await login()).toBeNull();
    expect((await store().logins.list(reach, '', {})).data).toEqual([]);
  });

  it('becomes no login at the very moment of the new password either', async () => {
    const { reach, email } = await newPerson();
    const other = await engine.open();
    for (let round = 0; round < 10; round += 1) {
      const before = (await store().users.findForLogin(email))?.passwordHash ?? '';
      const [hash, allowed] = [await link(email), await device(reach, 'allow')];
      const byDevice = async () => {
        const found = await other.deviceLogins.poll(allowed, now());
        if (typeof found === 'object')
          await other.logins.createUnchanged(newLogin(reach.userId), found.passwordHash);
      };
      await Promise.all([
        store().passwords.reset(hash, `password ${round}`, anybody, engine.clock.now()),
        ...[store(), other].map((node) => node.logins.createUnchanged(newLogin(reach.userId), before)),
        byDevice(),
      ]);
      expect((await store().logins.list(reach, '', {})).data).toEqual([]);
    }
  });

  it('to link a provider links none once there is another password', async () => {
    const { reach, email } = await newPerson();
    const { attempt } = await begin(reach);
    const taken = await store().oidc.take(attempt, now());
    expect(taken).toEqual({
      ...{ returnTo: '/device' },
      account: { userId: reach.userId, loginId: null, passwordHash: 'argon2id' },
    });
    await store().passwords.reset(await link(email), 'new', anybody, engine.clock.now());
    const identity = { issuer: 'https://a.example', subject: randomUUID() };
    const account = taken?.account ?? { userId: '', loginId: null, passwordHash: '' };
    expect(await store().oidc.link(identity, account, origin)).toBe('changed');
    expect(await store().oidc.userOf(identity, now())).toBeNull();
    expect(await store().oidc.link(identity, { ...account, passwordHash: 'new' }, origin)).toBe('linked');
  });
});
