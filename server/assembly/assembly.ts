/** Puts the server together: settings in, its parts out. Parts that belong together are opened in the files beside. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../clock.ts';
import { catalogLimits, discoverLocalProviders, expandSetting, followProviders } from '../config/config.ts';
import type { ClientConfig } from '../contract/config.ts';
import {
  createIdentity,
  createSealing,
  followMasterKey,
  loadMasterKey,
  type MasterKey,
  type Sealing,
} from '../identity/identity.ts';
import { createMail } from '../mail.ts';
import { createMcpLogins, createMcpServers, keptLogins } from '../mcp-servers/mcp-servers.ts';
import { createModelCatalogs } from '../model-catalogs.ts';
import { createOutbound, type Outbound, outboundSentence } from '../outbound/outbound.ts';
import { createLoginFlows, createRuntime, type Runtime } from '../runtime/runtime.ts';
import { schedules } from '../scheduler/scheduler.ts';
import type { OpenServices } from '../services.ts';
import { openSkillBook } from '../skills/skills.ts';
import {
  anchorFile,
  dialectOf,
  openStore,
  type Reach,
  readAnchors,
  type StorageMeans,
  type Store,
  webSearchKeyRow,
} from '../store/store.ts';
import { noTracing } from '../tracing.ts';
import { createWebSearch } from '../web-search/web-search.ts';
import { createWorkspaceSettings } from '../workspace-settings/workspace-settings.ts';
import { anchorAuditLog } from './audit-head.ts';
import { capabilitiesOf } from './capabilities.ts';
import type { FollowedSettings, ServicesInput } from './input.ts';
import { openSearches, passageFinder, startKnowledge } from './knowledge.ts';
import { leaseOf } from './lease.ts';
import { openMode } from './mode.ts';
import { foldersOf, followGlobalSettings, guidanceOf, placesOf } from './places.ts';
import { openProviders } from './providers.ts';
import { showQueues } from './queue-metrics.ts';
import { beginJobs } from './scheduler.ts';
import { beginSkillRepositories } from './skill-repositories.ts';

export type { LocalProject, ServicesInput } from './input.ts';

/** As many agent profiles of an organization as a model is told of. */
const mostProfiles = 50;

/** A file may be as large as it is; a bucket that is away is told of. */
const storageLimits = { maxBytes: Number.POSITIVE_INFINITY, headersMs: 60_000 };

/** How long local model servers may take to say that they are there. */
const discoveryMs = 500;

/** Opens the database, reads the settings file, finds providers, and puts the parts together. */
export async function openServices(input: ServicesInput): Promise<OpenServices> {
  const { settings, log, clock = systemClock } = input;
  // Read before anything is made: a fault in the file then leaves nothing behind.
  const followed = input.project?.settings ?? (await followGlobalSettings(input));
  await mkdir(settings.dataDirectory, { recursive: true, mode: 0o700 });
  const databaseUrl = settings.databaseUrl ?? `sqlite:${join(settings.dataDirectory, 'service.db')}`;
  const dataDirectory = input.project?.keyDirectory ?? settings.dataDirectory;
  // Whoever has no key yet meets a database that nothing was changed in.
  const masterKey = await loadMasterKey({ ...settings, dataDirectory, database: dialectOf(databaseUrl) });
  const means = Promise.withResolvers<StorageMeans>();
  const store = await openStore(databaseUrl, {
    clock,
    log,
    migrationUrl: settings.databaseMigrationUrl ?? undefined,
    connections: settings.databaseConnections,
    storage: {
      directory: join(settings.dataDirectory, 'files'),
      environment: settings.storage,
      means: () => means.promise,
    },
    backups: settings.migrationBackup ? join(settings.dataDirectory, 'backups') : undefined,
  });
  try {
    const begun = { store, masterKey, dataDirectory, reachStorage: means.resolve };
    return await assemble(input, followed, begun, clock);
  } catch (error) {
    followed.close();
    await store.close();
    throw error;
  }
}

/** What was opened before all else. */
interface Beginnings {
  readonly store: Store;
  readonly masterKey: MasterKey;
  /** Of the key and of what lies beside it: a project's is not the server's. */
  readonly dataDirectory: string;
  /** Says how buckets are reached, once that is known. */
  reachStorage(means: StorageMeans): void;
}

async function assemble(
  input: ServicesInput,
  followed: FollowedSettings,
  { store, masterKey, dataDirectory, reachStorage }: Beginnings,
  clock: Clock,
): Promise<OpenServices> {
  const { settings, log, project, tracing = noTracing } = input;
  const masterKeys = followMasterKey(masterKey);
  const mode = await openMode({ mode: settings.mode, countAccounts: store.users.count, log });
  const outbound = createOutbound({
    ...{ shared: () => mode.current() === 'multi', allow: settings.outboundAllow },
    ...(input.resolver && { resolver: input.resolver }),
  });
  // Local servers belong to whoever sits at this machine, not to everybody who has an account.
  let discovered =
    mode.current() === 'single'
      ? await discoverLocalProviders(outbound.fetchFor('operator'), discoveryMs)
      : [];
  await store.modelCatalogs.setEnvironment(settings.catalogUrl);
  const catalogTerms = ({ options = {} }: ClientConfig) => ({
    asShipped: options.disable_provider_auto_update ?? false,
  });
  const modelCatalogs = createModelCatalogs({
    store,
    fetches: {
      environment: outbound.fetchFor('operator', catalogLimits),
      setting: outbound.fetchFor('account', catalogLimits),
    },
    refreshHours: settings.catalogHours,
    terms: async () => catalogTerms((await followed.current()).config),
    clock,
    log,
  });
  const resolved = followProviders(followed.current, {
    environment: input.environment,
    discovered: () => discovered,
    catalog: (config) => modelCatalogs.current(catalogTerms(config)),
    workingDirectory: project?.folder,
  });
  const first = await resolved();
  // What the settings forbid is not sent, whatever the environment asks for.
  if (first.config.options?.disable_metrics) await tracing.close();
  const folders = foldersOf(input, store, dataDirectory);
  const workspaceSettings = createWorkspaceSettings({
    placesOf: async (workspaceId) => placesOf(input, await folders.open(workspaceId)),
    own: project !== undefined,
    records: (workspaceId) => store.workspaceTrust.of(workspaceId),
    now: () => clock.now(),
  });
  const sealing = createSealing(masterKeys);
  reachStorage(storageMeans(outbound, sealing));
  const installedProviders = async () => (await resolved()).providers;
  const providers = openProviders({
    ...{ store, outbound, sealing, installedProviders, clock, log },
    catalog: async () => modelCatalogs.current(catalogTerms((await followed.current()).config)),
  });
  const webSearch = createWebSearch<Reach>({
    ...{ records: store.webSearchSettings, environment: settings.webSearchUrl, outbound },
    sealing: {
      seal: (apiKey) => sealing.seal(Buffer.from(apiKey), webSearchKeyRow),
      open: (sealed) => sealing.open(sealed, webSearchKeyRow).toString(),
    },
  });
  const renewingLogins = new Set<Promise<unknown>>();
  const loginFlows = createLoginFlows(outbound);
  const mcpServers = createMcpServers({
    ...{ records: store.mcpServers, sealing, log },
    refusalOf: (url) => outbound.refusalOf(url, 'account'),
    loginsOf: (serverId, userId) => {
      const { takeBack } = loginFlows;
      const { mcpLogins: logins, keptRequests } = store;
      const parts = { logins, sealing, apart: keptRequests.apart, clock, log, takeBack };
      return keptLogins({ ...parts, renewing: renewingLogins }, serverId, userId);
    },
  });
  const searches = openSearches(input, store, () => runtime);
  // Not `skills`: where this folder is that of the settings too, all that lies there is the operator's, and everybody's.
  const skillBook = openSkillBook({ store, directory: join(settings.dataDirectory, 'kept-skills'), log });
  const skillRepositories = beginSkillRepositories(input, { store, outbound, sealing, clock });
  const runtime: Runtime = await createRuntime(first.config, {
    transcript: store.transcript,
    preparing: store.preparing,
    // Whoever leaves a command that has the server inside does not come back to what it was at.
    handsOver: project === undefined,
    providers: first.providers,
    settings: resolved,
    demo: mode.current() === 'single',
    shared: mode.current() === 'multi',
    // Commands in one of the folders below a root see none of the others.
    hiddenPaths: [
      ...new Set([settings.dataDirectory, dataDirectory, ...settings.workspaceRoots]),
      ...(settings.masterKeyFile ? [settings.masterKeyFile] : []),
    ],
    outbound,
    findSearchEngine: webSearch.engine,
    findPassages: passageFinder(store, searches.passageSearch),
    ownMcpServers: mcpServers,
    ...(project?.mcpLogins && { mcpLogins: project.mcpLogins }),
    expand: (value, pointer, signal) =>
      expandSetting(value, pointer, {
        environment: input.environment,
        workingDirectory: project?.folder,
        signal,
      }),
    answerWithinMs: settings.answerSeconds * 1000,
    providerSilenceMs: settings.providerSilenceSeconds * 1000,
    ...guidanceOf(input),
    memories: {
      ...store.runMemories,
      recall: searches.memorySearches.recall,
      search: searches.memorySearches.findForRun,
    },
    skills: skillBook,
    profiles: {
      find: (workspaceId, slug) => store.agents.findInWorkspace(workspaceId, slug),
      list: (workspaceId) => store.agents.ofWorkspace({ workspaceId, limit: mostProfiles }),
    },
    workspacePath: (workspaceId) => folders.open(workspaceId),
    workspacePlace: (workspaceId) => folders.place(workspaceId),
    workspaceTerms: async (workspaceId) => (await store.workspaces.terms(workspaceId)) ?? noTerms,
    sessionRules: (sessionId, ofAgent) => store.sessions.rules(sessionId, ofAgent),
    workspaceSettings: (workspaceId, config) => workspaceSettings.forRuns(workspaceId, config),
    ownProviders: async (asker) => {
      const stored = await store.providerSettings.forRuns(asker);
      const own = await providers.providerSettings.forRuns(stored, asker.providerSettingId);
      return { providers: own, models: await providers.defaultModels.counting(asker, own) };
    },
    lease: leaseOf(settings),
    clock,
    log,
    tracing,
  });
  // What a changed file no longer names, or what nobody trusts any more, stops now and not at the next tool call.
  followed.onChange(() => {
    runtime
      .refresh()
      .catch((error: unknown) => log.error({ err: error }, 'the settings could not be applied'));
  });
  const { embedders } = searches;
  const knowledge = startKnowledge(input, store, { embedders, outbound, now: () => clock.now() });
  showQueues(input, { runtime, store, embedders, fileTexts: knowledge.fileTexts });
  const { smtpUrl, mailFrom } = settings;
  const mail = smtpUrl && mailFrom ? createMail({ smtpUrl, from: mailFrom }) : null;
  const baseUrl = () => settings.publicUrl ?? input.listensAt();
  const mcpLogins = createMcpLogins<Reach>({
    ...{ records: store.mcpLogins, sealing, baseUrl, clock, log },
    flows: loginFlows,
  });
  const identity = await createIdentity({
    records: store,
    masterKey: masterKeys,
    registration: settings.registration,
    loginAttempts: settings.loginAttempts,
    mailer: mail,
    publicUrl: settings.publicUrl,
    oidcProviders: settings.oidcProviders,
    baseUrl,
    outbound,
    clock,
    log,
    onRegistered: mode.heard,
  });
  mode.follow(() => {
    discovered = [];
    runtime.share();
  });
  const scheduler = beginJobs(input, { store, identity, runtime, now: () => clock.now() });
  return {
    ...input,
    tracing,
    baseUrl,
    store,
    identity,
    mail,
    runtime,
    workspaceFolders: folders,
    workspaceSettings,
    mcpServers,
    mcpLogins,
    ...providers,
    installedProviders,
    modelCatalogs,
    webSearch,
    ...searches,
    ...knowledge,
    scheduler,
    schedules,
    skillBook,
    skillRepositories,
    clock,
    masterKeyPath: masterKey.path,
    providerOrigins: new Map(first.providers.map(({ id, origin }) => [id, origin])),
    modelsAsShipped: catalogTerms(first.config).asShipped,
    diagnostics: first.diagnostics,
    auditAnchors: () => readAnchors(anchorFile(settings.dataDirectory)),
    anchorAuditLog: () => anchorAuditLog(settings.dataDirectory, { store, clock, log }),
    get capabilities() {
      return capabilitiesOf(mode.current(), store, runtime);
    },
    async close() {
      followed.close();
      await mode.stop();
      await scheduler.stop();
      await skillRepositories.stop();
      await knowledge.ingestion.stop();
      await knowledge.fileTexts.close();
      await knowledge.parsers.close();
      await providers.providerAsking.close();
      await runtime.close();
      await knowledge.reindexing.close();
      await knowledge.clearing.close();
      await embedders.close();
      await providers.providerOauth.settled();
      await Promise.allSettled(renewingLogins);
      await outbound.close();
      mail?.close();
      await identity.settled();
      await store.close();
    },
  };
}

/** How the store reaches a bucket; only the operator's environment may name one in the operator's own network. */
function storageMeans(outbound: Outbound, sealing: Sealing): StorageMeans {
  return {
    fetch: {
      environment: outbound.fetchFor('operator', storageLimits),
      setting: outbound.fetchFor('account', storageLimits),
    },
    unseal: (sealed, rowId) => sealing.open(sealed, rowId).toString(),
    seal: (secret, rowId) => sealing.seal(Buffer.from(secret), rowId),
    refusalOf: (url) => outbound.refusalOf(url, 'account')?.message ?? null,
    sentence: outboundSentence,
  };
}

/** A workspace that is gone says nothing; its runs are about to stop. */
const noTerms = { model: null, permissionMode: null, permissionRules: [] };
