/** Every way to get in, with its secrets: passwords, second factors, mails, devices, an identity provider. */
import { TOTP } from 'otpauth';
import { expect } from 'vitest';
import { Browser } from '../contract-tests/openid/start-openid.ts';
import { ada, admin, confide, given, keep, type Stage, send, tokensOf } from './test-canary-stage.ts';
import type { Mailbox } from './test-mailbox.ts';

const grace = 'grace@example.com';

/** Everything by which people get in, and get in again. */
export async function signIn(stage: Stage): Promise<void> {
  const { secrets, mailbox } = stage;
  let password = secrets.make('the first password of Ada');
  const registered = await confide(stage, ['registerUser', 'password'], { email: ada, password });
  expect(registered.status).toBe(201);
  const { refresh } = tokensOf(stage, registered);
  const renewed = await confide(stage, ['refreshToken', 'refresh_token'], { refresh_token: refresh });
  const { access } = tokensOf(stage, renewed);

  const changed = { current_password: password, new_password: secrets.make('the second password of Ada') };
  const change = ['changePassword', 'current_password', 'new_password'] as const;
  expect((await confide(stage, change, changed, { token: access })).status).toBe(204);
  password = changed.new_password;

  await confide(stage, ['requestPasswordReset'], { email: ada });
  const token = secrets.add('the token of a mail', await mailed(mailbox, ada, /#token=(\S+)/));
  const reset = { token, password: secrets.make('the third password of Ada') };
  expect((await confide(stage, ['resetPassword', 'token', 'password'], reset)).status).toBe(204);
  password = reset.password;

  await secondFactor(stage, password);
  await asOperator(stage);
}

/** What a mail to this address says, whichever others there are. */
async function mailed(mailbox: Mailbox, address: string, pattern: RegExp): Promise<string> {
  for (;;) {
    const [, found] = pattern.exec((await mailbox.next(address)).text) ?? [];
    if (found !== undefined) return found;
  }
}

async function secondFactor(stage: Stage, password: string): Promise<void> {
  const login = await confide(stage, ['login', 'password'], { email: ada, password });
  const { access: token } = tokensOf(stage, login);
  const enrolled = await confide(stage, ['enrollMfa', 'password'], { password }, { token });
  const secret = given(stage, enrolled, 'the secret of the second factor', enrolled.body.secret);
  // Six digits stand in any dump by chance: they are sent, and not looked for.
  const code = new TOTP({ secret }).generate();
  const confirmed = await confide(stage, ['confirmMfa', 'code'], { code }, { token });
  expect(confirmed.status).toBe(200);
  const codes: string[] = confirmed.body.recovery_codes;
  for (const [index, one] of codes.entries()) given(stage, confirmed, `recovery code ${index}`, one);
  const again = await confide(stage, ['login', 'otp'], { email: ada, password, otp: codes[0] });
  expect(again.status).toBe(200);
  tokensOf(stage, again);
  const headers = { 'x-service-otp': codes[1] ?? '' };
  expect((await confide(stage, ['disableMfa', 'x-service-otp'], {}, { token, headers })).status).toBe(204);
}

/** What an operator hands on: keys, invitations, links, devices. */
async function asOperator(stage: Stage): Promise<void> {
  const { secrets, mailbox, variables } = stage;
  const password = variables.SERVICE_ADMIN_PASSWORD;
  const { access: token } = tokensOf(stage, await confide(stage, ['login'], { email: admin, password }));
  const me = await send(stage, 'GET', '/api/v1/users/me', { token });
  const invitations = `/api/v1/organizations/${me.body.memberships[0].organization_id}/invitations`;

  await send(stage, 'POST', invitations, { token, body: { email: grace } });
  const toGrace = secrets.add('an invitation', await mailed(mailbox, grace, /(inv_[\w-]+)/));
  const newcomer = {
    email: grace,
    password: secrets.make('the password of Grace'),
    invitation_token: toGrace,
  };
  const joined = await confide(stage, ['registerUser', 'invitation_token'], newcomer);
  expect(joined.status).toBe(201);
  tokensOf(stage, joined);

  const edna = { email: 'edna@example.com', password: secrets.make('the password of Edna') };
  const { access: ofEdna } = tokensOf(stage, await confide(stage, ['registerUser'], edna));
  await send(stage, 'POST', invitations, { token, body: { email: edna.email } });
  const toEdna = secrets.add('another invitation', await mailed(mailbox, edna.email, /(inv_[\w-]+)/));
  expect(
    (await confide(stage, ['acceptInvitation', 'token'], { token: toEdna }, { token: ofEdna })).status,
  ).toBe(200);

  const link = await send(stage, 'POST', '/api/v1/auth/password/links', { token, body: { email: grace } });
  given(stage, link, 'the token of a link', link.body.token);

  const started = await send(stage, 'POST', '/api/v1/auth/device/code', {
    body: { client_name: 'a device' },
  });
  const device = { device_code: given(stage, started, 'a device code', started.body.device_code) };
  const reply = { user_code: started.body.user_code, decision: 'allow' };
  expect((await send(stage, 'POST', '/api/v1/auth/device/reply', { token, body: reply })).status).toBe(204);
  const polled = await confide(stage, ['pollDeviceLogin', 'device_code'], device);
  expect(polled.status).toBe(200);
  tokensOf(stage, polled);
}

/** There and back through the identity provider. */
export async function throughProvider(stage: Stage): Promise<void> {
  const { secrets, server, openid, publicUrl } = stage;
  const browser = new Browser();
  await openid.person({ sub: 'hopper', email: 'hopper@corp.example', email_verified: true, name: 'Hopper' });
  const begun = await keep(
    stage,
    'GET authorize',
    await browser.visit(`${server.url}/api/v1/auth/oidc/corp/authorize`),
  );
  const page = begun.headers.get('location') ?? '';
  const cookie = browser.cookiesFor(server.url).get('service_oidc') ?? '';
  given(stage, begun, 'the cookie of the login', cookie);
  given(stage, begun, 'the state of the login', new URL(page).searchParams.get('state') ?? '');
  const callback = await browser.follow(page, ({ pathname }) => pathname.endsWith('/callback'));
  secrets.add('the code of the provider', callback.searchParams.get('code') ?? '');
  const back = await keep(
    stage,
    'GET callback',
    await browser.visit(callback.href.replace(publicUrl, server.url)),
  );
  const fragment = (back.headers.get('location') ?? '').split('#')[1];
  const login_code = given(
    stage,
    back,
    'the login code',
    new URLSearchParams(fragment).get('login_code') ?? '',
  );
  // The cookie is given back to be forgotten, or still stands.
  back.told.gives.add('the cookie of the login');
  const response = await browser.visit(`${server.url}/api/v1/auth/oidc/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ login_code }),
  });
  const redeemed = await keep(stage, 'POST token', response);
  expect(redeemed.status).toBe(200);
  tokensOf(stage, redeemed);
  for (const name of ['state', 'code', 'service_oidc']) stage.sent.add(`completeOidcLogin ${name}`);
  for (const name of ['login_code', 'service_oidc']) stage.sent.add(`redeemLoginCode ${name}`);
}
