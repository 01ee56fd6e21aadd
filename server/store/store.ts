/** All that the server remembers, on SQLite or PostgreSQL: opened once, migrated, one repository for each noun. */
import { setTimeout } from 'node:timers/promises';
import { Problem } from '../problem.ts';
import { type Agents, agentRepository } from './agents.ts';
import { type ApiKeys, apiKeyRepository } from './api-keys.ts';
import { preparing } from './asked-once.ts';
import { writesAudit } from './audit.ts';
import { type AuditLogs, auditLogs } from './audit-logs.ts';
import { type AuditRefusals, auditRefusals } from './audit-refusals.ts';
import { type Chunks, chunkIndex } from './chunk-index.ts';
import { type ChunkSearches, chunkSearches } from './chunk-search.ts';
import { type Corpora, corpusRepository } from './corpora.ts';
import { type Counters, countersIn } from './counters.ts';
import { createCursors } from './cursor.ts';
import { type Database, type DatabaseLoad, type Dialect, databaseLimits } from './database.ts';
import { type DefaultModels, defaultModelsRepository } from './default-models.ts';
import { type DeletedWorkspaces, deletedWorkspaceRepository } from './deleted-workspaces.ts';
import { type DeviceLogins, deviceLoginRepository } from './device-logins.ts';
import { type Documents, documentRepository } from './documents.ts';
import { type EmbedderSettings, embedderSettings } from './embedder-settings.ts';
import { type ExtractedTexts, extractedTexts } from './extracted-texts.ts';
import { type FileChanges, fileChangeRepository } from './file-changes.ts';
import { type FileUploads, fileUploadRepository } from './file-uploads.ts';
import { type Files, fileRepository } from './files.ts';
import { type Groups, groupRepository } from './groups.ts';
import { inOneTransaction, joinsHeld } from './held-transaction.ts';
import { type IngestionJobs, ingestionJobRepository } from './ingestion-jobs.ts';
import { type IngestionWork, ingestionWork } from './ingestion-work.ts';
import { type Invitations, invitationRepository } from './invitations.ts';
import { type JobRuns, jobRunRepository } from './job-runs.ts';
import { type JobWork, jobWork } from './job-work.ts';
import { type Jobs, jobRepository } from './jobs.ts';
import { type KeptRequests, keptRequestRepository } from './kept-requests.ts';
import { type LoginAddresses, loginAddressRepository } from './login-addresses.ts';
import { type Logins, loginRepository } from './logins.ts';
import { type McpLogins, mcpLoginRepository } from './mcp-logins.ts';
import { type McpServers, mcpServerRepository } from './mcp-servers.ts';
import { type Members, memberRepository } from './members.ts';
import { type Memories, memoryRepository } from './memories.ts';
import { type MessageThreads, messageThreadRepository } from './message-threads.ts';
import { type Messages, messageRepository } from './messages.ts';
import { type MeteredCalls, meteredCallRepository } from './metered-calls.ts';
import { metricsRepository, type StoreMetrics } from './metrics.ts';
import { type ModelCatalogs, modelCatalogRepository } from './model-catalogs.ts';
import { type Oidc, oidcRepository } from './oidc.ts';
import { type OpeningOptions, openMigrated } from './open-migrated.ts';
import { type Organizations, organizationRepository } from './organizations.ts';
import type { StoreParts } from './parts.ts';
import { type Passwords, passwordRepository } from './passwords.ts';
import { type People, peopleRepository } from './people.ts';
import { type Permissions, permissionRepository } from './permissions.ts';
import { type Plans, planRepository } from './plans.ts';
import { type PreferenceStore, preferenceRepository } from './preferences.ts';
import { type Principals, principalRepository } from './principals.ts';
import { type Prompts, promptRepository } from './prompts.ts';
import { type ProviderModels, providerModelsRepository } from './provider-models.ts';
import { type ProviderOauth, providerOauthRepository } from './provider-oauth.ts';
import { type ProviderSettings, providerSettingRepository } from './provider-settings.ts';
import { type Queue, queueRepository } from './queue.ts';
import { type Quotas, quotaRepository } from './quotas.ts';
import { type Reindexings, reindexingRepository } from './reindexings.ts';
import { type RunMemories, runMemoryRepository } from './run-memories.ts';
import { type Runs, runRepository } from './runs.ts';
import { type SealedValues, sealedValues } from './sealed-values.ts';
import { type Searches, searchRepository } from './searches.ts';
import { type SecondFactors, secondFactorRepository } from './second-factors.ts';
import { type SessionHistory, sessionHistory } from './session-history.ts';
import { type SessionImports, sessionImports } from './session-imports.ts';
import { type Sessions, sessionRepository } from './sessions.ts';
import { type SigningKeys, signingKeyRepository } from './signing-keys.ts';
import { type SkillRepositories, skillRepositoryStore } from './skill-repositories.ts';
import { type Skills, skillRepository } from './skills.ts';
import type { Storages } from './storage/storage.ts';
import { type StorageOptions, storagesOf } from './storage/storages.ts';
import { type StorageSettings, storageSettings } from './storage-settings.ts';
import { type Transcript, transcriptOf } from './transcript.ts';
import { type UsageReports, usageRepository } from './usage.ts';
import { type Users, userRepository } from './users.ts';
import { type WebSearchSettings, webSearchSettings } from './web-search-settings.ts';
import { tellsWorkspaces, type WorkspaceEvents, workspaceEventRepository } from './workspace-events.ts';
import { type WorkspaceMembers, workspaceMemberRepository } from './workspace-members.ts';
import { type WorkspaceTrustRecords, workspaceTrustRepository } from './workspace-trust.ts';
import { type Workspaces, workspaceRepository } from './workspaces.ts';

export type { ApiKeys, NewApiKey, TaggedApiKey } from './api-keys.ts';
export { anchorFile, readAnchors, type WrittenAnchor, writeAnchor } from './audit-anchors.ts';
export type { Anchor } from './audit-chain.ts';
export type { AuditFilters, AuditLogs, AuditReader } from './audit-logs.ts';
export type { Refusal } from './audit-refusals.ts';
export { backUp, filesOf } from './backup.ts';
export type { FilesOfBackup } from './backup-files.ts';
export { examineSqlite, type SchemaVersions } from './examine.ts';
export type { InvitationKind, Invitations, InvitationToken } from './invitations.ts';
export type { StoredJob } from './job-rows.ts';
export type { ClaimedJobRun } from './job-work.ts';
export type { Logins, Rotation } from './logins.ts';
export type { FoundMemories } from './memory-searching.ts';
export type { MemoryText, QueryMeaning } from './memory-vectors.ts';
export type { Spender } from './meter.ts';
export type { Searcher, SpendingRun } from './metered-calls.ts';
export { type AppliedStep, refuseStrange } from './migrate.ts';
export type {
  CatalogLook,
  CatalogMark,
  DueCatalog,
  NewCatalog,
  TaggedCatalog,
} from './model-catalogs.ts';
export { dialectOf } from './open-migrated.ts';
export type { Page } from './page.ts';
export type { ApiKeyOwner, LoginOwner, PrincipalMembership, Principals } from './principals.ts';
export { hasRole, type Origin, type Reach } from './reach.ts';
export { restore } from './restore.ts';
export type { AgentSearch, RememberingRun } from './run-memories.ts';
export type { SealedValue, SealedValues } from './sealed-values.ts';
export type { TaggedSession } from './session-rows.ts';
export type { SigningKey, SigningKeys } from './signing-keys.ts';
export type { SkillProposal } from './skill-repository-proposals.ts';
export type {
  FoundRepository,
  FoundRepositorySkill,
  SkillRepositoryContent,
  TaggedSkillRepository,
} from './skill-repository-rows.ts';
export type { ClaimedSync } from './skill-repository-syncs.ts';
export type { SkillContent, SkillFileContent, StoredSkill } from './skill-rows.ts';
export type { SkillsForRuns } from './skills.ts';
export type { StorageMeans } from './storage/storages.ts';
export type { NewAccount, TaggedUser, Users } from './users.ts';
export {
  type KeptWebSearch,
  type StoredWebSearch,
  webSearchKeyRow,
} from './web-search-settings.ts';
export type { TrustedWorkspaceFile, WorkspaceFilesChange, WorkspaceTrustRecords } from './workspace-trust.ts';
export type { DeletedWorkspace, FoundWorkspace, WorkspaceTerms } from './workspaces.ts';

/**
 * Every call may also throw the problems `database_unavailable`, `storage_full` and `invalid_encoding`; lists throw
 * `invalid_cursor`. What is out of the caller's reach is answered as what does not exist.
 */
export interface Store {
  readonly dialect: Dialect;
  /** Resolves while the database answers; throws `database_unavailable` within two seconds when it does not. */
  ping(): Promise<void>;
  /** What the database has to do now, and what it may: beyond that callers are refused. */
  load(): DatabaseLoad;
  readonly loadLimits: DatabaseLoad;
  /** What waits to be written together with others. */
  gathered: Database['gathered'];
  /** All that `work` writes, or nothing; nobody else writes meanwhile, so it may not take long. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /** Within it, what is remembered is asked for once, whether or not the database can tell of changes. */
  readonly preparing: typeof preparing;
  close(): Promise<void>;
  readonly users: Users;
  readonly people: People;
  readonly preferences: PreferenceStore;
  readonly principals: Principals;
  readonly logins: Logins;
  readonly deletedWorkspaces: DeletedWorkspaces;
  readonly loginAddresses: LoginAddresses;
  readonly passwords: Passwords;
  readonly secondFactors: SecondFactors;
  readonly counters: Counters;
  readonly oidc: Oidc;
  readonly deviceLogins: DeviceLogins;
  readonly signingKeys: SigningKeys;
  readonly apiKeys: ApiKeys;
  readonly invitations: Invitations;
  readonly keptRequests: KeptRequests;
  readonly sealedValues: SealedValues;
  readonly organizations: Organizations;
  readonly members: Members;
  readonly groups: Groups;
  readonly workspaces: Workspaces;
  readonly workspaceMembers: WorkspaceMembers;
  readonly workspaceTrust: WorkspaceTrustRecords;
  readonly agents: Agents;
  readonly providerSettings: ProviderSettings;
  readonly providerOauth: ProviderOauth;
  readonly defaultModels: DefaultModels;
  readonly providerModels: ProviderModels;
  readonly plans: Plans;
  readonly webSearchSettings: WebSearchSettings;
  readonly sessions: Sessions;
  readonly sessionImports: SessionImports;
  readonly messages: Messages;
  readonly fileChanges: FileChanges;
  readonly files: Files;
  readonly fileUploads: FileUploads;
  readonly storageSettings: StorageSettings;
  /** Resolves where new files can be stored; throws `storage_unavailable` within two seconds where they cannot. */
  pingStorage(): Promise<void>;
  readonly corpora: Corpora;
  readonly documents: Documents;
  readonly ingestionJobs: IngestionJobs;
  readonly ingestionWork: IngestionWork;
  readonly extractedTexts: ExtractedTexts;
  readonly mcpLogins: McpLogins;
  readonly mcpServers: McpServers;
  readonly jobs: Jobs;
  readonly jobRuns: JobRuns;
  readonly jobWork: JobWork;
  readonly memories: Memories;
  readonly runMemories: RunMemories;
  readonly skills: Skills;
  readonly skillRepositories: SkillRepositories;
  readonly searches: Searches;
  readonly chunks: Chunks;
  readonly embedderSettings: EmbedderSettings;
  readonly reindexings: Reindexings;
  readonly passages: ChunkSearches;
  readonly history: SessionHistory;
  readonly runs: Runs;
  readonly queue: Queue;
  readonly workspaceEvents: WorkspaceEvents;
  readonly permissions: Permissions;
  readonly prompts: Prompts;
  readonly auditLogs: AuditLogs;
  readonly auditRefusals: AuditRefusals;
  readonly metrics: StoreMetrics;
  readonly quotas: Quotas;
  readonly usage: UsageReports;
  readonly messageThreads: MessageThreads;
  readonly meteredCalls: MeteredCalls;
  readonly modelCatalogs: ModelCatalogs;
  readonly transcript: Transcript;
}

export interface StoreOptions extends OpeningOptions {
  /** Where files of people lie; absent, none can be uploaded. */
  readonly storage?: StorageOptions | undefined;
}

/**
 * Opens `sqlite:<absolute file>` or `postgres://…` and migrates it. A database of a newer version is refused with an
 * error named `NewerDatabase`.
 */
export async function openStore(url: string, options: StoreOptions): Promise<Store> {
  const { clock } = options;
  const database = await openMigrated(url, options);
  try {
    const cursors = createCursors(await readCursorKey(database));
    const direct = tellsWorkspaces(writesAudit(database, clock));
    return storeOf(direct, { database: joinsHeld(direct), clock, cursors }, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function readCursorKey(database: Database): Promise<string> {
  const row = await database.read('installation', (sql) =>
    sql<{ id: number; cursor_key: string }>('installation').where({ id: 1 }).first(),
  );
  if (!row) throw new Error('The table `installation` is empty: this is no database of service.');
  return row.cursor_key;
}

/** Of a store that is opened beside a server, which keeps no files. */
const noStorage: StorageOptions = {
  means: async () => {
    throw new Error('This store was opened without the means to reach a bucket.');
  },
};

function storeOf(database: Database, parts: StoreParts, { log, storage = noStorage }: StoreOptions): Store {
  const refusals = auditRefusals({ ...parts, log });
  const storages = storagesOf(database, storage);
  const chunks = chunkIndex(parts);
  return {
    dialect: database.dialect,
    ping: () => ping(database),
    load: database.load,
    loadLimits: databaseLimits,
    gathered: database.gathered,
    transaction: (work) => inOneTransaction(database, work),
    preparing,
    quotas: quotaRepository(parts),
    usage: usageRepository(parts),
    messageThreads: messageThreadRepository(parts),
    meteredCalls: meteredCallRepository(parts),
    async close() {
      await refusals.settled();
      await database.close();
    },
    users: userRepository(parts),
    people: peopleRepository(parts),
    preferences: preferenceRepository(parts),
    principals: principalRepository(parts),
    logins: loginRepository(parts),
    deletedWorkspaces: deletedWorkspaceRepository(parts),
    loginAddresses: loginAddressRepository(parts),
    passwords: passwordRepository(parts),
    secondFactors: secondFactorRepository(parts),
    counters: countersIn(database),
    oidc: oidcRepository(parts),
    deviceLogins: deviceLoginRepository(parts),
    signingKeys: signingKeyRepository(parts),
    apiKeys: apiKeyRepository(parts),
    invitations: invitationRepository(parts),
    keptRequests: keptRequestRepository(parts, database),
    sealedValues: sealedValues(database),
    organizations: organizationRepository(parts),
    members: memberRepository(parts),
    groups: groupRepository(parts),
    workspaces: workspaceRepository(parts),
    workspaceMembers: workspaceMemberRepository(parts),
    workspaceTrust: workspaceTrustRepository(parts),
    agents: agentRepository(parts),
    providerSettings: providerSettingRepository(parts),
    providerOauth: providerOauthRepository(parts),
    defaultModels: defaultModelsRepository(parts),
    providerModels: providerModelsRepository(parts),
    plans: planRepository(parts),
    webSearchSettings: webSearchSettings(parts),
    sessions: sessionRepository(parts),
    sessionImports: sessionImports({ ...parts, log }),
    messages: messageRepository(parts),
    fileChanges: fileChangeRepository(parts),
    files: fileRepository({ ...parts, log, storages }),
    fileUploads: fileUploadRepository({ ...parts, log, storages }),
    storageSettings: storageSettings({ ...parts, storages, options: storage }),
    pingStorage: () => pingStorage(storages),
    corpora: corpusRepository(parts),
    documents: documentRepository({ ...parts, chunks }),
    ingestionJobs: ingestionJobRepository(parts),
    ingestionWork: ingestionWork({ ...parts, chunks }),
    // Others wait for the same bytes: what one request has read of them is not held back until it is done.
    extractedTexts: extractedTexts({ ...parts, database }),
    mcpLogins: mcpLoginRepository(parts),
    mcpServers: mcpServerRepository(parts),
    jobs: jobRepository(parts),
    jobRuns: jobRunRepository(parts),
    jobWork: jobWork(parts),
    memories: memoryRepository(parts),
    runMemories: runMemoryRepository(parts),
    skills: skillRepository(parts),
    skillRepositories: skillRepositoryStore(parts),
    searches: searchRepository({ ...parts, log }),
    chunks,
    embedderSettings: embedderSettings(parts),
    reindexings: reindexingRepository(parts),
    passages: chunkSearches(parts),
    history: sessionHistory({ ...parts, log }),
    runs: runRepository(parts),
    queue: queueRepository(parts),
    workspaceEvents: workspaceEventRepository(parts),
    permissions: permissionRepository(parts),
    prompts: promptRepository(parts),
    auditLogs: auditLogs(parts),
    auditRefusals: refusals,
    metrics: metricsRepository(parts),
    modelCatalogs: modelCatalogRepository(parts),
    transcript: transcriptOf(parts),
  };
}

const pingTimeoutMs = 2000;

async function pingStorage(storages: Storages): Promise<void> {
  const { storage } = await storages.current();
  await storage.ping(AbortSignal.timeout(pingTimeoutMs));
}

async function ping(database: Database): Promise<void> {
  const stop = new AbortController();
  const answer = database.read('installation', (sql) => sql('installation').first('id'));
  const silence = setTimeout(pingTimeoutMs, undefined, { signal: stop.signal }).then(() => {
    throw new Problem('database_unavailable', 'The database does not answer; try again in a moment.');
  });
  // Whichever of the two comes second is of no interest any more.
  for (const late of [answer, silence]) late.catch(() => undefined);
  try {
    await Promise.race([answer, silence]);
  } finally {
    stop.abort();
  }
}
