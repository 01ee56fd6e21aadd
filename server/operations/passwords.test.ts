/** Forgotten and changed passwords and the second factor over HTTP: anonymous, stranger, wrong input, happy. */
import { createHash } from 'node:crypto';
import { TOTP } from 'otpauth';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type Answer, coded, type RequestOptions, type TestApp, testApp } from '../test-app.ts';
import { type Mailbox, startMailbox } from '../test-mailbox.ts';

const publicUrl = 'https://service.example.com';
const mailFrom = 'Service <service@example.com>';
const step = 30_000;

let mailbox: Mailbox;
let ahead = 0;
const clock = { now: () => new Date(Date.now() + ahead) };
const log: string[] = [];
/** With a mail server, behind a proxy on this machine. */
let app: TestApp;
/** Without either. */
let plain: TestApp;

beforeAll(async () => {
  mailbox = await startMailbox();
  const settings = { smtpUrl: mailbox.url, mailFrom, publicUrl, trustedProxies: ['loopback'] };
  app = await testApp({ settings, clock, log: pino({}, { write: (line: string) => log.push(line) }) });
  plain = await testApp({ clock, log: pino({}, { write: (line: string) => log.push(line) }) });
});

afterAll(async () => {
  await Promise.all([app.close(), plain.close()]);
  await mailbox.close();
});

const post = (path: string, body: unknown, options: RequestOptions = {}, on = app) =>
  on.request('POST', `/api/v1/auth/${path}`, { body, ...options });
const through = (address: string) => ({ headers: { 'x-forwarded-for': address } });

const statusOf = async (token: string, on = app) =>
  (await on.request('GET', '/api/v1/users/me', { token })).status;

/** Every test has people of its own: nothing that one does waits for another. */
let people = 0;
function newcomer(on = app): Promise<Account> {
  people += 1;
  return on.register(`person-${people}`);
}

/** A new API key of somebody who logs in for it. */
async function keyOf({
  email,
  password,
}: {
  readonly email: string;
  readonly password: string;
}): Promise<string> {
  const { body: pair } = await post('login', { email, password });
  return (await post('api-keys', { name: 'k' }, { token: pair.access_token })).body.key;
}

/** Sets a new password with a link of a mail; answers with the mail that says so. */
async function resetByMail(email: string): Promise<string> {
  await post('password/forgot', { email });
  const token = tokenIn((await mailbox.next(email)).text);
  const password = 'an entirely new password';
  expect((await post('password/reset', { token, password })).status).toBe(204);
  return (await mailbox.next(email)).text;
}

const tokenIn = (text: string) => /\/reset-password#token=(\S+)/.exec(text)?.[1] ?? '';

describe('how one gets in', () => {
  test('is told to anybody', async () => {
    const known = await app.request('GET', '/api/v1/auth/config');
    expect(known.body).toEqual({
      registration: 'open',
      password: true,
      password_reset: 'mail',
      mfa: ['totp'],
      providers: [],
    });
    const other = await plain.request('GET', '/api/v1/auth/config');
    expect(other.body.password_reset).toBe('operator');
  });
});

describe('a forgotten password', () => {
  test('is replaced with the link of a mail, once, and every login ends', async () => {
    const { email, token, refreshToken } = await newcomer();
    const asked = await post('password/forgot', { email: email.toUpperCase() });
    expect(asked).toMatchObject({ status: 202, body: { link_from: 'mail', expires_in: 3600 } });
    const mail = await mailbox.next(email);
    expect(mail).toMatchObject({ to: [email], from: 'service@example.com' });
    expect(mail.text).toContain(`${publicUrl}/reset-password#token=pr_`);
    const change = { token: tokenIn(mail.text), password: 'an entirely new password' };
    expect((await post('password/reset', change)).status).toBe(204);
    expect(await statusOf(token)).toBe(401);
    expect((await post('refresh', { refresh_token: refreshToken })).status).toBe(401);
    expect((await post('login', { email, password: change.password })).status).toBe(200);
    expect(coded(await post('password/reset', change))).toEqual([410, 'reset_link_expired']);
    expect((await mailbox.next(email)).text).toContain('Your password was changed');
  });

  test('gets the same answer where there is no account, and nobody gets a mail', async () => {
    const { email } = await newcomer();
    const before = mailbox.mails.length;
    const unknown = await post('password/forgot', { email: 'nobody@example.com' });
    const known = await post('password/forgot', { email });
    expect([unknown.status, unknown.body]).toEqual([known.status, known.body]);
    await mailbox.next(email);
    expect(mailbox.mails.slice(before).flatMap(({ to }) => to)).toEqual([email]);
  });

  test('is answered before the mail server has said a word', async () => {
    const release = Promise.withResolvers<void>();
    const silent = await startMailbox({
      onConnect: (_session, done) => void release.promise.then(() => done()),
    });
    const slow = await testApp({ settings: { smtpUrl: silent.url, mailFrom, publicUrl } });
    const { email } = await slow.register('ada');
    const asked = await post('password/forgot', { email }, {}, slow);
    expect([asked.status, silent.mails.length]).toEqual([202, 0]);
    release.resolve();
    expect((await silent.next(email)).text).toContain('#token=');
    await slow.close();
    await silent.close();
  });

  test('brings nobody more than three mails an hour, and says no other thing', async () => {
    const { email } = await newcomer();
    const statuses = [];
    for (let time = 0; time < 6; time += 1)
      statuses.push((await post('password/forgot', { email }, through('203.0.113.77'))).status);
    expect(statuses).toEqual(Array<number>(6).fill(202));
    const later = await newcomer();
    await post('password/forgot', { email: later.email });
    await mailbox.next(later.email);
    await app.services.identity.settled();
    expect(mailbox.mails.filter(({ to }) => to.includes(email))).toHaveLength(3);
  });

  test('cannot be asked for without end from one address', async () => {
    const answers = [];
    for (let time = 0; time < 22; time += 1)
      answers.push(await post('password/forgot', { email: `p${time}@example.com` }, through('203.0.113.78')));
    expect(answers.slice(0, 20).every(({ status }) => status === 202)).toBe(true);
    expect(answers.slice(20).map(coded)).toEqual(Array(2).fill([429, 'too_many_attempts']));
    expect(Number(answers[21]?.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('of an account that somebody made in another’s name: the first mail takes their keys, a later one nobody’s', async () => {
    const mallory = await newcomer();
    const victim = { email: `victim-${people}@corp.example`, password: 'chosen by mallory' };
    const body = { email: victim.email, name: 'Victim', send_invite: false };
    const made = await app.request('POST', '/api/v1/users', { token: mallory.token, body });
    const { token } = made.body.password_link;
    expect((await post('password/reset', { token, password: victim.password })).status).toBe(204);
    await mailbox.next(victim.email);
    const key = await keyOf(victim);
    expect(await statusOf(key)).toBe(200);

    expect(await resetByMail(victim.email)).toContain(
      'API keys, provider logins and second factor of the account were removed',
    );
    expect(await statusOf(key)).toBe(401);
    const own = await keyOf({ email: victim.email, password: 'an entirely new password' });
    expect(await resetByMail(victim.email)).not.toContain('removed');
    expect(await statusOf(own)).toBe(200);
  });

  test('takes no keys of who came by a mailed invitation', async () => {
    const owner = await newcomer();
    const email = `invited-${people}@corp.example`;
    const { body: me } = await app.request('GET', '/api/v1/users/me', owner);
    const target = `/api/v1/organizations/${me.memberships[0].organization_id}/invitations`;
    await app.request('POST', target, { token: owner.token, body: { email } });
    const [, invitation_token] = /#token=(inv_[\w-]+)&/.exec((await mailbox.next(email)).text) ?? [];
    const body = { email, password: 'correct-horse-battery', invitation_token };
    expect((await post('register', body)).status).toBe(201);
    const key = await keyOf(body);
    await resetByMail(email);
    expect(await statusOf(key)).toBe(200);
  });

  test('cannot be asked for without end from one network of IPv6 either', async () => {
    const ask = (address: string) => post('password/forgot', { email: 'p@example.com' }, through(address));
    const answers = [];
    for (let time = 0; time < 22; time += 1) answers.push(await ask(`2001:db8::${time.toString(16)}`));
    expect(answers.map(({ status }) => status)).toEqual([...Array<number>(20).fill(202), 429, 429]);
    expect((await ask('2001:db8:0:1::1')).status).toBe(202);
  });

  test('is replaced within an hour, and by the link alone', async () => {
    const { email, password } = await newcomer();
    await post('password/forgot', { email });
    const token = tokenIn((await mailbox.next(email)).text);
    ahead += 3_601_000;
    const late = await post('password/reset', { token, password: 'an entirely new password' });
    expect(coded(late)).toEqual([410, 'reset_link_expired']);
    expect((await post('login', { email, password })).status).toBe(200);
  });

  test('is replaced by one of five that use the link at once', async () => {
    const { email } = await newcomer();
    await post('password/forgot', { email });
    const token = tokenIn((await mailbox.next(email)).text);
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map((number) => post('password/reset', { token, password: `the password ${number}` })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 410, 410, 410, 410]);
  });

  test.each([
    ['no address', 'forgot', {}],
    ['a line break in the address', 'forgot', { email: 'ada@example.com\r\nBcc: eve@example.com' }],
    ['two addresses', 'forgot', { email: 'ada@example.com,eve@example.com' }],
    ['letters of another script', 'forgot', { email: 'аda@example.com' }],
    ['no token', 'reset', { password: 'correct-horse-battery' }],
    ['a short password', 'reset', { token: 'pr_x', password: 'short' }],
    ['a megabyte of password', 'reset', { token: 'pr_x', password: 'x'.repeat(1_048_576) }],
    ['a stray member', 'reset', { token: 'pr_x', password: 'correct-horse-battery', role: 'owner' }],
  ])('refuses %s', async (_, path, body) => {
    const { status } = await post(`password/${path}`, body);
    expect([400, 413]).toContain(status);
  });

  test('has a page behind its link that runs nothing but its own', async () => {
    const page = await app.request('GET', '/reset-password');
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toMatch(/^text\/html/);
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/default-src 'none'.*script-src 'sha256-.*frame-ancestors 'none'/);
    expect(policy).not.toContain('unsafe');
    for (const part of ['style', 'script']) {
      const [, text = ''] = new RegExp(`<${part}>([^]*?)</${part}>`).exec(page.body) ?? [];
      const hash = createHash('sha256').update(text).digest('base64');
      expect(policy).toContain(`${part}-src 'sha256-${hash}'`);
    }
    expect(page.body).toContain('api/v1/auth/password/reset');
  });
});

describe('without a mail server', () => {
  test('the operator makes the link, and nobody else; no log ever holds one', async () => {
    const { email, token } = await newcomer(plain);
    const asked = await post('password/forgot', { email }, {}, plain);
    expect(asked.body).toEqual({ link_from: 'operator', expires_in: 3600 });
    await plain.services.identity.settled();
    const link = (as: RequestOptions, address = email) =>
      post('password/links', { email: address }, as, plain);
    expect(coded(await link({}))).toEqual([401, 'credential_missing']);
    expect(coded(await link({ token }))).toEqual([403, 'role_required']);
    expect(coded(await link({ token: plain.operatorKey }, 'nobody@example.com'))).toEqual([404, 'not_found']);
    const made = await link({ token: plain.operatorKey });
    expect(made).toMatchObject({
      status: 201,
      body: { email, link: `/reset-password#token=${made.body.token}` },
    });
    const change = { token: made.body.token, password: 'an entirely new password' };
    expect((await post('password/reset', change, {}, plain)).status).toBe(204);
    expect((await post('login', { email, password: change.password }, {}, plain)).status).toBe(200);
    expect(log.some((line) => line.includes('createPasswordResetLink'))).toBe(true);
    expect(log.join()).not.toContain(made.body.token);
    expect(log.join()).not.toContain('pr_');
  });

  test('a key of the operator needs the scope for it', async () => {
    const linkWith = async (...scopes: string[]) => {
      const narrow = await post('api-keys', { name: 'Narrow', scopes }, { token: plain.operatorKey }, plain);
      return post('password/links', { email: 'a@example.com' }, { token: narrow.body.key }, plain);
    };
    // Their own account is another matter than those of others.
    expect(coded(await linkWith('query', 'account:write'))).toEqual([403, 'scope_required']);
    expect(coded(await linkWith('users:write'))).toEqual([404, 'not_found']);
  });
});

describe('changing the password', () => {
  test('takes the one that holds, ends the other logins and keeps this one', async () => {
    const { email, password, token } = await newcomer();
    const other = (await post('login', { email, password })).body;
    const change = { current_password: password, new_password: 'an entirely new password' };
    expect((await post('password/change', change, { token })).status).toBe(204);
    expect([await statusOf(token), await statusOf(other.access_token)]).toEqual([200, 401]);
    expect((await post('refresh', { refresh_token: other.refresh_token })).status).toBe(401);
    expect(coded(await post('login', { email, password }))).toEqual([401, 'login_failed']);
    expect((await post('login', { email, password: change.new_password })).status).toBe(200);
    expect((await mailbox.next(email)).text).toContain('Your password was changed');
  });

  test('is refused to who does not know it, and after ten guesses to who goes on', async () => {
    const { email, password, token } = await newcomer();
    const guess = { current_password: 'a wrong password', new_password: 'an entirely new password' };
    for (let time = 0; time < 10; time += 1)
      expect(coded(await post('password/change', guess, { token }))).toEqual([403, 'password_wrong']);
    const late = await post('password/change', { ...guess, current_password: password }, { token });
    expect(coded(late)).toEqual([429, 'too_many_attempts']);
    expect((await post('login', { email, password })).status).toBe(200);
  });

  test('needs a login', async () => {
    const { password, token } = await newcomer();
    const change = { current_password: password, new_password: 'an entirely new password' };
    expect(coded(await post('password/change', change))).toEqual([401, 'credential_missing']);
    const { key } = (await post('api-keys', { name: 'Key' }, { token })).body;
    expect(coded(await post('password/change', change, { token: key }))).toEqual([403, 'login_required']);
    const short = await post('password/change', { ...change, new_password: 'short' }, { token });
    expect(coded(short)).toEqual([400, 'invalid_request']);
  });
});

describe('the second factor', () => {
  const codeOf = (secret: string, steps = 0) =>
    new TOTP({ secret }).generate({ timestamp: clock.now().getTime() + steps * step });
  const mfa = (token: string) => app.request('GET', '/api/v1/auth/mfa', { token });
  const disable = (token: string | undefined, otp?: string) =>
    app.request('DELETE', '/api/v1/auth/mfa', {
      ...(token !== undefined && { token }),
      headers: otp === undefined ? {} : { 'x-service-otp': otp },
    });

  test('is enrolled, confirmed, asked for at a login, and switched off', async () => {
    const { email, password, token } = await newcomer();
    const made = await post('mfa/enroll', { password }, { token });
    expect(made.status).toBe(201);
    expect(made.headers.get('location')).toBe('/api/v1/auth/mfa');
    const { secret } = made.body;
    expect((await mfa(token)).body.status).toBe('pending');
    // Kept, not made again: time goes on, and thirty seconds later it would be another, unused code.
    const used = codeOf(secret);
    const confirmed = await post('mfa/confirm', { code: used }, { token });
    expect(confirmed.body.recovery_codes).toHaveLength(10);
    expect((await mailbox.next(email)).text).toContain('switched on');

    const without = await post('login', { email, password });
    expect(coded(without)).toEqual([401, 'otp_required']);
    expect(without.headers.get('www-authenticate')).toContain('Bearer');
    expect(coded(await post('login', { email, password, otp: used }))).toEqual([401, 'otp_required']);
    ahead += 2 * step;
    expect((await post('login', { email, password, otp: codeOf(secret) })).status).toBe(200);
    const [recovery] = confirmed.body.recovery_codes;
    expect((await post('login', { email, password, otp: recovery })).status).toBe(200);
    expect((await mfa(token)).body).toMatchObject({ status: 'on', recovery_codes_left: 9 });
    expect(JSON.stringify((await mfa(token)).body)).not.toContain(secret);

    expect(coded(await post('mfa/enroll', { password }, { token }))).toEqual([409, 'mfa_conflict']);
    expect(coded(await disable(token, '000000'))).toEqual([403, 'otp_invalid']);
    ahead += 2 * step;
    expect((await disable(token, codeOf(secret))).status).toBe(204);
    expect(coded(await disable(token, '000000'))).toEqual([409, 'mfa_conflict']);
    expect((await post('login', { email, password })).status).toBe(200);
    expect((await mailbox.next(email)).text).toContain('switched off');
  });

  test('is not for who holds no more than an access token, nor for keys', async () => {
    const { password, token } = await newcomer();
    const guess = await post('mfa/enroll', { password: 'a wrong password' }, { token });
    expect(coded(guess)).toEqual([403, 'password_wrong']);
    expect(coded(await post('mfa/confirm', { code: '123456' }, { token }))).toEqual([409, 'mfa_conflict']);
    const { key } = (await post('api-keys', { name: 'Key' }, { token })).body;
    for (const answer of [
      await post('mfa/enroll', { password }, { token: key }),
      await post('mfa/confirm', { code: '123456' }, { token: key }),
      await disable(key, '123456'),
    ])
      expect(coded(answer)).toEqual([403, 'login_required']);
    const narrow = (await post('api-keys', { name: 'Narrow', scopes: ['query'] }, { token })).body.key;
    expect(coded(await mfa(narrow))).toEqual([403, 'scope_required']);
    expect((await mfa(key)).body.status).toBe('off');
  });

  test('is for nobody who is not there', async () => {
    for (const answer of [
      await app.request('GET', '/api/v1/auth/mfa'),
      await post('mfa/enroll', { password: 'correct-horse-battery' }),
      await post('mfa/confirm', { code: '123456' }),
      await disable(undefined, '123456'),
    ])
      expect(coded(answer)).toEqual([401, 'credential_missing']);
  });

  test.each([
    ['a code of letters', { code: 'abcdef' }],
    ['a code of seven', { code: '1234567' }],
    ['a number', { code: 123456 }],
    ['no code', {}],
  ])('is not confirmed with %s', async (_, body) => {
    const { token } = await newcomer();
    expect(coded(await post('mfa/confirm', body, { token }))).toEqual([400, 'invalid_request']);
    expect(coded(await disable(token, 'one two three'))).toEqual([400, 'invalid_request']);
    expect(coded(await disable(token))).toEqual([400, 'invalid_request']);
  });
});

describe('an address that is like another', () => {
  const register = (email: string, name = 'Ada') =>
    post('register', { email, password: 'correct-horse-battery', name });

  test.each([
    ['a Cyrillic а', 'аda@example.com'],
    ['a Greek ο', 'adaο@example.com'],
    ['wide letters', 'ａｄａ@example.com'],
    ['the sign for kelvin', 'ada\u212a@example.com'],
    ['an ı without a dot', 'adaı@example.com'],
    ['a mark that nobody sees', 'ada\u200b@example.com'],
    ['a mark that turns the text', 'ada\u202e@example.com'],
    ['a domain in letters of another script', 'ada@exаmple.com'],
    ['a wide @', 'ada＠example.com'],
    ['a dot that is none', 'ada@example。com'],
    ['a tab', 'ada\t@example.com'],
    ['a line break and a header', 'ada@example.com\r\nBcc: eve@example.com'],
    ['a comma and another', 'ada@example.com,eve@example.com'],
    ['300 characters', `${'a'.repeat(290)}@example.com`],
    ['a megabyte', `${'a'.repeat(1_048_576)}@example.com`],
  ])('is refused: %s', async (_, email) => {
    const answer = await register(email);
    expect(coded(answer)).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ pointer: '/email' }));
  });

  test('with a foreign domain is shown in letters that are like no others', async () => {
    const answer = await register('Ada@XN--exmple-cua.com');
    expect(answer).toMatchObject({ status: 201, body: { user: { email: 'ada@xn--exmple-cua.com' } } });
  });

  test.each([
    ['a line break', 'Ada\r\nBcc: eve@example.com'],
    ['an escape', 'Ada\u001b[31m'],
    ['a mark that turns the text', 'Ada\u202eecarg'],
  ])('is refused in a name too: %s', async (_, name) => {
    people += 1;
    expect(coded(await register(`named-${people}@example.com`, name))).toEqual([400, 'invalid_request']);
    const { token } = await newcomer();
    const patch = { headers: { 'content-type': 'application/merge-patch+json' }, token, body: { name } };
    expect(coded(await app.request('PATCH', '/api/v1/users/me', patch))).toEqual([400, 'invalid_request']);
  });
});

describe('guessing', () => {
  const guess = (email: string, address: string, on = app) =>
    post('login', { email, password: 'a wrong password' }, through(address), on);

  test('ends with 429 for the address that guesses, and the owner comes in', async () => {
    const { email, password } = await newcomer();
    for (let time = 0; time < 10; time += 1)
      expect(coded(await guess(email, '203.0.113.1'))).toEqual([401, 'login_failed']);
    const refused = await guess(email, '203.0.113.1');
    expect(coded(refused)).toEqual([429, 'too_many_attempts']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await post('login', { email, password }, through('198.51.100.7'))).status).toBe(200);
    expect((await post('login', { email, password })).status).toBe(200);
  });

  test('from a made-up address is guessing from the real one, unless a trusted proxy names it', async () => {
    const { email } = await newcomer(plain);
    const answers = [];
    for (let time = 0; time < 11; time += 1) answers.push(await guess(email, `203.0.113.${time}`, plain));
    expect(coded(answers[10] as Answer)).toEqual([429, 'too_many_attempts']); // Eleven were sent.
    expect(log.some((line) => line.includes('"address":"203.0.113.5"'))).toBe(false);
    await guess(email, '203.0.113.5');
    await expect.poll(() => log.some((line) => line.includes('"address":"203.0.113.5"'))).toBe(true);
  });
});
