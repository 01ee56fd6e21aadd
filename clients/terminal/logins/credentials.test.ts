/** How a login is renewed: by the real command, against a real server behind a network that the test spoils. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type TestHome, testHome } from '../test-command.ts';
import { startTestProxy } from '../test-proxy.ts';
import { startTestServer } from '../test-server.ts';

const loginsOf = ({ home }: TestHome) => join(home, '.local/share/service/logins.json');

/** By the clock here the login is over from now on. */
function endLogin(home: TestHome): void {
  const kept = readFileSync(loginsOf(home), 'utf8');
  const ended = kept.replace(/"expires_at": "[^"]+"/, '"expires_at": "2020-01-01T00:00:00Z"');
  writeFileSync(loginsOf(home), ended);
}

/** Somebody who is logged in to a server, and what lies between. */
async function loggedIn(settings: object = {}) {
  const [home, server] = [testHome(), await startTestServer(settings)];
  const proxy = await startTestProxy(server.url);
  const login = ['login', proxy.url, '--email', server.email];
  expect(await home.service(login, { input: `${server.password}\n` })).toMatchObject({ code: 0 });
  return { home, server, proxy };
}

const refreshing = /^POST \/api\/v1\/auth\/refresh$/;

test.each([
  ['a command', ['sessions', 'list'], 'SIGINT', 130],
  ['a run', ['run', '--model', 'demo:demo-1', 'hello'], 'SIGTERM', 143],
  ['a logout', ['logout'], 'SIGINT', 130],
] as const)('%s that is interrupted while its login is renewed ends once that is kept', async (...given) => {
  const [, words, signal, code] = given;
  const { home, proxy } = await loggedIn();
  endLogin(home);
  proxy.spoil(refreshing, 'answer_kept');
  const command = home.start([...words, '--server', proxy.url]);
  // From here on what was renewed is worth nothing at the server any more.
  await command.until(() => proxy.spoilt().length === 1);
  command.child.kill(signal);
  await command.until(() => command.stderr().includes('The login to'));
  command.child.kill(signal);
  proxy.letGo();
  expect(await command.ended).toMatchObject({ code, stdout: '' });
  expect(await home.service(['sessions', 'list', '--server', proxy.url])).toMatchObject({ code: 0 });
});
