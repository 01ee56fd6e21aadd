/** The brake on guessing passwords: whom it stops, and whom it never keeps out. */
import { describe, expect, test } from 'vitest';
import { Problem } from '../problem.ts';
import { ada, grace, testIdentity } from './test-identity.ts';

const tooMany = { code: 'too_many_attempts', status: 429 };
const failed = { code: 'login_failed', status: 401 };
const home = '198.51.100.7';

const from = (address: string | null) => ({ requestId: 'req_1', address, credential: null });
const outcome = (work: Promise<unknown>) =>
  work.then(
    () => 'in',
    (error: { code: string }) => error.code,
  );

/** Ada has registered from home. Few attempts make quick tests. */
async function begin(loginAttempts = 3) {
  const opened = await testIdentity({ loginAttempts });
  await opened.identity.register(ada, from(home));
  const wrong = (address: string | null, email = ada.email) =>
    outcome(opened.identity.login({ email, password: 'a wrong password' }, from(address)));
  const right = (address: string | null) => outcome(opened.identity.login(ada, from(address)));
  return { ...opened, wrong, right };
}

describe('one address and one account', () => {
  test('has so many attempts, then has to wait, also with the right password', async () => {
    const { wrong, right, identity } = await begin();
    for (const _ of [1, 2, 3]) expect(await wrong('203.0.113.1')).toBe('login_failed');
    expect(await wrong('203.0.113.1')).toBe('too_many_attempts');
    expect(await right('203.0.113.1')).toBe('too_many_attempts');
    const refused = identity.login(ada, from('203.0.113.1'));
    await expect(refused).rejects.toMatchObject({
      ...tooMany,
      headers: { 'Retry-After': expect.stringMatching(/^([1-9]|[1-9]\d|[1-8]\d\d|900)$/) },
    });
  });

  test('has no more of them where they come at once', async () => {
    const { wrong } = await begin();
    const outcomes = await Promise.all(Array.from({ length: 12 }, () => wrong('203.0.113.1')));
    expect(outcomes.filter((one) => one === 'login_failed')).toHaveLength(3);
    expect(outcomes.filter((one) => one === 'too_many_attempts')).toHaveLength(9);
  });

  test('begins anew after a login', async () => {
    const { wrong, right } = await begin();
    for (const _ of [1, 2, 3]) {
      for (const _ of [1, 2]) expect(await wrong('203.0.113.1')).toBe('login_failed');
      expect(await right('203.0.113.1')).toBe('in');
    }
  });

  test('is all of a network of IPv6, however it is written', async () => {
    const { wrong } = await begin();
    const network = ['2001:db8:0:1::1', '2001:db8:0:1:2:3:4:5', '2001:0DB8::1:ffff:0:0:1'];
    for (const address of network) expect(await wrong(address)).toBe('login_failed');
    expect(await wrong('2001:db8:0:1::ffff')).toBe('too_many_attempts');
    expect(await wrong('2001:db8:0:2::1')).toBe('login_failed');
  });

  test('is refused the same way where there is no such account', async () => {
    const { wrong } = await begin();
    const unknown = [];
    for (let attempt = 0; attempt < 5; attempt += 1)
      unknown.push(await wrong('203.0.113.1', 'nobody@example.com'));
    const existing = [];
    for (let attempt = 0; attempt < 5; attempt += 1) existing.push(await wrong('203.0.113.1'));
    expect(unknown).toEqual(existing);
  });
});

describe('the owner', () => {
  test('is kept out by nobody who fails elsewhere, at home or where nobody has failed', async () => {
    const { wrong, right } = await begin();
    for (let attempt = 0; attempt < 8; attempt += 1) await wrong('203.0.113.1');
    expect(await right(home)).toBe('in');
    expect(await right('192.0.2.1')).toBe('in');
  });

  test('gets in from where they came before while a thousand addresses try, and elsewhere with a new password', async () => {
    const { identity, wrong, right, store } = await begin(1);
    for (let number = 1; number <= 10; number += 1)
      expect(await wrong(`203.0.113.${number}`)).toBe('login_failed');
    expect(await wrong('203.0.113.99')).toBe('too_many_attempts');
    expect(await right('192.0.2.1')).toBe('too_many_attempts');
    expect(await right(home)).toBe('in');
    const operator = await store.principals.operator();
    expect(operator).toBeNull();
    const principal = await identity.authenticate((await identity.login(ada, from(home))).access_token);
    const { token } = await identity.createPasswordResetLink(principal, ada.email);
    await identity.resetPassword({ token, password: grace.password }, from('192.0.2.1'));
    const anew = identity.login({ ...ada, password: grace.password }, from('192.0.2.1'));
    expect(await outcome(anew)).toBe('in');
  });

  test('is known for 90 days from their last login at an address, and not from the first', async () => {
    const { right, clock, store } = await begin();
    const day = 86_400_000;
    for (const days of [50, 50]) {
      clock.turn(days * day);
      expect(await right(home)).toBe('in');
      await store.loginAddresses.prune(new Date(clock.now().getTime() - 90 * day));
      expect(await store.loginAddresses.isKnown(ada.email, home)).toBe(true);
    }
  });

  test('has attempts of their own beside an attacker at another address, when they mistype', async () => {
    const { wrong, right } = await begin();
    for (let attempt = 0; attempt < 8; attempt += 1) await wrong('203.0.113.1');
    for (const _ of [1, 2]) expect(await wrong(home)).toBe('login_failed');
    expect(await right(home)).toBe('in');
  });
});

describe('one address', () => {
  test('has a limit over all accounts together', async () => {
    const { wrong } = await begin(1);
    for (let number = 1; number <= 10; number += 1)
      expect(await wrong('203.0.113.1', `person-${number}@example.com`)).toBe('login_failed');
    expect(await wrong('203.0.113.1', 'person-11@example.com')).toBe('too_many_attempts');
    expect(await wrong('203.0.113.2', 'person-11@example.com')).toBe('login_failed');
  });

  test('counts no login that went well', async () => {
    const { right } = await begin(1);
    for (let attempt = 0; attempt < 12; attempt += 1) expect(await right('203.0.113.1')).toBe('in');
  });

  test('may be unknown', async () => {
    const { wrong } = await begin(1);
    expect(await wrong(null)).toBe('login_failed');
    expect(await wrong(null)).toBe('too_many_attempts');
  });
});

describe('what the server cannot do just now', () => {
  /** A server whose database is away for whoever asks for an account, a password or a link. */
  async function beginWithout() {
    const opened = await begin(1);
    const { store, another } = opened;
    const away = async () => {
      throw new Problem('database_unavailable', 'The database is away.');
    };
    const without = await another({
      records: {
        ...store,
        users: { ...store.users, findForLogin: away },
        passwords: { ...store.passwords, find: away, isOpen: away },
        invitations: { ...store.invitations, requireOpen: away },
      },
    });
    return { ...opened, without };
  }
  const many = 12;
  const unavailable = Array<string>(many).fill('database_unavailable');
  const manyTimes = async (attempt: () => Promise<unknown>) => {
    const seen: string[] = [];
    for (let turn = 0; turn < many; turn += 1) seen.push(await outcome(attempt()));
    return seen;
  };

  test('is no wrong guess at a login, wherever it comes from', async () => {
    const { without, wrong, right } = await beginWithout();
    for (const address of [home, '203.0.113.1']) {
      expect(await manyTimes(() => without.login(ada, from(address)))).toEqual(unavailable);
      expect(await right(address)).toBe('in');
      expect(await wrong(address)).toBe('login_failed');
      expect(await right(address)).toBe('too_many_attempts');
    }
  });

  test('is none at the password of one’s own, at a link to a new one, or at a token', async () => {
    const { without, identity, right } = await beginWithout();
    const { access_token } = await identity.login(ada, from(home));
    const principal = await identity.authenticate(access_token);
    expect(await manyTimes(() => without.enrollMfa(principal, ada.password))).toEqual(unavailable);
    expect(await outcome(identity.enrollMfa(principal, ada.password))).toBe('in');
    const { token } = await identity.createPasswordResetLink(principal, ada.email);
    const reset = { token, password: ada.password };
    expect(await manyTimes(() => without.resetPassword(reset, from(home)))).toEqual(unavailable);
    expect(await outcome(identity.resetPassword(reset, from(home)))).toBe('in');
    const invited = { ...grace, invitation_token: 'it_1' };
    expect(await manyTimes(() => without.register(invited, from(home)))).toEqual(unavailable);
    expect(await outcome(identity.register(invited, from(home)))).toBe('registration_refused');
    expect(await right(home)).toBe('in');
  });
});

test('no brake brakes nothing', async () => {
  const { identity } = await testIdentity({ loginAttempts: 0 });
  await identity.register(ada, from(home));
  for (let attempt = 0; attempt < 15; attempt += 1)
    await expect(identity.login({ ...ada, password: 'a wrong password' }, from(home))).rejects.toMatchObject(
      failed,
    );
});
