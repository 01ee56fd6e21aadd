/** The examples of the contract are true: each success example is what a server answers whose data are the examples. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OpenId, openIdVariables, startOpenId } from '../contract-tests/openid/start-openid.ts';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import { systemClock } from './clock.ts';
import type {
  Account,
  Agent,
  ApiKey,
  AuditEntry,
  Catalog,
  Corpus,
  CorpusAccess,
  Document,
  Group,
  GroupMember,
  IngestionJobWithItems,
  Invitation,
  Job,
  JobRun,
  LoginPage,
  McpServer,
  Me,
  Membership,
  Memory,
  Message,
  Organization,
  OrganizationMember,
  PermissionRequest,
  Plan,
  Preferences,
  PromptRequest,
  ProviderSetting,
  Quota,
  Run,
  Session,
  Skill,
  SkillRepository,
  SkillRepositoryProposal,
  StoredFile,
  UsagePage,
  Workspace,
} from './contract/api.ts';
import { hashOf } from './identity/opaque-tokens.ts';
import { hashPassword } from './identity/passwords.ts';
import { newId } from './ids.ts';
import { createLog } from './log.ts';
import { type RunningServer, startServer } from './main.ts';
import { readServerSettings, type ServerSettings } from './server-settings/server-settings.ts';
import type { Database } from './store/database.ts';
import { seedPerson } from './store/seed-example-accounts.ts';
import { seedExamples } from './store/seed-examples.ts';
import { openSqlite } from './store/sqlite.ts';
import { openStore } from './store/store.ts';
import { untilFarFromMidnight } from './test-clock.ts';
import { modelsDirectory } from './test-embedder.ts';
import { browserSecret, type ExampleRequest, type ExampleServer, states } from './test-example-states.ts';
import { answerOf, type Example, examples, requestOf, steady } from './test-examples.ts';

const ids: Readonly<Record<string, string>> = {
  session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza',
  run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tza',
  message_id: 'msg_01k9w6r3h2e7xv5q0c8m4b1tz1',
  key_id: 'key_01k9w6r3h2e7xv5q0c8m4b1tza',
  agent_id: 'agt_01k9w6r3h2e7xv5q0c8m4b1tza',
  file_id: 'file_01k9w6r3h2e7xv5q0c8m4b1tza',
  corpus_id: 'cor_01k9w6r3h2e7xv5q0c8m4b1tza',
  document_id: 'doc_01k9w6r3h2e7xv5q0c8m4b1tza',
  ingestion_id: 'ing_01k9w6r3h2e7xv5q0c8m4b1tza',
  upload_id: 'upl_01k9w6r3h2e7xv5q0c8m4b1tza',
  memory_id: 'mem_01k9w6r3h2e7xv5q0c8m4b1tza',
  server_id: 'mcps_01k9w6r3h2e7xv5q0c8m4b1tza',
  job_id: 'job_01k9w6r3h2e7xv5q0c8m4b1tza',
  job_run_id: 'jbr_01k9w6r3h2e7xv5q0c8m4b1tza',
  skill_id: 'skl_01k9w6r3h2e7xv5q0c8m4b1tza',
  repository_id: 'skr_01k9w6r3h2e7xv5q0c8m4b1tza',
  catalog_id: 'cat_01k9w6r3h2e7xv5q0c8m4b1tza',
  plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tza',
  subject_type: 'user',
  subject_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  setting_id: 'pset_01k9w6r3h2e7xv5q0c8m4b1tza',
  entry_id: 'aud_01k9w6r3h2e7xv5q0c8m4b1tza',
  org_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza',
  group_id: 'grp_01k9w6r3h2e7xv5q0c8m4b1tza',
  user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzc',
  provider: 'corp',
  workspace_id: 'ws_01k9w6r3h2e7xv5q0c8m4b1tzb',
  principal_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzb',
  model_id: 'demo:demo-1',
};
/** What a server offers is shown of one that answers. */
const ofTracker = Object.fromEntries(
  [
    'testMcpServer',
    'listMcpTools',
    'listMcpResources',
    'listMcpPrompts',
    'startMcpOauth',
    'revokeMcpOauth',
  ].map((operation) => [operation, { server_id: 'mcps_01k9w6r3h2e7xv5q0c8m4b1tzc' }]),
);
/** What can still be answered or stopped stands in sessions of its own. */
const ownIds: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  interruptSession: { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzd' },
  ...ofTracker,
  testProviderSetting: { setting_id: 'pset_01k9w6r3h2e7xv5q0c8m4b1tzb' },
  getProviderModel: { model_id: 'llama-4-70b' },
  putCustomModel: { model_id: 'llama-4-70b' },
  deleteCustomModel: { model_id: 'spare' },
  interruptRun: { run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tze' },
  summarizeSession: { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzg' },
  replyPermission: {
    session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzb',
    request_id: 'prm_01k9w6r3h2e7xv5q0c8m4b1tzb',
  },
  cancelIngestionJob: { ingestion_id: 'ing_01k9w6r3h2e7xv5q0c8m4b1tzc' },
  retryIngestionJob: { ingestion_id: 'ing_01k9w6r3h2e7xv5q0c8m4b1tzd' },
  approvePlan: { plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tzb' },
  runJobNow: { job_id: 'job_01k9w6r3h2e7xv5q0c8m4b1tzc' },
  cancelJobRun: {
    job_id: 'job_01k9w6r3h2e7xv5q0c8m4b1tzc',
    job_run_id: 'jbr_01k9w6r3h2e7xv5q0c8m4b1tzc',
  },
  getUser: { user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzb' },
  updateUser: { user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzb' },
  updatePlan: { plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tzc' },
  rejectPlan: { plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tzd' },
  replyPrompt: { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzb', request_id: 'prq_01k9w6r3h2e7xv5q0c8m4b1tzb' },
};
/** A page as short as its example. */
const queries: Readonly<Record<string, readonly string[]>> = {
  listTools: ['limit=1'],
  listOrgMembers: ['limit=2'],
  listDocuments: ['status=ready'],
  listAgents: ['limit=1'],
  listJobs: ['status=active'],
  listAuditLogs: ['request_id=req_01k9w6r3h2e7xv5q0c8m4b1tza'],
};
/** What turns a server for one into one for many, or gives the account of the examples another organization. */
const last = ['createUser', 'registerUser', 'createOrganization', 'acceptInvitation'];

/** In the order of the contract, but for those. */
const inOrder = [
  ...examples.filter(({ operationId }) => !last.includes(operationId)),
  ...examples.filter(({ operationId }) => last.includes(operationId)),
];

/** What the installation says in its `service.json`: a provider whose models are listed, and which makes and hears. */
const globalSettings = (url: string) => ({
  options: { debug: true },
  providers: {
    local: {
      type: 'openai-compat',
      base_url: `${url}/v1`,
      api_key: 'k',
      models: [{ id: 'qwen3-32b', context_window: 32_768, default_max_tokens: 8192 }],
    },
  },
  image_generation: { provider: 'local', model: 'flux-1' },
  text_to_speech: { provider: 'local', model: 'kokoro', format: 'flac' },
  speech_to_text: { provider: 'local', model: 'whisper-1' },
});

/** What it hears is the same each time. */
const script = [{ when: { task: 'transcription' }, reply: { text: 'Good morning.' } }, { reply: {} }];

const password = 'correct-horse-battery';
/** Of the login that asks for everything, and the one that the example of refreshing uses up. */
const refreshTokens = {
  used: 'rt_YWRh',
  shown: requestOf<{ refresh_token: string }>('refreshToken').refresh_token,
};

let folder: string;
let settings: ServerSettings;
let server: RunningServer;
let openid: OpenId;
let upstream: Upstream;
let ada: string | undefined;

beforeAll(async () => {
  await untilFarFromMidnight(120_000);
  folder = await mkdtemp(join(tmpdir(), 'service-examples-'));
  openid = await startOpenId();
  upstream = await startUpstream();
  await upstream.script(script);
  await writeFile(join(folder, 'service.json'), JSON.stringify(globalSettings(upstream.url)));
  await seed(join(folder, 'service.db'));
  const flags = ['--port', '0', '--data-dir', folder, '--global-config', folder, '--strict'];
  // The runs that examples show at work are at work nowhere: no process is to take them over before they are asked for,
  // and what waits behind them is not worth waiting for in the end.
  flags.push('--lease-seconds', '300', '--drain-seconds', '1', '--trusted-proxies', '127.0.0.1');
  // What they show happened on days that lie ever further back, and is not to be forgotten for its age.
  flags.push('--retention-events-days', '36500', '--retention-logins-days', '36500');
  flags.push('--retention-job-runs-days', '36500', '--retention-usage-days', '36500');
  flags.push('--retention-audit-days', '0');
  ({ settings } = readServerSettings(flags, {
    HOME: folder,
    ...openIdVariables(openid.url),
    SERVICE_OIDC_CORP_LABEL: 'Example Corp',
    SERVICE_PUBLIC_URL: 'https://service.example.com',
    // Where a provider is played that gives tokens.
    SERVICE_OUTBOUND_ALLOW: '127.0.0.1',
    SERVICE_MODELS_DIR: modelsDirectory,
  }));
  server = await startServer(settings, { environment: {}, log: createLog('silent') });
  await withDatabase((database) => seedPerson(database, answerOf<Account>('getUser'), null));
  const body = { refresh_token: refreshTokens.used };
  ({ access_token: ada } = await exampleServer().ask('POST', '/api/v1/auth/refresh', { body }));
}, 180_000);

afterAll(async () => {
  await server?.stop();
  await openid?.stop();
  await upstream?.stop();
  await rm(folder, { recursive: true });
});

async function withDatabase(work: (database: Database) => Promise<void>): Promise<void> {
  const database = openSqlite(join(folder, 'service.db'), createLog('silent'));
  await work(database);
  await database.close();
}

/** The one that is shown, and those that are decided on, in sessions where none of them is listed. */
function plansOf(): Plan[] {
  const shown = answerOf<Plan>('getPlan');
  const others = ['approvePlan', 'updatePlan', 'rejectPlan'].map((operationId) => ({
    ...shown,
    id: ownIds[operationId]?.plan_id ?? '',
    // Its session has a run at work, behind which the one that begins is queued.
    session_id: ownIds.interruptSession?.session_id ?? '',
  }));
  return [shown, ...others];
}

/** The organization that is shown, with its people and groups, and another that waits for the account. */
function organizationOf() {
  const joined = answerOf<Membership>('acceptInvitation');
  const { token } = requestOf<{ token: string }>('acceptInvitation');
  return {
    organization: answerOf<Organization>('getOrganization'),
    members: answerOf<{ data: OrganizationMember[] }>('listOrgMembers').data.slice(1),
    invitations: answerOf<{ data: Invitation[] }>('listInvitations').data,
    group: answerOf<Group>('getGroup'),
    groupMembers: answerOf<{ data: GroupMember[] }>('listGroupMembers').data,
    waiting: {
      organization: {
        id: joined.organization_id,
        name: joined.organization_name,
        default_workspace_id: joined.default_workspace_id,
      },
      tokenHash: hashOf(token),
    },
  };
}

async function seed(file: string): Promise<void> {
  // Opening it migrates it.
  await (await openStore(`sqlite:${file}`, { clock: systemClock, log: createLog('silent') })).close();
  const database = openSqlite(file, createLog('silent'));
  const [session] = answerOf<{ data: Session[] }>('listSessions').data;
  const run = answerOf<Run>('getRun');
  if (!session) throw new Error('the list of sessions is an empty example');
  const active = [...answerOf<{ data: Run[] }>('interruptSession').data, answerOf<Run>('interruptRun')];
  const second = {
    session_id: ownIds.replyPermission?.session_id ?? '',
    run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tzb',
  };
  await seedExamples(database, {
    me: answerOf<Me>('getMe'),
    passwordHash: await hashPassword(password),
    logins: answerOf<LoginPage>('listLogins').data.map((login) => ({
      ...login,
      refreshTokenHash: hashOf(login.current ? refreshTokens.used : refreshTokens.shown),
    })),
    loginCode: {
      codeHash: hashOf(requestOf<{ login_code: string }>('redeemLoginCode').login_code),
      browserHash: hashOf(browserSecret),
    },
    workspace: answerOf<Workspace>('getWorkspace'),
    apiKey: answerOf<ApiKey>('getApiKey'),
    preferences: answerOf<Preferences>('getPreferences'),
    sessions: [
      session,
      { ...session, id: second.session_id, tags: [], title: 'With questions' },
      { ...session, id: ownIds.summarizeSession?.session_id ?? '', tags: [], title: 'Long' },
      ...active.map(({ session_id: id }) => ({ ...session, id, tags: [], status: 'running' as const })),
    ],
    runs: [run, { ...run, id: second.run_id, session_id: second.session_id }, ...active],
    messages: answerOf<{ data: Message[] }>('listMessages').data,
    files: { 'hello.txt': 'Hello!\n' },
    permissions: [
      ...answerOf<{ data: PermissionRequest[] }>('listPermissionRequests').data,
      {
        ...answerOf<PermissionRequest>('replyPermission'),
        status: 'pending',
        decision: null,
        resolved_at: null,
      },
    ],
    prompts: [
      ...answerOf<{ data: PromptRequest[] }>('listPromptRequests').data,
      { ...answerOf<PromptRequest>('replyPrompt'), status: 'pending', answers: null, resolved_at: null },
    ],
    agents: [answerOf<Agent>('getAgent')],
    file: answerOf<StoredFile>('getFile'),
    corpus: answerOf<Corpus>('getCorpus'),
    corpusAccess: answerOf<CorpusAccess>('getCorpusAccess'),
    document: answerOf<Document>('getDocument'),
    ingestionJob: answerOf<IngestionJobWithItems>('getIngestionJob'),
    memory: answerOf<Memory>('getMemory'),
    job: answerOf<Job>('getJob'),
    jobRun: answerOf<JobRun>('getJobRun'),
    waitingJobRun: answerOf<JobRun>('cancelJobRun'),
    skill: answerOf<Skill>('getSkill'),
    skillRepository: answerOf<SkillRepository>('getSkillRepository'),
    skillProposal: answerOf<SkillRepositoryProposal>('getSkillRepositoryProposal'),
    plans: plansOf(),
    providerSetting: answerOf<ProviderSetting>('getProviderSetting'),
    mcpServer: answerOf<McpServer>('getMcpServer'),
    catalog: answerOf<Catalog>('getCatalog'),
    quota: answerOf<Quota>('getQuota'),
    usage: answerOf<UsagePage>('getUsage').data,
    auditEntry: answerOf<AuditEntry>('getAuditLog'),
    ...organizationOf(),
  });
  await database.close();
}

const exampleServer = (): ExampleServer => ({
  workspacesDirectory: settings.workspacesDirectory,
  password,
  withDatabase,
  async ask(method, path, request) {
    const response = await send(method, path, request);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} was answered with ${response.status}: ${text}`);
    return text === '' ? null : JSON.parse(text);
  },
  async logInSomebody({ operator } = { operator: false }) {
    const id = newId('user');
    const email = `${id}@example.com`;
    const person = { ...answerOf<Account>('getUser'), id, email, operator, memberships: [] };
    const passwordHash = await hashPassword(password);
    await withDatabase((database) => seedPerson(database, person, passwordHash));
    return logIn(email);
  },
});

async function logIn(email: string): Promise<string> {
  const { access_token } = await exampleServer().ask('POST', '/api/v1/auth/login', {
    body: { email, password },
  });
  return access_token;
}

/** The file last, as the contract wants it. */
function formOf({ file, ...fields }: { readonly file?: unknown }): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    form.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  form.append('file', new Blob([String(file)]), 'file');
  return form;
}

function send(
  method: string,
  path: string,
  { token = ada, headers, query, body }: ExampleRequest = {},
  type = 'application/json',
): Promise<Response> {
  const form = type === 'multipart/form-data' ? formOf(body as object) : null; // every body is an object
  return fetch(`${server.url}${path}${query ? `?${query}` : ''}`, {
    method,
    headers: {
      ...(token && !path.startsWith('/api/v1/auth/re') && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && !form && { 'content-type': type }),
      ...headers,
    },
    ...(body !== undefined && { body: form ?? (isBytes(headers) ? String(body) : JSON.stringify(body)) }),
  });
}

function isBytes(headers: ExampleRequest['headers']): boolean {
  return headers?.['content-type'] === 'application/octet-stream';
}

/** Where the example is asked for, in the data that are the examples. */
function placeOf({ operationId, path, query }: Example): { readonly path: string; readonly query: string } {
  const values = { ...ids, ...ownIds[operationId] };
  return {
    path: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? name),
    query: [...query, ...(queries[operationId] ?? [])].join('&'),
  };
}

describe('the success examples of the contract', () => {
  test('are those of every operation that answers with JSON', () => {
    expect(new Set(examples.map(({ operationId }) => operationId)).size).toBeGreaterThan(90);
  });

  test.each(inOrder.map((example) => [example.title, example] as const))('%s', async (_title, example) => {
    const { operationId, title, method, type, body, schema, status } = example;
    const { path, query } = placeOf(example);
    const state = await (states[title] ?? states[operationId])?.(exampleServer());
    const response = await send(method, path, { query, body, ...state }, type);
    const answer: unknown = await response.json();
    expect(response.status, JSON.stringify(answer)).toBe(status);
    const created = response.headers.has('location');
    expect(steady(answer, schema, created)).toEqual(steady(example.answer, schema, created));
  });
});
