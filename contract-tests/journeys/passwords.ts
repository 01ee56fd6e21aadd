/** Journeys of somebody who forgot a password, changes it, and adds a second factor. */
import { expect, test } from 'vitest';
import { codeNow } from '../one-time-code.ts';
import { expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

export function passwordJourneys(target: () => Target): void {
  test('a login page learns who may register and how one logs in', async () => {
    const { visitor, liveOnly } = target();
    const { data: config } = await visitor.GET('/api/v1/auth/config');
    expectShape('AuthConfig', config);
    await liveOnly(() => expect(config).toMatchObject({ password: true, password_reset: 'operator' }));
  });

  test('a forgotten password is replaced with a link, once', async () => {
    const { visitor, operator, clientWith, liveOnly } = target();
    const account = newAccount();
    const { email } = account;
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: account });
    const asked = await visitor.POST('/api/v1/auth/password/forgot', { body: { email } });
    expect(asked.response.status).toBe(202);
    expectShape('PasswordResetRequested', asked.data);

    const { data: link } = await operator.POST('/api/v1/auth/password/links', { body: { email } });
    expectShape('PasswordResetLink', link);
    const { data: page } = await visitor.GET('/reset-password', { parseAs: 'text' });
    expect(page).toContain('<!doctype html>');
    const body = { token: link.token, password: 'another-horse-battery' };
    const done = await visitor.POST('/api/v1/auth/password/reset', { body });
    expect(done.response.status).toBe(204);
    const again = await refusal(visitor.POST('/api/v1/auth/password/reset', { body, ...preferring(410) }));
    expect(again).toMatchObject({ status: 410, code: 'reset_link_expired' });
    await liveOnly(async () => {
      const robbed = clientWith(pair.access_token);
      expect(await refusal(robbed.GET('/api/v1/users/me'))).toMatchObject({ status: 401 });
      await visitor.POST('/api/v1/auth/login', { body: { email, password: body.password } });
    });
  });

  test('a password is changed by who knows it, and the login goes on', async () => {
    const { visitor, clientWith, liveOnly } = target();
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
    const client = clientWith(pair.access_token);
    const body = { current_password: 'correct-horse-battery', new_password: 'another-horse-battery' };
    const path = '/api/v1/auth/password/change';
    expect((await client.POST(path, { body })).response.status).toBe(204);
    await liveOnly(async () => {
      await client.GET('/api/v1/users/me');
    });
    const wrong = await refusal(client.POST(path, { body, ...preferring(403) }));
    expect(wrong).toMatchObject({ status: 403, code: 'password_wrong' });
  });

  test('a second factor is enrolled, confirmed, asked for and switched off', async () => {
    const { visitor, clientWith, liveOnly } = target();
    const account = newAccount();
    const { email, password } = account;
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: account });
    const client = clientWith(pair.access_token);
    const { data: enrolled } = await client.POST('/api/v1/auth/mfa/enroll', { body: { password } });
    expectShape('MfaEnrolled', enrolled);
    const body = { code: codeNow(enrolled.secret) };
    const { data: confirmed } = await client.POST('/api/v1/auth/mfa/confirm', { body });
    expectShape('MfaConfirmed', confirmed);
    const { data: state } = await client.GET('/api/v1/auth/mfa');
    expectShape('Mfa', state);
    await liveOnly(() => expect(state).toMatchObject({ status: 'on', recovery_codes_left: 10 }));
    const [first = '', second = ''] = confirmed.recovery_codes;
    await liveOnly(async () => {
      const without = visitor.POST('/api/v1/auth/login', { body: { email, password } });
      expect(await refusal(without)).toMatchObject({ status: 401, code: 'otp_required' });
    });
    await visitor.POST('/api/v1/auth/login', { body: { email, password, otp: first } });

    const params = { header: { 'x-service-otp': second } };
    expect((await client.DELETE('/api/v1/auth/mfa', { params })).response.status).toBe(204);
    const off = await refusal(client.DELETE('/api/v1/auth/mfa', { params, ...preferring(409) }));
    expect(off).toMatchObject({ status: 409, code: 'mfa_conflict' });
    await liveOnly(async () => {
      await visitor.POST('/api/v1/auth/login', { body: { email, password } });
    });
  });
}
