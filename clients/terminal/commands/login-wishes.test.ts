/** `service login` and `logout`: what is said twice and differently, and a keyring that cannot be reached. */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { testHome } from '../test-command.ts';

test('where the keyring that has a login is away, it is said what to do, and the login can be forgotten', async () => {
  const [home, origin] = [testHome(), 'http://127.0.0.1:1'];
  // As it stands there once a keyring has taken the secret; here there is none.
  const file = home.write('.local/share/service/logins.json', { logins: { [origin]: { login: null } } });
  chmodSync(file, 0o600);
  chmodSync(join(file, '..'), 0o700);
  expect(await home.service(['sessions', 'list', '--server', origin])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/cannot be read \(.*\)\.\nUnlock it, or start it.*\nOr log in again/),
  });
  const ended = await home.service(['logout']);
  expect(ended).toMatchObject({ code: 0, stdout: `Logged out from ${origin}\n` });
  expect(ended.stderr).toMatch(/was not asked to end the login/);
  expect(ended.stderr).toMatch(/may be left in the keyring.* remove it there: .*http:\/\/127\.0\.0\.1:1\n$/);
  expect(await home.service(['logout'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no login'),
  });
});

test.each(['login', 'logout'])('%s refuses two servers', async (command) => {
  const words = [command, 'http://127.0.0.1:1', '--server', 'https://service.example.com'];
  const told =
    /^service: Two servers are named, http:\S+ and .* https:\/\/service\.example\.com\. Name one\.\n$/;
  expect(await testHome().service(words)).toMatchObject({ code: 2, stderr: expect.stringMatching(told) });
});

test('a login by API key takes no account besides', async () => {
  const words = ['login', 'http://127.0.0.1:1', '--api-key', '--email', 'grace@example.com'];
  expect(await testHome().service(words)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/'--api-key' cannot be used with option '-e, --email/),
  });
});
