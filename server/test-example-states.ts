/** What examples show that does not stay as it is: brought about on the running server just before their request. */

import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { TOTP } from 'otpauth';
import { startMcp, type TestMcpServer } from '../contract-tests/mcp/start-mcp.ts';
import { systemClock } from './clock.ts';
import type {
  Corpus,
  Document,
  FileText,
  IngestionJobWithItems,
  LoginPage,
  McpServer,
  Me,
  Membership,
  ProviderSetting,
  StoredFile,
  WebSearchResults,
  Workspace,
  WorkspaceMemberPage,
} from './contract/api.ts';
import { parserOf } from './knowledge/parsing/parse-names.ts';
import type { Database } from './store/database.ts';
import { extractedTexts } from './store/extracted-texts.ts';
import { seedWorkspaceMembers } from './store/seed-example-accounts.ts';
import { seedJobBefore } from './store/seed-example-knowledge.ts';
import { seedMcpServer, seedProviderSetting } from './store/seed-examples.ts';
import { type Json, mergePatch } from './test-app.ts';
import { answerOf, requestOf } from './test-examples.ts';

/** A server whose data the examples are. */
export interface ExampleServer {
  readonly workspacesDirectory: string;
  readonly password: string;
  /** Sends a request that has to succeed, as Ada unless a token is given; answers with the body. */
  ask(method: string, path: string, request?: ExampleRequest): Promise<Json>;
  /** Past the server: for what nobody can ask of it at the moment that an example shows. */
  withDatabase(work: (database: Database) => Promise<void>): Promise<void>;
  /** The access token of somebody new, who belongs nowhere. */
  logInSomebody(as?: { readonly operator: boolean }): Promise<string>;
}

/** What is sent in the place of what the example says. */
export interface ExampleRequest {
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly body?: unknown;
}

/** By which the server knows the browser that began a login, as `redeemLoginCode` needs it. */
export const browserSecret = 'c2VjcmV0';
/** As the proxy says whose requests it hands on. */
const fromAfar = { 'x-forwarded-for': '192.0.2.7' };
const workspace = answerOf<Workspace>('getWorkspace');
const guard = { hooks: { pre_tool_use: [{ matcher: '^bash$', command: './guard.sh' }] } };

export const states: Readonly<Record<string, (server: ExampleServer) => Promise<ExampleRequest>>> = {
  createPasswordResetLink: asOperator,
  addSkillRepository: asOperator,
  getSkillRepository: asOperator,
  updateSkillRepository: asOperator,
  getSkillRepositoryProposal: asOperator,
  applySkillRepository: asOperator,
  syncSkillRepository: asOperator,
  /** Without secrets the example would lose those that it shows. */
  async updateProviderSetting(server) {
    const { id, extra_header_names } = answerOf<ProviderSetting>('getProviderSetting');
    const extra_headers = Object.fromEntries(extra_header_names.map((name) => [name, 'docs']));
    await server.ask('PATCH', `/api/v1/settings/providers/${id}`, {
      headers: mergePatch,
      body: { api_key: 'not-a-real-key', extra_headers },
    });
    return {};
  },
  testMcpServer: withTracker,
  listMcpTools: withTracker,
  listMcpResources: withTracker,
  listMcpPrompts: withTracker,
  startMcpOauth: withTracker,
  revokeMcpOauth: withTracker,
  /** Of a setting that is there for this moment alone. */
  async testProviderSetting(server) {
    const id = 'pset_01k9w6r3h2e7xv5q0c8m4b1tzb';
    const base_url = await giveModels(['one', 'two'], () =>
      inSettings(server, (settings) => settings.where({ id }).delete()),
    );
    const shown = answerOf<ProviderSetting>('getProviderSetting');
    const providerSetting = { ...shown, id, name: 'For a moment', base_url };
    await server.withDatabase((database) =>
      database.write('installation', (sql) =>
        seedProviderSetting(sql, { providerSetting, me: answerOf<Me>('getMe') }),
      ),
    );
    return {};
  },
  /** Described before at first, and then described anew. */
  async putCustomModel(server) {
    described += 1;
    const { id, type, base_url } = answerOf<ProviderSetting>('getProviderSetting');
    const entry = JSON.stringify({ type, base_url, models: [] });
    if (described > 1) await inSettings(server, (settings) => settings.where({ id }).update({ entry }));
    return {};
  },
  async deleteCustomModel(server) {
    const { id } = answerOf<ProviderSetting>('getProviderSetting');
    await server.ask('PUT', `/api/v1/settings/providers/${id}/models/spare`, { body: {} });
    return {};
  },
  listProviderModels: forgetDiscovered,
  refreshProviderModels: forgetDiscovered,
  async getDefaultModels(server) {
    const body = requestOf<object>('putDefaultModels');
    await server.ask('PUT', '/api/v1/settings/providers/default-models', { body });
    return {};
  },
  async completeProviderOauth(server) {
    const token_url = await giveTokens({ access_token: 'YWRh', expires_in: 3600, scope: 'inference' });
    const client = { client_id: 'service', auth_url: 'https://auth.example.com/authorize', token_url };
    const { id } = answerOf<ProviderSetting>('getProviderSetting');
    const body = { flow: 'code', client };
    const { state } = await server.ask('POST', `/api/v1/settings/providers/${id}/oauth/start`, { body });
    return { body: { state, code: 'YWRh' } };
  },
  /** All of its bytes are there, under the id that the path of the example names. */
  async completeUpload(server) {
    const body = { filename: 'hello.txt', size: 14, sha256: answerOf<StoredFile>('completeUpload').sha256 };
    const { id } = await server.ask('POST', '/api/v1/files/uploads', { body });
    const headers = { 'content-type': 'application/octet-stream', 'upload-offset': '0' };
    await server.ask('PATCH', `/api/v1/files/uploads/${id}`, { headers, body: 'Hello, world!\n' });
    const upload_id = 'upl_01k9w6r3h2e7xv5q0c8m4b1tza';
    await server.withDatabase((database) =>
      database.write('installation', async (sql) => {
        const row = await sql('file_uploads').where({ id }).first();
        await sql('file_uploads').insert({ ...row, id: upload_id });
        await sql('file_upload_parts').where({ upload_id: id }).update({ upload_id });
        await sql('file_uploads').where({ id }).delete();
      }),
    );
    return {};
  },
  /** Its bytes are nowhere. */
  async 'getFileText: hello'(server) {
    const { id, sha256, filename } = answerOf<StoredFile>('getFile');
    const { text } = answerOf<FileText>('getFileText');
    await server.withDatabase(async (database) => {
      const row = await database.read('installation', (sql) => sql('files').where({ id }).first());
      const parser = parserOf({ name: filename, charset: null });
      const bytes = { organizationId: row.organization_id, sha256, parser };
      const content = { mediaType: 'text/plain', text, blocks: [], pages: null };
      await extractedTexts({ database, clock: systemClock }).keep(bytes, content, text.length);
    });
    return {};
  },
  /** As if nobody had asked for it yet. */
  async 'getFileText: reading'(server) {
    await server.withDatabase((database) =>
      database.write('installation', async (sql) => {
        const needed = sql('documents').whereNotNull('text_id').select('text_id');
        await sql('extracted_texts').whereNotIn('id', needed).delete();
      }),
    );
    return { query: 'wait_seconds=0' };
  },
  getStorage: asOperator,
  updateStorage: async (server) => ({
    ...(await asOperator(server)),
    headers: { 'if-match': '*', ...mergePatch },
  }),
  testStorage: asOperator,
  updatePlan: async () => ({ headers: { 'if-match': '*', ...mergePatch } }),
  getWebSearchSettings: asOperator,
  updateWebSearchSettings: async (server) => ({
    ...(await asOperator(server)),
    headers: { 'if-match': '*', ...mergePatch },
  }),
  async webSearch(server) {
    const { results } = answerOf<WebSearchResults>('webSearch');
    const found = results.map(({ title, url, snippet }) => ({ title, url, content: snippet }));
    const base_url = await giveResults(found);
    const request = { ...(await asOperator(server)), headers: { 'if-match': '*', ...mergePatch } };
    const body = { engine: 'searxng', base_url };
    await server.ask('PATCH', '/api/v1/web/search/settings', { ...request, body });
    return {};
  },
  getEmbedder: asOperator,
  updateEmbedder: changeEmbedder,
  testEmbedder: asOperator,
  async cancelIngestionJob({ withDatabase }) {
    const job = jobBefore('cancelIngestionJob', { status: 'queued' });
    await withDatabase((database) => seedJobBefore(database, job, null));
    return {};
  },
  async retryIngestionJob({ withDatabase }) {
    const ended_at = '2026-11-21T08:00:00.000Z';
    const job = jobBefore('retryIngestionJob', { status: 'failed', attempts: 1, ended_at });
    const id = job.job.items[0]?.document_id ?? '';
    const document: Document = { ...answerOf<Document>('getDocument'), id, status: 'failed' };
    await withDatabase((database) => seedJobBefore(database, job, document));
    return {};
  },
  getSchedulerStatus: asOperator,
  listCatalogs: asOperator,
  createCatalog: asOperator,
  getCatalog: asOperator,
  putCatalog: asOperator,
  async getMfa(server) {
    const { token, code } = await enroll(server);
    await server.ask('POST', '/api/v1/auth/mfa/confirm', { token, body: { code } });
    return { token };
  },
  async confirmMfa(server) {
    const { token, code } = await enroll(server);
    return { token, body: { code } };
  },
  /** Those that other examples have begun are ended. */
  async listLogins(server) {
    const shown = answerOf<LoginPage>('listLogins').data.map(({ id }) => id);
    const { data }: LoginPage = await server.ask('GET', '/api/v1/auth/logins');
    for (const { id } of data.filter(({ id }) => !shown.includes(id)))
      await server.ask('DELETE', `/api/v1/auth/logins/${id}`);
    return {};
  },
  redeemLoginCode: async () => ({ headers: { cookie: `__Host-service_oidc=${browserSecret}` } }),
  async getDeviceLogin(server) {
    const { user_code } = await startDevice(server);
    return { query: `user_code=${user_code}` };
  },
  async pollDeviceLogin(server) {
    const { user_code, device_code } = await startDevice(server);
    const body = { user_code, decision: 'allow' };
    await server.ask('POST', '/api/v1/auth/device/reply', { body });
    return { body: { device_code } };
  },
  async listWorkspaceMembers({ withDatabase }) {
    const { data } = answerOf<WorkspaceMemberPage>('listWorkspaceMembers');
    await withDatabase((database) => seedWorkspaceMembers(database, workspace, data));
    return {};
  },
  async getWorkspaceConfig(server) {
    await writeSettings(server, requestOf('updateWorkspaceConfig'));
    return {};
  },
  async updateWorkspaceConfig(server) {
    await writeSettings(server, { models: { large: { provider: 'demo', model: 'demo-0' } } });
    return { headers: { 'if-match': '*' } };
  },
  async getWorkspaceTrust(server) {
    await writeSettings(server, guard);
    return {};
  },
  async trustWorkspace(server) {
    await writeSettings(server, guard);
    return asOperator(server);
  },
};

/** What the answer shows as cancelled or queued again: it waits, or it failed. */
function jobBefore(operationId: string, members: Partial<IngestionJobWithItems>) {
  const after = answerOf<IngestionJobWithItems>(operationId);
  const failed = members.status === 'failed' ? 1 : 0;
  const item = failed ? { status: 'failed' as const } : { status: 'queued' as const, ended_at: null };
  const job = {
    ...{ ...after, ended_at: null, ...members },
    progress: { ...after.progress, failed, cancelled: 0 },
    items: after.items.map((one) => ({ ...one, ...item })),
  };
  const corpus = answerOf<Corpus>('getCorpus');
  const organizationId = answerOf<Workspace>('getWorkspace').organization_id;
  return { job, corpus, organizationId };
}

async function asOperator(server: ExampleServer): Promise<ExampleRequest> {
  return { token: await server.logInSomebody({ operator: true }) };
}

/** Somebody whose second factor waits for its first code. */
async function enroll(server: ExampleServer): Promise<{ token: string; code: string }> {
  const token = await server.logInSomebody();
  const body = { password: server.password };
  const { secret } = await server.ask('POST', '/api/v1/auth/mfa/enroll', { token, body });
  return { token, code: new TOTP({ secret }).generate() };
}

function startDevice(server: ExampleServer): Promise<Json> {
  const body = requestOf('startDeviceLogin');
  return server.ask('POST', '/api/v1/auth/device/code', { body, headers: fromAfar });
}

/** The settings file of the workspace, as the server would write it. */
async function writeSettings({ workspacesDirectory }: ExampleServer, settings: unknown): Promise<void> {
  const file = join(workspacesDirectory, workspace.id, '.service/service.json');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(settings, null, 2)}\n`);
}

/** A token server that answers once; the address of it. */
let described = 0;

let tracker: Promise<TestMcpServer> | undefined;

/** A server that answers, kept by Ada herself under the name that the examples show. */
async function withTracker({ withDatabase }: ExampleServer): Promise<ExampleRequest> {
  if (tracker !== undefined) return {};
  tracker = startMcp();
  const { url } = await tracker;
  const own = { scope: 'user' as const, organization_id: null, disabled: false };
  const id = 'mcps_01k9w6r3h2e7xv5q0c8m4b1tzc';
  const mcpServer = { ...answerOf<McpServer>('getMcpServer'), ...own, id, url };
  await withDatabase((database) =>
    database.write('installation', (sql) => seedMcpServer(sql, { mcpServer, me: answerOf<Me>('getMe') })),
  );
  return {};
}

async function inSettings(
  { withDatabase }: ExampleServer,
  work: (settings: Knex.QueryBuilder) => Knex.QueryBuilder,
): Promise<void> {
  await withDatabase((database) =>
    database.write('installation', async (sql) => {
      await work(sql('provider_settings'));
    }),
  );
}

/** As if nobody had looked at what the provider lists; a look at work would write it down afterwards. */
async function forgetDiscovered({ ask, withDatabase }: ExampleServer): Promise<ExampleRequest> {
  const { id } = answerOf<ProviderSetting>('getProviderSetting');
  const refreshing = async () =>
    (await ask('GET', `/api/v1/settings/providers/${id}/models`)).discovery.refreshing;
  while (await refreshing()) await sleep(20);
  await withDatabase((database) =>
    database.write('installation', async (sql) => {
      await sql('provider_models').where({ setting_id: id }).delete();
    }),
  );
  return {};
}

/** Where a list of models is given once; `before` it is. */
async function giveModels(ids: readonly string[], before: () => Promise<void>): Promise<string> {
  const server = createServer(async (_request, response) => {
    await before();
    const headers = { 'content-type': 'application/json', connection: 'close' };
    response.writeHead(200, headers);
    response.end(JSON.stringify({ data: ids.map((id) => ({ id })) }), () => server.close());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`; // it listens on TCP
}

/** A SearXNG that finds something once; the address of it. */
async function giveResults(results: readonly object[]): Promise<string> {
  const server = createServer((_request, response) => {
    const headers = { 'content-type': 'application/json', connection: 'close' };
    response.writeHead(200, headers).end(JSON.stringify({ results }), () => server.close());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // it listens on TCP
}

async function giveTokens(answer: object): Promise<string> {
  const server = createServer((_request, response) => {
    const headers = { 'content-type': 'application/json', connection: 'close' };
    response.writeHead(200, headers).end(JSON.stringify(answer), () => server.close());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`; // it listens on TCP
}

/** The first example is of a server where nothing has to be embedded anew, the second of one with a corpus that nobody has. */
async function changeEmbedder(server: ExampleServer): Promise<ExampleRequest> {
  const request = await asOperator(server);
  const { updated_at } = await server.ask('GET', '/api/v1/settings/embedder', request);
  if (updated_at !== null) await server.withDatabase(addBareCorpus);
  return { ...request, headers: { 'if-match': '*', ...mergePatch } };
}

/** Where none of the other examples looks. */
async function addBareCorpus(database: Database): Promise<void> {
  const { organization_id, default_workspace_id: workspace_id } = answerOf<Membership>('acceptInvitation');
  const corpus_id = 'cor_01k9w6r3h2e7xv5q0c8m4b1tzz';
  const place = { organization_id, workspace_id };
  await database.write('installation', async (sql) => {
    await sql('corpora').insert({
      ...{ id: corpus_id, ...place, name: 'Old', name_key: 'old', description: '', metadata: '{}' },
      ...{ visibility: 'workspace', chunking: '{}', vector_set: 1, documents: 1, chunks: 1, bytes: 1 },
      ...{ user_id: '', revision: 1, grants_revision: 1, created_at: 1, updated_at: 1 },
    });
    await sql('searched_corpora').insert({ corpus_id, ...place, chunks: 1, words: 1 });
  });
}
