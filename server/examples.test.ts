/** The examples of the contract are true: each success example is what a server answers whose data are the examples. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from './clock.ts';
import { readServerSettings } from './config/config.ts';
import type {
  Account,
  Agent,
  ApiKey,
  AuditEntry,
  Group,
  GroupMember,
  Invitation,
  Me,
  Membership,
  Message,
  Organization,
  OrganizationMember,
  PermissionRequest,
  Plan,
  Preferences,
  PromptRequest,
  Quota,
  Run,
  Session,
  UsagePage,
} from './contract/api.ts';
import contract from './contract/openapi.json' with { type: 'json' };
import { hashOf } from './identity/opaque-tokens.ts';
import { hashPassword } from './identity/passwords.ts';
import { createLog } from './log.ts';
import { type RunningServer, startServer } from './main.ts';
import { seedExamples, seedPerson } from './store/seed-examples.ts';
import { openSqlite } from './store/sqlite.ts';
import { openStore } from './store/store.ts';

interface Schema {
  readonly $ref?: string;
  readonly 'x-volatile'?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

interface Media {
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly example?: string;
}

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly (Parameter & Schema)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<
    Record<string, Schema & { readonly content?: Readonly<Record<string, Media>> }>
  >;
}

interface Example {
  readonly title: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly schema: Schema;
  readonly answer: unknown;
  readonly type?: string;
  readonly body?: unknown;
}

const ids: Readonly<Record<string, string>> = {
  session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza',
  run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tza',
  message_id: 'msg_01k9w6r3h2e7xv5q0c8m4b1tz1',
  key_id: 'key_01k9w6r3h2e7xv5q0c8m4b1tza',
  agent_id: 'agt_01k9w6r3h2e7xv5q0c8m4b1tza',
  plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tza',
  subject_type: 'user',
  subject_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  entry_id: 'aud_01k9w6r3h2e7xv5q0c8m4b1tza',
  org_id: 'org_01k9w6r3h2e7xv5q0c8m4b1tza',
  group_id: 'grp_01k9w6r3h2e7xv5q0c8m4b1tza',
  user_id: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzc',
};
/** What can still be answered or stopped stands in sessions of its own. */
const ownIds: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  interruptSession: { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzd' },
  interruptRun: { run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tze' },
  summarizeSession: { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzg' },
  replyPermission: {
    session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tzb',
    request_id: 'prm_01k9w6r3h2e7xv5q0c8m4b1tzb',
  },
  approvePlan: { plan_id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tzb' },
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
  listAgents: ['limit=1'],
  listAuditLogs: ['request_id=req_01k9w6r3h2e7xv5q0c8m4b1tza'],
};
/**
 * Not shown here: their states (a second factor, a mailbox, a login of another kind, a folder of settings) are not among
 * the data of the examples; their own tests and the journeys hold the answers to the contract.
 */
const elsewhere = [
  ...[
    'getAuthConfig',
    'requestPasswordReset',
    'createPasswordResetLink',
    'getMfa',
    'confirmMfa',
    'listLogins',
  ],
  ...[
    'redeemLoginCode',
    'linkOidcLogin',
    'getDeviceLogin',
    'pollDeviceLogin',
    'listWorkspaces',
    'getWorkspace',
  ],
  ...['updateWorkspace', 'listWorkspaceMembers', 'putWorkspaceMember', 'getWorkspaceConfig'],
  ...['updateWorkspaceConfig', 'getWorkspaceTrust', 'trustWorkspace'],
];
/** What turns a server for one into one for many, or gives the account of the examples another organization. */
const last = ['createUser', 'registerUser', 'createOrganization', 'acceptInvitation'];

const examples = Object.entries(contract.paths)
  // The document is our own bundle, whose shape the linter has checked.
  .flatMap(([path, item]) =>
    Object.entries(item as Record<string, Operation>).map(([method, operation]) => ({
      path,
      method,
      operation,
    })),
  )
  .flatMap(({ path, method, operation }) =>
    'operationId' in operation && !elsewhere.includes(operation.operationId)
      ? examplesOf(path, method, operation)
      : [],
  )
  .sort(
    (a, b) =>
      Number(last.some((id) => a.title.startsWith(id))) - Number(last.some((id) => b.title.startsWith(id))),
  );

function examplesOf(path: string, method: string, operation: Operation): Example[] {
  const [type, request] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  return Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([status, response]) =>
      Object.entries(response.content?.['application/json']?.examples ?? {}).map(([name, { value }]) => ({
        title: `${operation.operationId}: ${name}`,
        method: method.toUpperCase(),
        path: fill(path, operation),
        status: Number(status),
        schema: response.content?.['application/json']?.schema ?? {},
        answer: value,
        ...(request && type && { type, body: request.examples?.[name]?.value }),
      })),
    );
}

function fill(path: string, { operationId, parameters }: Operation): string {
  const values = { ...ids, ...ownIds[operationId] };
  const shown = (parameters ?? []).flatMap(({ name, in: where, example }) =>
    where === 'query' && example ? [`${name}=${example}`] : [],
  );
  const query = [...shown, ...(queries[operationId] ?? [])];
  return (
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? name) +
    (query.length > 0 ? `?${query.join('&')}` : '')
  );
}

function answerOf<T>(title: string): T {
  const found = examples.find((example) => example.title.startsWith(`${title}:`));
  if (!found) throw new Error(`${title} has no example`);
  return found.answer as T; // the linter has held the example against its schema
}

function requestOf<T>(title: string): T {
  return examples.find((example) => example.title.startsWith(`${title}:`))?.body as T; // held against its schema, too
}

let folder: string;
let server: RunningServer;
let token: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-examples-'));
  await seed(join(folder, 'service.db'));
  const flags = ['--port', '0', '--data-dir', folder, '--global-config', folder, '--strict'];
  // The runs that examples show at work are at work nowhere: no process is to take them over before they are asked for,
  // and what waits behind them is not worth waiting for in the end.
  flags.push('--lease-seconds', '300', '--drain-seconds', '1');
  const { settings } = readServerSettings(flags, { HOME: folder });
  server = await startServer(settings, { environment: {}, log: createLog('silent') });
  const database = openSqlite(join(folder, 'service.db'), createLog('silent'));
  await seedPerson(database, answerOf<Account>('getUser'));
  await database.close();
  const login = { email: 'ada@example.com', password: 'correct-horse-battery' };
  const response = await send('POST', '/api/v1/auth/login', 'application/json', login);
  token = ((await response.json()) as { access_token: string }).access_token; // strict: the contract's shape
});

afterAll(async () => {
  await server?.stop();
  await rm(folder, { recursive: true });
});

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
    passwordHash: await hashPassword('correct-horse-battery'),
    refreshTokenHash: hashOf('rt_c2VjcmV0'),
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
    plans: plansOf(),
    quota: answerOf<Quota>('getQuota'),
    usage: answerOf<UsagePage>('getUsage').data,
    auditEntry: answerOf<AuditEntry>('getAuditLog'),
    ...organizationOf(),
  });
  await database.close();
}

function send(method: string, path: string, type?: string, body?: unknown): Promise<Response> {
  return fetch(server.url + path, {
    method,
    headers: {
      ...(token && !path.startsWith('/api/v1/auth/re') && { authorization: `Bearer ${token}` }),
      ...(type && { 'content-type': type }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

describe('the success examples of the contract', () => {
  test('are many', () => {
    expect(examples.length).toBeGreaterThan(25);
  });

  test.each(examples.map((example) => [example.title, example] as const))('%s', async (_title, example) => {
    const response = await send(example.method, example.path, example.type, example.body);
    const answer: unknown = await response.json();
    expect(response.status, JSON.stringify(answer)).toBe(example.status);
    const created = response.headers.has('location');
    expect(steady(answer, example.schema, created)).toEqual(steady(example.answer, example.schema, created));
  });
});

/** Without what the contract calls volatile, which `--strict` has held against its schema, and without new ids. */
function steady(value: unknown, schema: Schema, created: boolean): unknown {
  const known = resolve(schema);
  if (known['x-volatile'] || schema['x-volatile']) return 'volatile';
  if (Array.isArray(value)) return value.map((item) => steady(item, known.items ?? {}, created));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      created && ['id', 'default_workspace_id'].includes(key)
        ? 'new'
        : steady(member, known.properties?.[key] ?? {}, created),
    ]),
  );
}

function resolve(schema: Schema): Schema {
  if (schema.$ref) {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return resolve((contract.components.schemas as Record<string, Schema>)[name] ?? {}); // our own bundle
  }
  const [branch] = [...(schema.allOf ?? []), ...(schema.oneOf ?? [])];
  return branch && !schema.properties ? { ...resolve(branch), ...schema } : schema;
}
