/** `service mcp test`, `login`, `logout`, `prompts` and `prompt`, with the public servers and a real authorization server. */
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { lastingPort } from '../../../contract-tests/lasting-port.ts';
import { processStat } from '../../../server/process-stat.ts';
import { hostile, listening, overStdio } from '../../../server/runtime/mcp/test-mcp.ts';
import { startOauthServer } from '../../../server/runtime/mcp/test-oauth-server.ts';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

test('a server is connected to, and what it offers is printed', async () => {
  const home = withMcp({ everything: { ...overStdio('everything'), disabled_tools: ['echo'] } });
  const { code, stdout } = await home.service(['mcp', 'test', 'everything']);
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^everything: mcp-servers\/everything [\d.]+, protocol \d{4}-\d\d-\d\d, connected in [\d.]+ s\n/,
  );
  expect(stdout).toContain('mcp_everything_echo\tdisabled');
  expect(stdout).toContain('mcp_everything_get-sum\tenabled');
  const { stdout: json } = await home.service(['mcp', 'test', 'everything', '--json']);
  expect(JSON.parse(json)).toMatchObject({ name: 'everything', ok: true, fault: null, has_resources: true });
});

test('`mcp.*.type` and `mcp.*.url` a remote server is reached as they say', async () => {
  const { url } = await listening('streamableHttp');
  const home = withMcp({ remote: { type: 'http', url } });
  const { code, stdout } = await home.service(['mcp', 'test', 'remote']);
  expect(code).toBe(0);
  expect(stdout).toContain('mcp_remote_echo\tenabled');
});

test('one that fails is told with what it said, and by the exit code', async () => {
  const home = withMcp({
    bad: hostile('complains'),
    missing: { command: 'no-such-command-anywhere' },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the settings
    unset: { command: 'x', env: { TOKEN: '${NOT_SET_ANYWHERE:?needed}' } },
  });
  const bad = await home.service(['mcp', 'test', 'bad']);
  expect(bad.code).toBe(4);
  expect(bad.stderr).toContain('The MCP server bad cannot be used: it ended with exit code 3.');
  expect(bad.stderr).toContain('the last words of a server');
  const missing = await home.service(['mcp', 'test', 'missing']);
  expect(missing).toMatchObject({ code: 4, stderr: expect.stringContaining('its command was not found') });
  const unset = await home.service(['mcp', 'test', 'unset']);
  expect(unset).toMatchObject({ code: 4, stderr: expect.stringContaining('NOT_SET_ANYWHERE') });
  const unknown = await home.service(['mcp', 'test', 'other']);
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('bad, missing, unset') });
});

test('one is started where a run would start it: in the folder that the command works in', async () => {
  const home = withMcp({ here: { command: './here.sh' } });
  const script = home.write('project/packages/web/here.sh', '#!/bin/sh\npwd >"$HOME/folder"\n');
  chmodSync(script, 0o755);
  for (const words of [
    ['run', 'Hello'],
    ['mcp', 'test', 'here'],
  ]) {
    await home.service(['-C', 'packages/web', ...words]);
    expect(readFileSync(join(home.home, 'folder'), 'utf8')).toBe(`${join(home.project, 'packages/web')}\n`);
    rmSync(join(home.home, 'folder'));
  }
});

test('one of a file that nobody trusts is not started', async () => {
  const home = testHome();
  const canary = join(home.home, 'canary');
  home.write('project/service.json', { mcp: { files: { command: 'touch', args: [canary] } } });
  const { code, stderr } = await home.service(['mcp', 'test', 'files']);
  expect(code).toBe(2);
  expect(stderr).toContain('mcp does not count');
  expect(existsSync(canary)).toBe(false);
});

test('prompts are listed, and one is printed with its values', async () => {
  const home = withMcp({ everything: overStdio('everything') });
  const listed = await home.service(['mcp', 'prompts']);
  expect(listed.stdout).toContain('everything\targs-prompt\tcity= [state=]');
  const printed = await home.service(['mcp', 'prompt', 'everything', 'args-prompt', 'city=Bern']);
  expect(printed).toMatchObject({ code: 0, stdout: expect.stringContaining('Bern') });
  const unknown = await home.service(['mcp', 'prompt', 'everything', 'none-such']);
  expect(unknown.code).toBe(4);
});

test('a prompt is printed as it is into a pipe, and harmless on a terminal', async () => {
  const home = withMcp({ everything: overStdio('everything') });
  const city = 'Ber\u200dn\r\nor \x1b[2Jany';
  const words = ['mcp', 'prompt', 'everything', 'args-prompt', `city=${city}`];
  const { stdout } = await home.service(words);
  expect(stdout).toContain(city);
  expect(stdout).toMatch(/[^\n]\n$/);
  const place = { cwd: home.project, environment: home.environment };
  const terminal = await openTestTerminal([launcher, ...words], place);
  expect((await terminal.end()).screen).toMatch(/Ber\\u\{200d\}n\nor \\e\[2Jany/);
});

test('`mcp.*.oauth_callback_port` a person logs in by a browser, which comes back there; logout forgets it', async () => {
  const { url, grants } = await startOauthServer();
  const port = await lastingPort();
  const home = withMcp({ guarded: { type: 'http', url, oauth_callback_port: port } });
  const before = await home.service(['mcp', 'test', 'guarded']);
  expect(before).toMatchObject({ code: 4, stderr: expect.stringContaining('service mcp login guarded') });

  const authorizationUrl = await logIn(home);
  expect(authorizationUrl.searchParams.get('redirect_uri')).toBe(`http://127.0.0.1:${port}/callback`);
  expect(grants.map((asked) => asked.get('grant_type'))).toEqual(['authorization_code']);

  const after = await home.service(['mcp', 'test', 'guarded']);
  expect(after).toMatchObject({ code: 0, stdout: expect.stringContaining('mcp_guarded_act') });
  expect(await home.service(['mcp', 'logout', 'guarded'])).toMatchObject({ code: 0 });
  expect(await home.service(['mcp', 'test', 'guarded'])).toMatchObject({ code: 4 });
});

test('a scope is for servers that keep several of one name', async () => {
  const ended = await withMcp({}).service(['mcp', 'test', 'issues', '--scope', 'user']);
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('name it with --server') });
});

test('logout resolves nothing of the entry but its address, and needs no entry where it is given that', async () => {
  const { url } = await startOauthServer();
  const home = withMcp({ guarded: { type: 'http', url } });
  await logIn(home);
  const guarded = { type: 'http', url, timeout: 120 };
  const headers = { 'X-Team': '$(touch canary; exit 1)' };
  home.write('.config/service/service.json', { mcp: { guarded: { ...guarded, headers } } });
  expect(await home.service(['mcp', 'logout', 'guarded'])).toMatchObject({ code: 0 });
  expect(existsSync(join(home.project, 'canary'))).toBe(false);
  home.write('.config/service/service.json', { mcp: { guarded } });
  expect(await home.service(['mcp', 'test', 'guarded'])).toMatchObject({ code: 4 });

  await logIn(home);
  home.write('.config/service/service.json', { mcp: {} });
  const unnamed = await home.service(['mcp', 'logout', 'guarded']);
  expect(unnamed).toMatchObject({
    code: 4,
    stderr: expect.stringMatching(/name no MCP server guarded\.\n$/),
  });
  const other = await home.service(['mcp', 'logout', `${url}/other`]);
  expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining(`There are logins to: ${url}`) });
  expect(await home.service(['mcp', 'logout', url])).toMatchObject({ code: 0 });
  home.write('.config/service/service.json', { mcp: { guarded } });
  expect(await home.service(['mcp', 'test', 'guarded'])).toMatchObject({ code: 4 });
});

test('a login goes on waiting for its own answer, whatever else the browser asks of its address', async () => {
  const guarded = await startOauthServer();
  const home = withMcp({ guarded: { type: 'http', url: guarded.url } });
  const heard: number[] = [];
  await logIn(home, async (authorizationUrl) => {
    const callback = authorizationUrl.searchParams.get('redirect_uri') ?? '';
    const own = `${callback}?code=x&state=${authorizationUrl.searchParams.get('state')}`;
    for (const [method, url] of [
      ['GET', `${new URL(callback).origin}//`],
      ['GET', callback],
      ['GET', `${callback}?code=x&state=another`],
      ['HEAD', own],
    ] as const)
      heard.push((await fetch(url, { method })).status);
  });
  expect(heard).toEqual([404, 400, 400, 404]);
  expect(await home.service(['mcp', 'test', 'guarded'])).toMatchObject({ code: 0 });
});

test('of a login that cannot be renewed only the command speaks: the rest stands in the log, without what was quoted', async () => {
  const guarded = await startOauthServer();
  const home = withMcp({ guarded: { type: 'http', url: guarded.url } });
  // It repeats what it was sent, and the refresh token with it.
  guarded.pauses.before = ({ path, body }) => {
    if (path === '/token') guarded.claims.refusal = { error_description: body };
  };
  const loggedOut = async (...words: readonly string[]) => {
    await logIn(home);
    guarded.revoke(true);
    return home.service(words);
  };
  expect(await loggedOut('run', '-q', 'Hello')).toMatchObject({ code: 0, stderr: '' });
  const { code, stderr } = await loggedOut('mcp', 'test', 'guarded');
  expect({ code, lines: stderr.split('\n') }).toEqual({
    code: 4,
    lines: [expect.stringContaining('service mcp login guarded'), ''],
  });
  const [token = ''] = guarded.grants.flatMap((asked) => asked.get('refresh_token') ?? []);
  expect(token).not.toBe('');
  const { stdout: log } = await home.service(['logs', '--json']);
  expect(log).toContain('[mcp-sdk] OAuth');
  expect(log).not.toContain(token);
});

test('`mcp.*.oauth_client_secret` one that is repeated where it is refused stands in no log', async () => {
  const guarded = await startOauthServer();
  guarded.pauses.before = ({ path, authorization = '' }) => {
    const sent = Buffer.from(authorization.slice('Basic '.length), 'base64').toString();
    if (path === '/token') guarded.claims.refusal = { error_description: `Nobody is ${sent}` };
  };
  const client = { oauth_client_id: 'known', oauth_client_secret: 'wrong-one' };
  const home = withMcp({
    guarded: { type: 'http', url: guarded.url, oauth_grant: 'client_credentials', ...client },
  });
  expect(await home.service(['run', '-q', 'Hello'])).toMatchObject({ code: 0, stderr: '' });
  const { stdout: log } = await home.service(['logs', '--json']);
  expect(guarded.claims.refusal).toEqual({ error_description: 'Nobody is known:wrong-one' });
  expect(log).toContain('the login failed: invalid_client');
  expect(log).not.toContain('wrong-one');
});

test('`mcp.*.headers` what is repeated by a server that has a fault stands in no log', async () => {
  const repeating = createServer(({ headers }, response) => {
    response.writeHead(500, { 'content-type': 'text/plain' }).end(JSON.stringify(headers));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void repeating.close());
  await once(repeating, 'listening');
  const { port } = repeating.address() as AddressInfo; // as it listens on a port
  const headers = { 'x-api-key': 'the-key-of-the-server' };
  const home = withMcp({ broken: { type: 'http', url: `http://127.0.0.1:${port}/mcp`, headers } });
  expect(await home.service(['run', '-q', 'Hello'])).toMatchObject({ code: 0, stderr: '' });
  const { stdout: log } = await home.service(['logs', '--json']);
  expect(log).toContain('it answered with the HTTP status 500');
  expect(log).not.toContain('the-key-of-the-server');
});

test.each([
  [
    'a server that never answers',
    { command: 'sh', args: ['-c', String.raw`echo \$\$ >"\$HOME/pid"; exec sleep 297`] },
  ],
  ['a command that gives a value', { command: 'x', env: { X: '$(echo $$ >"$HOME/pid"; exec sleep 297)' } }],
])('an interrupt leaves nothing behind of %s', async (_title, server) => {
  const home = withMcp({ slow: server });
  for (const [words, signal, code] of [
    [['test', 'slow'], 'SIGINT', 130],
    [['prompts'], 'SIGTERM', 143],
    [['prompts'], 'SIGHUP', 129],
  ] as const) {
    const file = join(home.home, 'pid');
    rmSync(file, { force: true });
    const command = home.start(['mcp', ...words]);
    await command.until(() => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'));
    const pid = Number(readFileSync(file, 'utf8'));
    command.child.kill(signal);
    expect(await command.ended).toMatchObject({ code, stdout: '' });
    await expect.poll(() => processStat(pid)?.ended ?? true).toBe(true);
  }
});

/** The browser of the person follows to the end. Answers with the address that it was sent to. */
async function logIn(home: TestHome, before?: (authorizationUrl: URL) => Promise<void>): Promise<URL> {
  const login = home.start(['mcp', 'login', 'guarded']);
  const page = /https?:\S+\/authorize\S+/;
  await login.until(() => page.test(login.stderr()));
  const authorizationUrl = new URL(page.exec(login.stderr())?.[0] ?? '');
  await before?.(authorizationUrl);
  expect(await (await fetch(authorizationUrl)).text()).toContain('You can close this page');
  expect(await login.ended).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('Logged in to guarded'),
  });
  return authorizationUrl;
}

/** A busy machine may take longer to start a server than people wait for one. */
function withMcp(servers: Readonly<Record<string, object>>): TestHome {
  const home = testHome();
  const mcp = Object.fromEntries(
    Object.entries(servers).map(([name, entry]) => [name, { timeout: 120, ...entry }]),
  );
  home.write('.config/service/service.json', { mcp });
  return home;
}

test('with `--server` those that are kept there are added, listed, tried, logged in to, and removed', async () => {
  const server = await startTestServer({}, { SERVICE_OUTBOUND_ALLOW: '127.0.0.1' });
  const guarded = await startOauthServer();
  const home = testHome();
  const mcp = (step: string, ...words: string[]) =>
    home.service(['mcp', step, '--server', server.url, ...words], {
      variables: { SERVICE_API_KEY: server.operatorKey },
    });
  const { url } = await listening('streamableHttp');
  const line = 'Authorization: Bearer x';
  expect(await mcp('add', 'everything', url, '--scope', 'workspace', '--header', line)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^Added everything for all runs of the workspace \(mcps_\w+\)\neverything: mcp-servers\/everything [\d.]+, \d+ tools\n$/,
    ),
  });
  const program = ['--env', 'A=1=2', '--', 'no-such-command-anywhere', '-y'];
  expect(await mcp('add', 'broken', ...program)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Added broken for your own runs \(mcps_\w+\)\n$/),
    stderr: expect.stringContaining('The MCP server broken cannot be used: '),
  });
  const kept = JSON.parse((await mcp('list', '--json')).stdout) as { name: string }[];
  expect(kept.find(({ name }) => name === 'everything')).toMatchObject({ header_names: ['Authorization'] });
  expect(kept.find(({ name }) => name === 'broken')).toMatchObject({
    ...{ type: 'stdio', command: 'no-such-command-anywhere', args: ['-y'], env_names: ['A'] },
  });
  // A secret is read, and stands in no list of processes.
  const secret = [
    'mcp',
    'add',
    '--server',
    server.url,
    'secret',
    url,
    '--header',
    'Authorization',
    'X-Team: a:b',
  ];
  const variables = { SERVICE_API_KEY: server.operatorKey };
  expect(await home.service(secret, { variables, input: 'Bearer from-input\n' })).toMatchObject({ code: 0 });
  const [made] = JSON.parse((await mcp('list', '--json')).stdout) as { header_names: string[] }[];
  expect(made?.header_names.toSorted()).toEqual(['Authorization', 'X-Team']);
  expect(await home.service(secret, { variables })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no value of Authorization on standard input'),
  });
  // Not the nearer one of its name, which cannot be used.
  expect((await mcp('add', 'broken', url, '--scope', 'workspace')).stdout).toContain(
    '\nbroken: mcp-servers/everything ',
  );
  expect((await mcp('test', 'broken', '--scope', 'workspace')).code).toBe(0);
  // As of one that stands in service.json.
  expect(await mcp('test', 'broken')).toMatchObject({
    code: 4,
    // A server of root starts nothing in folders that are root's own once others have accounts.
    stderr: expect.stringMatching(
      /^service: The MCP server broken cannot be used: (it ended with exit code 127|the sandbox cannot start it: the folder of this workspace belongs to root)/,
    ),
  });
  await mcp('remove', 'broken', '--scope', 'workspace', '--yes');
  expect(await mcp('remove', 'broken')).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
  expect((await mcp('remove', 'broken', '--yes')).stdout).toMatch(/^Removed broken \(mcps_\w+\)\n$/);
  expect(await mcp('remove', 'broken', '--yes')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no MCP server broken'),
  });
  const here = await home.service(['mcp', 'add', 'issues', url]);
  expect(here).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('service config set --global mcp.issues'),
  });

  const added = await mcp('add', 'guarded', guarded.url);
  expect(added).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('service mcp login guarded --server'),
  });
  expect(await mcp('list')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^guarded\tuser\thttp\t/m),
  });
  expect(await mcp('test', 'guarded')).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('service mcp login guarded --server'),
  });
  const { stderr } = await mcp('login', 'guarded');
  const page = /^http\S+$/m.exec(stderr)?.[0] ?? '';
  // As a browser does, to the end.
  expect((await fetch(page)).url).toBe(`${server.url}/mcp/connected`);
  expect(await mcp('test', 'guarded')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^guarded: guarded 0, 1 tool\nmcp_guarded_act\tenabled\t.*\n$/),
  });
  expect((await mcp('logout', 'guarded')).code).toBe(0);
  expect((await mcp('test', 'guarded')).code).toBe(4);
  expect(await mcp('test', 'other')).toMatchObject({ code: 2, stderr: expect.stringContaining('guarded') });
});

test.each([
  [
    ['https://mcp.example.com/mcp', 'more', 'words'],
    'takes no further words, and these follow it: more words.',
  ],
  [['https://mcp.example.com/mcp', '--env', 'LEVEL=info'], '--env is for an MCP server that is a command'],
  [['--type', 'sse', '--', 'npx', 'server'], '--type is for an MCP server with an address'],
  [['--header', 'X-Team: red', '--', 'npx', 'server'], '--header is for an MCP server with an address'],
])('mcp add %j is refused before anything is sent', async (words, told) => {
  const variables = { SERVICE_SERVER: 'http://127.0.0.1:1', SERVICE_API_KEY: 'sk-x' };
  const ended = await testHome().service(['mcp', 'add', 'issues', ...words], { variables });
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(told) });
});
