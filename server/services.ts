/** What a handler is given, and how it is built: settings in, the parts of the server out. */
import { mkdir } from 'node:fs/promises';
import { availableParallelism, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Clock, systemClock } from './clock.ts';
import {
  catalogLimits,
  type Diagnostic,
  discoverLocalProviders,
  expandSetting,
  findPlaces,
  followProviders,
  followSettings,
  formatDiagnostic,
  globalPlaces,
  type LiveSettings,
  operatorGuidance,
  type ProviderCandidate,
  personalGuidance,
  type ResolvedSettings,
  type ServerSettings,
  type SettingsPlaces,
  workspacePlaces,
} from './config/config.ts';
import type { ClientConfig } from './contract/config.ts';
import { createEmbedderChoice, type EmbedderChoice } from './embedder-choice.ts';
import {
  createIdentity,
  createSealing,
  followMasterKey,
  type Identity,
  loadMasterKey,
} from './identity/identity.ts';
import {
  createEmbedders,
  createParsers,
  createPassageSearch,
  type Embedders,
  type EmbeddingPayer,
  type Ingestion,
  type Parsers,
  type PassageSearch,
  type Reindexing,
  startIngestion,
  startReindexing,
} from './knowledge/knowledge.ts';
import type { Log } from './log.ts';
import { createMail, type Mail } from './mail.ts';
import { createMemorySearches, type MemorySearches } from './memory-search.ts';
import { createModelCatalogs, type ModelCatalogs } from './model-catalogs.ts';
import { createOutbound, outboundSentence } from './outbound/outbound.ts';
import {
  createDefaultModels,
  createProviderAsking,
  createProviderOauths,
  createProviderSettings,
  type DefaultModels,
  type ProviderAsking,
  type ProviderOauths,
  type ProviderSettings,
} from './provider-settings/provider-settings.ts';
import {
  askShortly,
  createRuntime,
  describeModel,
  type FindPassages,
  hasDied,
  isVendorModel,
  type LoginKeeper,
  listModels,
  nameOwner,
  type Runtime,
  vendorModels,
} from './runtime/runtime.ts';
import {
  type Anchor,
  anchorFile,
  openStore,
  type Reach,
  readAnchors,
  type Spender,
  type StorageMeans,
  type Store,
  writeAnchor,
} from './store/store.ts';
import { noTracing, type Tracing } from './tracing.ts';
import { createWorkspaceSettings, type WorkspaceSettings } from './workspace-settings/workspace-settings.ts';
import { type WorkspaceFolders, workspaceFolders } from './workspaces.ts';

export type { FirstCredential, Origin, Principal } from './identity/identity.ts';
export type {
  AnswerTerms,
  AskedModels,
  Asker,
  Generation,
  GivenPassages,
  MediaCall,
  MediaChoice,
  MediaFile,
  MediaKind,
  MediaModels,
  ModelMessage,
  ModelMessagePart,
  ModelPart,
  Profile,
  Query,
  SpentByCall,
  StartedRun,
  TokenCount,
  ToolDefinition,
} from './runtime/runtime.ts';
export {
  soundFormats,
  soundTypeOf,
  whyProcessesMayOutlive,
  whyTotalsAreUnbounded,
} from './runtime/runtime.ts';

/** The parts of the server, as handlers use them. */
export interface Services {
  readonly settings: ServerSettings;
  readonly store: Store;
  readonly identity: Identity;
  /** Null where the operator named no mail server. */
  readonly mail: Mail | null;
  readonly runtime: Runtime;
  readonly workspaceFolders: WorkspaceFolders;
  readonly workspaceSettings: WorkspaceSettings;
  readonly providerSettings: ProviderSettings;
  readonly providerOauth: ProviderOauths<Reach>;
  readonly providerAsking: ProviderAsking;
  readonly defaultModels: DefaultModels;
  /** The providers of settings files and the environment, as they are now. */
  readonly installedProviders: () => Promise<readonly ProviderCandidate[]>;
  readonly modelCatalogs: ModelCatalogs;
  readonly embedders: Embedders;
  readonly memorySearches: MemorySearches;
  readonly passageSearch: PassageSearch<Reach>;
  readonly parsers: Parsers;
  readonly ingestion: Ingestion;
  readonly embedderChoice: EmbedderChoice;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracing: Tracing;
  /** The address that people reach this server by, without a path. */
  readonly baseUrl: () => string;
  /** What this server can and cannot do here, for /ready and the start summary. */
  readonly capabilities: Capabilities;
  readonly metrics: Metrics;
  /** The heads of the audit log that this server has written down outside the database. */
  readonly auditAnchors: () => Promise<readonly Anchor[]>;
  /** Whether the server is stopping: no new runs, readiness 503. */
  readonly draining: () => boolean;
}

/** What this server can do on this machine, and what is off. */
export interface Capabilities {
  readonly mode: 'single' | 'multi';
  readonly database: 'sqlite' | 'postgresql';
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** The ids of the model providers found. */
  readonly providers: readonly string[];
  /** What is off, and why: one sentence each. */
  readonly off: readonly string[];
}

/** Counters of this process, in the text format of Prometheus and by name. */
export interface Metrics {
  /** The text of /metrics. */
  render(): Promise<string>;
  /** Shows a number that is asked for each time. */
  show(name: string, help: string, read: () => number): void;
  /** How many streams a user has open on this node. */
  openStreams(userId: string): number;
  openStreamsInAll(): number;
  streamOpened(userId: string): void;
  streamClosed(userId: string): void;
  requestEnded(record: FinishedRequest): void;
}

/** One finished request, as the metrics count it. */
export interface FinishedRequest {
  /** The operationId, or `none` where no operation was met. */
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
  /** A stream is open as long as its run lasts, so that its duration says nothing of the server. */
  readonly streamed: boolean;
}

/** What `startServer` hands in besides the settings. */
export interface ServicesInput {
  readonly settings: ServerSettings;
  /** The process environment: provider keys, and the values of variables in the settings file. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Nobody is told of anything if absent. */
  readonly tracing?: Tracing;
  readonly clock?: Clock;
  readonly draining: () => boolean;
  /** Where this process listens, once it does. */
  readonly listensAt: () => string;
  readonly project?: LocalProject;
}

/** The settings as their files stand, before providers are looked for; `LiveSettings` fits. */
export interface FollowedSettings {
  readonly current: () => Promise<Pick<ResolvedSettings, 'config' | 'diagnostics'>>;
  /** Is told soon after a file has changed, whether or not somebody asks. */
  onChange(listener: () => void): void;
  close(): void;
}

/** The folder that a command was started in, whose process has the server inside. */
export interface LocalProject {
  /** The folder of every workspace of this process; the real path. */
  readonly folder: string;
  /** The settings that count in it. */
  readonly settings: FollowedSettings;
  /** The folder of the master key, which belongs to the person and to no project. */
  readonly keyDirectory: string;
  /** Where this person's logins to MCP servers are kept. */
  readonly mcpLogins?: LoginKeeper;
}

/** The services, with what only their owner may do. */
export interface OpenServices extends Services {
  /** For the start summary. */
  readonly masterKeyPath: string;
  readonly providerOrigins: ReadonlyMap<string, ProviderCandidate['origin']>;
  /** Whether the settings keep what is known of models as it was shipped. */
  readonly modelsAsShipped: boolean;
  /** What is odd about the settings file: warnings, since errors end the start. */
  readonly diagnostics: readonly Diagnostic[];
  /** Writes the head of the audit log to the log and beside the database; tells where those before do not hold. */
  anchorAuditLog(): Promise<void>;
  close(): Promise<void>;
}

/** As many agent profiles of an organization as a model is told of. */
const mostProfiles = 50;

/** What an answer with tokens may cost. */
const tokenLimits = { maxBytes: 256 * 1024, totalMs: 10_000 };

/** The longest list of models that is known is a hundredth of it. */
const listLimits = { maxBytes: 4 * 1024 * 1024, totalMs: 15_000 };

/** Metadata, keys and tokens of an identity provider: a few kilobytes. */
const mostProviderBytes = 1024 * 1024;

/** A file may be as large as it is; a bucket that is away is told of. */
const storageLimits = { maxBytes: Number.POSITIVE_INFINITY, headersMs: 60_000 };

/** What an address may answer that a document is made from. */
const documentLimits = { maxBytes: 32 * 1024 * 1024, headersMs: 20_000, totalMs: 60_000 };

/** How long local model servers may take to say that they are there. */
const discoveryMs = 500;

/** Opens the database, reads the settings file, finds providers, and puts the parts together. */
export async function openServices(input: ServicesInput): Promise<OpenServices> {
  const { settings, log, clock = systemClock } = input;
  // Read before anything is made: a fault in the file then leaves nothing behind.
  const followed = input.project?.settings ?? (await followGlobalSettings(input));
  await mkdir(settings.dataDirectory, { recursive: true, mode: 0o700 });
  const databaseUrl = settings.databaseUrl ?? `sqlite:${join(settings.dataDirectory, 'service.db')}`;
  const means = Promise.withResolvers<StorageMeans>();
  const store = await openStore(databaseUrl, {
    clock,
    log,
    migrationUrl: settings.databaseMigrationUrl ?? undefined,
    storage: {
      directory: join(settings.dataDirectory, 'files'),
      environment: settings.storage,
      means: () => means.promise,
    },
    backups: settings.migrationBackup ? join(settings.dataDirectory, 'backups') : undefined,
  });
  try {
    return await assemble(input, followed, { store, reachStorage: means.resolve }, clock);
  } catch (error) {
    followed.close();
    await store.close();
    throw error;
  }
}

async function assemble(
  input: ServicesInput,
  followed: FollowedSettings,
  { store, reachStorage }: { readonly store: Store; reachStorage(means: StorageMeans): void },
  clock: Clock,
): Promise<OpenServices> {
  const { settings, log, project, tracing = noTracing } = input;
  const dataDirectory = project?.keyDirectory ?? settings.dataDirectory;
  const masterKey = await loadMasterKey({ ...settings, dataDirectory, database: store.dialect });
  const masterKeys = followMasterKey(masterKey);
  let mode =
    settings.mode === 'multi' || (await store.users.count()) > 1 ? ('multi' as const) : ('single' as const);
  const outbound = createOutbound({ shared: () => mode === 'multi', allow: settings.outboundAllow });
  // Local servers belong to whoever sits at this machine, not to everybody who has an account.
  let discovered =
    mode === 'single' ? await discoverLocalProviders(outbound.fetchFor('operator'), discoveryMs) : [];
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
  reachStorage({
    fetch: {
      environment: outbound.fetchFor('operator', storageLimits),
      setting: outbound.fetchFor('account', storageLimits),
    },
    unseal: (sealed, rowId) => sealing.open(sealed, rowId).toString(),
    seal: (secret, rowId) => sealing.seal(Buffer.from(secret), rowId),
    refusalOf: (url) => outbound.refusalOf(url, 'account')?.message ?? null,
    sentence: outboundSentence,
  });
  const providerOauth = createProviderOauths<Reach>({
    records: store.providerOauth,
    sealing,
    fetch: outbound.fetchFor('account', tokenLimits),
    refusalOf: (url) => outbound.refusalOf(url, 'account'),
    clock,
    log,
  });
  const providerParts = {
    sealing,
    oauth: providerOauth,
    refusalOf: (url: string) => outbound.refusalOf(url, 'account'),
    catalog: async () => modelCatalogs.current(catalogTerms((await followed.current()).config)),
    discoveries: store.providerModels,
    log,
  };
  const providerFetch = outbound.fetchFor('account', listLimits);
  const providerCall = outbound.callFor('account');
  const askers: Parameters<typeof createProviderAsking>[0]['askers'] = {
    vendorModels,
    describe: describeModel,
    list: (definition, signal) => listModels({ definition, fetch: providerFetch, signal }),
    askShortly: (definition, modelId, signal) =>
      askShortly({ definition, fetch: providerFetch, call: providerCall, signal }, modelId),
  };
  const providerSettings = createProviderSettings(providerParts, askers);
  const providerAsking = createProviderAsking({ ...providerParts, askers });
  const installedProviders = async () => (await resolved()).providers;
  const defaultModels = createDefaultModels({
    records: store.defaultModels,
    installation: installedProviders,
    isVendorModel,
  });
  const embedders = createEmbedders({
    modelsDirectory: settings.modelsDirectory,
    chosen: () => store.embedderSettings.chosen(),
    known: (identity) => store.embedderSettings.known(identity),
    open: (wanted) => runtime.embedding(wanted),
  });
  const passageSearch = createPassageSearch<Reach>({
    index: store.passages,
    embedder: async (reach, { corpusIds }) => {
      const made = await store.reindexings.embeddersOf(corpusIds);
      const payer = callerPays(store, reach);
      // On its way to another embedder, a corpus is asked by the one whose vectors it has.
      return made.length === 1 && made[0] ? embedders.named(made[0], payer) : embedders.current(payer);
    },
    embeddingFailed: (error) => log.error({ err: error }, 'a question could not be embedded'),
  });
  const memorySearches = createMemorySearches({ memories: store.memories, embedders, log });
  const runtime = await createRuntime(first.config, {
    transcript: store.transcript,
    providers: first.providers,
    settings: resolved,
    demo: mode === 'single',
    shared: mode === 'multi',
    // Commands in one of the folders below a root see none of the others.
    hiddenPaths: [...new Set([settings.dataDirectory, dataDirectory, ...settings.workspaceRoots])],
    outbound,
    webSearchUrl: settings.webSearchUrl,
    findPassages: passageFinder(store, passageSearch),
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
    memories: store.runMemories,
    profiles: {
      find: (workspaceId, slug) => store.agents.findInWorkspace(workspaceId, slug),
      list: (workspaceId) => store.agents.ofWorkspace(workspaceId, { limit: mostProfiles }),
    },
    workspacePath: (workspaceId) => folders.open(workspaceId),
    workspacePlace: (workspaceId) => folders.place(workspaceId),
    workspaceTerms: async (workspaceId) => (await store.workspaces.terms(workspaceId)) ?? noTerms,
    workspaceSettings: (workspaceId, config) => workspaceSettings.forRuns(workspaceId, config),
    ownProviders: async (asker) => {
      const stored = await store.providerSettings.forRuns(asker);
      const providers = await providerSettings.forRuns(stored, asker.providerSettingId);
      return { providers, models: await defaultModels.counting(asker, providers) };
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
  const parsers = createParsers({ processes: Math.max(1, availableParallelism() - 1), log });
  const ingestion = startIngestion({
    records: store.ingestionWork,
    texts: store.extractedTexts,
    chunks: store.chunks,
    parsers,
    currentEmbedder: () => embedders.current(),
    file: (id) => store.files.forServer(id),
    fetch: outbound.fetchFor('account', documentLimits),
    owner: nameOwner(),
    hasDied,
    lanes: Math.max(2, availableParallelism()),
    lease: leaseOf(settings),
    now: () => clock.now(),
    log,
  });
  const reindexing = reindex(input, store, embedders);
  const embedderChoice = createEmbedderChoice({ store, embedders, changed: reindexing.wake });
  showQueues(input, runtime, store);
  const { smtpUrl, mailFrom } = settings;
  const mail = smtpUrl && mailFrom ? createMail({ smtpUrl, from: mailFrom }) : null;
  const baseUrl = () => settings.publicUrl ?? input.listensAt();
  const identity = await createIdentity({
    records: store,
    masterKey: masterKeys,
    registration: settings.registration,
    loginAttempts: settings.loginAttempts,
    mailer: mail,
    publicUrl: settings.publicUrl,
    oidcProviders: settings.oidcProviders,
    baseUrl,
    fetch: outbound.fetchFor('operator', { maxBytes: mostProviderBytes }),
    clock,
    log,
    onRegistered(accounts) {
      if (mode === 'multi' || accounts < 2) return;
      mode = 'multi';
      discovered = [];
      runtime.share();
      log.warn('a second account has registered: from now on commands run in a sandbox only (mode multi)');
    },
  });
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
    providerSettings,
    providerOauth,
    providerAsking,
    defaultModels,
    installedProviders,
    modelCatalogs,
    embedders,
    memorySearches,
    passageSearch,
    parsers,
    ingestion,
    embedderChoice,
    clock,
    masterKeyPath: masterKey.path,
    providerOrigins: new Map(first.providers.map(({ id, origin }) => [id, origin])),
    modelsAsShipped: catalogTerms(first.config).asShipped,
    diagnostics: first.diagnostics,
    auditAnchors: () => readAnchors(anchorFile(settings.dataDirectory)),
    anchorAuditLog: () => anchorAuditLog(settings.dataDirectory, { store, clock, log }),
    get capabilities() {
      return capabilitiesOf(mode, store, runtime);
    },
    async close() {
      followed.close();
      await ingestion.stop();
      await parsers.close();
      await providerAsking.close();
      await runtime.close();
      await reindexing.close();
      await embedders.close();
      await providerOauth.settled();
      await outbound.close();
      mail?.close();
      await identity.settled();
      await store.close();
    },
  };
}

/** Looks again into the corpus of a query, with the rights that its person has by then. */
function passageFinder(store: Store, search: PassageSearch<Reach>): FindPassages {
  return async ({ userId, corpusId }, { query, limit }, signal) => {
    const person = await store.principals.byUser(userId);
    const memberships = person?.memberships ?? [];
    const organizationIds = memberships.map(({ organizationId }) => organizationId);
    const reach: Reach = { userId, memberships, organizationIds, workspaces: person?.workspaces ?? [] };
    if (!(await store.corpora.find(reach, corpusId)))
      return { passages: [], notice: 'The corpus is gone, or the person may not read it any more.' };
    const question = { corpusIds: [corpusId], query, mode: 'hybrid' as const, topK: limit };
    const { data, notice } = await search.search(reach, question, signal);
    return { passages: data, notice };
  };
}

function leaseOf({ leaseSeconds }: ServerSettings) {
  return { leaseMs: leaseSeconds * 1000, renewMs: (leaseSeconds * 1000) / 3.3 };
}

/** Embeds anew what another embedder has embedded. */
function reindex({ log }: ServicesInput, store: Store, embedders: Embedders): Reindexing {
  return startReindexing({
    queue: store.reindexings,
    named: (identity, payer) => embedders.named(identity, payer),
    payerOf: (spender) => payerOf(store, spender),
    log,
  });
}

/** Whoever asks pays for the vector of the question. */
function callerPays({ meteredCalls }: Store, reach: Reach): EmbeddingPayer {
  return {
    async begin(model) {
      const call = await meteredCalls.begin(reach, model, null);
      return { spent: (spent) => meteredCalls.finish(call, spent), end: () => meteredCalls.end(call) };
    },
  };
}

/** Whoever has the corpus pays for the vectors that it gets in the background. */
function payerOf({ meteredCalls }: Store, spender: Spender): EmbeddingPayer {
  return {
    async begin() {
      await meteredCalls.requireRoom(spender);
      return { spent: (spent) => meteredCalls.spend(spender, spent), end: async () => undefined };
    },
  };
}

async function anchorAuditLog(
  dataDirectory: string,
  { store, clock, log }: Pick<Services, 'store' | 'clock' | 'log'>,
): Promise<void> {
  try {
    const file = anchorFile(dataDirectory);
    const [last] = (await readAnchors(file)).slice(-1);
    const differing = last && (await store.auditLogs.differs(last));
    if (differing)
      log.error({ ...last, fault: differing }, 'the audit log is not the one whose head was written down');
    const head = await store.auditLogs.head();
    log.info(head, 'the head of the audit log');
    await writeAnchor(file, head, clock.now());
  } catch (error) {
    log.error(
      { err: error },
      'the head of the audit log could not be written down; the next hour tries again',
    );
  }
}

/** A workspace that is gone says nothing; its runs are about to stop. */
const noTerms = { model: null, permissionMode: null, permissionRules: [] };

function foldersOf({ settings, project, log }: ServicesInput, store: Store, keyDirectory: string) {
  const { workspacesDirectory, workspaceRoots, dataDirectory, globalConfigDirectory } = settings;
  const rules = {
    workspacesDirectory,
    projectFolder: project?.folder ?? null,
    roots: workspaceRoots,
    ownFolders: [dataDirectory, workspacesDirectory, globalConfigDirectory, keyDirectory],
  };
  const pathOf = async (workspaceId: string) => (await store.workspaces.terms(workspaceId))?.path ?? null;
  return workspaceFolders(rules, pathOf, log);
}

/** The settings files of a workspace. In the command they are those that the command itself reads. */
async function placesOf(
  { settings, environment, project }: ServicesInput,
  folder: string,
): Promise<SettingsPlaces> {
  if (!project) return workspacePlaces(folder, settings);
  return { ...(await findPlaces(folder, environment, homedir())), dataHome: project.keyDirectory };
}

/** Every queue has a bound, and both are to be seen: beyond it requests are refused. */
function showQueues({ metrics, settings }: ServicesInput, runtime: Runtime, store: Store): void {
  const { limits, runCounts } = runtime;
  metrics.show('service_active_runs', 'Runs at work or waiting in this process.', () => runCounts().active);
  metrics.show('service_active_runs_limit', 'More are refused with 503.', () => limits.inProcess);
  metrics.show(
    'service_queued_runs',
    'Runs that wait for their turn in this process.',
    () => runCounts().waiting,
  );
  metrics.show(
    'service_longest_session_queue',
    'Runs that wait in the session where most do.',
    () => runCounts().waitingInOneSession,
  );
  metrics.show(
    'service_session_queue_limit',
    'More in one session are refused with 429.',
    () => limits.queuedInSession,
  );
  metrics.show(
    'service_database_writes',
    'Transactions that are under way or wait in this process.',
    () => store.load().writes,
  );
  metrics.show(
    'service_database_writes_limit',
    'More are refused with 503; what a run at work stores is not.',
    () => store.loadLimits.writes,
  );
  metrics.show(
    'service_database_reads',
    'Reads that are under way or wait in this process.',
    () => store.load().reads,
  );
  metrics.show('service_database_reads_limit', 'More are refused with 503.', () => store.loadLimits.reads);
  metrics.show(
    'service_waiting_searches',
    'Searches of files that wait for a thread in this process.',
    () => runtime.waitingSearches().waiting,
  );
  metrics.show(
    'service_waiting_searches_limit',
    'More are refused, which the model is told.',
    () => runtime.waitingSearches().limit,
  );
  metrics.show('service_open_streams_limit', 'More are refused with 503.', () => settings.streamsTotal);
}

/** `serve` reads the global file alone, and takes up what changes in it. */
async function followGlobalSettings({ settings, environment, log }: ServicesInput): Promise<LiveSettings> {
  const place = { ...environment, SERVICE_GLOBAL_CONFIG: settings.globalConfigDirectory };
  const followed = await followSettings(globalPlaces(place, homedir()));
  followed.onChange((_loaded, problems) => {
    if (problems.length === 0) log.info('the settings have changed, and count as they are now');
    for (const problem of problems)
      log.error(`the settings go on as they were: ${formatDiagnostic(problem)}`);
  });
  return followed;
}

/** A person's own guidance counts in their own command alone, never for those who share a server. */
function guidanceOf({ settings, environment, project }: ServicesInput) {
  const folder = project
    ? dirname(globalPlaces(environment, homedir()).globalFile)
    : settings.globalConfigDirectory;
  const guidance = project
    ? personalGuidance(environment, homedir(), folder)
    : operatorGuidance(environment, folder);
  return { ...guidance, agentsDirectory: join(folder, 'agents') };
}

function capabilitiesOf(mode: 'single' | 'multi', store: Store, runtime: Runtime): Capabilities {
  const { sandboxUnavailable, providers } = runtime;
  const off = runtime
    .tools()
    .flatMap(({ name, disabled_by }) => (disabled_by ? [`tool ${name}: ${disabled_by}`] : []));
  if (runtime.totalsUnbounded !== null)
    off.push(
      `a bound on all processes of a command together (each is bounded alone): ${runtime.totalsUnbounded}`,
    );
  if (providers.length === 0)
    off.push(
      'queries: no model provider; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add one to the global service.json',
    );
  return { mode, database: store.dialect, sandboxUnavailable, providers, off };
}
