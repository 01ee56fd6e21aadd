import { randomUUID } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { allScopes } from '../scopes.ts';
import { loginLimits } from './logins.ts';
import { refusals } from './test-organizations.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('Logins', (store, engine) => {
  const minutes = (count: number): Date => new Date(engine.clock.now().getTime() + count * 60_000);
  const begin = async (userId?: string) => {
    const refreshHash = randomUUID();
    const owner = userId ?? (await newAccount(store())).userId;
    const loginId = await store().logins.create({ userId: owner, refreshHash, expiresAt: minutes(10) });
    return { userId: owner, loginId, refreshHash };
  };
  const isEnded = async (loginId: string) =>
    (await store().principals.byLogin(loginId, engine.clock.now()))?.login.ended;

  it('exchange each refresh token once', async () => {
    const { userId, loginId, refreshHash } = await begin();
    const second = randomUUID();
    expect(await store().logins.rotate(refreshHash, second, minutes(1))).toEqual({ loginId, userId });
    expect(await store().logins.rotate(second, randomUUID(), minutes(2))).toEqual({ loginId, userId });
    expect(await store().logins.rotate('unknown', randomUUID(), minutes(1))).toBe('unknown');
    expect(await isEnded(loginId)).toBe(false);
  });

  it('end as a whole when a token comes a second time', async () => {
    const { loginId, refreshHash } = await begin();
    const second = randomUUID();
    await store().logins.rotate(refreshHash, second, minutes(1));
    expect(await store().logins.rotate(refreshHash, randomUUID(), minutes(1))).toBe('reused');
    expect(await isEnded(loginId)).toBe(true);
    expect(await store().logins.rotate(second, randomUUID(), minutes(1))).toBe('unknown');
  });

  it('end where they were given more tokens than anybody needs', async () => {
    const { loginId, refreshHash } = await begin();
    const other = await begin();
    const given = Array.from({ length: 24_998 }, (_, count) => ({
      ...{ hash: `${loginId}-${count}`, login_id: loginId, created_at: 0, used_at: 1 },
    }));
    await engine.sql().batchInsert('refresh_tokens', given, 500);
    const [last, none] = [randomUUID(), randomUUID()];
    expect(await store().logins.rotate(refreshHash, last, minutes(1))).toMatchObject({ loginId });
    expect(await isEnded(loginId)).toBe(false);
    expect(await store().logins.rotate(last, none, minutes(2))).toBe('spent');
    expect(await isEnded(loginId)).toBe(true);
    for (const hash of [last, none])
      expect(await store().logins.rotate(hash, randomUUID(), minutes(2))).toBe('unknown');
    const entries = engine.sql()('audit_entries').where({ action: 'login.end', target_id: loginId });
    expect(JSON.parse((await entries.pluck('after'))[0])).toEqual({ reason: 'refresh_tokens_spent' });
    expect(await store().logins.rotate(other.refreshHash, randomUUID(), minutes(2))).toBeTypeOf('object');
  });

  it('give a token to one of two that race for it', async () => {
    const { refreshHash } = await begin();
    const other = await engine.open();
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? store() : other).logins.rotate(refreshHash, randomUUID(), minutes(1)),
      ),
    );
    expect(outcomes.filter((outcome) => typeof outcome === 'object')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'reused')).toHaveLength(9);
  });

  it('expire', async () => {
    const { loginId, refreshHash } = await begin();
    expect(await store().logins.rotate(refreshHash, randomUUID(), minutes(10))).toBe('expired');
    const owner = await store().principals.byLogin(loginId, minutes(10));
    expect(owner?.login).toMatchObject({ id: loginId, ended: false, expired: true });
    expect(await store().principals.byLogin('lgn_unknown', minutes(0))).toBeNull();
  });

  it('end alone, or with all others of the user', async () => {
    const first = await begin();
    const second = await begin(first.userId);
    const third = await begin(first.userId);
    const stranger = await begin();
    await store().logins.end(first.loginId, first);
    expect([await isEnded(first.loginId), await isEnded(second.loginId)]).toEqual([true, false]);
    expect(await store().logins.rotate(first.refreshHash, randomUUID(), minutes(1))).toBe('unknown');
    await store().logins.endAll(first.userId, first);
    expect([await isEnded(second.loginId), await isEnded(third.loginId)]).toEqual([true, true]);
    expect(await isEnded(stranger.loginId)).toBe(false);
  });

  it('are no more than an account may have: the one that was used the longest ago ends as another begins', async () => {
    const { open } = loginLimits;
    onTestFinished(() => void Object.assign(loginLimits, { open }));
    loginLimits.open = 3;
    // They have logged in once by then.
    const [{ userId }, stranger] = [await newAccount(store()), await begin()];
    const later = () => {
      engine.clock.advance(60_000);
      return begin(userId);
    };
    const [first, second] = [await later(), await later()];
    engine.clock.advance(60_000);
    await store().logins.touch(first.loginId, null, engine.clock.now());
    const [third, fourth] = [await later(), await later()];
    const ended = await Promise.all(
      [first, second, third, fourth, stranger].map(({ loginId }) => isEnded(loginId)),
    );
    expect(ended).toEqual([false, true, false, false, false]);
    const told = await engine
      .sql()('audit_entries')
      .where({ action: 'login.end', target_id: second.loginId });
    expect(told).toMatchObject([{ actor_id: userId }]);
    expect(JSON.stringify(told)).toContain('too_many_logins');
  });

  it('are forgotten with their tokens after they expired', async () => {
    const { loginId, refreshHash } = await begin();
    await store().logins.prune(minutes(10));
    expect(await isEnded(loginId)).toBe(false);
    await store().logins.prune(minutes(11));
    expect(await isEnded(loginId)).toBeUndefined();
    expect(await engine.sql()('refresh_tokens').where({ hash: refreshHash })).toEqual([]);
  });
});

describeStores('Signing keys', (store, engine) => {
  it('are listed with the newest first until they are removed', async () => {
    await store().signingKeys.add({
      kid: 'old',
      sealedPrivateKey: 'sealed-1',
      publicJwk: { kty: 'OKP', x: 'a' },
    });
    engine.clock.advance(1000);
    await store().signingKeys.add({
      kid: 'new',
      sealedPrivateKey: 'sealed-2',
      publicJwk: { kty: 'OKP', x: 'b' },
    });
    expect(await store().signingKeys.list()).toMatchObject([
      {
        kid: 'new',
        sealedPrivateKey: 'sealed-2',
        publicJwk: { kty: 'OKP', x: 'b' },
        createdAt: engine.clock.now(),
      },
      { kid: 'old' },
    ]);
    await store().signingKeys.remove('old');
    expect(await store().signingKeys.list()).toMatchObject([{ kid: 'new' }]);
  });
});

describeStores('API keys', (store, engine) => {
  const newKey = (name = 'Build server') => ({
    name,
    scopes: ['query', 'sessions:read'] as const,
    hash: randomUUID(),
    prefix: 'sk-3fK9aZ1q',
  });

  it('are found by their hash, with what they may do', async () => {
    const reach = await newAccount(store());
    const key = { ...newKey(), expires_at: '2026-11-21T10:00:00.5+01:00' };
    const { apiKey } = await store().apiKeys.create(reach, key);
    expect(apiKey).toMatchObject({ name: 'Build server', disabled: false, last_used_at: null });
    expect(apiKey.expires_at).toBe('2026-11-21T09:00:00.500Z');
    const before = new Date('2026-11-21T09:00:00.499Z');
    const found = await store().principals.byApiKeyHash(key.hash, before);
    expect(found).toMatchObject({
      user: { id: reach.userId },
      memberships: [{ organizationId: reach.organizationIds[0], role: 'owner' }],
      apiKey: { id: apiKey.id, scopes: key.scopes, disabled: false, expired: false, lastUsedAt: null },
    });
    expect(await store().principals.byApiKey(apiKey.id, before)).toEqual(found);
    const after = await store().principals.byApiKeyHash(key.hash, new Date('2026-11-21T09:00:00.500Z'));
    expect(after?.apiKey.expired).toBe(true);
    expect(await store().principals.byApiKeyHash('unknown', before)).toBeNull();
  });

  it('of one user are not there for another, whatever is asked', async () => {
    const [owner, stranger] = [await newAccount(store()), await newAccount(store())];
    const { apiKey, etag } = await store().apiKeys.create(owner, newKey());
    // A colleague in the same organization is a stranger too: a key is a person's own.
    for (const reach of [stranger, { ...owner, userId: stranger.userId }]) {
      expect(await store().apiKeys.find(reach, apiKey.id)).toBeNull();
      expect((await store().apiKeys.list(reach, {})).data).toEqual([]);
      for (const ifMatch of [undefined, etag, '"other"']) {
        const update = store().apiKeys.update(reach, apiKey.id, { disabled: true }, ifMatch);
        await expect(update).rejects.toMatchObject({ code: 'not_found' });
        const revoke = store().apiKeys.revoke(reach, apiKey.id, ifMatch);
        await expect(revoke).rejects.toMatchObject({ code: 'not_found' });
      }
    }
    expect(await store().apiKeys.find(owner, apiKey.id)).toEqual({ apiKey, etag });
  });

  it('change and end at once, if they are still as they were read', async () => {
    const reach = await newAccount(store());
    const key = newKey();
    const { apiKey, etag } = await store().apiKeys.create(reach, key);
    const patch = { disabled: true, scopes: ['query' as const], expires_at: '2030-01-01T00:00:00Z' };
    const changed = await store().apiKeys.update(reach, apiKey.id, patch, etag);
    expect(changed.apiKey).toMatchObject({
      ...patch,
      name: apiKey.name,
      expires_at: '2030-01-01T00:00:00.000Z',
    });
    const found = await store().principals.byApiKeyHash(key.hash, engine.clock.now());
    expect(found?.apiKey).toMatchObject({ disabled: true, scopes: ['query'] });
    const stale = store().apiKeys.revoke(reach, apiKey.id, etag);
    await expect(stale).rejects.toMatchObject({ code: 'precondition_failed' });
    const forever = await store().apiKeys.update(reach, apiKey.id, { expires_at: null });
    expect(forever.apiKey.expires_at).toBeNull();
    await store().apiKeys.revoke(reach, apiKey.id, forever.etag);
    expect(await store().apiKeys.find(reach, apiKey.id)).toBeNull();
    expect(await store().principals.byApiKeyHash(key.hash, engine.clock.now())).toBeNull();
  });

  it('tell whether they end, and whether they have a quota', async () => {
    const reach = { ...(await newAccount(store())), operator: false, needs: 'admin' as const };
    const [plain, ending] = [newKey(), { ...newKey(), expires_at: '2030-01-01T00:00:00Z' }];
    const [{ apiKey }] = [
      await store().apiKeys.create(reach, plain),
      await store().apiKeys.create(reach, ending),
    ];
    const limits = async ({ hash }: { hash: string }) => {
      const found = await store().principals.byApiKeyHash(hash, engine.clock.now());
      return [found?.apiKey.hasEnd, found?.apiKey.hasQuota];
    };
    expect([await limits(plain), await limits(ending)]).toEqual([
      [false, false],
      [true, false],
    ]);
    const subject = { type: 'api_key', id: apiKey.id } as const;
    await (await engine.open()).quotas.put(reach, subject, { requests: { day: { hard: 9 } } });
    expect([await limits(plain), await limits(ending)]).toEqual([
      [false, true],
      [true, false],
    ]);
  });

  it('of an operator leave one that does all they may, however many are ended with keys at once', async () => {
    const reach = await newAccount(store());
    await engine.sql()('users').where({ id: reach.userId }).update({ operator: true });
    const whole = { ...newKey(), scopes: [...allScopes] };
    const made = await Promise.all(
      [1, 2, 3].map(() => store().apiKeys.create(reach, { ...whole, hash: randomUUID() })),
    );
    const ids = made.map(({ apiKey }) => apiKey.id);
    const narrow = await store().apiKeys.create(reach, newKey('Narrow'));
    const origin = { requestId: 'req_1', address: null };
    const by = (id: string) => ({
      ...reach,
      origin: { ...origin, credential: { kind: 'api_key', id } as const },
    });
    const other = await engine.open();
    const ends = ids.flatMap((id, at) => [
      (at % 2 ? store() : other).apiKeys.revoke(by(narrow.apiKey.id), id),
      (at % 2 ? other : store()).apiKeys.update(by(id), id, { disabled: true }),
    ]);
    expect((await refusals(ends)).filter((code) => code !== 'not_found')).toContain('last_key');
    const left = (await store().apiKeys.list(reach, {})).data.filter(({ id }) => ids.includes(id));
    expect(left.filter(({ disabled }) => !disabled)).toHaveLength(1);
    await store().apiKeys.revoke(by(narrow.apiKey.id), narrow.apiKey.id);
    await store().apiKeys.revoke(by('process'), left.find(({ disabled }) => !disabled)?.id ?? '');
  });

  it('that were found before, and are remembered, end with their time and with what other nodes do', async () => {
    const reach = await newAccount(store());
    const key = { ...newKey(), expires_at: '2030-01-01T00:00:00Z' };
    const { apiKey } = await store().apiKeys.create(reach, key);
    const count = async () => {
      const call = await store().meteredCalls.begin(reach, 'demo:demo-1', apiKey.id);
      await store().meteredCalls.end(call);
    };
    const found = async (hash = key.hash, at = engine.clock.now()) => {
      await count();
      return (await store().principals.byApiKeyHash(hash, at))?.apiKey ?? null;
    };
    const byId = async () =>
      (await store().principals.byApiKey(apiKey.id, engine.clock.now()))?.apiKey ?? null;
    for (const _turn of [1, 2]) expect(await found()).toMatchObject({ expired: false, disabled: false });
    for (const _turn of [1, 2]) expect(await byId()).toMatchObject({ disabled: false, oldestSecret: 1 });
    expect(await found(key.hash, new Date('2030-01-01T00:00:00Z'))).toMatchObject({ expired: true });
    const other = await engine.open();
    const again = { hash: randomUUID(), prefix: 'sk-BBBBBBBB' };
    await other.apiKeys.rotate(reach, apiKey.id, again, new Date('2027-01-01T00:00:00Z'));
    for (const _turn of [1, 2]) expect(await found()).toMatchObject({ secretNumber: 1, oldestSecret: 1 });
    expect(await found(key.hash, new Date('2027-01-01T00:00:00Z'))).toBeNull();
    expect(await byId()).toMatchObject({ disabled: false, secretNumber: 2 });
    await other.apiKeys.update(reach, apiKey.id, { disabled: true });
    expect(await found(again.hash)).toMatchObject({ disabled: true });
    expect(await byId()).toMatchObject({ disabled: true });
    await other.apiKeys.revoke(reach, apiKey.id);
    expect(await found(again.hash)).toBeNull();
    expect(await byId()).toBeNull();
  });

  it('that renew themselves twice at once have one new secret', async () => {
    const reach = await newAccount(store());
    const { apiKey } = await store().apiKeys.create(reach, newKey());
    const credential = { kind: 'api_key', id: apiKey.id } as const;
    const acting = (secretNumber: number) => ({
      ...reach,
      origin: { requestId: 'req_1', address: null, credential },
      key: { secretNumber },
    });
    const other = await engine.open();
    const until = new Date('2027-01-01T00:00:00Z');
    const renewals = Array.from({ length: 6 }, (_, at) => {
      const secret = { hash: randomUUID(), prefix: 'sk-BBBBBBBB' };
      return (at % 2 ? store() : other).apiKeys.rotate(acting(1), apiKey.id, secret, until);
    });
    expect(await refusals(renewals)).toEqual(Array<string>(5).fill('login_required'));
    const made = store().apiKeys.create(acting(1), newKey());
    await expect(made).rejects.toMatchObject({ code: 'login_required' });
    await store().apiKeys.create(acting(2), newKey());
    await store().apiKeys.revoke(acting(2), apiKey.id);
  });

  it('refuse a time that no calendar of ours can write', async () => {
    const reach = await newAccount(store());
    for (const expires_at of [
      '9999-12-31T23:59:59-01:00',
      '0000-01-01T00:00:00+01:00',
      '2026-12-31T23:59:60Z',
    ]) {
      const refused = store().apiKeys.create(reach, { ...newKey(), expires_at });
      await expect(refused).rejects.toMatchObject({
        code: 'invalid_request',
        errors: [{ in: 'body', pointer: '/expires_at' }],
      });
    }
  });

  it('remember their last use once a minute, and keep their ETag', async () => {
    const reach = await newAccount(store());
    const { apiKey, etag } = await store().apiKeys.create(reach, newKey());
    const at = (seconds: number): Date => new Date(Date.UTC(2026, 10, 21, 9, 0, seconds));
    const use = (seconds: number, requests: number, address: string) =>
      store().principals.touchApiKey(apiKey.id, { at: at(seconds), address, requests });
    await use(0, 1, '192.0.2.1');
    await use(1, 3, '192.0.2.2');
    await use(59, 2, '192.0.2.3');
    const first = await store().apiKeys.find(reach, apiKey.id);
    const used = { last_used_at: '2026-11-21T09:00:00.000Z', last_used_ip: '192.0.2.1' };
    expect(first).toEqual({ apiKey: { ...apiKey, ...used, usage: { ...apiKey.usage, requests: 6 } }, etag });
    await use(60, 1, '192.0.2.4');
    const second = await store().apiKeys.find(reach, apiKey.id);
    expect(second?.apiKey).toMatchObject({
      last_used_at: '2026-11-21T09:01:00.000Z',
      last_used_ip: '192.0.2.4',
      usage: { requests: 7 },
    });
  });

  it('are listed with the newest first, page by page', async () => {
    const reach = await newAccount(store());
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) await store().apiKeys.create(reach, newKey(name));
    const first = await store().apiKeys.list(reach, { limit: 2 });
    const second = await store().apiKeys.list(reach, { limit: 2, cursor: first.next_cursor ?? '' });
    const third = await store().apiKeys.list(reach, { limit: 2, cursor: second.next_cursor ?? '' });
    const listed = [first, second, third].flatMap(({ data }) => data.map(({ name }) => name));
    expect(listed).toEqual(names.toReversed());
    expect(third.next_cursor).toBeNull();
  });
});

describeStore('sqlite', 'A credential on SQLite', (store, engine) => {
  it('is read once until somebody writes, however many requests come with it', async () => {
    const reach = await newAccount(store());
    const now = engine.clock.now();
    const key = { name: 'ci', scopes: [...allScopes], hash: randomUUID(), prefix: 'sk-AAAAAAAA' };
    const { apiKey } = await store().apiKeys.create(reach, key);
    const login = { userId: reach.userId, refreshHash: randomUUID(), expiresAt: new Date(now.getTime() + 1) };
    const loginId = await store().logins.create(login);
    const { principals } = store();
    // Nothing is remembered before a first count has shown that changes can be told.
    await store().meteredCalls.end(await store().meteredCalls.begin(reach, 'demo:demo-1', apiKey.id));
    for (const find of [
      () => principals.byLogin(loginId, now),
      () => principals.byApiKeyHash(key.hash, now),
      // For open streams, and for whoever sends slowly.
      () => principals.byApiKey(apiKey.id, now),
    ]) {
      const rows = async () => (await find())?.memberships;
      const first = await rows();
      expect(first).toHaveLength(1);
      expect(await rows()).toBe(first);
      await newAccount(store());
      expect(await rows()).not.toBe(first);
    }
  });
});
