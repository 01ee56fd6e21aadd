import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { describeStores, newAccount } from './test-stores.ts';

const origin = { requestId: 'req_1', address: '192.0.2.7', credential: null };

describeStores('Logins through providers', (store, engine) => {
  const inSeconds = (count: number): Date => new Date(engine.clock.now().getTime() + count * 1000);
  const attempt = (changes: object = {}) => ({
    ...{
      stateHash: randomUUID(),
      browserHash: 'browser',
      provider: 'corp',
      returnTo: '/device',
      userId: null,
    },
    expiresAt: inSeconds(600),
    ...changes,
  });

  it('use an attempt up, once, for its browser and its provider', async () => {
    const begun = attempt();
    await store().oidc.begin(begun);
    for (const other of [{ browserHash: 'x' }, { provider: 'other' }, { stateHash: 'x' }])
      expect(await store().oidc.take({ ...begun, ...other }, inSeconds(1))).toBeNull();
    const second = await engine.open();
    const taken = await Promise.all(
      Array.from({ length: 6 }, (_, at) => (at % 2 ? store() : second).oidc.take(begun, inSeconds(1))),
    );
    expect(taken.filter((one) => one !== null)).toEqual([{ returnTo: '/device', account: null }]);
  });

  it('let an attempt and a code expire, and forget them', async () => {
    const { userId } = await newAccount(store());
    const [late, kept] = [attempt({ userId }), attempt()];
    await store().oidc.begin(late);
    await store().oidc.begin(kept);
    const code = { codeHash: randomUUID(), browserHash: 'browser', userId, expiresAt: inSeconds(60) };
    await store().oidc.issueCode(code);
    expect(await store().oidc.take(late, inSeconds(600))).toBeNull();
    expect(await store().oidc.takeCode(code, inSeconds(60))).toBeNull();
    await store().oidc.issueCode(code);
    expect(await store().oidc.prune(inSeconds(601))).toBeGreaterThanOrEqual(2);
    expect(await store().oidc.take(kept, inSeconds(1))).toBeNull();
  });

  it('give a code to its browser, once', async () => {
    const { userId } = await newAccount(store());
    const code = { codeHash: randomUUID(), browserHash: 'browser', userId, expiresAt: inSeconds(60) };
    await store().oidc.issueCode(code);
    expect(await store().oidc.takeCode({ ...code, browserHash: 'x' }, inSeconds(1))).toBeNull();
    const users = await Promise.all([1, 2, 3].map(() => store().oidc.takeCode(code, inSeconds(1))));
    expect(users.filter((user) => user !== null)).toMatchObject([{ user: { id: userId } }]);
  });

  it('make an account for who is new, all or nothing, and know them again by issuer and subject', async () => {
    const identity = { issuer: 'https://a.example', subject: randomUUID() };
    const account = { email: `${identity.subject}@example.com`, name: 'Ada', passwordHash: 'x' };
    expect(await store().oidc.userOf(identity, inSeconds(0))).toBeNull();
    const user = await store().oidc.createAccount(account, identity, origin);
    expect(await store().oidc.userOf(identity, inSeconds(1))).toEqual(user);
    for (const other of [{ issuer: 'https://b.example' }, { subject: 'x' }])
      expect(await store().oidc.userOf({ ...identity, ...other }, inSeconds(1))).toBeNull();
    const again = { ...identity, subject: randomUUID() };
    await expect(store().oidc.createAccount(account, again, origin)).rejects.toMatchObject({
      code: 'email_taken',
    });
    expect(await store().oidc.userOf(again, inSeconds(1))).toBeNull();
    const joins = { organizationId: 'org_none', role: 'member' as const };
    const lost = { ...account, email: `lost-${identity.subject}@example.com`, joins };
    await expect(store().oidc.createAccount(lost, again, origin)).rejects.toMatchObject({
      code: 'registration_refused',
    });
    expect(await store().users.findForLogin(lost.email)).toBeNull();
  });

  it('make one account of who is new, also when two are made at once, with two addresses', async () => {
    const identity = { issuer: 'https://a.example', subject: randomUUID() };
    const second = await engine.open();
    const emails = [`old-${identity.subject}@example.com`, `new-${identity.subject}@example.com`];
    const made = await Promise.allSettled(
      [store(), second].map(({ oidc }, at) =>
        oidc.createAccount({ email: emails[at] ?? '', name: 'Ada', passwordHash: 'x' }, identity, origin),
      ),
    );
    const refused = made.findIndex(({ status }) => status === 'rejected');
    expect(made[refused]).toMatchObject({ reason: { code: 'duplicate' } });
    expect(await store().oidc.userOf(identity, inSeconds(1))).toMatchObject({ email: emails[1 - refused] });
    expect(await store().users.findForLogin(emails[refused] ?? '')).toBeNull();
  });

  it('link somebody to one account, also when two try at once', async () => {
    const [ada, eve] = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Eve')];
    const identity = { issuer: 'https://a.example', subject: randomUUID() };
    const link = ({ userId }: Reach) =>
      store().oidc.link(identity, { userId, loginId: null, passwordHash: 'argon2id' }, origin);
    const linked = await Promise.all([ada, eve].map(link));
    expect(linked.toSorted()).toEqual(['linked', 'other']);
    const owner = linked[0] === 'linked' ? ada : eve;
    expect(await link(owner)).toBe('linked');
    expect((await store().oidc.userOf(identity, inSeconds(1)))?.id).toBe(owner.userId);
    const entries = await engine.sql()('audit_entries').where({ action: 'oidc_identity.create' });
    expect(entries.filter(({ target_id }) => target_id === owner.userId)).toHaveLength(1);
  });
});

describeStores('Device logins', (store, engine) => {
  const now = (): Date => engine.clock.now();
  const after = (seconds: number): Date => new Date(now().getTime() + seconds * 1000);
  let codes = 0;
  const open = async (place: string = randomUUID()) => {
    codes += 1;
    const [deviceHash, userCode] = [randomUUID(), `BBBB-${String(codes).padStart(4, 'B')}`];
    const device = {
      deviceHash,
      userCode,
      clientName: 'laptop',
      address: '192.0.2.9',
      place,
      intervalSeconds: 5,
      expiresAt: after(600),
    };
    const outcome = await store().deviceLogins.open(device, 20, now());
    return { ...device, outcome };
  };

  it('wait for a person, and are given once', async () => {
    const ada = await newAccount(store());
    const { deviceHash, userCode, outcome } = await open();
    expect(outcome).toBe('opened');
    expect(await store().deviceLogins.poll(deviceHash, now())).toBe('authorization_pending');
    expect(await store().deviceLogins.find(ada, userCode, now())).toMatchObject({ client_name: 'laptop' });
    expect(await store().deviceLogins.reply(ada, userCode, 'allow', now())).toBe('replied');
    expect(await store().deviceLogins.find(ada, userCode, now())).toBeNull();
    const second = await engine.open();
    const logins = await Promise.all(
      Array.from({ length: 6 }, async (_, at) => {
        const node = at % 2 ? store() : second;
        const found = await node.deviceLogins.poll(deviceHash, now());
        if (typeof found === 'string') return null;
        expect(found.user.id).toBe(ada.userId);
        const login = { userId: ada.userId, refreshHash: randomUUID(), expiresAt: after(60), deviceHash };
        return await node.logins.createUnchanged(login, found.passwordHash);
      }),
    );
    expect(logins.filter((login) => login !== null)).toHaveLength(1);
    expect(await store().deviceLogins.poll(deviceHash, now())).toBe('expired_token');
  });

  it('take the first of many replies', async () => {
    const people = await Promise.all([1, 2, 3, 4].map(() => newAccount(store())));
    const { userCode } = await open();
    const replies = await Promise.all(
      people.map((one) => store().deviceLogins.reply(one, userCode, 'allow', now())),
    );
    expect(replies.toSorted()).toEqual(['answered', 'answered', 'answered', 'replied']);
  });

  it('have a code of their own, and a bounded number at one place', async () => {
    const first = await open('192.0.2.1');
    const twin = { ...first, deviceHash: randomUUID() };
    expect(await store().deviceLogins.open(twin, 20, now())).toBe('taken');
    for (let opened = 1; opened < 3; opened += 1) await open('192.0.2.1');
    const fourth = { ...first, deviceHash: randomUUID(), userCode: 'ZZZZ-ZZZZ' };
    expect(await store().deviceLogins.open(fourth, 3, now())).toBe('too_many');
    expect(await store().deviceLogins.open({ ...fourth, place: '192.0.2.2' }, 3, now())).toBe('opened');
  });

  it('slow down who asks too often, and expire', async () => {
    const { deviceHash, userCode } = await open();
    const ada = await newAccount(store());
    const poll = (seconds: number) => store().deviceLogins.poll(deviceHash, after(seconds));
    expect(await poll(0)).toBe('authorization_pending');
    expect(await poll(2)).toBe('slow_down');
    expect(await poll(9)).toBe('slow_down');
    expect(await poll(25)).toBe('authorization_pending');
    expect(await poll(600)).toBe('expired_token');
    expect(await store().deviceLogins.reply(ada, userCode, 'allow', after(600))).toBeNull();
    expect(await store().deviceLogins.prune(after(601))).toBeGreaterThan(0);
    expect(await poll(1)).toBe('expired_token');
  });

  it('count the misses of each person, at once too, and hold nobody else up', async () => {
    const [mallory, ada] = [await newAccount(store(), 'Mallory'), await newAccount(store())];
    const { userCode } = await open();
    const misses = await Promise.all(
      Array.from({ length: 14 }, () => store().deviceLogins.find(mallory, 'CCCC-CCCC', now())),
    );
    expect(misses.filter((one) => one === null)).toHaveLength(10);
    expect(await store().deviceLogins.reply(mallory, userCode, 'allow', now())).toEqual({ waitSeconds: 600 });
    expect(await store().deviceLogins.find(ada, userCode, now())).toMatchObject({ user_code: userCode });
    expect(await store().deviceLogins.find(mallory, userCode, after(599))).toEqual({ waitSeconds: 1 });
    const later = {
      ...(await open()),
      userCode: 'DDDD-DDDD',
      deviceHash: randomUUID(),
      expiresAt: after(1200),
    };
    await store().deviceLogins.open(later, 20, now());
    expect(await store().deviceLogins.find(mallory, 'DDDD-DDDD', after(601))).toMatchObject({
      user_code: 'DDDD-DDDD',
    });
  });

  it('are recorded when somebody replies', async () => {
    const ada = await newAccount(store());
    const { userCode } = await open();
    await store().deviceLogins.reply(ada, userCode, 'deny', now());
    const [entry] = await engine
      .sql()('audit_entries')
      .where({ actor_id: ada.userId, action: 'device_login.deny' });
    expect(JSON.parse(entry.after)).toMatchObject({ client_name: 'laptop' });
    expect(JSON.stringify(entry)).not.toContain(userCode);
  });
});

describeStores('The list of logins', (store, engine) => {
  it('is of one person, without what is over, and tells when each was seen', async () => {
    const [ada, eve] = [await newAccount(store()), await newAccount(store(), 'Eve')];
    const login = (expiresAt: string) =>
      store().logins.create({
        ...{ userId: ada.userId, refreshHash: randomUUID(), expiresAt: new Date(expiresAt) },
        ...{ method: 'device' as const, device: 'laptop', origin },
      });
    engine.clock.advance(1000);
    const id = await login('2027-01-01');
    await login('2026-11-21T08:00:00Z');
    const seen = new Date(engine.clock.now().getTime() + 90_000);
    await store().logins.touch(id, '192.0.2.9', seen);
    await store().logins.touch(id, '192.0.2.10', new Date(seen.getTime() + 59_000));
    const { data } = await store().logins.list(ada, id, {});
    expect(data).toHaveLength(2);
    expect(data[0]).toMatchObject({
      ...{ id, method: 'device', device: 'laptop', current: true, address: '192.0.2.9' },
      last_seen_at: seen.toISOString(),
    });
    await expect(store().logins.revoke(eve, id)).rejects.toMatchObject({ code: 'not_found' });
    await store().logins.revoke(ada, id);
    await expect(store().logins.revoke(ada, id)).rejects.toMatchObject({ code: 'not_found' });
    expect((await store().logins.list(ada, id, {})).data).toHaveLength(1);
    const actions = await engine
      .sql()('audit_entries')
      .where({ target_id: id })
      .orderBy('sequence')
      .pluck('action');
    expect(actions).toEqual(['login.create', 'login.end']);
  });
});
