/**
 * Every secret that the contracts know of, used on a real server together with those of the process: none stands
 * anywhere afterwards but where it has to be. A new secret of a contract fails here until it is used here.
 */
import { once } from 'node:events';
import { chmod, copyFile, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type OpenId, openIdVariables, startOpenId } from '../contract-tests/openid/start-openid.ts';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import { routes } from './contract/routes.ts';
import { sandboxHere } from './runtime/processes/test-sandbox.ts';
import { runToEnd, startServer, temporaryFolder, writeSettings } from './server-process.ts';
import type { Json } from './test-app.ts';
import {
  keepMcpServers,
  keepProviders,
  keepSearchEngine,
  keepSkillRepository,
  keepStorage,
  timeout,
} from './test-canary-providers.ts';
import { signIn, throughProvider } from './test-canary-sign-in.ts';
import { ada, admin, confide, given, type Stage, send, tokensOf } from './test-canary-stage.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { backUp, filesOf, postgresPrograms, rowsOf } from './test-kept.ts';
import { startMailbox } from './test-mailbox.ts';
import { collectSecrets, type Secrets, secretMembers, secretSettings } from './test-secrets.ts';

const sandboxed = !('unavailable' in (await sandboxHere()));
let upstream: Upstream;
let openid: OpenId;
/** All that a collector of traces was sent. */
let traces = '';
const collector = createServer((request, response) => {
  text(request).then((sent) => {
    traces += sent;
    response.end('{}');
  }, response.destroy);
});
beforeAll(async () => {
  [upstream, openid] = await Promise.all([startUpstream(), startOpenId()]);
  await once(collector.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  collector.close();
  await Promise.all([upstream.stop(), openid.stop()]);
});

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  test.skipIf(database === 'PostgreSQL' && (inject('postgresUrl') === null || !postgresPrograms))(
    'no secret that comes in, goes out or is kept stands where it has no business, in whatever form',
    async () => {
      const stage = await prepare(database);
      await signIn(stage);
      await throughProvider(stage);
      await ask(stage);
      await sendWrongly(stage);
      const members = secretMembers().map(({ operationId, name }) => `${operationId} ${name}`);
      expect(members.filter((member) => !stage.sent.has(member)).sort()).toEqual(sentWronglyAlone);
      expect([...stage.sent].filter((member) => !members.includes(member))).toEqual([]);
      expect(stage.secrets.size).toBeGreaterThan(70);
      for (const { request, text, gives } of stage.told)
        expect(
          stage.secrets.in(text).filter(({ what }) => !gives.has(what)),
          request,
        ).toEqual([]);
      await expectNothingKept(stage);
      expect(await stage.server.stop()).toBe(0);
      await expectNothingKept(stage);
      // What happened is told, so that it is not silence that passes here.
      expect(stage.server.log()).toContain('"level":20');
      expect(stage.server.log()).toContain('a run failed');
      expect(traces).toContain('"spans"');
    },
    240_000,
  );
});

/** Behind a proxy that passes everything on: the test. */
const publicUrl = 'http://127.0.0.1:1';

/** The first start has made the operator already, and the one cookie stands for the other where there is no TLS. */
const sentWronglyAlone = [
  'completeOidcLogin __Host-service_oidc',
  'redeemLoginCode __Host-service_oidc',
  'registerUser bootstrap_token',
];

async function prepare(database: string): Promise<Stage> {
  const folder = await temporaryFolder();
  // Run by root, the server gives each workspace an owner of its own, who has to come to it.
  await chmod(folder, 0o711);
  const secrets = collectSecrets();
  const mailbox = await startMailbox({
    allowInsecureAuth: true,
    onAuth: ({ username = '' }, _session, done) => done(null, { user: username }),
  });
  const variables = {
    SERVICE_DEBUG: 'true',
    SERVICE_ADMIN_EMAIL: 'admin@example.com',
    SERVICE_ADMIN_PASSWORD: secrets.make('SERVICE_ADMIN_PASSWORD'),
    SERVICE_SMTP_URL: mailbox.url.replace('//', `//mailer:${secrets.make('SERVICE_SMTP_URL')}@`),
    SERVICE_MAIL_FROM: 'service@example.com',
    SERVICE_PUBLIC_URL: publicUrl,
    // Where everything is played that is not this server.
    SERVICE_OUTBOUND_ALLOW: '127.0.0.1',
    ...openIdVariables(openid.url),
    // It listens on a port.
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    OPENAI_API_KEY: secrets.make('OPENAI_API_KEY'),
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    ...(database === 'PostgreSQL' ? await onPostgres(folder, secrets) : {}),
  };
  secrets.add('SERVICE_OIDC_CORP_CLIENT_SECRET', 'the-secret-of-corp');
  const settings = settingsWithSecrets('global', secrets);
  await writeSettings(folder, { ...settings, models: { large: { provider: 'used', model: 'scripted-1' } } });
  const server = await startServer({ folder, variables });
  const masterKey = await readFile(variables.SERVICE_MASTER_KEY_FILE ?? join(folder, 'data/master.key'));
  secrets.add('the master key', masterKey.toString().trim());
  secrets.add('the bytes of the master key', Buffer.from(masterKey.toString(), 'base64').toString('hex'));
  return { folder, variables, server, mailbox, openid, publicUrl, secrets, told: [], sent: new Set() };
}

/** The server of the tests trusts whoever comes, so that a password may be anything. */
async function onPostgres(folder: string, secrets: Secrets) {
  const url = new URL(await newDatabase());
  url.password = secrets.make('DATABASE_URL');
  return { DATABASE_URL: url.href, SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
}

/** Settings in which each place for a secret has one, whatever places the schema comes to have. */
function settingsWithSecrets(origin: string, secrets: Secrets): Record<string, Json> {
  const provider = { type: 'openai-compat', base_url: `${upstream.url}/v1`, models: [{ id: 'scripted-1' }] };
  // It is no server and so is ended and started again and again: what it wrote is whole or not there.
  const child = (file: string) => {
    const script = `env > ${file}.part && mv ${file}.part ${file}; sleep 60`;
    return { command: '/bin/sh', args: ['-c', script], timeout };
  };
  const remote = { type: 'http', url: `${upstream.url}/mcp`, oauth_grant: 'client_credentials', timeout };
  const settings: Record<string, Json> = {
    providers: { used: { ...provider }, renewed: { ...provider, oauth: renewal() } },
    mcp: { child: child('mcp.txt'), remote: { ...remote } },
    mcpServers: { aliased_child: child('aliased.txt'), aliased_remote: { ...remote } },
    lsp: { small: { command: process.execPath, args: ['server.ts', 'environment'], filetypes: ['x'] } },
    hooks: { pre_tool_use: [{ matcher: '^bash$', command: 'env > hook.txt; exit 0' }] },
  };
  for (const keys of secretSettings()) {
    const place = [
      keys[0] ?? '',
      entryFor(keys),
      ...keys.slice(2).map((key) => (key === '*' ? 'API_TOKEN' : key)),
    ];
    const last = place.pop() ?? '';
    const holder = place.reduce((at, key) => {
      at[key] ??= {};
      return at[key];
    }, settings);
    holder[last] = secrets.make(`${origin} ${keys.join('.')}`);
  }
  return settings;
}

/** A token that is over, and cannot be renewed: the upstream gives none. */
const renewal = () => ({
  ...{ expires_in: 3600, expires_at: 1 },
  client: { client_id: 'service', token_url: `${upstream.url}/token`, auth_url: upstream.url },
});

/** The entry that has a use for the secret. */
function entryFor([section, , key]: readonly string[]): string {
  if (section === 'providers') return key === 'oauth' ? 'renewed' : 'used';
  if (section === 'lsp') return 'small';
  const kind = key === 'env' ? 'child' : 'remote';
  if (section === 'mcp') return kind;
  if (section === 'mcpServers') return `aliased_${kind}`;
  throw new Error(`There is a new secret in ${section}: say which of its entries is to have it.`);
}

/** Runs with tools, hooks, MCP and language servers, by a key, in a workspace whose settings hold secrets of their own. */
async function ask(stage: Stage): Promise<void> {
  const { secrets, variables, folder } = stage;
  const login = { email: admin, password: variables.SERVICE_ADMIN_PASSWORD };
  const { access } = tokensOf(stage, await confide(stage, ['login'], login));
  const headers = { 'idempotency-key': 'once' };
  const made = await send(stage, 'POST', '/api/v1/auth/api-keys', {
    token: access,
    headers,
    body: { name: 'k' },
  });
  const first = given(stage, made, 'an API key', made.body.key);
  const rotate = `/api/v1/auth/api-keys/${made.body.api_key.id}/rotate`;
  const rotated = await send(stage, 'POST', rotate, { token: first, body: { grace_seconds: 600 } });
  const token = given(stage, rotated, 'another API key', rotated.body.key);
  await keepProviders(stage, token, `${upstream.url}/v1`);
  await keepMcpServers(stage, token, upstream.url);
  await keepStorage(stage, token, upstream.url);
  await keepSearchEngine(stage, token, upstream.url);
  await keepSkillRepository(stage, token, upstream.url);

  const me = await send(stage, 'GET', '/api/v1/users/me', { token });
  const { default_workspace_id, organization_id } = me.body.memberships[0];
  const place = `/api/v1/workspaces/${default_workspace_id}`;
  const patch = settingsWithSecrets('workspace', secrets);
  const changed = await send(stage, 'PATCH', `${place}/config`, {
    token: access,
    body: patch,
    headers: { 'if-match': '*', 'content-type': 'application/merge-patch+json' },
  });
  expect(changed.status).toBe(200);
  const untrusted = await send(stage, 'GET', `${place}/trust`, { token });
  const files = untrusted.body.files.map(({ path, sha256 }: Json) => ({ path, sha256 }));
  expect((await send(stage, 'POST', `${place}/trust`, { token: access, body: { files } })).status).toBe(200);

  const workspace = join(folder, 'data/workspaces', default_workspace_id);
  await copyFile(join(import.meta.dirname, 'runtime/lsp/test-server.ts'), join(workspace, 'server.ts'));
  await upstream.script(lookingAround);
  const permission_rules = ['bash', 'write'].map((tool) => ({ tool, decision: 'allow' }));
  const session = await send(stage, 'POST', '/api/v1/sessions', { token, body: { permission_rules } });
  const session_id = session.body.id;
  const query = (body: object) =>
    send(stage, 'POST', '/api/v1/query', { token, body: { session_id, ...body } });
  expectLookedAround((await query({ prompt: 'look' })).body);
  for (const [model, credentials] of [
    ['openai:gpt-5.2', 1],
    ['used:scripted-1', 2],
    ['kept:scripted-1', 2],
  ] as const) {
    await upstream.script([{ reply: { text: 'Hello.' } }]);
    expect((await query({ prompt: 'hello', model })).status).toBe(200);
    const sent =
      JSON.stringify((await upstream.requests()).at(-1)?.headers).match(/canary[0-9a-f]{24}/g) ?? [];
    expect([model, sent]).toEqual([model, expect.objectContaining({ length: credentials })]);
    // As providers do: the refusal quotes the credentials that came.
    const message = `Incorrect key: ${sent.join(' or ')}`;
    await upstream.script([{ fail: { kind: 'status', status: 401, message } }]);
    expect((await query({ prompt: 'refuse', model })).status).toBe(502);
  }
  expect((await query({ prompt: 'hello', model: 'renewed:scripted-1' })).status).toBe(502);
  // Of the one whose credentials the refusal quotes: those of another would not be known to be secret.
  const model = 'kept:scripted-1';
  const streamed = await send(stage, 'POST', '/api/v1/query/stream', {
    token,
    body: { prompt: 'refuse', model },
  });
  expect(streamed.body).toContain('event: error');
  const messages = { model, max_tokens: 10, messages: [{ role: 'user', content: 'refuse' }] };
  expect(
    (await send(stage, 'POST', '/v1/messages', { token, body: messages })).status,
  ).toBeGreaterThanOrEqual(400);

  if (sandboxed) await expectChildrenToKnowTheirOwn(workspace, secrets);
  await readEverything(stage, [token, access], { session_id, organization_id, place });
  // A mail server that is gone: what a login to it would have said stays away from the log.
  await stage.mailbox.close();
  expect((await send(stage, 'POST', '/api/v1/auth/password/forgot', { body: { email: ada } })).status).toBe(
    202,
  );
}

/** A model that looks at its own environment, at what else runs there, and at what a language server makes of a change. */
const lookingAround = [
  {
    when: { last_user: '^look', step: 0 },
    reply: {
      tool_calls: [
        { name: 'bash', arguments: { command: 'env; cat /proc/self/environ; cat /proc/[0-9]*/environ' } },
      ],
    },
  },
  {
    when: { last_user: '^look', step: 1 },
    reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.x', content: 'x' } }] },
  },
  { reply: { text: 'You said: {{last_user}}' } },
];

/** What the tools were told is searched with the answer; here it is that there was something to be told. */
function expectLookedAround({ tool_results: [bash, write] }: Json): void {
  if (!sandboxed) return;
  expect(bash.content).toContain('PATH=');
  expect(write.content).toContain('API_TOKEN is its own');
}

async function expectChildrenToKnowTheirOwn(workspace: string, secrets: Secrets): Promise<void> {
  for (const [file, own] of [
    ['hook.txt', []],
    ['mcp.txt', ['mcp.*.env.*']],
    ['aliased.txt', ['mcpServers.*.env.*']],
  ] as const) {
    const written = () => readFile(join(workspace, file), 'utf8').catch(() => '');
    await expect.poll(written).toContain('PATH=');
    const text = await written();
    // Of whichever file its settings are.
    const found = secrets.in(text).map(({ what }) => what.replace(/^(global|workspace) /, ''));
    expect([file, ...new Set(found)]).toEqual([file, ...own]);
  }
}

/** Whatever can be read: each list, each document and each number, by key and by login. */
async function readEverything(
  stage: Stage,
  tokens: readonly string[],
  { session_id, place }: Readonly<Record<'session_id' | 'organization_id' | 'place', string>>,
): Promise<void> {
  const session = `/api/v1/sessions/${session_id}`;
  const plain = routes.filter(
    ({ method, path, operationId }) => method === 'get' && !/\{/.test(path) && !/^stream/.test(operationId),
  );
  const idsIn = async (path: string): Promise<string[]> =>
    (await send(stage, 'GET', path, { token: tokens[0] ?? '' })).body.data.map(({ id }: Json) => id);
  const runs = await idsIn('/api/v1/runs');
  const entries = await idsIn('/api/v1/audit/logs');
  const paths = [
    ...plain.map(({ path }) => path),
    ...['json', 'jsonl', 'markdown', 'html'].map((format) => `${session}/export?format=${format}`),
    ...['csv', 'ndjson'].map((format) => `/api/v1/audit/logs/export?format=${format}`),
    ...['', '/messages', '/inspect', '/diff', '/queue', '/permissions'].map((part) => session + part),
    ...runs.map((id) => `/api/v1/runs/${id}/events?follow=false`),
    ...entries.map((id) => `/api/v1/audit/logs/${id}`),
    ...['', '/config', '/trust', '/members'].map((part) => place + part),
    ...['day', 'model', 'user', 'key'].map((group) => `/api/v1/usage?group_by=${group}`),
  ];
  // Which device is asked about, and which login to an MCP server has ended, this does not say.
  const asksForMore = ['/api/v1/auth/device', '/api/v1/mcp/oauth/callback'];
  const unread: string[] = [];
  for (const token of tokens)
    for (const path of paths) {
      const { status } = await send(stage, 'GET', path, { token });
      if (status !== 200 && !asksForMore.includes(path)) unread.push(`${path}: ${status}`);
    }
  expect(unread).toEqual([]);
}

/** Each secret once more in a request that fails: these are what an incautious server would quote. */
async function sendWrongly(stage: Stage): Promise<void> {
  const { secrets } = stage;
  for (const { operationId, method, path, place, name } of secretMembers()) {
    const value = secrets.make(`${operationId} ${name}, sent wrongly`);
    const filled = path.replaceAll(/\{\w+\}/g, 'corp');
    const bodies =
      place === 'body'
        ? [{ [name]: [value] }, { [name]: value, stray: [value] }, `{"${name}": "${value}"`, `"${value}"`]
        : [undefined];
    for (const body of bodies) {
      const headers: Record<string, string> =
        place === 'header' ? { [name]: value } : place === 'cookie' ? { cookie: `${name}=${value}` } : {};
      const target = place === 'query' ? `${filled}?${name}=${value}` : filled;
      const answer = await send(stage, method.toUpperCase(), target, {
        headers,
        ...(body !== undefined && { body }),
      });
      expect(answer.status, `${operationId} ${name}`).toBeGreaterThanOrEqual(400);
    }
    const stray = `/api/v1/users/me?${name.replaceAll('.', '_')}=${value}`;
    for (const token of [value, `sk-${value.padEnd(43, 'x')}`, `a.${value}.c`])
      expect((await send(stage, 'GET', stray, { token })).status).toBe(401);
  }
  const email = 'mallory@example.com';
  const bootstrap_token = secrets.make('a bootstrap token that is none');
  const password = secrets.make('the password of Mallory');
  const body = { email, password, bootstrap_token };
  expect((await send(stage, 'POST', '/api/v1/auth/register', { body })).status).toBe(403);
  const wrong = secrets.make('a wrong password');
  expect(
    (await send(stage, 'POST', '/api/v1/auth/login', { body: { email: ada, password: wrong } })).status,
  ).toBe(401);
}

/** The log, the summary, the help, the files, every row, and a copy of it all. */
async function expectNothingKept(stage: Stage): Promise<void> {
  const { folder, server, secrets, variables } = stage;
  const help = await runToEnd({ folder, args: ['--help'], variables });
  expect(help.code).toBe(0);
  const found: Record<string, readonly object[]> = {};
  const look = (where: string, what: string | Buffer) => {
    found[where] = secrets.in(what);
  };
  look('the log', server.log());
  look('the summary', server.printed());
  look('the help', help.stdout);
  look('the traces', traces);
  for (const { name, bytes } of await filesOf(folder)) look(name, bytes);
  for (const [table, rows] of await rowsOf(stage)) look(`the table ${table}`, rows);
  look('the backup', await backUp(stage));
  expect(found).toEqual(Object.fromEntries(Object.keys(found).map((where) => [where, []])));
}
