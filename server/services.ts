/** What a handler is given: the parts of the server, and what they are called. */
import type { Clock } from './clock.ts';
import type { Diagnostic, ProviderCandidate } from './config/config.ts';
import type { Rerank } from './contract/api.ts';
import type { EmbedderChoice } from './embedder-choice.ts';
import type { Identity } from './identity/identity.ts';
import type {
  Embedders,
  FileTexts,
  Ingestion,
  Parsers,
  PassageSearch,
  Reindexing,
  Reranker,
} from './knowledge/knowledge.ts';
import type { Log } from './log.ts';
import type { Mail } from './mail.ts';
import type { McpLogins, McpServers } from './mcp-servers/mcp-servers.ts';
import type { MemorySearches } from './memory-search.ts';
import type { ModelCatalogs } from './model-catalogs.ts';
import type {
  DefaultModels,
  ProviderAsking,
  ProviderOauths,
  ProviderSettings,
} from './provider-settings/provider-settings.ts';
import type { Asker, Runtime } from './runtime/runtime.ts';
import type { Scheduler, Schedules } from './scheduler/scheduler.ts';
import type { ServerSettings } from './server-settings/server-settings.ts';
import type { SkillBook, SkillRepositoryBook } from './skills/skills.ts';
import type { Reach, Searcher, Store, WrittenAnchor } from './store/store.ts';
import type { Tracing } from './tracing.ts';
import type { WebSearch } from './web-search/web-search.ts';
import type { WorkspaceSettings } from './workspace-settings/workspace-settings.ts';
import type { WorkspaceFolders } from './workspaces.ts';

export type { FirstCredential, Origin, Principal } from './identity/identity.ts';
export type { Reranker } from './knowledge/knowledge.ts';
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
export { detectSandbox, soundFormats, soundTypeOf, whyProcessesMayOutlive } from './runtime/runtime.ts';
export type { Searcher, StoredJob } from './store/store.ts';

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
  readonly mcpServers: McpServers;
  readonly mcpLogins: McpLogins<Reach>;
  readonly providerSettings: ProviderSettings;
  readonly providerOauth: ProviderOauths<Reach>;
  readonly providerAsking: ProviderAsking;
  readonly defaultModels: DefaultModels;
  /** The providers of settings files and the environment, as they are now. */
  readonly installedProviders: () => Promise<readonly ProviderCandidate[]>;
  readonly modelCatalogs: ModelCatalogs;
  readonly webSearch: WebSearch<Reach>;
  readonly embedders: Embedders;
  readonly memorySearches: MemorySearches;
  readonly skillBook: SkillBook;
  readonly skillRepositories: SkillRepositoryBook;
  readonly passageSearch: PassageSearch<Searcher>;
  /** Throws Problem where there is no such model for whoever asks. */
  readonly openReranker: (rerank: Rerank, who: RerankingCaller) => Promise<Reranker>;
  readonly parsers: Parsers;
  readonly fileTexts: FileTexts;
  readonly ingestion: Ingestion;
  readonly embedderChoice: EmbedderChoice;
  readonly reindexing: Pick<Reindexing, 'wake'>;
  /** Begins the runs of jobs; not inside a command, which does not stay. */
  readonly scheduler: Pick<Scheduler, 'wake'>;
  readonly schedules: Schedules;

  readonly clock: Clock;
  readonly log: Log;
  readonly tracing: Tracing;
  /** The address that people reach this server by, without a path. */
  readonly baseUrl: () => string;
  /** What this server can and cannot do here, for /ready and the start summary. */
  readonly capabilities: Capabilities;
  readonly metrics: Metrics;
  /** The heads of the audit log that this server has written down outside the database. */
  readonly auditAnchors: () => Promise<readonly WrittenAnchor[]>;
  /** Whether the server is stopping: no new runs, readiness 503. */
  readonly draining: () => boolean;
}

/** Whose providers a search is reranked by, and who pays. */
export interface RerankingCaller {
  readonly reach: Reach;
  /** The key that they ask with. */
  readonly apiKeyId: string | null;
  readonly asker: Asker;
}

/** What this server can do on this machine, and what is off. */
export interface Capabilities {
  readonly mode: 'single' | 'multi';
  readonly database: 'sqlite' | 'postgresql';
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** Whether the settings let commands in the sandbox reach the network. */
  readonly networkAllowed: boolean;
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
