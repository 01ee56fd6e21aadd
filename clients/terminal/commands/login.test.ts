/** `service login`, `logout` and `--server`, against a real `service serve`. */

import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { replyPermission } from '@service/client/reply';
import { expect, onTestFinished, test } from 'vitest';
import { codeNow } from '../../../contract-tests/one-time-code.ts';
import { findProgram } from '../search-path.ts';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestServer, type TestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

const loginsOf = ({ home }: TestHome) => join(home, '.local/share/service/logins.json');

async function logIn(home: TestHome, { url, email, password }: TestServer) {
  return await home.service(['login', url, '--email', email], { input: `${password}\n` });
}

test('after a login runs and sessions are those of the server; after the logout its tokens are worth nothing', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const login = await logIn(home, server);
  expect(login).toMatchObject({ code: 0, stdout: `Logged in to ${server.url} as ${server.email}\n` });
  expect(login.stderr).toMatch(/is kept in .*logins\.json, which only you can read/);
  expect(`${login.stdout}${login.stderr}`).not.toMatch(/correct-horse|eyJ|rt_/);
  expect(statSync(loginsOf(home)).mode & 0o777).toBe(0o600);
  expect(statSync(join(loginsOf(home), '..')).mode & 0o777).toBe(0o700);

  const run = await home.service(['run', '--model', 'demo:demo-1', '--server', server.url, 'hello']);
  expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining('You said: hello') });
  const list = await home.service(['sessions', 'list', '--server', server.url]);
  expect(list.stdout).toMatch(/^ses_\w+\t.*\thello\n$/);

  const kept = readFileSync(loginsOf(home), 'utf8');
  expect(await home.service(['logout'])).toMatchObject({
    code: 0,
    stdout: `Logged out from ${server.url}\n`,
  });
  const without = await home.service(['sessions', 'list', '--server', server.url]);
  expect(without).toMatchObject({ code: 4, stderr: expect.stringContaining(`service login ${server.url}`) });
  writeFileSync(loginsOf(home), kept);
  expect(await home.service(['sessions', 'list', '--server', server.url])).toMatchObject({ code: 4 });
});

/** What the command prints to be confirmed. */
const codeIn = (stderr: string) => /code ([B-Z]{4}-[B-Z]{4}):\nhttp/.exec(stderr)?.[1] ?? '';

test('a login by code is confirmed in a browser, is that of the person, and is kept as any other', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const login = home.start(['login', '--server', server.url]);
  await login.until(() => codeIn(login.stderr()) !== '');
  const user_code = codeIn(login.stderr());
  expect(login.stderr()).toContain(`${server.url}/device?user_code=${user_code}`);
  const body = { user_code, decision: 'allow' as const };
  await server.client.POST('/api/v1/auth/device/reply', { body });
  const ended = await login.ended;
  expect(ended).toMatchObject({ code: 0, stdout: `Logged in to ${server.url} as ${server.email}\n` });
  expect(`${ended.stdout}${ended.stderr}`).not.toMatch(/eyJ|rt_|dc_/);
  expect(statSync(loginsOf(home)).mode & 0o777).toBe(0o600);
  const list = await home.service(['sessions', 'list', '--server', server.url]);
  expect(list).toMatchObject({ code: 0 });
  const { data } = await server.client.GET('/api/v1/auth/logins');
  expect(data.data[0]).toMatchObject({ method: 'device', device: expect.stringMatching(/^service on /) });
  expect(await home.service(['logout', '--server', server.url])).toMatchObject({ code: 0 });
  const after = await server.client.GET('/api/v1/auth/logins');
  expect(after.data.data.map(({ method }) => method)).not.toContain('device');
});

test('a login by code goes on where the way to the server fails for a while', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  let polls = 0;
  const gateway = createServer(async (request, response) => {
    const isPoll = request.url === '/api/v1/auth/device/token';
    if (isPoll) polls += 1;
    if (isPoll && polls === 1) return void request.socket.destroy();
    if (isPoll && polls < 4)
      return void response.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway');
    const { method = '', url = '', headers } = request;
    const body = await text(request);
    const { authorization = '', 'content-type': type = '' } = headers;
    const answer = await fetch(server.url + url, {
      method,
      headers: { authorization, 'content-type': type },
      ...(body && { body }),
    });
    const said = await answer.text();
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    response.end(said.replace(/"interval":\d+/, '"interval":0.2'));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void gateway.close().closeAllConnections());
  await once(gateway, 'listening');
  const { port } = gateway.address() as AddressInfo; // It listens on TCP.
  const login = home.start(['login', '--server', `http://127.0.0.1:${port}`]);
  await login.until(() => codeIn(login.stderr()) !== '');
  const body = { user_code: codeIn(login.stderr()), decision: 'allow' as const };
  await server.client.POST('/api/v1/auth/device/reply', { body });
  expect(await login.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Logged in to /) });
  // While the person has not yet allowed it in the browser, it is asked for once more.
  expect(polls).toBeGreaterThanOrEqual(4);
});

test('a login by code that is refused in the browser ends with 4', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const login = home.start(['login', server.url]);
  await login.until(() => codeIn(login.stderr()) !== '');
  const body = { user_code: codeIn(login.stderr()), decision: 'deny' as const };
  await server.client.POST('/api/v1/auth/device/reply', { body });
  expect(await login.ended).toMatchObject({
    code: 4,
    stdout: '',
    stderr: expect.stringContaining('refused'),
  });
  expect(await home.service(['login'])).toMatchObject({ code: 2 });
});

test('at a terminal address and password are asked for, and the password is not shown', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, 'login', server.url, '--password'], options);
  await terminal.shows('E-mail address:');
  await terminal.press(server.email, 'Enter');
  await terminal.shows('Password:');
  await terminal.press(server.password, 'Enter');
  const { screen, code } = await terminal.end();
  expect({ screen, code }).toMatchObject({ code: 0, screen: expect.stringContaining(`as ${server.email}`) });
  expect(screen).not.toContain('correct');
});

test('a password is not asked for where nobody would see the question, and it would stand on the screen', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const line = `${launcher} login ${server.url} --password --email a@example.com 2> told`;
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal(['sh', '-c', line], options);
  expect((await terminal.end()).code).toBe(2);
  expect(readFileSync(join(home.project, 'told'), 'utf8')).toContain('standard error is no terminal');
});

test('where the account has a second factor its code is asked for: on the second line, and at a terminal', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const { client, password } = server;
  const { data: enrolled } = await client.POST('/api/v1/auth/mfa/enroll', { body: { password } });
  const body = { code: codeNow(enrolled.secret) };
  const { data: confirmed } = await client.POST('/api/v1/auth/mfa/confirm', { body });
  const [first = '', second = ''] = confirmed.recovery_codes;

  expect(await logIn(home, server)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no one-time code, which goes on the second line,'),
  });
  const wrong = await logIn(home, { ...server, password: `${password}\n000000` });
  expect(wrong).toMatchObject({ code: 4, stderr: expect.stringContaining('(otp_required)') });
  const piped = await logIn(home, { ...server, password: `${password}\n${first}` });
  expect(piped).toMatchObject({ code: 0, stdout: expect.stringContaining(`as ${server.email}`) });

  const options = { cwd: home.project, environment: home.environment };
  const words = [launcher, 'login', server.url, '--email', server.email];
  const terminal = await openTestTerminal(words, options);
  await terminal.shows('Password:');
  await terminal.press(password, 'Enter');
  await terminal.shows('Code of the second factor:');
  await terminal.press(second, 'Enter');
  const { screen, code } = await terminal.end();
  expect({ screen, code }).toMatchObject({ code: 0, screen: expect.stringContaining(`as ${server.email}`) });
  expect(screen).not.toContain(second);
});

test.skipIf(!findProgram('strace', process.env.PATH, '/'))(
  'what is typed at once is hidden, too: the terminal shows nothing any more when the question stands there',
  async () => {
    const home = testHome();
    const trace = join(home.home, 'trace');
    const strace = ['strace', '-f', '-e', 'trace=write,ioctl', '-o', trace];
    const words = [...strace, launcher, 'login', 'http://127.0.0.1:9', '--email', 'grace@example.com'];
    const terminal = await openTestTerminal(words, { cwd: home.project, environment: home.environment });
    await terminal.shows('Password:');
    await terminal.press('C-c');
    await terminal.end();
    const [before = ''] = readFileSync(trace, 'utf8').split('"Password: "');
    expect(before).toContain('TCSETS');
  },
);

test('an API key is taken from standard input or the environment, and forgotten at the logout', async () => {
  const [home, { url, operatorKey: key }] = [testHome(), await startTestServer()];
  const variables = { SERVICE_API_KEY: key };
  expect(await home.service(['sessions', 'list', '--server', url], { variables })).toMatchObject({
    code: 0,
  });
  const login = await home.service(['login', url, '--api-key'], { input: key });
  expect(login).toMatchObject({ code: 0 });
  expect(`${login.stdout}${login.stderr}`).not.toContain(key);
  expect(await home.service(['sessions', 'list', '--server', url])).toMatchObject({ code: 0 });
  expect(await home.service(['logout', url])).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('revoke'),
  });
  expect(readFileSync(loginsOf(home), 'utf8')).not.toContain('sk-');
});

test('what is refused, and a server that is not there, end with 4 and what to do', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const wrong = await logIn(home, { ...server, password: 'wrong-horse-battery' });
  expect(wrong).toMatchObject({ code: 4, stdout: '', stderr: expect.stringContaining('(login_failed)') });
  const key = await home.service(['login', server.url, '--api-key'], { input: `sk-${'x'.repeat(43)}` });
  expect(key).toMatchObject({ code: 4, stdout: '' });
  const gone = await home.service(['run', '--server', 'http://127.0.0.1:1', 'x'], {
    variables: { SERVICE_API_KEY: 'sk-x' },
  });
  expect(gone).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('no answer from http://127.0.0.1:1'),
  });
  expect(gone.stderr).not.toContain('sk-x');
});

test('a logout where the server is gone removes the login here, and says that nobody confirmed it', async () => {
  const home = testHome();
  const login = {
    kind: 'login',
    email: 'grace@example.com',
    access_token: 'eyJ',
    refresh_token: 'rt_x',
    expires_at: '2099-01-01T00:00:00Z',
  };
  home.write('.local/share/service/logins.json', { logins: { 'http://127.0.0.1:1': { login } } });
  chmodSync(loginsOf(home), 0o600);
  chmodSync(join(loginsOf(home), '..'), 0o700);
  const ended = await home.service(['logout']);
  expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('did not confirm it') });
  expect(readFileSync(loginsOf(home), 'utf8')).not.toContain('rt_x');
  expect(await home.service(['logout'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no login'),
  });
});

test('several processes that renew a login at once keep it', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  await logIn(home, server);
  for (let round = 0; round < 2; round += 1) {
    const file = readFileSync(loginsOf(home), 'utf8');
    writeFileSync(
      loginsOf(home),
      file.replace(/"expires_at": "[^"]+"/, '"expires_at": "2020-01-01T00:00:00Z"'),
    );
    const list = () => home.service(['sessions', 'list', '--json', '--server', server.url]);
    const ended = await Promise.all([list(), list(), list()]);
    expect(ended).toEqual(Array(3).fill({ code: 0, stdout: '[]\n', stderr: '' }));
    expect(readFileSync(loginsOf(home), 'utf8')).not.toContain('2020-01-01');
  }
});

test('a login that the server calls expired is renewed, however long it lasts by the clock here', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const gateway = await startGateway(server.url);
  await logIn(home, { ...server, url: gateway.url });
  const kept = readFileSync(loginsOf(home), 'utf8');
  const [, first = ''] = /"access_token": "([^"]+)"/.exec(kept) ?? [];
  gateway.expire(first);
  const create = home.service(['memories', 'add', 'Remember this.', '--server', gateway.url]);
  const list = () => home.service(['memories', 'list', '--server', gateway.url]);
  const ended = await Promise.all([create, list(), list()]);
  expect(
    ended.map(({ code }) => code),
    JSON.stringify(ended),
  ).toEqual([0, 0, 0]);
  expect(gateway.calls.filter((call) => call === 'POST /api/v1/auth/refresh')).toHaveLength(1);
  expect((await list()).stdout).toMatch(/\tRemember this\.\n$/);

  // One that the server does not renew either is told as the server tells it.
  writeFileSync(loginsOf(home), kept);
  const over = await list();
  expect(over).toMatchObject({
    code: 4,
    stdout: '',
    stderr: expect.stringContaining('(credential_expired)'),
  });
});

test('a credential goes to no other server than the one it is for, by no redirect either', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  await logIn(home, server);
  const thief = await startThief(null);
  const other = await home.service(['run', '--server', thief.url, 'x']);
  expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining('There is no login') });
  expect(thief.heard).toEqual([]);
  // A key beside an address is for that address.
  const exported = { SERVICE_SERVER: server.url, SERVICE_API_KEY: 'sk-mine' };
  const named = await home.service(['sessions', 'list', '--server', thief.url], { variables: exported });
  expect(named).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('is for the server of SERVICE_SERVER'),
  });
  expect(thief.heard).toEqual([]);
  const redirecting = await startThief(`${thief.url}/api/v1/sessions`);
  const variables = { SERVICE_API_KEY: 'sk-mine' };
  const led = await home.service(['sessions', 'list', '--server', redirecting.url], { variables });
  expect(led).toMatchObject({
    code: 4,
    stderr: expect.stringContaining(`a redirect to ${thief.url} that is not followed`),
  });
  expect(redirecting.heard).toHaveLength(1);
  expect(thief.heard).toEqual([]);
});

test.each([
  ['http://service.example.com', 'not encrypted'],
  ['service.example.com', 'https://service.example.com'],
  ['https://user:secret@service.example.com', 'no user or password'],
  ['https://service.example.com/api', 'leave out'],
  ['ftp://service.example.com', 'no address'],
])('the address %s is refused before anything is sent', async (address, told) => {
  const variables = { SERVICE_API_KEY: 'sk-mine' };
  const ended = await testHome().service(['run', '--server', address, 'x'], { variables });
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(told) });
  expect(ended.stderr).not.toContain('secret');
});

test('logins that others can read, or that a link leads to, are not used', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  await logIn(home, server);
  const list = () => home.service(['sessions', 'list', '--server', server.url]);
  chmodSync(loginsOf(home), 0o644);
  expect(await list()).toMatchObject({ code: 1, stderr: expect.stringContaining('chmod 600') });
  chmodSync(loginsOf(home), 0o600);
  renameSync(loginsOf(home), join(home.home, 'elsewhere'));
  symlinkSync(join(home.home, 'elsewhere'), loginsOf(home));
  expect(await list()).toMatchObject({ code: 1, stderr: expect.stringContaining('is a symbolic link') });
});

test('a folder that others could only read is closed to them, and one that they could write to keeps no login', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const folder = join(loginsOf(home), '..');
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  expect(await logIn(home, server)).toMatchObject({ code: 0 });
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  chmodSync(folder, 0o777);
  const refused = await home.service(['sessions', 'list', '--server', server.url]);
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('chmod 700') });
});

test('a folder that a link leads to keeps logins, as long as it is closed to others', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const [folder, elsewhere] = [join(loginsOf(home), '..'), join(home.home, 'elsewhere')];
  mkdirSync(elsewhere, { mode: 0o700 });
  mkdirSync(join(folder, '..'), { recursive: true });
  symlinkSync(elsewhere, folder);
  expect(await logIn(home, server)).toMatchObject({ code: 0 });
  expect(statSync(join(elsewhere, 'logins.json')).mode & 0o777).toBe(0o600);
  const list = () => home.service(['sessions', 'list', '--server', server.url]);
  expect(await list()).toMatchObject({ code: 0 });
  chmodSync(elsewhere, 0o777);
  expect(await list()).toMatchObject({ code: 1, stderr: expect.stringContaining('chmod 700') });
});

test.each([
  ['others can write to its folder', 'chmod 700', (folder: string) => chmodSync(folder, 0o777)],
  [
    'nothing can be written there',
    'Let the variable XDG_DATA_HOME name a folder',
    (folder: string) => writeFileSync(join(folder, 'locks'), ''),
  ],
])('a login that could not be kept is not asked for: %s', async (_, told, spoil) => {
  const [home, thief] = [testHome(), await startThief(null)];
  const folder = join(loginsOf(home), '..');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  spoil(folder);
  const ended = await home.service(['login', thief.url, '--email', 'grace@example.com'], { input: 'x\n' });
  expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(told) });
  expect(thief.heard).toEqual([]);
});

test('an end of an id that several sessions have lists them', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  await logIn(home, server);
  // Ids end in one of 32 characters: of 33 sessions two end alike.
  const ids: string[] = [];
  for (let at = 0; at < 33; at += 1)
    ids.push((await server.client.POST('/api/v1/sessions', { body: {} })).data.id);
  const alike =
    ids.find((id, at) => ids.some((other, place) => place !== at && other.at(-1) === id.at(-1))) ?? '';
  const shown = await home.service(['sessions', 'show', alike.slice(-1), '--server', server.url]);
  expect(shown).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/sessions end with .*\n {2}ses_/),
  });
  expect(shown.stderr).toContain(alike);
});

test('--yolo is for the operator of a server', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  await logIn(home, server);
  const ended = await home.service(['run', '--yolo', '--server', server.url, 'x']);
  expect(ended).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('Leave out --yolo') });
});

test('a question that is answered elsewhere leaves the terminal', async () => {
  const home = testHome();
  await withScriptedModel(home, [
    {
      when: { step: 0 },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'a' } }] },
    },
    { reply: { text: 'The tool said: {{last_tool_result}}' } },
  ]);
  const server = await startTestServer(
    JSON.parse(readFileSync(join(home.home, '.config/service/service.json'), 'utf8')),
  );
  await logIn(home, server);
  const options = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, 'run', '--server', server.url, 'go'], options);
  await terminal.shows('d deny');
  const { data: sessions } = await server.client.GET('/api/v1/sessions', {});
  const path = { session_id: sessions.data[0]?.id ?? '' };
  const { data: requests } = await server.client.GET('/api/v1/sessions/{session_id}/permissions', {
    params: { path },
  });
  const [request] = requests.data;
  if (!request) throw new Error('Nothing is asked.');
  await replyPermission(server.client, request, { decision: 'deny', message: 'Not here.' });
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/→ It was answered elsewhere\.[\s\S]*The person said: Not here\./);
});

/** Stands in front of a server, and calls tokens expired before it does. */
async function startGateway(server: string) {
  const [expired, calls] = [new Set<string>(), [] as string[]];
  const gateway = createServer(async (request, response) => {
    const { method = '', url = '', headers } = request;
    calls.push(`${method} ${url}`);
    const { authorization = '', 'content-type': type = '' } = headers;
    const body = await text(request);
    if (expired.has(authorization.replace(/^Bearer /, ''))) {
      const facts = { type: 'about:blank', title: 'Expired', detail: 'It is over.', request_id: 'req_1' };
      const problem = { ...facts, status: 401, code: 'credential_expired' };
      response.writeHead(401, { 'content-type': 'application/problem+json' });
      return void response.end(JSON.stringify(problem));
    }
    const answer = await fetch(server + url, {
      method,
      headers: { authorization, 'content-type': type },
      ...(body && { body }),
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    response.end(await answer.text());
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void gateway.close().closeAllConnections());
  await once(gateway, 'listening');
  const { port } = gateway.address() as AddressInfo; // It listens on TCP.
  return { url: `http://127.0.0.1:${port}`, calls, expire: (token: string) => void expired.add(token) };
}

/** Somebody else's server: hears the credentials that come, and leads on to where it is told. */
async function startThief(redirect: string | null): Promise<{ url: string; heard: unknown[] }> {
  const heard: unknown[] = [];
  const server = createServer((request, response) => {
    heard.push(request.headers.authorization);
    response.writeHead(redirect ? 307 : 404, redirect ? { Location: redirect } : {}).end();
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo; // it listens on a port
  return { url: `http://127.0.0.1:${port}`, heard };
}
