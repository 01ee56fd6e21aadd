/** How a login is renewed: by the real command, against a real server behind a network that the test spoils. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestProxy } from '../test-proxy.ts';
import { startTestServer } from '../test-server.ts';
import { openLogins } from './logins.ts';

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

/**
 * In the place of the package that opens the system's keyring: a file, and a thread that waits, as that of a keyring does
 * which is to be unlocked, at the call that the variable names.
 */
const playedKeyring = `import { readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
const { TEST_KEYRING: folder, TEST_KEYRING_WAITS: waits } = process.env;
const calls = {};
async function call(name) {
  calls[name] = (calls[name] ?? 0) + 1;
  if (waits !== name + ' ' + calls[name]) return;
  writeFileSync(folder + '/asked', '');
  await open(folder + '/pipe');
}
export class AsyncEntry {
  async getPassword() {
    await call('getPassword');
    return readFileSync(folder + '/secret', 'utf8');
  }
  async setPassword(secret) {
    await call('setPassword');
    writeFileSync(folder + '/secret', secret);
  }
}`;

/** Somebody who is logged in, with a login in that keyring which is over by the clock here. */
async function loggedInByKeyring() {
  const [home, server] = [testHome(), await startTestServer()];
  const place = (file: string) => join(home.home, file);
  execFileSync('mkfifo', [place('pipe')]);
  const url = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const played = `{ url: ${JSON.stringify(url(playedKeyring))}, shortCircuit: true }`;
  const hook = `import { registerHooks } from 'node:module';
    const resolve = (name, context, next) => name === '@napi-rs/keyring' ? ${played} : next(name, context);
    registerHooks({ resolve });`;
  const variables = { NODE_OPTIONS: `--import=${url(hook)}`, TEST_KEYRING: home.home };
  const login = ['login', server.url, '--email', server.email];
  expect(await home.service(login, { input: `${server.password}\n`, variables })).toMatchObject({ code: 0 });
  expect(readFileSync(loginsOf(home), 'utf8')).not.toContain('refresh_token');
  const kept = readFileSync(place('secret'), 'utf8');
  writeFileSync(place('secret'), kept.replace(/"expires_at":"[^"]+"/, '"expires_at":"2020-01-01T00:00:00Z"'));
  return { home, server, place, variables };
}

test.each([
  ['sessions list', 'read', 'getPassword 2', ''],
  ['sessions list', 'written', 'setPassword 1', ''],
  ['run --model demo:demo-1 hello', 'read', 'getPassword 2', 'Stopping the run'],
  ['run --model demo:demo-1 hello', 'written', 'setPassword 1', ''],
])('Ctrl+C ends `%s` whose login is %s while the keyring is to be unlocked', async (...given) => {
  const [words, , waits, stopping] = given;
  const { home, server, place, variables } = await loggedInByKeyring();
  const waiting = { ...variables, TEST_KEYRING_WAITS: waits };
  const command = home.start([...words.split(' '), '--server', server.url], { variables: waiting });
  await command.until(() => existsSync(place('asked')));
  command.child.kill('SIGINT');
  if (stopping !== '') {
    // The run is to be interrupted first, which cannot be asked for now.
    await command.until(() => command.stderr().includes(stopping));
    command.child.kill('SIGINT');
  }
  await command.ended;
  expect(command.child.signalCode).toBe('SIGINT');
  const after = await home.service(['sessions', 'list', '--server', server.url], { variables });
  expect(after).toMatchObject({ code: 0 });
});

/** Another process that holds the logins until the given function is called. */
async function holdLogins(home: TestHome): Promise<() => void> {
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const logins = openLogins(dirname(loginsOf(home)));
  const holding = logins.locked(async () => {
    begun.resolve();
    await ended.promise;
  });
  await begun.promise;
  const letGo = async () => {
    ended.resolve();
    await holding;
  };
  onTestFinished(letGo);
  return () => void letGo();
}

const reply = { text: 'First and second.', chunk_size: 6, hold_after_chunks: 2 };

test.each([
  ['is held by another process', 2],
  ['is not renewed in time', 1],
])('a run is followed on where its login %s for a while', async (what, attempts) => {
  const scripted = testHome();
  const model = await withScriptedModel(scripted, [{ reply }]);
  const settings = join(scripted.home, '.config/service/service.json');
  const { home, proxy } = await loggedIn(JSON.parse(readFileSync(settings, 'utf8')));
  const command = home.start(['run', '--server', proxy.url, 'go']);
  await command.until(() => command.stdout().includes('First'));
  const letGo = attempts === 2 ? await holdLogins(home) : () => undefined;
  if (attempts === 1) proxy.spoil(refreshing, 'unanswered');
  const reading = /^GET .*\/events/;
  for (let at = 0; at < 2; at += 1) proxy.spoil(reading, 'expired');
  proxy.cut(/^POST .*\/query\/stream$/)();
  // The second time it comes after the first renewal has failed, and what it is told is no end either.
  await command.until(() => proxy.spoilt().filter((one) => reading.test(one)).length === 2);
  await command.until(() => command.stderr().includes('The login is not renewed yet.'));
  letGo();
  await model.release();
  const ended = await command.ended;
  expect(ended, what).toMatchObject({ code: 0, stdout: 'First and second.\n' });
  expect(ended.stderr).toContain('The login is renewed.');
});

test.each([
  ['by the clock here', 'held'],
  ['as the server tells', 'held'],
  ['as the server tells', 'late'],
])('a command whose login is over %s, and is %s, says why that is not renewed', async (whose, how) => {
  const { home, proxy } = await loggedIn();
  if (whose === 'by the clock here') endLogin(home);
  else proxy.spoil(/^GET .*\/sessions/, 'expired');
  if (how === 'held') await holdLogins(home);
  else proxy.spoil(refreshing, 'unanswered');
  const ended = await home.service(['sessions', 'list', '--server', proxy.url]);
  const held =
    /^service: The login to http\S+ could not be renewed\. Another process has held .*logins\.lock/;
  const late = /^service: http\S+ did not renew the login within 8 s\./;
  expect(ended).toMatchObject({ code: 4, stderr: expect.stringMatching(how === 'held' ? held : late) });
  expect(ended.stderr).not.toMatch(/credential_expired|Is the server running/);
});
