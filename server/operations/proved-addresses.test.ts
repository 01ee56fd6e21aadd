/** Accounts that somebody made in another's name, once the owner of the address has come. */
import { TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Account, coded, type RequestOptions, type TestApp, testApp } from '../test-app.ts';
import { type Mailbox, startMailbox } from '../test-mailbox.ts';
import { homeOf } from '../test-people.ts';

let mailbox: Mailbox;
let app: TestApp;

beforeAll(async () => {
  mailbox = await startMailbox();
  const settings = {
    smtpUrl: mailbox.url,
    mailFrom: 'S <s@example.com>',
    publicUrl: 'https://s.example.com',
  };
  app = await testApp({ settings });
});
afterAll(async () => {
  await app.close();
  await mailbox.close();
});

const password = 'chosen by the owner of the address';
const post = (path: string, body: unknown, options: RequestOptions = {}) =>
  app.request('POST', `/api/v1/auth/${path}`, { body, ...options });
const keyOf = async (token: string): Promise<string> =>
  (await post('api-keys', { name: 'k' }, { token })).body.key;
const statusOf = async (token: string) => (await app.request('GET', '/api/v1/users/me', { token })).status;

async function switchOnSecondFactor(account: Account): Promise<void> {
  const { body } = await post('mfa/enroll', { password: account.password }, { token: account.token });
  const code = new TOTP({ secret: body.secret }).generate();
  expect((await post('mfa/confirm', { code }, { token: account.token })).status).toBe(200);
  await mailbox.next(account.email);
}

async function resetByMail(email: string): Promise<string> {
  await post('password/forgot', { email });
  const [, token] = /#token=(pr_\S+)/.exec((await mailbox.next(email)).text) ?? [];
  expect((await post('password/reset', { token, password })).status).toBe(204);
  return (await mailbox.next(email)).text;
}

test('the first mailed link takes a second factor that a stranger had switched on, a later one nobody’s', async () => {
  const squatter = await app.register('victim');
  await switchOnSecondFactor(squatter);
  const login = () => post('login', { email: squatter.email, password });
  expect(await resetByMail(squatter.email)).toContain(
    'API keys, provider logins and second factor of the account were removed',
  );
  const { status, body } = await login();
  expect(status).toBe(200);
  await switchOnSecondFactor({ ...squatter, password, token: body.access_token });
  expect(await resetByMail(squatter.email)).not.toContain('removed');
  expect(coded(await login())).toEqual([401, 'otp_required']);
});

test('a mailed invitation takes what a stranger has in the account of whoever accepts it, and says so', async () => {
  const boss = await app.register('boss');
  const squatter = await app.register('carol');
  const key = await keyOf(squatter.token);
  const link = await post('password/links', { email: squatter.email }, { token: app.operatorKey });
  await post('password/reset', { token: link.body.token, password });
  await mailbox.next(squatter.email);
  const owner = (await post('login', { email: squatter.email, password })).body.access_token;
  const other = (await post('login', { email: squatter.email, password })).body.access_token;
  const { organizationId } = await homeOf(app, boss);
  const invited = { token: boss.token, body: { email: squatter.email, role: 'admin' } };
  await app.request('POST', `/api/v1/organizations/${organizationId}/invitations`, invited);
  const [, token = ''] = /#token=(inv_[\w-]+)&/.exec((await mailbox.next(squatter.email)).text) ?? [];
  expect(await statusOf(key)).toBe(200);
  const accepted = await app.request('POST', '/api/v1/invitations/accept', { token: owner, body: { token } });
  expect(accepted.status).toBe(200);
  expect(await Promise.all([owner, other, key].map(statusOf))).toEqual([200, 401, 401]);
  expect((await mailbox.next(squatter.email)).text).toContain('You accepted an invitation, and the API keys');
  // From now on the keys are those of the owner.
  const own = await keyOf(owner);
  expect(await resetByMail(squatter.email)).not.toContain('removed');
  expect(await statusOf(own)).toBe(200);
});

test.each([
  ['keeps the second factor that the login had to pass', true],
  ['takes the one that was switched on after the login', false],
] as const)('a mailed invitation %s', async (_title, passes) => {
  const name = passes ? 'passing' : 'waiting';
  const boss = await app.register(`boss-of-${name}`);
  const account = await app.register(name);
  const login = (otp?: string) =>
    post('login', { email: account.email, password: account.password, ...(otp && { otp }) });
  const before = passes ? undefined : (await login()).body.access_token;
  const { body: enrolled } = await post(
    'mfa/enroll',
    { password: account.password },
    { token: account.token },
  );
  const totp = new TOTP({ secret: enrolled.secret });
  const at = Date.now();
  await post('mfa/confirm', { code: totp.generate({ timestamp: at }) }, { token: account.token });
  await mailbox.next(account.email);
  const accepting = before ?? (await login(totp.generate({ timestamp: at + 30_000 }))).body.access_token;
  const { organizationId } = await homeOf(app, boss);
  const invited = { token: boss.token, body: { email: account.email, role: 'member' } };
  await app.request('POST', `/api/v1/organizations/${organizationId}/invitations`, invited);
  const [, token = ''] = /#token=(inv_[\w-]+)&/.exec((await mailbox.next(account.email)).text) ?? [];
  await app.request('POST', '/api/v1/invitations/accept', { token: accepting, body: { token } });
  expect(coded(await login())).toEqual(passes ? [401, 'otp_required'] : [200, null]);
});
