/** Every problem code has a request that provokes it: the list in the contract, the map in the code, and the server agree. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openIdVariables } from '../contract-tests/openid/start-openid.ts';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import { createApp, createHttpServer } from './app.ts';
import { type ProblemCode, problemCodeValues } from './contract/api.ts';
import contract from './contract/openapi.json' with { type: 'json' };
import { createOutbound } from './outbound/outbound.ts';
import { Problem, problems } from './problem.ts';
import { readServerSettings } from './server-settings/server-settings.ts';
import type { OpenServices } from './services.ts';
import { workspaceLimits } from './store/given-workspaces.ts';
import type { Reach } from './store/store.ts';
import {
  type Account,
  type Answer,
  type Json,
  mergePatch,
  type RequestOptions,
  type TestApp,
  testApp,
} from './test-app.ts';
import { createWebSearch } from './web-search/web-search.ts';

let upstream: Upstream;
let app: TestApp;
/** A second server: for a provider that fails, tight limits, and a clock of its own. */
let tight: TestApp;
let bare: TestApp;
let ada: Account;
/** Below it the first server takes folders for workspaces. */
let root = '';
/** How far the clock of `tight` is ahead: a frozen one would be passed by what has gone by since the server began. */
let aheadMs = 0;
const now = () => new Date(Date.now() + aheadMs);

beforeAll(async () => {
  upstream = await startUpstream();
  const provider = {
    type: 'openai-compat' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'm' }],
  };
  root = await mkdtemp(join(tmpdir(), 'service-roots-'));
  app = await testApp({
    config: { providers: { scripted: provider } },
    settings: { workspaceRoots: [root] },
  });
  tight = await testApp({
    config: { providers: { scripted: provider } },
    settings: {
      streamsPerUser: 1,
      streamsTotal: 1,
      registration: 'invite',
      metrics: 'operator',
      answerSeconds: 0.2,
      providerSilenceSeconds: 0.3,
    },
    clock: { now },
  });
  const oidcProviders = readServerSettings([], openIdVariables('http://127.0.0.1:1', 'gone')).settings
    .oidcProviders;
  bare = await testApp({
    settings: { mode: 'multi', metrics: 'operator', oidcProviders, catalogUrl: 'http://127.0.0.1:1/' },
  });
  ada = await app.register('ada');
});

afterAll(async () => {
  await Promise.all([app.close(), tight.close(), bare.close()]);
  await upstream.stop();
  await rm(root, { recursive: true });
});

type Provocation = () => Promise<Pick<Answer, 'status' | 'body'>>;

const ask = (method: string, path: string, options: RequestOptions = {}) =>
  app.request(method, path, { token: ada.token, ...options });
const query = (body: Record<string, unknown>, on = app, token = ada.token) =>
  on.request('POST', '/api/v1/query', { token, body });
const startDevice = async () => (await app.request('POST', '/api/v1/auth/device/code', { body: {} })).body;
const poll = (device_code: string) =>
  app.request('POST', '/api/v1/auth/device/token', { body: { device_code } });
const missing = 'ses_01k9w6r3h2e7xv5q0c8m4b1tza';

/** Somebody whose login asks for a one-time code. */
async function withSecondFactor(name: string): Promise<Account> {
  const account = await app.register(name);
  const { token, password } = account;
  const { body } = await app.request('POST', '/api/v1/auth/mfa/enroll', { token, body: { password } });
  const code = new TOTP({ secret: body.secret }).generate();
  await app.request('POST', '/api/v1/auth/mfa/confirm', { token, body: { code } });
  return account;
}

/** The path of the workspace that everybody has from the beginning. */
async function defaultWorkspace(): Promise<string> {
  const { body } = await ask('GET', '/api/v1/users/me');
  return `/api/v1/workspaces/${body.memberships[0].default_workspace_id}`;
}

/** A query whose provider fails as told. */
async function failing(fail: object, on = app, token = ada.token) {
  await upstream.script([{ reply: { text: 'A long enough answer.' }, fail }]);
  return query({ prompt: 'x' }, on, token);
}

/** Bytes that no client library would send. */
function raw(request: string, url = app.url): Promise<Pick<Answer, 'status' | 'body'>> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(request));
    socket.on('data', (bytes) => {
      answer += bytes;
    });
    socket.on('error', reject);
    socket.on('close', () => {
      const [head = '', body = ''] = answer.split('\r\n\r\n');
      resolve({ status: Number(head.split(' ')[1]), body: JSON.parse(body) });
    });
  });
}

/** A tool call that waits for a person, and how to go on from there. */
async function pending(on = app, token = ada.token) {
  await upstream.script([
    {
      when: { step: 0 },
      reply: {
        tool_calls: [{ name: 'write', arguments: { file_path: `${Math.random()}.txt`, content: '' } }],
      },
    },
    { reply: { text: 'Done.' } },
  ]);
  const { body } = await on.request('POST', '/api/v1/sessions', { token, body: {} });
  const response = await on.stream('POST', '/api/v1/query/stream', {
    token,
    body: { prompt: 'x', session_id: body.id },
  });
  const path = `/api/v1/sessions/${body.id}`;
  await expect
    .poll(async () => (await on.request('GET', `${path}/permissions`, { token })).body.data.length)
    .toBe(1);
  const [request] = (await on.request('GET', `${path}/permissions`, { token })).body.data;
  return { path, replyPath: request.reply_path, runId: request.run_id, response };
}

/** The same server with some part replaced, or with less patience. */
async function elsewhere(
  change: Partial<OpenServices>,
  send: (url: string) => Promise<Pick<Answer, 'status' | 'body'>>,
  limits?: { readonly headersMs: number; readonly requestMs: number; readonly checkMs: number },
) {
  const http = createHttpServer(createApp({ ...app.services, ...change }), limits);
  await new Promise<void>((resolve) => http.server.listen(0, '127.0.0.1', resolve));
  const { port } = http.server.address() as AddressInfo; // it listens on a port
  try {
    return await send(`http://127.0.0.1:${port}`);
  } finally {
    await http.drain(0);
  }
}

async function readFrom(url: string, path: string) {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${ada.token}` } });
  return { status: response.status, body: await response.json() };
}

/** The database fails in a way that the tests of the store provoke for real; here the answer counts. */
function sessionsFail(error: Error) {
  const { store } = app.services;
  const sessions = { ...store.sessions, list: () => Promise.reject(error) };
  return elsewhere({ store: { ...store, sessions } }, (url) => readFrom(url, '/api/v1/sessions'));
}

/** The same key for two requests, the second of which comes while the first is at work. */
async function keyTwice(second: object) {
  const token = ada.token;
  const headers = { 'idempotency-key': `twice-${Math.random()}` };
  await upstream.script([{ reply: { text: 'Slowly. ', repeat: 10, chunk_delay_ms: 20 } }]);
  const first = await app.stream('POST', '/api/v1/query/stream', { token, headers, body: { prompt: 'x' } });
  const answer = await ask('POST', '/api/v1/query/stream', { headers, body: second });
  await first.body?.cancel();
  return answer;
}

/** The path of somebody's first organization. */
async function organizationOf(token: string): Promise<string> {
  const { body } = await app.request('GET', '/api/v1/users/me', { token });
  return `/api/v1/organizations/${body.memberships[0].organization_id}`;
}

async function deleted(token: string) {
  const path = await organizationOf(token);
  const { headers } = await app.request('GET', path, { token });
  return app.request('DELETE', path, { token, headers: { 'if-match': headers.get('etag') ?? '' } });
}

async function invited(body: object) {
  return ask('POST', `${await organizationOf(ada.token)}/invitations`, { body });
}

function suspend(userId: string) {
  return app.request('PATCH', `/api/v1/users/${userId}`, {
    token: app.operatorKey,
    body: { status: 'suspended' },
    headers: mergePatch,
  });
}

/** Of five bytes. */
async function formed(token: string, path: string, { file, ...fields }: Record<string, string>) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([file ?? '']), 'file');
  const response = await fetch(app.url + path, {
    ...{ method: 'POST', body: form, headers: { authorization: `Bearer ${token}` } },
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Json };
}

async function newFile(): Promise<string> {
  const form = new FormData();
  form.append('file', new Blob(['short']), 'short.txt');
  const uploaded = await fetch(`${app.url}/api/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ada.token}` },
    body: form,
  });
  const { id } = (await uploaded.json()) as { id: string }; // held against the contract before it was sent
  return id;
}

async function corpusWithFile() {
  const { body } = await ask('POST', '/api/v1/corpora', { body: { name: 'Handbook' } });
  return { corpus: `/api/v1/corpora/${body.id}`, file: await newFile() };
}

/** Asks an engine that answers with that status, or not at all. */
async function searching(status: number | null) {
  const engine = createServer((_request, response) => {
    if (status !== null) response.writeHead(status, { connection: 'close' }).end();
  });
  await new Promise<void>((resolve) => void engine.listen(0, '127.0.0.1', resolve));
  const { port } = engine.address() as AddressInfo; // it listens on TCP
  const outbound = createOutbound({ shared: () => false });
  const webSearch = createWebSearch<Reach>({
    ...{ records: app.services.store.webSearchSettings, environment: `http://127.0.0.1:${port}` },
    ...{ outbound, timeoutMs: 100, sealing: { seal: (key) => key, open: (sealed) => sealed } },
  });
  const body = JSON.stringify({ query: 'x' });
  const headers = { authorization: `Bearer ${ada.token}`, 'content-type': 'application/json' };
  try {
    return await elsewhere({ webSearch }, async (url) => {
      const answer = await fetch(`${url}/api/v1/web/search`, { method: 'POST', headers, body });
      return { status: answer.status, body: await answer.json() };
    });
  } finally {
    await outbound.close();
    engine.close();
    engine.closeAllConnections();
  }
}

const provocations: Readonly<Record<ProblemCode, Provocation>> = {
  invalid_request: () => ask('POST', '/api/v1/query', { body: { prompt: 5 } }),
  invalid_json: () => ask('POST', '/api/v1/query', { body: '{"prompt": ' }),
  invalid_encoding: () => ask('POST', '/api/v1/query', { body: Buffer.from('{"prompt": "\xff"}', 'latin1') }),
  invalid_cursor: () => ask('GET', '/api/v1/sessions?cursor=forged'),
  malformed_http: () => raw('GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n'),
  oidc_login_invalid: () => bare.request('GET', '/api/v1/auth/oidc/gone/callback?state=x&code=y'),
  oauth_invalid: async () => {
    // Somebody else's: what one has set up oneself is asked before the provider of the other tests.
    const { token } = await app.register('connector');
    const path = '/api/v1/settings/providers';
    const setting = { scope: 'user', provider_id: 'openai', api_key: 'k', name: 'To connect' };
    const { body } = await app.request('POST', path, { token, body: setting });
    return app.request('POST', `${path}/${body.id}/oauth/complete`, {
      token,
      body: { state: 'x', code: 'y' },
    });
  },
  authorization_pending: async () => poll((await startDevice()).device_code),
  slow_down: async () => {
    const { device_code } = await startDevice();
    await poll(device_code);
    return poll(device_code);
  },
  access_denied: async () => {
    const { device_code, user_code } = await startDevice();
    await ask('POST', '/api/v1/auth/device/reply', { body: { user_code, decision: 'deny' } });
    return poll(device_code);
  },
  expired_token: () => poll('dc_unknown'),
  credential_missing: () => app.request('GET', '/api/v1/users/me'),
  credential_invalid: () => app.request('GET', '/api/v1/users/me', { token: 'sk-nobody' }),
  credential_expired: async () => {
    const { body } = await tight.request('POST', '/api/v1/auth/api-keys', {
      token: tight.operatorKey,
      body: { name: 'short', expires_at: new Date(now().getTime() + 60_000).toISOString() },
    });
    aheadMs += 120_000;
    return tight.request('GET', '/api/v1/users/me', { token: body.key });
  },
  credential_conflict: () =>
    app.request('POST', '/v1/messages', { token: ada.token, headers: { 'x-api-key': 'sk-other' }, body: {} }),
  login_failed: () =>
    app.request('POST', '/api/v1/auth/login', { body: { email: ada.email, password: 'wrong' } }),
  otp_required: async () => {
    const { email, password } = await withSecondFactor('otp-required');
    return app.request('POST', '/api/v1/auth/login', { body: { email, password } });
  },
  otp_invalid: async () => {
    const { token } = await withSecondFactor('otp-invalid');
    return app.request('DELETE', '/api/v1/auth/mfa', { token, headers: { 'x-service-otp': '000000' } });
  },
  mfa_conflict: async () => {
    const { token, password } = await withSecondFactor('mfa-conflict');
    return app.request('POST', '/api/v1/auth/mfa/enroll', { token, body: { password } });
  },
  password_wrong: () => ask('POST', '/api/v1/auth/mfa/enroll', { body: { password: 'wrong' } }),
  reset_link_expired: () =>
    app.request('POST', '/api/v1/auth/password/reset', {
      body: { token: 'pr_unknown', password: 'long enough' },
    }),
  too_many_attempts: async () => {
    const body = { email: 'victim@example.com', password: 'wrong' };
    for (let attempt = 0; attempt < 10; attempt += 1)
      await app.request('POST', '/api/v1/auth/login', { body });
    return app.request('POST', '/api/v1/auth/login', { body });
  },
  refresh_token_invalid: () =>
    app.request('POST', '/api/v1/auth/refresh', { body: { refresh_token: 'rt_unknown' } }),
  role_required: async () => {
    const { token } = await bare.register('nobody');
    return bare.request('GET', '/metrics', { token });
  },
  scope_required: async () => {
    const { body } = await ask('POST', '/api/v1/auth/api-keys', {
      body: { name: 'r', scopes: ['sessions:read'] },
    });
    return app.request('POST', '/api/v1/sessions', { token: body.key, body: {} });
  },
  login_required: async () => {
    const { body } = await ask('POST', '/api/v1/auth/api-keys', { body: { name: 'k' } });
    return app.request('POST', '/api/v1/auth/logout', { token: body.key, body: {} });
  },
  account_suspended: async () => {
    const { token } = await app.register('suspended');
    const { body: key } = await app.request('POST', '/api/v1/auth/api-keys', { token, body: { name: 'k' } });
    const { body: me } = await app.request('GET', '/api/v1/users/me', { token });
    await suspend(me.id);
    return app.request('GET', '/api/v1/users/me', { token: key.key });
  },
  address_refused: async () => {
    const { body } = await ask('POST', '/api/v1/auth/api-keys', {
      body: { name: 'k', ip_allow: ['192.0.2.0/24'] },
    });
    return app.request('GET', '/api/v1/users/me', { token: body.key });
  },
  registration_refused: () =>
    tight.request('POST', '/api/v1/auth/register', {
      body: { email: 'eve@example.com', password: 'long enough' },
    }),
  permission_mode_refused: () => query({ prompt: 'x', permission_mode: 'bypass' }),
  path_refused: () => ask('POST', '/api/v1/workspaces', { body: { name: 'x', path: '/etc' } }),
  restricted_section: async () =>
    ask('PATCH', `${await defaultWorkspace()}/config`, {
      body: { permissions: { allowed_tools: ['bash'] } },
      headers: { 'if-match': '*' },
    }),
  not_found: () => ask('GET', `/api/v1/sessions/${missing}`),
  operation_not_found: () => ask('GET', '/api/v1/nothing'),
  corpus_not_found: () => query({ prompt: 'x', corpus_id: 'none' }),
  agent_not_found: () => query({ prompt: 'x', agent_slug: 'poet' }),
  model_not_found: () => query({ prompt: 'x', model: 'nobody:none' }),
  method_not_allowed: () => ask('PUT', '/api/v1/sessions', { body: {} }),
  not_acceptable: () => ask('GET', '/api/v1/sessions', { headers: { accept: 'image/png' } }),
  request_timeout: () =>
    elsewhere({}, (url) => raw('GET /health HTTP/1.1\r\nHost: a\r\nX-Half', url), {
      headersMs: 100,
      requestMs: 200,
      checkMs: 50,
    }),
  email_taken: () =>
    app.request('POST', '/api/v1/auth/register', {
      body: { email: ada.email.toUpperCase(), password: 'long enough' },
    }),
  own_account: async () => {
    const token = app.operatorKey;
    const { body } = await app.request('GET', '/api/v1/users/me', { token });
    return app.request('DELETE', `/api/v1/users/${body.id}`, { token });
  },
  slug_taken: () =>
    ask('POST', '/api/v1/agents', { body: { slug: 'coder', description: 'x', instructions: 'x' } }),
  only_organization: () => deleted(ada.token),
  organization_limit: async () => {
    const { token } = await app.register('founder');
    for (let made = 1; made < 100; made += 1)
      expect(
        (await app.request('POST', '/api/v1/organizations', { token, body: { name: 'x' } })).status,
      ).toBe(201);
    return app.request('POST', '/api/v1/organizations', { token, body: { name: 'x' } });
  },
  workspace_limit: async () => {
    onTestFinished(() => void Object.assign(workspaceLimits, { given: 1000 }));
    workspaceLimits.given = 0;
    return ask('PUT', `${await defaultWorkspace()}/members/${ada.user.id}`, { body: { role: 'viewer' } });
  },
  last_key: async () => {
    const token = bare.operatorKey;
    const { body } = await bare.request('GET', '/api/v1/auth/api-keys', { token });
    return bare.request('DELETE', `/api/v1/auth/api-keys/${body.data[0].id}`, { token });
  },
  last_owner: async () => ask('DELETE', `${await organizationOf(ada.token)}/members/${ada.user.id}`),
  already_member: async () => invited({ email: ada.email }),
  skill_repository_conflict: async () => {
    const path = '/api/v1/skills/repositories';
    const token = bare.operatorKey;
    const { body } = await bare.request('POST', path, { token, body: { url: 'https://git.example.com/x' } });
    const commit = '0'.repeat(40);
    return bare.request('POST', `${path}/${body.id}/apply`, { token, body: { commit } });
  },
  already_invited: async () => {
    await invited({ email: 'grace@example.com' });
    return invited({ email: 'grace@example.com' });
  },
  duplicate: async () => {
    const body = { scope: 'user', content: 'Said twice.' };
    await ask('POST', '/api/v1/memories', { body });
    return ask('POST', '/api/v1/memories', { body });
  },
  too_many_settings: async () => {
    const { token } = await app.register('hoarder');
    const make = (name: string) =>
      app.request('POST', '/api/v1/settings/providers', {
        token,
        body: { scope: 'user', provider_id: 'openai', name, api_key: 'k' },
      });
    for (let count = 0; count < 50; count += 1) await make(`Key ${count}`);
    return make('one more');
  },
  too_many_skills: async () => {
    const { token } = await app.register('teacher');
    const make = (name: string) =>
      formed(token, '/api/v1/skills', { scope: 'user', file: `---\nname: ${name}\ndescription: x\n---\n` });
    for (let count = 0; count < 50; count += 1) await make(`skill-${count}`);
    return make('one-more');
  },
  skill_invalid: () => formed(ada.token, '/api/v1/skills', { scope: 'user', file: 'No front matter.' }),
  name_taken: async () => {
    const body = { organization_id: (await organizationOf(ada.token)).split('/').at(-1), name: 'Twins' };
    await ask('POST', '/api/v1/groups', { body });
    return ask('POST', '/api/v1/groups', { body });
  },
  runs_active: async () => {
    const { token } = await app.register('busy');
    await app.request('POST', '/api/v1/organizations', { token, body: { name: 'Another' } });
    const { path, response } = await pending(app, token);
    const answer = await deleted(token);
    await app.request('POST', `${path}/interrupt`, { token });
    await response.text();
    return answer;
  },
  invitation_gone: () => ask('POST', '/api/v1/invitations/accept', { body: { token: 'inv_unknown' } }),
  email_domain_refused: async () => {
    const headers = { 'content-type': 'application/merge-patch+json' };
    const only = (email_domains: string[]) => ({ headers, body: { settings: { email_domains } } });
    const path = await organizationOf(ada.token);
    await ask('PATCH', path, only(['example.org']));
    const answer = await invited({ email: 'late@example.com' });
    await ask('PATCH', path, only([]));
    return answer;
  },
  session_busy: async () => {
    const { path, response } = await pending();
    const answer = await ask('DELETE', path);
    await ask('POST', `${path}/interrupt`);
    await response.text();
    return answer;
  },
  message_conflict: async () => {
    await upstream.script([{ reply: { text: 'Done.' } }]);
    const { body } = await query({ prompt: 'x' });
    const path = `/api/v1/sessions/${body.session_id}`;
    const { body: messages } = await ask('GET', `${path}/messages`);
    return ask('POST', `${path}/revert`, { body: { to_message_id: messages.data[1].id } });
  },
  session_empty: async () => {
    const { body: session } = await ask('POST', '/api/v1/sessions', { body: {} });
    return ask('POST', `/api/v1/sessions/${session.id}/summarize`, { body: {} });
  },
  revert_conflict: async () => {
    const { path, replyPath, response } = await pending();
    await ask('POST', replyPath, { body: { decision: 'allow_once' } });
    await response.text();
    const { body: session } = await ask('GET', path);
    const { body: diff } = await ask('GET', `${path}/diff`);
    const { workspacesDirectory } = app.services.settings;
    await writeFile(join(workspacesDirectory, session.workspace_id, diff.files[0].path), 'by somebody else');
    const { body: messages } = await ask('GET', `${path}/messages`);
    return ask('POST', `${path}/revert`, { body: { to_message_id: messages.data[0].id } });
  },
  run_ended: async () => {
    await upstream.script([{ reply: { text: 'Done.' } }]);
    const { body } = await query({ prompt: 'x' });
    return ask('POST', `/api/v1/runs/${body.run_id}/interrupt`);
  },
  workspace_is_default: async () => ask('DELETE', await defaultWorkspace()),
  workspace_unavailable: async () => {
    const path = join(root, 'short-lived');
    await mkdir(path);
    const { body } = await ask('POST', '/api/v1/workspaces', { body: { name: 'x', path } });
    await rm(path, { recursive: true });
    return ask('GET', `/api/v1/workspaces/${body.id}/config`);
  },
  trust_conflict: async () =>
    app.request('POST', `${await defaultWorkspace()}/trust`, {
      token: app.operatorKey,
      body: { files: [{ path: 'service.json', sha256: '0'.repeat(64) }] },
    }),
  upload_conflict: async () => {
    const body = { filename: 'a.txt', size: 1, sha256: '0'.repeat(64) };
    const { body: upload } = await bare.request('POST', '/api/v1/files/uploads', {
      ...{ token: bare.operatorKey, body },
    });
    const complete = `/api/v1/files/uploads/${upload.id}/complete`;
    return bare.request('POST', complete, { token: bare.operatorKey });
  },
  set_by_environment: async () => {
    const path = '/api/v1/settings/providers/catalogs';
    const token = bare.operatorKey;
    const { body } = await bare.request('GET', path, { token });
    return bare.request('DELETE', `${path}/${body.data[0].id}`, { token });
  },
  already_answered: async () => {
    const { replyPath, response } = await pending();
    await ask('POST', replyPath, { body: { decision: 'deny' } });
    await response.text();
    return ask('POST', replyPath, { body: { decision: 'allow_once' } });
  },
  plan_is_draft: async () => {
    const written = { title: 'Mend it', content: 'Look.', draft: true };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'plan', arguments: written }] } },
      { reply: { text: 'Not done.' } },
    ]);
    const { body } = await query({ prompt: 'x', agent_slug: 'plan' });
    const { body: page } = await ask('GET', `/api/v1/plans?session_id=${body.session_id}`);
    return ask('POST', `/api/v1/plans/${page.data[0].id}/approve`, { body: {} });
  },
  file_in_use: async () => {
    const { corpus, file } = await corpusWithFile();
    await ask('POST', `${corpus}/documents`, { body: { file_ids: [file] } });
    return ask('DELETE', `/api/v1/files/${file}`);
  },
  ingestion_conflict: async () => {
    const { corpus } = await corpusWithFile();
    const { body } = await ask('POST', `${corpus}/documents`, {
      body: { texts: [{ title: 'A', text: 'a' }] },
    });
    const job = `${corpus}/ingestion-jobs/${body.id}`;
    await ask('POST', `${job}/cancel`);
    return ask('POST', `${job}/cancel`);
  },
  job_conflict: async () => {
    const body = { name: 'Nightly', prompt: 'x', cron: '0 2 * * *' };
    const made = await ask('POST', '/api/v1/scheduler/jobs', { body });
    return ask('POST', `/api/v1/scheduler/jobs/${made.body.id}/resume`);
  },
  corpora_stale: () =>
    sessionsFail(new Problem('corpora_stale', '2 corpora have vectors of another embedder.')),
  idempotency_key_in_use: () => keyTwice({ prompt: 'x' }),
  idempotency_key_reused: () => keyTwice({ prompt: 'y' }),
  range_not_satisfiable: async () => {
    const id = await newFile();
    return ask('GET', `/api/v1/files/${id}/content`, { headers: { range: 'bytes=5-' } });
  },
  request_expired: async () => {
    const token = tight.operatorKey;
    const { replyPath, response } = await pending(tight, token);
    aheadMs += 1000;
    await response.text();
    return tight.request('POST', replyPath, { token, body: { decision: 'allow_once' } });
  },
  events_expired: async () => {
    await upstream.script([{ reply: { text: 'Done.' } }]);
    const { body } = await query({ prompt: 'x' });
    await app.services.store.runs.pruneEvents(new Date(Date.now() + 60_000));
    return ask('GET', `/api/v1/runs/${body.run_id}/events?after=1`);
  },
  precondition_failed: async () => {
    const { body } = await ask('POST', '/api/v1/sessions', { body: {} });
    return ask('PATCH', `/api/v1/sessions/${body.id}`, {
      body: { title: 'x' },
      headers: { 'if-match': '"0"' },
    });
  },
  body_too_large: () =>
    ask('POST', '/api/v1/sessions', {
      body: gzipSync(Buffer.alloc(5_000_000, ' ')),
      headers: { 'content-encoding': 'gzip' },
    }),
  unsupported_media_type: () =>
    ask('POST', '/api/v1/sessions', { body: '<a/>', headers: { 'content-type': 'text/xml' } }),
  broken_export: () => {
    const stray = { type: 'tool_result', tool_use_id: 'c', name: 'ls', content: 'x', is_error: false };
    const at = '2026-11-21T08:00:00.000Z';
    const facts = {
      title: 'x',
      agent_slug: 'coder',
      model: null,
      system_prompt: null,
      tags: [],
      metadata: {},
    };
    const message = {
      role: 'tool',
      parts: [stray],
      model: null,
      stop_reason: null,
      usage: null,
      created_at: at,
    };
    const session = { ...facts, created_at: at };
    const body = { format_version: 1, exported_at: at, session, messages: [message] };
    return ask('POST', '/api/v1/sessions/import', { body });
  },
  model_unknown: () =>
    ask('PUT', '/api/v1/settings/providers/default-models', { body: { large: 'nobody:none' } }),
  precondition_required: async () =>
    ask('PATCH', `${await defaultWorkspace()}/config`, { body: { models: null } }),
  headers_too_large: () => raw(`GET /health HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`),
  rate_limited: async () => {
    const { body } = await ask('POST', '/api/v1/auth/api-keys', { body: { name: 'k', rate_limit: 1 } });
    await app.request('GET', '/api/v1/users/me', { token: body.key });
    return app.request('GET', '/api/v1/users/me', { token: body.key });
  },
  too_many_streams: async () => {
    const token = tight.operatorKey;
    const { path, response } = await pending(tight, token);
    const answer = await tight.request('POST', '/api/v1/query/stream', { token, body: { prompt: 'x' } });
    await tight.request('POST', `${path}/interrupt`, { token });
    await response.text();
    return answer;
  },
  queue_full: async () => {
    const { path, response } = await pending();
    const sessionId = path.split('/').at(-1) ?? '';
    const { body: session } = await ask('GET', path);
    const { runtime } = app.services;
    const waiting = {
      session: {
        ...{ id: sessionId, workspaceId: session.workspace_id, agentSlug: 'coder' },
        ...{ model: null, systemPrompt: null, permissionRules: [] },
      },
      userId: ada.user.id,
      trigger: 'api' as const,
      messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'x' }] }],
      onUnanswered: 'deny' as const,
    };
    await Promise.all(Array.from({ length: runtime.limits.queuedInSession }, () => runtime.start(waiting)));
    const refused = await query({ prompt: 'x', session_id: sessionId });
    await ask('POST', `${path}/interrupt`);
    await response.text();
    return refused;
  },
  internal_error: () => sessionsFail(new Error('canary of the inside')),
  quota_exceeded: async () => {
    const { token, user } = await app.register('spender');
    await app.request('PUT', `/api/v1/quotas/user/${user.id}`, {
      token,
      body: { limits: { requests: { day: { hard: 0 } } } },
    });
    return query({ prompt: 'x' }, app, token);
  },
  embedder_failed: () => app.request('POST', '/api/v1/settings/embedder/test', { token: app.operatorKey }),
  embedder_unsuited: () =>
    app.request('PATCH', '/api/v1/settings/embedder', {
      token: app.operatorKey,
      body: { provider: 'nobody', model: 'none' },
      headers: { ...mergePatch, 'if-match': '*' },
    }),
  reranker_unsuited: () =>
    ask('POST', '/api/v1/memories/search', { body: { query: 'x', rerank: { model: 'demo:demo-1' } } }),
  file_unreadable: async () => {
    const form = new FormData();
    form.append('file', new Blob(['%PDF-1.7 broken']), 'a.pdf');
    const made = await fetch(`${bare.url}/api/v1/files`, {
      ...{ method: 'POST', body: form, headers: { authorization: `Bearer ${bare.operatorKey}` } },
    });
    const { id }: Json = await made.json();
    return bare.request('GET', `/api/v1/files/${id}/text?wait_seconds=30`, { token: bare.operatorKey });
  },
  media_not_configured: () => ask('POST', '/api/v1/media/images', { body: { prompt: 'x' } }),
  web_search_not_configured: () => ask('POST', '/api/v1/web/search', { body: { query: 'x' } }),
  git_missing: async () => {
    const path = '/api/v1/skills/repositories';
    const token = bare.operatorKey;
    const { body } = await bare.request('POST', path, { token, body: { url: 'https://git.example.com/y' } });
    vi.stubEnv('PATH', '/nowhere');
    const answer = await bare.request('POST', `${path}/${body.id}/sync`, { token });
    vi.unstubAllEnvs();
    return answer;
  },
  web_search_failed: () => searching(500),
  web_search_refused: () => searching(403),
  web_search_rate_limited: () => searching(429),
  web_search_timeout: () => searching(null),
  provider_failed: () => failing({ kind: 'cut', after_chunks: 1 }),
  provider_refused: () => failing({ kind: 'status', status: 401 }),
  provider_request_refused: () => failing({ kind: 'status', status: 400 }),
  provider_prompt_too_long: () => failing({ kind: 'status', status: 400, message: 'prompt is too long' }),
  provider_rate_limited: () => failing({ kind: 'status', status: 429 }),
  provider_timeout: () => failing({ kind: 'hang' }, tight, tight.operatorKey),
  storage_test_failed: () =>
    sessionsFail(new Problem('storage_test_failed', 'The storage cannot be used: NoSuchBucket.')),
  mcp_server_failed: async () => {
    const body = { scope: 'user', name: 'nobody', type: 'http', url: 'http://127.0.0.1:9/mcp' };
    const made = await tight.request('POST', '/api/v1/mcp/servers', { token: tight.operatorKey, body });
    const path = `/api/v1/mcp/servers/${made.body.id}/tools`;
    return tight.request('GET', path, { token: tight.operatorKey });
  },
  oidc_provider_failed: () => bare.request('GET', '/api/v1/auth/oidc/gone/authorize'),
  no_provider_configured: () => query({ prompt: 'x' }, bare, bare.operatorKey),
  draining: () => elsewhere({ draining: () => true }, (url) => readFrom(url, '/ready')),
  overloaded: () =>
    elsewhere({ settings: { ...app.services.settings, streamsTotal: 0 } }, async (url) => {
      await upstream.script([{ reply: { text: 'Done.' } }]);
      const { body } = await query({ prompt: 'x' });
      return readFrom(url, `/api/v1/runs/${body.run_id}/events`);
    }),
  database_unavailable: () =>
    sessionsFail(new Problem('database_unavailable', 'The database does not answer; try again.')),
  storage_unavailable: () =>
    sessionsFail(new Problem('storage_unavailable', 'The storage does not answer; try again.')),
  storage_full: () => sessionsFail(new Problem('storage_full', 'The disk is full; free some room.')),
};

describe('each code of the contract', () => {
  test.each(Object.entries(provocations))(
    '%s is provoked, and answered with its status',
    async (code, provoke) => {
      const { status, body } = await provoke();
      // Under /v1 the vendor's shape has no place for the code.
      if (body.type === 'error') expect(status).toBe(problems[code as ProblemCode].status);
      else expect(body).toMatchObject({ code, status, title: problems[code as ProblemCode].title });
      expect(status).toBe(problems[code as ProblemCode].status);
      const said: string = body.detail ?? body.error.message;
      expect(said.length).toBeGreaterThan(10);
      expect(JSON.stringify(body)).not.toMatch(/canary|node_modules|\bat .*\.ts:|SELECT|service\.db/);
    },
  );

  test('stands in the documentation with the status of the map, and nothing else does', () => {
    const { description } = contract.components.schemas.ProblemCode;
    const documented = [...description.matchAll(/^\| `(\w+)` \| (\d+) \|/gm)].map(([, code, status]) => [
      code,
      Number(status),
    ]);
    expect(documented).toEqual(problemCodeValues.map((code) => [code, problems[code].status]));
  });

  test('has a place on the reference page, where its type leads', async () => {
    const { body } = await app.request('GET', '/docs');
    for (const code of problemCodeValues) expect(body).toContain(`id="${code}"`);
  });
});
