/** Accounts and logins: who may register, whose password is right, and when a login is over. */
import { describe, expect, test, vi } from 'vitest';
import { Problem } from '../problem.ts';
import { hashOf } from './opaque-tokens.ts';
import { hashPassword } from './passwords.ts';
import { ada, grace, type TestIdentity, testIdentity } from './test-identity.ts';

const day = 86_400_000;
const loginFailed = {
  code: 'login_failed',
  status: 401,
  message: 'The e-mail address or the password is wrong.',
};
const refused = { code: 'registration_refused', status: 403 };
const notRefreshed = { code: 'refresh_token_invalid', status: 401 };
const invalid = { code: 'credential_invalid', status: 401 };

describe('registration', () => {
  test('makes an account with an organization of its own, and logs it in', async () => {
    const { identity } = await testIdentity();
    const { user, access_token } = await identity.register(ada);
    expect(user).toMatchObject({ email: 'ada@example.com', name: 'Ada', operator: false });
    expect((await identity.authenticate(access_token)).memberships).toHaveLength(1);
  });

  test('names an account without a name after its address', async () => {
    const { identity } = await testIdentity();
    const { user } = await identity.register({ email: 'Grace.Hopper@Example.com', password: grace.password });
    expect(user).toMatchObject({ email: 'grace.hopper@example.com', name: 'grace.hopper' });
  });

  test('refuses an address that is taken, however it is spelt', async () => {
    const { identity } = await testIdentity();
    await identity.register(ada);
    const again = identity.register({ ...ada, email: 'ADA@Example.COM' });
    await expect(again).rejects.toMatchObject({ code: 'email_taken', status: 409 });
  });

  test('lets one of ten through that come with the same address at once, and nothing of the others remains', async () => {
    const { identity, store } = await testIdentity();
    const codes = await outcomes(Array.from({ length: 10 }, () => identity.register(ada)));
    expect(codes).toEqual(['ok', ...Array<string>(9).fill('email_taken')]);
    expect(await store.users.count()).toBe(1);
  });

  test('hashes no password for a token that somebody made up', async () => {
    const { identity } = await testIdentity();
    const one = await processorSeconds(() => hashPassword(ada.password));
    const attempts = () =>
      Array.from({ length: 50 }, (_, number) =>
        identity.register({ ...ada, invitation_token: `it_${number}` }),
      );
    const all = await processorSeconds(async () =>
      expect(await outcomes(attempts())).toEqual(Array<string>(50).fill('registration_refused')),
    );
    expect(all).toBeLessThan(10 * one);
  });

  test('brakes who tries tokens, from where they come, and nobody who needs none', async () => {
    const { identity, store, clock } = await testIdentity({ loginAttempts: 1 });
    const there = { requestId: 'req_1', address: '203.0.113.1', credential: null };
    const elsewhere = { ...there, address: '203.0.113.2' };
    const withToken = (name: string, invitation_token: string, from = there) =>
      outcomes([
        identity.register({ email: `${name}@example.com`, password: ada.password, invitation_token }, from),
      ]);
    const invite = (secret: string) =>
      store.invitations.add({
        kind: 'invitation',
        hash: hashOf(secret),
        expiresAt: new Date(clock.now().getTime() + day),
      });
    for (const secret of ['first', 'second', 'third']) await invite(secret);
    for (let guess = 0; guess < 9; guess += 1)
      expect(await withToken('x', `guess ${guess}`)).toEqual(['registration_refused']);
    expect(await withToken('first', 'first')).toEqual(['ok']);
    for (let guess = 0; guess < 10; guess += 1)
      expect(await withToken('x', `guess ${guess}`)).toEqual(['registration_refused']);
    expect(await withToken('second', 'second')).toEqual(['too_many_attempts']);
    expect(await withToken('third', 'third', elsewhere)).toEqual(['ok']);
    expect(await outcomes([identity.register(grace, there)])).toEqual(['ok']);
  });

  test('never makes an operator of the first who comes', async () => {
    const { identity } = await testIdentity();
    expect((await identity.register(ada)).user.operator).toBe(false);
  });

  test('tells how many accounts there are before the new one gets a token', async () => {
    const counts: number[] = [];
    const { identity } = await testIdentity({ onRegistered: (accounts) => void counts.push(accounts) });
    await identity.register(ada);
    await identity.register(grace);
    expect(counts).toEqual([1, 2]);
    expect(await identity.accounts()).toBe(2);
  });

  test('tells of an account that somebody makes once it is there for all, and of none that is undone', async () => {
    const counts: number[] = [];
    const { identity, store } = await testIdentity({
      onRegistered: (accounts) => void counts.push(accounts),
    });
    const principal = await identity.authenticate((await identity.register(ada)).access_token);
    const make = () =>
      identity.createPerson(principal, { email: grace.email, send_invite: false }, async () => undefined);
    const undone = store.transaction(async () => {
      await make();
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect(counts).toEqual([1]);
    await store.transaction(async () => {
      await make();
      expect(counts).toEqual([1]);
    });
    expect(counts).toEqual([1, 2]);
  });

  test('gives no token where the switch to many accounts fails', async () => {
    const onRegistered = () => {
      throw new Error('no sandbox');
    };
    const { identity } = await testIdentity({ onRegistered });
    await expect(identity.register(ada)).rejects.toThrow('no sandbox');
  });
});

describe('registration by invitation', () => {
  test('refuses whoever has none, and says what to do', async () => {
    const { identity, store } = await testIdentity({ registration: 'invite' });
    await expect(identity.register(ada)).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('invitation_token'),
    });
    expect(await store.users.count()).toBe(0);
  });

  test('takes an invitation once', async () => {
    const given = await testIdentity({ registration: 'invite' });
    const invitation_token = await invited(given);
    const { user } = await given.identity.register({ ...ada, invitation_token });
    expect(user.operator).toBe(false);
    await expect(given.identity.register({ ...grace, invitation_token })).rejects.toMatchObject(refused);
  });

  test('takes an invitation of ten at once for one account', async () => {
    const given = await testIdentity({ registration: 'invite' });
    const invitation_token = await invited(given);
    const codes = await outcomes(
      Array.from({ length: 10 }, (_, n) =>
        given.identity.register({ ...ada, email: `ada${n}@example.com`, invitation_token }),
      ),
    );
    expect(codes).toEqual(['ok', ...Array<string>(9).fill('registration_refused')]);
    expect(await given.store.users.count()).toBe(1);
  });

  test('refuses an expired one, an invented one, and a bootstrap token in its place', async () => {
    const given = await testIdentity({ registration: 'invite' });
    const invitation_token = await invited(given);
    const bootstrap = await given.identity.bootstrap({ loopback: false });
    const token = bootstrap?.kind === 'token' ? bootstrap.token : '';
    given.clock.turn(8 * day);
    for (const bad of [invitation_token, 'invented', token]) {
      await expect(given.identity.register({ ...ada, invitation_token: bad })).rejects.toMatchObject(refused);
    }
    await expect(
      given.identity.register({ ...ada, bootstrap_token: invitation_token }),
    ).rejects.toMatchObject(refused);
  });

  test('says nothing of addresses to whoever has no good token', async () => {
    const given = await testIdentity({ registration: 'invite' });
    await given.identity.register({ ...ada, invitation_token: await invited(given) });
    for (const body of [ada, grace]) {
      const guess = given.identity.register({ ...body, invitation_token: 'invented' });
      await expect(guess).rejects.toMatchObject(refused);
    }
  });

  test('gives the invitation back where the address is taken', async () => {
    const given = await testIdentity({ registration: 'invite' });
    await given.identity.register({ ...ada, invitation_token: await invited(given) });
    const invitation_token = await invited(given);
    const again = given.identity.register({ ...ada, invitation_token });
    await expect(again).rejects.toMatchObject({ code: 'email_taken' });
    await given.identity.register({ ...grace, invitation_token });
  });

  test('refuses a bad token where none is needed', async () => {
    const { identity } = await testIdentity({ registration: 'open' });
    await expect(identity.register({ ...ada, invitation_token: 'invented' })).rejects.toMatchObject(refused);
  });
});

describe('logging in', () => {
  test('takes the address in any spelling', async () => {
    const { identity } = await testIdentity();
    const { user } = await identity.register(ada);
    expect((await identity.login({ email: 'Ada@EXAMPLE.com', password: ada.password })).user).toEqual(user);
  });

  test('answers a wrong password and an unknown address alike', async () => {
    const { identity } = await testIdentity();
    await identity.register(ada);
    for (const body of [
      { ...ada, password: 'wrong' },
      { ...ada, password: grace.password },
      { ...ada, password: ' ' },
      { ...ada, password: 'x'.repeat(1_048_576) },
      grace,
      { ...grace, email: ` ${ada.email}` },
      { ...ada, email: "' or 1=1 --" },
    ]) {
      await expect(identity.login(body)).rejects.toMatchObject(loginFailed);
    }
  });
});

test('a login that was begun with a password does not come to be once there is another', async () => {
  const given = await testIdentity();
  const { identity, store } = given;
  const principal = await identity.authenticate((await identity.register(ada)).access_token);
  const [checked, changed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const remember = async (...known: Parameters<typeof store.loginAddresses.remember>) => {
    checked.resolve();
    await changed.promise;
    await store.loginAddresses.remember(...known);
  };
  const loginAddresses = { ...store.loginAddresses, remember };
  const node = await given.another({ records: { ...store, loginAddresses } });
  const origin = { requestId: 'req_1', address: '192.0.2.7', credential: null };
  const login = node.login(ada, origin).catch((error: unknown) => error);
  await checked.promise;
  await identity.changePassword(principal, {
    current_password: ada.password,
    new_password: grace.password,
  });
  changed.resolve();
  expect(await login).toMatchObject({ code: 'login_failed', message: expect.stringContaining('changed') });
  expect((await store.logins.list(principal, principal.credentialId, {})).data).toHaveLength(1);
});

describe('a refresh token', () => {
  test('gives the next pair of the same login', async () => {
    const { identity } = await testIdentity();
    const first = await identity.register(ada);
    const second = await identity.refresh(first.refresh_token);
    expect(second.refresh_token).toMatch(/^rt_[\w-]{43}$/);
    expect(second.refresh_token).not.toBe(first.refresh_token);
    expect(second.user).toEqual(first.user);
    const [before, after] = await Promise.all([
      identity.authenticate(first.access_token),
      identity.authenticate(second.access_token),
    ]);
    expect(after.credentialId).toBe(before.credentialId);
  });

  test('that comes a second time ends its login, and no other', async () => {
    const { identity } = await testIdentity();
    const stolen = await identity.register(ada);
    const elsewhere = await identity.login(ada);
    const next = await identity.refresh(stolen.refresh_token);
    await expect(identity.refresh(stolen.refresh_token)).rejects.toMatchObject(notRefreshed);
    await expect(identity.refresh(next.refresh_token)).rejects.toMatchObject(notRefreshed);
    for (const pair of [stolen, next]) {
      await expect(identity.authenticate(pair.access_token)).rejects.toMatchObject(invalid);
    }
    await identity.authenticate(elsewhere.access_token);
    await identity.refresh(elsewhere.refresh_token);
  });

  test('is as good as before where the database went away before its login was given the next', async () => {
    const { identity, store } = await testIdentity();
    const { refresh_token } = await identity.register(ada);
    const away = new Problem('database_unavailable', 'The database is away.');
    vi.spyOn(store.principals, 'byLogin').mockRejectedValueOnce(away);
    await expect(identity.refresh(refresh_token)).rejects.toBe(away);
    const next = await identity.refresh(refresh_token);
    await identity.authenticate(next.access_token);
  });

  test('has one winner at the most in a race, and the race ends the login', async () => {
    const { identity, another } = await testIdentity();
    const nodes = [identity, await another()];
    const { refresh_token, access_token } = await identity.register(ada);
    const codes = await outcomes(Array.from({ length: 20 }, (_, n) => nodes[n % 2]?.refresh(refresh_token)));
    expect(codes.filter((code) => code === 'ok').length).toBeLessThanOrEqual(1);
    expect(codes.filter((code) => code === 'refresh_token_invalid').length).toBeGreaterThanOrEqual(19);
    await expect(identity.authenticate(access_token)).rejects.toMatchObject(invalid);
  });

  test('is good for thirty days', async () => {
    const { identity, clock } = await testIdentity();
    const first = await identity.register(ada);
    clock.turn(29 * day);
    const second = await identity.refresh(first.refresh_token);
    await identity.authenticate(second.access_token);
    clock.turn(day + 1000);
    await expect(identity.refresh(second.refresh_token)).rejects.toMatchObject(notRefreshed);
  });

  test.each(['', 'rt_', 'rt_unknown', 'x'.repeat(500)])('that reads %j is refused', async (token) => {
    const { identity } = await testIdentity();
    await expect(identity.refresh(token)).rejects.toMatchObject(notRefreshed);
  });

  test('cannot be an access token', async () => {
    const { identity } = await testIdentity();
    const { access_token } = await identity.register(ada);
    await expect(identity.refresh(access_token)).rejects.toMatchObject(notRefreshed);
    await identity.authenticate(access_token);
  });
});

describe('logging out', () => {
  test('ends this login at once, and open streams learn of it', async () => {
    const { identity } = await testIdentity();
    const here = await identity.register(ada);
    const there = await identity.login(ada);
    const principal = await identity.authenticate(here.access_token);
    expect(await identity.stillValid([principal])).toEqual([true]);
    await identity.logout(principal, false);
    expect(await identity.stillValid([principal])).toEqual([false]);
    await expect(identity.authenticate(here.access_token)).rejects.toMatchObject(invalid);
    await expect(identity.refresh(here.refresh_token)).rejects.toMatchObject(notRefreshed);
    await identity.authenticate(there.access_token);
  });

  test('everywhere ends every login of the account, and of nobody else', async () => {
    const { identity } = await testIdentity();
    const here = await identity.register(ada);
    const there = await identity.login(ada);
    const other = await identity.register(grace);
    await identity.logout(await identity.authenticate(here.access_token), true);
    await expect(identity.authenticate(there.access_token)).rejects.toMatchObject(invalid);
    await expect(identity.refresh(there.refresh_token)).rejects.toMatchObject(notRefreshed);
    await identity.authenticate(other.access_token);
  });
});

test('an access token that merely expired leaves an open stream alone', async () => {
  const { identity, clock } = await testIdentity();
  const { access_token } = await identity.register(ada);
  const principal = await identity.authenticate(access_token);
  clock.turn(16 * 60_000);
  await expect(identity.authenticate(access_token)).rejects.toMatchObject({ code: 'credential_expired' });
  expect(await identity.stillValid([principal])).toEqual([true]);
});

test('a right that was lost since ends an open stream', async () => {
  const { identity } = await testIdentity();
  const principal = await identity.authenticate((await identity.register(ada)).access_token);
  const [membership] = principal.memberships;
  if (!membership) throw new Error('Ada has no organization.');
  const elsewhere = { ...membership, organizationId: 'org_01k9w6r3h2e7xv5q0c8m4b1tza' };
  expect(await identity.stillValid([{ ...principal, operator: true }])).toEqual([false]);
  expect(await identity.stillValid([{ ...principal, memberships: [membership, elsewhere] }])).toEqual([
    false,
  ]);
  const raised = { ...principal, memberships: [{ ...membership, role: 'admin' as const }] };
  expect(await identity.stillValid([raised, { ...principal, operator: true }])).toEqual([true, false]);
  expect(await identity.stillValid([{ ...principal, memberships: [] }])).toEqual([true]);
});

async function invited({ store, clock }: TestIdentity): Promise<string> {
  const token = `inv_${Math.random()}`;
  const expiresAt = new Date(clock.now().getTime() + 7 * day);
  await store.invitations.add({ kind: 'invitation', hash: hashOf(token), expiresAt });
  return token;
}

/** The code of each outcome, the good ones first. */
async function outcomes(calls: readonly (Promise<unknown> | undefined)[]): Promise<string[]> {
  const results = await Promise.allSettled(calls);
  return results
    .map((result) => (result.status === 'fulfilled' ? 'ok' : String(result.reason.code)))
    .toSorted((a, b) => Number(b === 'ok') - Number(a === 'ok'));
}

/** What all threads of this process have computed meanwhile, so that others on the machine do not count. */
async function processorSeconds(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000_000;
}
