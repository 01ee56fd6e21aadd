/** The pages for people without a front end, in a real browser: what somebody sees, types and clicks, and what is blocked. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { TOTP } from 'otpauth';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type OpenId, openIdVariables, startOpenId } from '../../contract-tests/openid/start-openid.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { hasBrowser, startBrowser, type TestBrowser, type TestPage } from '../test-browser.ts';
import { type Mailbox, startMailbox } from '../test-mailbox.ts';
import { homeOf } from '../test-people.ts';

describe.skipIf(!hasBrowser)('in Chromium', () => {
  let openid: OpenId;
  let mailbox: Mailbox;
  let app: TestApp;
  let browser: TestBrowser;
  let page: TestPage;
  let ada: Account;

  beforeAll(async () => {
    [openid, mailbox, browser] = await Promise.all([startOpenId(), startMailbox(), startBrowser()]);
    const { oidcProviders } = readServerSettings([], openIdVariables(openid.url, 'corp')).settings;
    const settings = { oidcProviders, smtpUrl: mailbox.url, mailFrom: 'service@example.com' };
    app = await testApp({ settings });
    ada = await app.register('ada');
  });
  afterAll(async () => {
    await app?.close();
    await Promise.all([browser?.close(), mailbox?.close(), openid?.stop()]);
  });
  beforeEach(async () => {
    page = await browser.newPage();
  });

  const post = (path: string, body: unknown, token = '') => app.request('POST', path, { body, token });
  /** Links begin with the address of the server, where that was said; here it was not. */
  const linkIn = (text: string) => app.url + (/^\/[a-z-]+#\S+/m.exec(text)?.[0] ?? '');
  const loginsOf = async ({ token }: Pick<Account, 'token'>): Promise<number> =>
    (await app.request('GET', '/api/v1/auth/logins', { token })).body.data.length;

  async function logInOnPage(email: string, password: string, otp = ''): Promise<void> {
    await page.type('#login [name=email]', email);
    await page.type('#login [name=password]', password);
    if (otp !== '') await page.type('#login [name=otp]', otp);
    await page.click('#login button.main');
  }

  describe('the page for devices', () => {
    const device = '/api/v1/auth/device';
    const begin = async (client_name: string): Promise<Json> =>
      (await post(`${device}/code`, { client_name })).body;
    const poll = ({ device_code }: Json) => post(`${device}/token`, { device_code });

    test('lets a device in, shows what it calls itself as text, and ends its own login', async () => {
      const name = '<img src=x onerror="document.title=1">';
      const started = await begin(name);
      const before = await loginsOf(ada);
      await page.open(started.verification_uri_complete);
      await logInOnPage(ada.email, 'not the password');
      await page.shows('The e-mail address or the password is wrong');
      await logInOnPage(ada.email, ada.password);
      const shown = await page.shows('Allow it only if');
      for (const text of [ada.email, started.user_code, name, '127.0.0.1']) expect(shown).toContain(text);
      await page.click('#reply [value=allow]');
      await page.shows('The device is logged in.');
      expect((await poll(started)).body).toMatchObject({ user: { id: ada.user.id } });
      // The device's, and not that of the page.
      expect(await loginsOf(ada)).toBe(before + 1);
      expect(page.faults().filter((fault) => !/401/.test(fault))).toEqual([]);
    });

    test('takes a code that is typed, asks again for one that nobody has, and refuses a device', async () => {
      const started = await begin('a stranger’s');
      await page.open(started.verification_uri);
      await logInOnPage(ada.email, ada.password);
      await page.type('#code [name=user_code]', 'BBBB-BBBB');
      await page.click('#code button');
      await page.shows('No device waits with this code');
      await page.type('#code [name=user_code]', started.user_code.toLowerCase());
      await page.click('#code button');
      await page.click('#reply [value=deny]');
      await page.shows('The device was refused.');
      expect((await poll(started)).body).toMatchObject({ code: 'access_denied' });
    });

    test('takes a login through a provider, whose code stands in no history', async () => {
      await openid.person({ sub: 'kay', email: 'kay@corp.example', email_verified: true, name: 'Kay' });
      const started = await begin('laptop');
      await page.open(started.verification_uri_complete);
      await page.click('[data-provider=corp]');
      await page.shows('kay@corp.example');
      expect(await page.url()).toBe(started.verification_uri_complete);
      await page.click('#reply [value=allow]');
      await page.shows('The device is logged in.');
      expect((await poll(started)).body).toMatchObject({ user: { email: 'kay@corp.example' } });
    });
  });

  describe('the page for a new password', () => {
    test('takes the link from the mail, once, and a password that was typed twice', async () => {
      const account = await app.register('forgetful');
      await post('/api/v1/auth/password/forgot', { email: account.email });
      const link = linkIn((await mailbox.next(account.email)).text);
      await page.open(link);
      expect(await page.url()).toBe(`${app.url}/reset-password`);
      const fill = async (password: string, again: string) => {
        await page.type('[name=password]', password);
        await page.type('[name=again]', again);
        await page.click('button');
      };
      await fill('a much better one', 'a much better two');
      await page.shows('The two are not the same.');
      await fill('a much better one', 'a much better one');
      await page.shows('Done: log in with the new password.');
      const login = { email: account.email, password: 'a much better one' };
      expect((await post('/api/v1/auth/login', login)).status).toBe(200);
      const second = await browser.newPage();
      page = second;
      await page.open(link);
      await fill('a much worse one', 'a much worse one');
      await page.shows('The link was used, has expired, or is none of this server');
    });

    test('says so where a part of the link is missing', async () => {
      await page.open(`${app.url}/reset-password`);
      expect(await page.shows('This page needs the whole link')).not.toContain('Once more');
    });
  });

  describe('the page for an invitation', () => {
    let organizationId: string;
    beforeAll(async () => {
      ({ organizationId } = await homeOf(app, ada));
    });
    /** The link in the letter. */
    const invite = async (email: string, role = 'member'): Promise<string> => {
      const path = `/api/v1/organizations/${organizationId}/invitations`;
      expect((await post(path, { email, role }, ada.token)).body).toMatchObject({ sent: true, link: null });
      return linkIn((await mailbox.next(email)).text);
    };
    const organizationsOf = async (token: string): Promise<string[]> => {
      const { body } = await app.request('GET', '/api/v1/users/me', { token });
      return body.memberships.map((one: Json) => one.organization_id);
    };

    test('makes an account for somebody new, who belongs there then', async () => {
      const email = 'new+er@example.com';
      await page.open(await invite(email, 'viewer'));
      expect(await page.url()).toBe(`${app.url}/invitation`);
      expect(await page.evaluate('document.querySelector("#register [name=email]").value')).toBe(email);
      await page.type('#register [name=name]', 'New');
      await page.type('#register [name=password]', 'a password of mine');
      await page.click('#register button.main');
      await page.shows('You belong to ada now, as viewer.');
      const { body } = await post('/api/v1/auth/login', { email, password: 'a password of mine' });
      expect(await organizationsOf(body.access_token)).toEqual([organizationId]);
      expect(await loginsOf({ token: body.access_token })).toBe(1);
      expect(page.faults()).toEqual([]);
    });

    test('takes somebody in who has an account, with the code of their second factor; and a link once', async () => {
      const account = await app.register('guest');
      const enrolled = await post('/api/v1/auth/mfa/enroll', { password: account.password }, account.token);
      const totp = new TOTP({ secret: enrolled.body.secret });
      const at = Date.now();
      await post('/api/v1/auth/mfa/confirm', { code: totp.generate({ timestamp: at }) }, account.token);
      expect((await mailbox.next(account.email)).text).toContain('switched on');
      const link = await invite(account.email);
      await page.open(link);
      await page.click('[data-show=login]');
      await logInOnPage(account.email, account.password);
      await page.shows('type its code, too');
      await logInOnPage(account.email, account.password, totp.generate({ timestamp: at + 30_000 }));
      await page.shows('You belong to ada now, as member.');
      // Logins from before the address was proved are over.
      expect((await app.request('GET', '/api/v1/users/me', account)).status).toBe(401);
      const members = await app.request('GET', `/api/v1/organizations/${organizationId}/members`, ada);
      expect(members.body.data.map(({ email }: Json) => email)).toContain(account.email);
      page = await browser.newPage();
      await page.open(link);
      await page.type('#register [name=email]', 'somebody@example.com');
      await page.type('#register [name=name]', 'Somebody');
      await page.type('#register [name=password]', 'a password of mine');
      await page.click('#register button.main');
      await page.shows('The token is unknown, expired, used, or for another address');
    });

    test('outlives the way to a provider and back, and is kept no longer', async () => {
      await openid.person({ sub: 'lee', email: 'lee@corp.example', email_verified: true, name: 'Lee' });
      await page.open(await invite('lee@corp.example'));
      await page.click('[data-show=login]');
      await page.click('[data-provider=corp]');
      await page.shows('You belong to ada now, as member.');
      expect(await page.evaluate('sessionStorage.length')).toBe(0);
    });
  });

  describe.each(['/device', '/reset-password', '/invitation'])('%s', (path) => {
    test('runs no script but its own, and is shown in nobody’s frame', async () => {
      await page.open(app.url + path);
      await page.evaluate(
        `document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.hit = 1">')`,
      );
      const tag = `const tag = document.createElement('script'); tag.textContent = 'window.hit = 1'; document.body.append(tag);`;
      await page.evaluate(tag);
      await expect
        .poll(() => page.faults().filter((fault) => /Content Security Policy/.test(fault)).length)
        .toBeGreaterThan(1);
      expect(await page.evaluate('window.hit')).toBeUndefined();
      const other = createServer((_, response) =>
        response.setHeader('content-type', 'text/html').end(`<iframe src="${app.url}${path}"></iframe>`),
      ).listen(0, '127.0.0.1');
      await once(other, 'listening');
      // The server of the test listens at a port.
      const { port } = other.address() as AddressInfo;
      const framing = await browser.newPage();
      await framing.open(`http://127.0.0.1:${port}`);
      await expect
        .poll(() => framing.faults().join())
        .toMatch(/frame-ancestors|refused to connect|Refused to frame/i);
      other.close();
      other.closeAllConnections();
    });
  });
});
