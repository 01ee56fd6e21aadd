/** Second factors: whose code is good, when, how often, and what the database knows of it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import knex from 'knex';
import { TOTP } from 'otpauth';
import { describe, expect, test } from 'vitest';
import { createLog } from '../log.ts';
import { ada, grace, testIdentity } from './test-identity.ts';

const step = 30_000;
const required = { code: 'otp_required', status: 401 };
const invalid = { code: 'otp_invalid', status: 403 };

/** Ada with a second factor. Its code for so many steps from now. */
async function enrolled() {
  const test = await testIdentity();
  const { identity, clock } = test;
  const { access_token } = await identity.register(ada);
  const principal = await identity.authenticate(access_token);
  const { secret, otpauth_uri } = await identity.enrollMfa(principal, ada.password);
  const code = (steps = 0) =>
    new TOTP({ secret }).generate({ timestamp: clock.now().getTime() + steps * step });
  const { recovery_codes } = await identity.confirmMfa(principal, code());
  // What was taken at the confirmation lies behind.
  clock.turn(2 * step);
  const login = (otp?: string) => identity.login(otp === undefined ? ada : { ...ada, otp });
  return { ...test, principal, secret, otpauth_uri, code, codes: recovery_codes, login };
}

describe('a code', () => {
  test('is asked for once the first was confirmed, and not before', async () => {
    const { identity, clock } = await testIdentity();
    const principal = await identity.authenticate((await identity.register(ada)).access_token);
    expect(await identity.mfa(principal)).toMatchObject({ status: 'off', recovery_codes_left: 0 });
    const { secret } = await identity.enrollMfa(principal, ada.password);
    expect(await identity.mfa(principal)).toMatchObject({ status: 'pending', confirmed_at: null });
    await identity.login(ada);
    await expect(identity.confirmMfa(principal, '000000')).rejects.toMatchObject(invalid);
    const code = new TOTP({ secret }).generate({ timestamp: clock.now().getTime() });
    const { recovery_codes } = await identity.confirmMfa(principal, code);
    expect(new Set(recovery_codes).size).toBe(10);
    expect(await identity.mfa(principal)).toMatchObject({ status: 'on', recovery_codes_left: 10 });
    await expect(identity.login(ada)).rejects.toMatchObject(required);
  });

  test('is that of the time that it is, also on a server that started while its clock was ahead', async () => {
    const { another, clock } = await testIdentity();
    const warnings: string[] = [];
    const warn = (_about: unknown, message: string) => void warnings.push(message);
    clock.turn(300_000);
    const node = await another({ log: Object.assign(createLog('silent'), { warn }) });
    clock.turn(-300_000);
    const principal = await node.authenticate((await node.register(ada)).access_token);
    const { secret } = await node.enrollMfa(principal, ada.password);
    const code = () => new TOTP({ secret }).generate({ timestamp: clock.now().getTime() });
    await node.confirmMfa(principal, code());
    await expect(node.login({ ...ada, otp: code() })).rejects.toMatchObject(required);
    clock.turn(step);
    await node.login({ ...ada, otp: code() });
    expect(warnings).toEqual([expect.stringContaining('was set back')]);
  });

  test('is good once, also where two come at once and in another process', async () => {
    const { login, code, another } = await enrolled();
    const elsewhere = await another();
    const otp = code();
    const outcomes = await Promise.allSettled([login(otp), login(otp), elsewhere.login({ ...ada, otp })]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected']);
    await expect(login(otp)).rejects.toMatchObject(required);
  });

  test('of the step before or after is good, one of two steps away is not', async () => {
    const { login, code, clock } = await enrolled();
    await expect(login(code(-2))).rejects.toMatchObject(required);
    await expect(login(code(2))).rejects.toMatchObject(required);
    await login(code(-1));
    await login(code(1));
    // The step that is now lies before the last that was taken.
    await expect(login(code())).rejects.toMatchObject(required);
    clock.turn(2 * step);
    await login(code());
  });

  test('is of no use without the password, and says nothing about it', async () => {
    const { identity, code } = await enrolled();
    const wrong = identity.login({ ...ada, password: 'a wrong password', otp: code() });
    await expect(wrong).rejects.toMatchObject({ code: 'login_failed' });
    await identity.login({ ...ada, otp: code() });
  });

  test('cannot be guessed: after ten the next have to wait, and the owner has other ways in', async () => {
    const { login, code, codes } = await enrolled();
    for (let guess = 0; guess < 10; guess += 1)
      await expect(login(String(guess).padStart(6, '7'))).rejects.toMatchObject(required);
    await expect(login(code())).rejects.toMatchObject({ code: 'too_many_attempts', status: 429 });
    await login(codes[0]);
  });

  test('stands in the address of the app as the standard has it', async () => {
    const { otpauth_uri, secret } = await enrolled();
    const url = new URL(otpauth_uri);
    expect(decodeURIComponent(url.pathname)).toContain('service:ada@example.com');
    expect(Object.fromEntries(url.searchParams)).toMatchObject({ secret, digits: '6', period: '30' });
  });
});

describe('a recovery code', () => {
  test('is good once, however it is typed, and for its owner', async () => {
    const { identity, login, codes, principal } = await enrolled();
    const [first = '', second = ''] = codes;
    await login(first.toUpperCase().replaceAll('-', ' '));
    await expect(login(first)).rejects.toMatchObject(required);
    await login(second.replaceAll('-', '').replaceAll('0', 'O').replaceAll('1', 'l'));
    await expect(login('0000-0000-0000-0000')).rejects.toMatchObject(required);
    expect(await identity.mfa(principal)).toMatchObject({ recovery_codes_left: 8 });
  });
});

describe('switching it off', () => {
  test('takes a code or a recovery code, and a login asks for none then', async () => {
    const { identity, principal, login, codes } = await enrolled();
    await expect(identity.disableMfa(principal, '123456')).rejects.toMatchObject(invalid);
    await expect(identity.enrollMfa(principal, ada.password)).rejects.toMatchObject({ code: 'mfa_conflict' });
    await identity.disableMfa(principal, codes[0] ?? '');
    await login();
    await expect(identity.disableMfa(principal, codes[1] ?? '')).rejects.toMatchObject({
      code: 'mfa_conflict',
    });
    expect(await identity.mfa(principal)).toMatchObject({ status: 'off', recovery_codes_left: 0 });
  });

  test('is not what a new password does', async () => {
    const { identity, principal, login } = await enrolled();
    const { token } = await identity.createPasswordResetLink(principal, ada.email);
    await identity.resetPassword(
      { token, password: grace.password },
      { requestId: 'req_1', address: null, credential: null },
    );
    await expect(login()).rejects.toMatchObject({ code: 'login_failed' });
    await expect(identity.login({ ...ada, password: grace.password })).rejects.toMatchObject(required);
  });
});

describe('the database', () => {
  test('holds neither the secret nor a recovery code', async () => {
    const { secret, codes, folder } = await enrolled();
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'latin1'));
    expect(files.join().length).toBeGreaterThan(10_000);
    for (const text of [secret, ...codes, ...codes.map((code) => code.replaceAll('-', ''))])
      expect(files.join()).not.toContain(text);
  });

  test('binds the secret to its person: in another row it opens nothing', async () => {
    const { identity, folder, principal, code } = await enrolled();
    const mallory = await identity.authenticate((await identity.register(grace)).access_token);
    const sql = knex({
      client: 'sqlite3',
      connection: { filename: join(folder, 'service.db') },
      useNullAsDefault: true,
    });
    await sql('second_factors').where({ user_id: principal.userId }).update({ user_id: mallory.userId });
    await sql.destroy();
    const otp = code();
    await expect(identity.login({ ...grace, otp })).rejects.toThrow(/belongs to another row/);
  });
});
