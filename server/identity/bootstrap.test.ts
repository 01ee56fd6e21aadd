/** The first start: one operator, whoever comes first, and a way in that cannot be lost. */
import { describe, expect, test } from 'vitest';
import { scopeValues } from '../contract/api.ts';
import type { FirstCredential, FirstStart, Identity } from './identity.ts';
import { ada, grace, testIdentity } from './test-identity.ts';

const refused = { code: 'registration_refused', status: 403 };
const day = 86_400_000;

describe('on loopback', () => {
  test('the first start makes the operator and a key that may do everything', async () => {
    const { identity } = await testIdentity();
    const first = await identity.bootstrap({ loopback: true });
    expect(first).toEqual({
      kind: 'operator',
      email: 'operator@service.local',
      apiKey: expect.stringMatching(/^sk-[A-Za-z0-9]{8}[\w-]{43}$/),
    });
    const principal = await identity.authenticate(keyOf(first));
    expect(principal).toMatchObject({
      operator: true,
      email: 'operator@service.local',
      credential: 'api_key',
    });
    expect(principal.memberships).toMatchObject([{ role: 'owner' }]);
    expect([...principal.scopes].sort()).toEqual([...scopeValues].sort());
  });

  test('the second start shows nothing', async () => {
    const { identity, another } = await testIdentity();
    await identity.bootstrap({ loopback: true });
    expect(await identity.bootstrap({ loopback: true })).toBeNull();
    expect(await (await another()).bootstrap({ loopback: false })).toBeNull();
  });

  test('an operator whose key could not be shown is not made, and the next start makes one', async () => {
    const { identity, another, store } = await testIdentity();
    const tried: FirstCredential[] = [];
    const show = async (credential: FirstCredential) => {
      tried.push(credential);
      throw new Error('nobody reads this');
    };
    await expect(identity.bootstrap({ loopback: true }, show)).rejects.toThrow('nobody reads this');
    expect(await store.users.count()).toBe(0);
    const [lost = null] = tried;
    await expect(identity.authenticate(keyOf(lost))).rejects.toMatchObject({ code: 'credential_invalid' });
    const first = await (await another()).bootstrap({ loopback: true });
    expect(await identity.authenticate(keyOf(first))).toMatchObject({ operator: true });
  });

  test('nobody can log in as the operator with a password', async () => {
    const { identity } = await testIdentity();
    await identity.bootstrap({ loopback: true });
    for (const password of ['operator', 'operator@service.local', 'password', ' ']) {
      const login = identity.login({ email: 'operator@service.local', password });
      await expect(login).rejects.toMatchObject({ code: 'login_failed' });
    }
  });

  test('of ten servers that start at once one makes the operator', async () => {
    const { store, another } = await testIdentity();
    const nodes = await Promise.all(Array.from({ length: 10 }, () => another()));
    const firsts = await Promise.all(nodes.map((node) => node.bootstrap({ loopback: true })));
    expect(firsts.filter((first) => first?.kind === 'operator')).toHaveLength(1);
    expect(firsts.filter((first) => first === null)).toHaveLength(9);
    expect(await store.users.count()).toBe(1);
  });
});

describe('with the operator in the settings', () => {
  const settings: FirstStart = {
    loopback: false,
    adminEmail: 'Admin@Example.com',
    adminPassword: 'a-long-password',
  };

  test('the first start makes that account, and its password works', async () => {
    const { identity } = await testIdentity();
    expect(await identity.bootstrap(settings)).toEqual({ kind: 'admin', email: 'admin@example.com' });
    const { user } = await identity.login({ email: 'admin@example.com', password: 'a-long-password' });
    expect(user).toMatchObject({ operator: true, name: 'admin' });
    expect(await identity.bootstrap(settings)).toBeNull();
  });

  test('a later start with another password changes nothing', async () => {
    const { identity } = await testIdentity();
    await identity.bootstrap(settings);
    await identity.bootstrap({ ...settings, adminPassword: 'another-password' });
    await identity.login({ email: 'admin@example.com', password: 'a-long-password' });
  });

  test('an account that has the address already is not made the operator', async () => {
    const { identity } = await testIdentity();
    await identity.register({ ...ada, email: 'admin@example.com' });
    await expect(identity.bootstrap(settings)).rejects.toThrow(/admin@example\.com.*another address/);
    expect((await identity.login({ ...ada, email: 'admin@example.com' })).user.operator).toBe(false);
  });

  test.each([
    [{ adminPassword: null }, 'both, or neither'],
    [{ adminEmail: '' }, 'both, or neither'],
    [{ adminEmail: 'admin' }, 'not an e-mail address'],
    [{ adminPassword: 'short' }, 'between 10 and 1024'],
    [{ adminPassword: 'x'.repeat(1025) }, 'between 10 and 1024'],
  ])('%j is refused', async (change, message) => {
    const { identity, store } = await testIdentity();
    await expect(identity.bootstrap({ ...settings, ...change })).rejects.toThrow(message);
    expect(await store.users.count()).toBe(0);
  });
});

describe('elsewhere', () => {
  test('the first start gives a token, and whoever registers with it is the operator', async () => {
    const { identity } = await testIdentity({ registration: 'invite' });
    const first = await identity.bootstrap({ loopback: false });
    expect(first).toMatchObject({ kind: 'token', token: expect.stringMatching(/^bt_[\w-]{43}$/) });
    const { user } = await identity.register({ ...ada, bootstrap_token: tokenOf(first) });
    expect(user.operator).toBe(true);
    expect(await identity.bootstrap({ loopback: false })).toBeNull();
  });

  test('a token that was never used is replaced by the next start, so that a lost one locks nobody out', async () => {
    const { identity, another } = await testIdentity();
    const lost = await identity.bootstrap({ loopback: false });
    const found = await (await another()).bootstrap({ loopback: false });
    const withLost = identity.register({ ...ada, bootstrap_token: tokenOf(lost) });
    await expect(withLost).rejects.toMatchObject(refused);
    expect((await identity.register({ ...ada, bootstrap_token: tokenOf(found) })).user.operator).toBe(true);
  });

  test('whoever registers before without the token does not become the operator, nor takes the place', async () => {
    const { identity } = await testIdentity();
    const first = await identity.bootstrap({ loopback: false });
    expect((await identity.register(ada)).user.operator).toBe(false);
    expect((await identity.register({ ...grace, bootstrap_token: tokenOf(first) })).user.operator).toBe(true);
  });

  test('fifty uses of the token at once make exactly one operator', async () => {
    const { identity, another, store } = await testIdentity();
    const nodes = [identity, await another()];
    const first = await identity.bootstrap({ loopback: false });
    const uses = await Promise.allSettled(
      Array.from({ length: 50 }, (_, n) =>
        nodes[n % 2]?.register({ ...ada, email: `ada${n}@example.com`, bootstrap_token: tokenOf(first) }),
      ),
    );
    expect(uses.filter((use) => use.status === 'fulfilled')).toHaveLength(1);
    for (const use of uses) if (use.status === 'rejected') expect(use.reason).toMatchObject(refused);
    expect(await store.users.count()).toBe(1);
  });

  test('two tokens that two starts at once gave out make one operator', async () => {
    const { identity, another, store, clock } = await testIdentity();
    // As if each had withdrawn before the other added: then both are good.
    const nodes: Identity[] = [identity, await another({ records: withoutWithdrawal(store) })];
    const tokens = [];
    for (const node of nodes) tokens.push(tokenOf(await node.bootstrap({ loopback: false })));
    clock.turn(1);
    const uses = await Promise.allSettled(
      tokens.map((bootstrap_token, n) =>
        identity.register({ ...ada, email: `ada${n}@example.com`, bootstrap_token }),
      ),
    );
    expect(uses.map((use) => use.status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(await store.users.count()).toBe(1);
  });

  test('a token expires, and a restart gives a new one', async () => {
    const { identity, clock } = await testIdentity();
    const first = await identity.bootstrap({ loopback: false });
    clock.turn(8 * day);
    const late = identity.register({ ...ada, bootstrap_token: tokenOf(first) });
    await expect(late).rejects.toMatchObject(refused);
    const second = await identity.bootstrap({ loopback: false });
    await identity.register({ ...ada, bootstrap_token: tokenOf(second) });
  });
});

function withoutWithdrawal<T extends { invitations: object }>(store: T): T {
  return { ...store, invitations: { ...store.invitations, withdraw: () => Promise.resolve(0) } };
}

function keyOf(first: FirstCredential | null): string {
  return first?.kind === 'operator' ? first.apiKey : '';
}

function tokenOf(first: FirstCredential | null): string {
  return first?.kind === 'token' ? first.token : '';
}
