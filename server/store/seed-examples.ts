/** Fills an empty database with what the contract's examples show, ids included, so that tests can hold them true. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
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
  Login,
  Me,
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
  StoredFile,
  UsageEntry,
  Workspace,
  WorkspaceMember,
} from '../contract/api.ts';
import { hashOfEntry } from './audit-chain.ts';
import { addCost, noCost, toNanodollars } from './costs.ts';
import type { Database } from './database.ts';
import { insertChange, packChange } from './file-changes.ts';
import { indexMemory } from './memory-index.ts';
import { hashOfContent } from './memory-rows.ts';
import { meter } from './meter.ts';
import type { RunRow } from './runs.ts';
import { indexMessage, indexTitle } from './search-index.ts';
import { nameKey } from './user-row.ts';

/** The examples that are stored, and what no example shows. */
export interface ExampleSeed {
  readonly me: Me;
  readonly passwordHash: string;
  /** Where the account is logged in, with the hashes of refresh tokens for it. */
  readonly logins: readonly (Login & { readonly refreshTokenHash: string })[];
  /** What a browser has come back with from a provider. */
  readonly loginCode: { readonly codeHash: string; readonly browserHash: string };
  readonly apiKey: ApiKey;
  readonly preferences: Preferences;
  readonly sessions: readonly Session[];
  readonly runs: readonly Run[];
  readonly messages: readonly Message[];
  /** The files that the first run has made, with their texts. */
  readonly files: Readonly<Record<string, string>>;
  readonly permissions: readonly PermissionRequest[];
  readonly prompts: readonly PromptRequest[];
  readonly agents: readonly Agent[];
  readonly file: StoredFile;
  readonly corpus: Corpus;
  readonly corpusAccess: CorpusAccess;
  readonly document: Document;
  readonly ingestionJob: IngestionJobWithItems;
  /** Of the default workspace. */
  readonly memory: Memory;
  readonly plans: readonly Plan[];
  /** Of the organization, with a key that nobody has. */
  readonly providerSetting: ProviderSetting;
  readonly catalog: Catalog;
  readonly quota: Quota;
  readonly usage: readonly UsageEntry[];
  readonly auditEntry: AuditEntry;
  readonly organization: Organization;
  /** Another one beside the default workspace. */
  readonly workspace: Workspace;
  /** Whom the organization has besides. */
  readonly members: readonly OrganizationMember[];
  readonly invitations: readonly Invitation[];
  readonly group: Group;
  readonly groupMembers: readonly GroupMember[];
  /** An invitation into another organization, from the last of the members, that waits for the account. */
  readonly waiting: {
    readonly organization: Pick<Organization, 'id' | 'name' | 'default_workspace_id'>;
    readonly tokenHash: string;
  };
}

const at = Date.parse('2026-11-21T08:00:00.000Z');
/** Pending questions must not expire while a test runs. */
const later = Date.now() + 3_600_000;

/** Writes everything in one transaction. */
export async function seedExamples(database: Database, seed: ExampleSeed): Promise<void> {
  const [membership] = seed.me.memberships;
  if (!membership) throw new Error('the example of the account has no membership');
  const organizationId = membership.organization_id;
  const place = { organization_id: organizationId, workspace_id: membership.default_workspace_id };
  await database.write('installation', async (sql) => {
    await seedAccount(sql, seed);
    await seedAuditEntry(sql, seed.auditEntry);
    await seedOrganization(sql, seed);
    await seedWorkspace(sql, seed.workspace);
    for (const session of seed.sessions) await seedSession(sql, session, organizationId, seed.me.id);
    for (const run of seed.runs) await seedRun(sql, run, place, seed.me.id);
    for (const [position, message] of seed.messages.entries())
      await seedMessage(sql, message, place, position);
    for (const [path, text] of Object.entries(seed.files)) await seedFile(sql, seed, path, text);
    for (const request of seed.permissions)
      await sql('permission_requests').insert({
        ...question(request, organizationId),
        decision: request.decision,
      });
    for (const request of seed.prompts) {
      const answers = request.answers ? JSON.stringify(request.answers) : null;
      await sql('prompt_requests').insert({ ...question(request, organizationId), answers });
    }
    for (const plan of seed.plans) {
      const { id, version, run_id, title, content } = plan;
      const owner = { organization_id: organizationId };
      await sql('plans').insert({ ...plan, ...place, revision: 1, created_at: at, updated_at: at });
      await sql('plan_versions').insert({
        ...owner,
        plan_id: id,
        version,
        run_id,
        title,
        content,
        created_at: at,
      });
    }
    await seedCatalog(sql, seed.catalog);
    await seedStoredFile(sql, seed, place);
    await seedCorpus(sql, seed, organizationId);
    await seedMemory(sql, seed.memory);
    await seedQuota(sql, seed, place);
    await seedProviderSetting(sql, seed);
    for (const { source: _source, tools, ...agent } of seed.agents)
      await sql('agents').insert({
        ...agent,
        organization_id: organizationId,
        tools: tools && JSON.stringify(tools),
        created_by: seed.me.id,
        revision: 1,
        created_at: at,
        updated_at: at,
      });
  });
}

export async function seedProviderSetting(
  sql: Knex.Transaction,
  { providerSetting, me }: Pick<ExampleSeed, 'providerSetting' | 'me'>,
) {
  const { id, scope, organization_id, provider_id, name, type, priority, ...shown } = providerSetting;
  const { base_url, models, api_key_set, extra_header_names } = shown;
  await sql('provider_settings').insert({
    ...{ id, scope, organization_id, provider_id, name, priority, api_key_set },
    owner_id: organization_id,
    entry: JSON.stringify({ type, base_url, models }),
    extra_header_names: JSON.stringify(extra_header_names),
    created_by: me.id,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

/** Where everything of the examples belongs. */
interface Place {
  readonly organization_id: string;
  readonly workspace_id: string;
}

async function seedAccount(
  sql: Knex.Transaction,
  { me, passwordHash, logins, loginCode, apiKey, organization, preferences }: ExampleSeed,
) {
  const times = { created_at: at, updated_at: at };
  await sql('users').insert({
    ...times,
    id: me.id,
    email: me.email,
    email_key: me.email.toLowerCase(),
    name: me.name,
    name_key: nameKey(me.name),
    avatar: me.avatar,
    status: me.status,
    password_hash: passwordHash,
    operator: me.operator,
    revision: 1,
  });
  for (const { organization_id, organization_name, role, default_workspace_id } of me.memberships) {
    const { slug } = organization;
    await sql('organizations').insert({ ...times, id: organization_id, name: organization_name, slug });
    await sql('memberships').insert({ organization_id, user_id: me.id, role, created_at: at });
    await sql('workspaces').insert({
      ...times,
      id: default_workspace_id,
      organization_id,
      name: 'Default',
      is_default: true,
    });
  }
  for (const login of logins) await seedLogin(sql, me.id, login);
  await sql('login_codes').insert({
    code_hash: loginCode.codeHash,
    browser_hash: loginCode.browserHash,
    user_id: me.id,
    expires_at: later,
  });
  await sql('user_preferences').insert({
    ...preferences,
    user_id: me.id,
    notifications: JSON.stringify(preferences.notifications),
    revision: 1,
    updated_at: at,
  });
  await sql('api_keys').insert({
    ...times,
    id: apiKey.id,
    user_id: me.id,
    name: apiKey.name,
    hash: 'of a key that nobody has',
    prefix: apiKey.prefix,
    scopes: JSON.stringify(apiKey.scopes),
    disabled: apiKey.disabled,
    revision: 1,
  });
}

async function seedLogin(
  sql: Knex.Transaction,
  user_id: string,
  { current: _current, refreshTokenHash: hash, ...login }: ExampleSeed['logins'][number],
): Promise<void> {
  const created_at = Date.parse(login.created_at);
  // Its use is not noted anew, which would tell another address.
  await sql('logins').insert({ ...login, user_id, created_at, last_seen_at: later, expires_at: later });
  await sql('refresh_tokens').insert({ hash, login_id: login.id, created_at });
}

/** As the first of the chain. */
async function seedAuditEntry(sql: Knex.Transaction, entry: AuditEntry): Promise<void> {
  const { actor, target, before, after, ...rest } = entry;
  const content = {
    ...rest,
    sequence: 1,
    created_at: at,
    actor_type: actor.type,
    actor_id: actor.id,
    credential_type: actor.credential_type,
    credential_id: actor.credential_id,
    target_type: target.type,
    target_id: target.id,
    before: before && JSON.stringify(before),
    after: after && JSON.stringify(after),
  };
  const prev_hash = '0'.repeat(64);
  const hash = hashOfEntry(prev_hash, content);
  await sql('audit_entries').insert({ ...content, prev_hash, hash });
  await sql('audit_head').update({ sequence: 1, created_at: at, hash });
}

async function seedOrganization(sql: Knex.Transaction, seed: ExampleSeed) {
  const { organization, members, invitations, group, groupMembers, waiting } = seed;
  const organization_id = organization.id;
  for (const { user_id, email, name, role } of members) {
    await sql('users').insert({
      id: user_id,
      email,
      email_key: email,
      name,
      password_hash: '',
      operator: false,
      revision: 1,
      created_at: at,
      updated_at: at,
    });
    await sql('memberships').insert({ organization_id, user_id, role, created_at: at });
  }
  for (const { status: _status, ...invitation } of invitations)
    await sql('invitations').insert(invitationRow(invitation, `of ${invitation.id}`));
  await sql('groups').insert({ ...group, revision: 1, created_at: at, updated_at: at });
  for (const { user_id } of groupMembers)
    await sql('group_members').insert({ organization_id, group_id: group.id, user_id, created_at: at });
  await seedWaiting(sql, seed, waiting);
}

function seedWorkspace(sql: Knex.Transaction, workspace: Workspace) {
  return sql('workspaces').insert({
    ...workspace,
    permission_rules: JSON.stringify(workspace.permission_rules),
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

async function seedWaiting(
  sql: Knex.Transaction,
  { me, members }: ExampleSeed,
  { organization: { id, name, default_workspace_id }, tokenHash }: ExampleSeed['waiting'],
) {
  const times = { created_at: at, updated_at: at };
  const user_id = members.at(-1)?.user_id ?? '';
  await sql('organizations').insert({ ...times, id, name, slug: 'another' });
  await sql('memberships').insert({ organization_id: id, user_id, role: 'owner', created_at: at });
  const workspace = { id: default_workspace_id, organization_id: id, name: 'Default', is_default: true };
  await sql('workspaces').insert({ ...times, ...workspace });
  const invitation = { organization_id: id, email: me.email, role: 'member', invited_by: user_id } as const;
  await sql('invitations').insert(invitationRow({ ...invitation, id: 'ivt_waiting' }, tokenHash));
}

function invitationRow(
  { id, organization_id, email, role, invited_by }: Omit<Invitation, 'status' | 'created_at' | 'expires_at'>,
  hash: string,
) {
  const row = { id, organization_id, email, email_key: email, role, invited_by, hash };
  return { ...row, kind: 'invitation', created_at: at, expires_at: later };
}

/**
 * A person of organizations that are there, who can log in where there is a hash. A second account turns a server that
 * starts into one for many.
 */
export function seedPerson(database: Database, person: Account, passwordHash: string | null): Promise<void> {
  return database.write('installation', (sql) => insertPerson(sql, person, passwordHash));
}

/** People and groups that are there, in this order. */
export function seedWorkspaceMembers(
  database: Database,
  { id: workspace_id, organization_id }: Workspace,
  members: readonly WorkspaceMember[],
): Promise<void> {
  return database.write('installation', async (sql) => {
    for (const [index, { principal_id, type, role }] of members.entries())
      await sql('workspace_members').insert({
        ...{ organization_id, workspace_id, principal_id, role, created_at: at + index },
        [type === 'user' ? 'user_id' : 'group_id']: principal_id,
      });
  });
}

async function insertPerson(sql: Knex.Transaction, person: Account, passwordHash: string | null) {
  const { memberships, created_at: _created, updated_at: _updated, ...row } = person;
  const times = { created_at: at, updated_at: at };
  const keys = { email_key: person.email.toLowerCase(), name_key: nameKey(person.name) };
  await sql('users').insert({
    ...{ ...row, ...keys, ...times },
    password_hash: passwordHash ?? 'nobody’s',
    revision: 1,
  });
  for (const { organization_id, role } of memberships)
    await sql('memberships').insert({ organization_id, user_id: person.id, role, created_at: at + 1 });
}

async function seedFile(sql: Knex.Transaction, { runs }: ExampleSeed, path: string, text: string) {
  const run = await sql<RunRow>('runs')
    .where({ id: runs[0]?.id ?? '' })
    .first();
  if (!run) throw new Error('the example of the run is not stored');
  const bytes = Buffer.from(text);
  const after = { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, bytes };
  const change = {
    runId: run.id,
    sessionId: run.session_id,
    toolCallId: 'call_1',
    path,
    before: null,
    mode: null,
    after,
  };
  await insertChange(sql, run, change, await packChange(change), at);
}

async function seedSession(sql: Knex.Transaction, session: Session, organizationId: string, userId: string) {
  const { usage, cost, context, permission_rules, tags, metadata, ...columns } = session;
  await sql('sessions').insert({
    ...columns,
    ...usage,
    ...addCost(noCost, cost),
    context_used: context.used,
    context_window: context.window,
    organization_id: organizationId,
    user_id: userId,
    permission_rules: JSON.stringify(permission_rules),
    tags: JSON.stringify(tags),
    metadata: JSON.stringify(metadata),
    run_number: 1,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
  await indexTitle(sql, { ...session, organization_id: organizationId });
  for (const tag of tags)
    await sql('session_tags').insert({
      organization_id: organizationId,
      workspace_id: session.workspace_id,
      session_id: session.id,
      tag,
      archived: session.archived,
      created_at: at,
      updated_at: at,
    });
}

async function seedRun(sql: Knex.Transaction, run: Run, place: Place, userId: string) {
  const { usage, cost, error, ...columns } = run;
  await sql('runs').insert({
    ...columns,
    ...usage,
    ...addCost(noCost, cost),
    error: error ? JSON.stringify(error) : null,
    ...place,
    user_id: userId,
    run_number: 1,
    on_unanswered: 'wait',
    pruned_event_id: run.last_event_id,
    lease_owner: 'nobody',
    created_at: at,
    started_at: at,
    ended_at: run.ended_at ? at : null,
  });
}

async function seedMessage(sql: Knex.Transaction, message: Message, place: Place, position: number) {
  const { parts, usage, cost, ...columns } = message;
  await sql('messages').insert({
    ...columns,
    organization_id: place.organization_id,
    parts: JSON.stringify(parts),
    usage: usage ? JSON.stringify(usage) : null,
    cost_nanodollars: toNanodollars(cost),
    run_number: 1,
    position,
    feedback: message.feedback && JSON.stringify(message.feedback),
    created_at: at,
  });
  await indexMessage(sql, { ...message, ...place });
}

async function seedCatalog(sql: Knex.Transaction, { models, ...catalog }: Catalog) {
  const times = { created_at: at, updated_at: at };
  const rest = { mark: 'of the example', failures: 0, revision: 1 };
  await sql('model_catalogs').insert({ ...catalog, ...rest, ...times, models: JSON.stringify(models) });
}

/** With its document, the job that took that in, and the group to which it is granted. */
async function seedCorpus(sql: Knex.Transaction, seed: ExampleSeed, organization_id: string): Promise<void> {
  const { corpus, document, ingestionJob, corpusAccess } = seed;
  const { embedder, stale: _stale, stats, chunking, created_by: user_id, ...known } = corpus;
  const times = { revision: 1, created_at: at, updated_at: at };
  await sql('corpora').insert({
    ...{ ...known, ...stats, ...times, organization_id, user_id },
    name_key: nameKey(corpus.name),
    chunking: JSON.stringify(chunking),
    embedder_identity: embedder,
    vector_set: 1,
    metadata: JSON.stringify(corpus.metadata),
    grants_revision: 1,
  });
  for (const { principal, role } of corpusAccess.grants)
    await sql('corpus_grants').insert({
      ...{ organization_id, corpus_id: corpus.id, principal_id: principal, group_id: principal, role },
      created_at: at,
    });
  await seedDocument(sql, document, corpus, organization_id);
  await seedIngestionJob(sql, { job: ingestionJob, corpus, organizationId: organization_id });
}

async function seedDocument(
  sql: Knex.Transaction,
  { error: _error, created_by: user_id, metadata, ...shown }: Document,
  { workspace_id }: Corpus,
  organization_id: string,
): Promise<void> {
  await sql('documents').insert({
    ...{ ...shown, organization_id, workspace_id, user_id, generation: 1, newest_generation: 1 },
    name_key: nameKey(shown.title),
    metadata: JSON.stringify(metadata),
    ...{ revision: 1, created_at: at, updated_at: at },
  });
}

interface SeededJob {
  readonly job: IngestionJobWithItems;
  readonly corpus: Corpus;
  readonly organizationId: string;
}

async function seedIngestionJob(
  sql: Knex.Transaction,
  { job, corpus, organizationId: organization_id }: SeededJob,
): Promise<void> {
  const { items, progress, created_by: user_id, ...known } = job;
  const milliseconds = (time: string | null) => time && Date.parse(time);
  await sql('ingestion_jobs').insert({
    ...{ ...known, ...progress, organization_id, user_id, workspace_id: corpus.workspace_id },
    ...{ served_at: at, told_at: at, revision: 1, created_at: at },
    started_at: milliseconds(job.started_at),
    ended_at: milliseconds(job.ended_at),
  });
  for (const [ordinal, { error: _error, ...item }] of items.entries())
    await sql('ingestion_items').insert({
      ...{ ...item, ordinal, organization_id, job_id: job.id, id: `${job.id}_${ordinal}` },
      // Nobody takes in what an example shows as waiting.
      not_before: Number.MAX_SAFE_INTEGER,
      started_at: milliseconds(item.started_at),
      ended_at: milliseconds(item.ended_at),
    });
}

/** For an example that shows what becomes of a job: it is as it was before, with a document of its own if named. */
export async function seedJobBefore(
  database: Database,
  job: SeededJob,
  document: Document | null,
): Promise<void> {
  await database.write('installation', async (sql) => {
    if (document) await seedDocument(sql, document, job.corpus, job.organizationId);
    await seedIngestionJob(sql, job);
  });
}

/** What is known of it: its bytes are nowhere. */
async function seedStoredFile(sql: Knex.Transaction, { file, me }: ExampleSeed, place: Place) {
  const { created_by: _createdBy, created_at: _createdAt, updated_at: _updatedAt, ...known } = file;
  const bytes = { sha256: file.sha256, size: file.size };
  const key = 'obj_example';
  await sql('stored_objects').insert({
    ...place,
    ...bytes,
    key,
    user_id: me.id,
    backend: 'fs',
    state: 'kept',
  });
  await sql('files').insert({
    ...known,
    ...place,
    object_key: key,
    name_key: nameKey(file.filename),
    metadata: JSON.stringify(file.metadata),
    user_id: me.id,
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

async function seedMemory(sql: Knex.Transaction, memory: Memory) {
  const { source, author, version, created_at: _createdAt, updated_at: _updatedAt, ...known } = memory;
  const row = {
    ...known,
    owner_key: memory.workspace_id ?? '',
    private_to: null,
    content_hash: hashOfContent(memory.content),
    tags: JSON.stringify(memory.tags),
    source_session_id: source?.session_id,
    source_message_id: source?.message_id,
    author_id: author.user_id,
    user_id: author.user_id,
    size: memory.content.length,
    revision: version,
    created_at: at,
    updated_at: at,
  };
  await sql('memories').insert({ ...row, expires_at: null });
  const { kind, content, tags, organization_id, author_id } = row;
  await sql('memory_versions').insert({
    ...{ memory_id: memory.id, version, kind, content, tags, organization_id, author_id, created_at: at },
  });
  await indexMemory(sql, row);
}

async function seedQuota(sql: Knex.Transaction, { me, quota, usage }: ExampleSeed, place: Place) {
  const { use: _use, limits, ...columns } = quota;
  const user = { scope: quota.organization_id ?? '', user_id: me.id };
  const stamp = { revision: 1, created_at: at, updated_at: at };
  await sql('quotas').insert({ ...columns, ...user, limits: JSON.stringify(limits), ...stamp });
  const spender = {
    ...{ organizationId: place.organization_id, workspaceId: place.workspace_id },
    ...{ userId: me.id, apiKeyId: null },
  };
  // In the present month, which is what is asked for without a period.
  for (const { cost, usage: tokens } of usage)
    await meter(sql, spender, { requests: 1, model: 'demo:demo-1', usage: tokens, cost }, Date.now());
}

function question(request: PermissionRequest | PromptRequest, organizationId: string) {
  return {
    id: request.id,
    organization_id: organizationId,
    session_id: request.session_id,
    run_id: request.run_id,
    root_session_id: request.session_id,
    root_run_id: request.run_id,
    request: JSON.stringify(request),
    status: request.status,
    created_at: at,
    expires_at: later,
    resolved_at: request.resolved_at ? at : null,
  };
}
