/** The agent runtime: takes queries, works on them, and tells what happens. Usable by any program: createRuntime(ClientConfig). */

import { systemClock } from '../clock.ts';
import type { QueryEstimate, Tool as ToolListing } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { noTracing } from '../tracing.ts';
import type { Profile } from './agents/profile.ts';
import { createProfiles } from './agents/profiles.ts';
import { createEventHub } from './events/event-hub.ts';
import { type FollowOptions, followEvents } from './events/event-stream.ts';
import type { FileToPutBack } from './files/pending-file.ts';
import { type PutBackPlan, planPutBack, requireFilesHere } from './files/put-back.ts';
import { checkHooks } from './hooks/hooks.ts';
import { type Inspected, type Inspection, inspectSession } from './inspection.ts';
import { createLiveParts } from './live-parts.ts';
import { type McpServersAtHand, mcpServersAtHand } from './mcp/at-hand.ts';
import { keepLoginsInMemory } from './mcp/login-keeper.ts';
import { noOwnServers } from './mcp/own-servers.ts';
import { createMemoryTranscript } from './memory/memory-transcript.ts';
import { type AskedModels, askedModels } from './models/asked-models.ts';
import { type CompletionRequest, estimateInput } from './models/completion.ts';
import type { EmbeddingChoice, EmbeddingModel } from './models/embedding.ts';
import { estimateRun } from './models/estimate.ts';
import type { MediaChoice, MediaKind, MediaModels } from './models/media.ts';
import type { RerankingModel } from './models/reranking.ts';
import { readTodos } from './prompt/session-todos.ts';
import { createTitleWriter } from './prompt/title-writer.ts';
import { literalProviders } from './providers/literal-providers.ts';
import type { Asker } from './providers/own-providers.ts';
import type { Query } from './query.ts';
import type { LeaseTimes } from './runs/lease-keeper.ts';
import { watchLeftCommands } from './runs/left-commands.ts';
import { currentFolder, placesOf, scopeOpener } from './runs/run-scope-opener.ts';
import {
  type RunCounts,
  type RunLimits,
  type RunsAtWork,
  type StartedRun,
  workOnRuns,
} from './runs/runs-at-work.ts';
import type { RuntimeOptions } from './runtime-options.ts';
import type { FoundSkill, FoundSkillFile } from './skills/found-skill.ts';
import { listSkillFolder } from './skills/skill-tool.ts';
import { listTools } from './tool-listing.ts';
import { corpusSearchListing, corpusSearchName } from './tools/corpus-search.ts';
import { conversionQueue } from './tools/html-conversion.ts';
import type { KeptThreads } from './tools/kept-threads.ts';
import { planStepListing, planStepName } from './tools/plan-step.ts';
import { searchQueue } from './tools/search.ts';
import type { Todo } from './tools/tool.ts';
import type { NumberedEvent } from './transcript.ts';
import { noTerms } from './workspace-terms.ts';

export type { Profile } from './agents/profile.ts';
export type { FileToPutBack } from './files/pending-file.ts';
export type { PutBackPlan } from './files/put-back.ts';
export type { GivenPassages } from './given-passages.ts';
export type { Inspection } from './inspection.ts';
export type { McpServersAtHand } from './mcp/at-hand.ts';
export type { LoginKeeper } from './mcp/login-keeper.ts';
export {
  type McpAccess,
  type McpExamination,
  type McpPrompt,
  openMcpAccess,
} from './mcp/mcp-access.ts';
export { createLoginFlows } from './mcp/person-login.ts';
export type { AskedModels } from './models/asked-models.ts';
export type { EmbeddingChoice, EmbeddingModel } from './models/embedding.ts';
export type { MediaCall, MediaChoice, MediaFile, MediaKind, MediaModels } from './models/media.ts';
export { soundFormats, soundTypeOf } from './models/media-type.ts';
export type {
  AnswerTerms,
  Generation,
  ModelMessage,
  ModelMessagePart,
  ModelPart,
  TokenCount,
  ToolDefinition,
} from './models/model.ts';
export { findExecutable } from './processes/executable.ts';
export { startGroup } from './processes/process-group.ts';
export { detectSandbox, limitingPrefix } from './processes/sandbox.ts';
export { whyProcessesMayOutlive } from './processes/tracking-group.ts';
export { describeModel, isVendorModel, vendorModels } from './providers/catalogue.ts';
export { askShortly, listModels } from './providers/model-lists.ts';
export type { Asker } from './providers/own-providers.ts';
export type { Query } from './query.ts';
export type { RunCounts, RunLimits, StartedRun } from './runs/runs-at-work.ts';
export type { RuntimeOptions } from './runtime-options.ts';
export { checkSkillText } from './skills/check-skill.ts';
export type { FoundSkill } from './skills/found-skill.ts';
export type { KeptSkill, KeptSkills, SkillKeeper } from './skills/skill-keeper.ts';
export type { FindPassages } from './tools/corpus-search.ts';
export type { SpentByCall } from './transcript.ts';

/** Its own models are those of the settings alone. */
export interface Runtime extends AskedModels {
  /** Stores the query as a run and starts it, behind what its session is busy with. */
  start(query: Query): Promise<StartedRun>;
  /** What the query would begin with. Stores nothing and asks no model. Throws Problem. */
  estimate(query: Query): Promise<QueryEstimate>;
  /** Checks what a query in the workspace names, before anything is stored. Throws Problem. */
  check(names: { readonly agentSlug?: string; readonly model?: string | null }, asker: Asker): Promise<void>;
  /** Throws Problem agent_not_found. */
  profile(slug: string, workspaceId: string): Promise<Profile>;
  /** The agent profiles that are built in, and those in the files that count in the workspace. */
  profiles(workspaceId: string): Promise<readonly Profile[]>;
  /** The run's events after the cursor, once and in order; ends with `done` or `error`. */
  follow(runId: string, options: FollowOptions): AsyncGenerator<NumberedEvent>;
  /**
   * Looks whether files of a workspace can be put back to what they held; changes none. Throws Problem
   * `workspace_unavailable` where they were changed in one of the places that are named, and are not here.
   */
  planPutBack(
    workspaceId: string,
    files: readonly FileToPutBack[],
    changedIn?: readonly (string | null)[],
  ): Promise<PutBackPlan>;
  /** Files are not what the session has seen of them any more: it has to view them before it edits. */
  forgetFiles(sessionId: string, realPaths: readonly string[]): void;
  /** What the agent of the session has to do, as it stood at the end of the run or stands now. */
  todos(sessionId: string, runId?: string): Promise<readonly Todo[]>;
  /** What a session's agent has at hand here, and what would fill its model's window. */
  inspect(asked: Inspected, signal: AbortSignal): Promise<Inspection>;
  /** Ends what sessions that are gone have left at work in the background of this process. */
  forgetSessions(sessionIds: readonly string[]): Promise<void>;
  /** Ends what people have left at work in the background who may not act any more. Returns at once. */
  reviewLeftCommands(): void;
  /** Tells that the store has news for the run: an answer, an interrupt. */
  wake(runId: string): void;
  /**
   * The models that somebody may ask: with the providers that they, the workspace and its organization have of their
   * own. For one request: another one asks again. Throws Problem.
   */
  modelsOf(asker: Asker): Promise<AskedModels>;
  /** How many tokens such a call would read, by its length: no model is asked. */
  countTokens(request: Pick<CompletionRequest, 'system' | 'messages' | 'tools'>): number;
  /**
   * What makes pictures, speaks or transcribes for somebody in a workspace, as its settings and the caller say. Throws Problem
   * media_not_configured or model_not_found.
   */
  media<Kind extends MediaKind>(kind: Kind, choice: MediaChoice, asker: Asker): Promise<MediaModels[Kind]>;
  /**
   * A model of a provider that turns texts into vectors: of that of the settings, or of one that is kept by itself. Throws
   * Problem embedder_unsuited, or what keeps the setting from being used.
   */
  embedding(choice: EmbeddingChoice): Promise<EmbeddingModel>;
  /**
   * A model that somebody may ask to put texts into order, by a name like that of a query's model. Throws Problem
   * model_not_found or reranker_unsuited, among others.
   */
  reranking(name: string, asker: Asker): Promise<RerankingModel>;
  /** The ids of the model providers, the default one first. */
  readonly providers: readonly string[];
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** Whether the settings let commands in the sandbox reach the network. */
  readonly networkAllowed: boolean;
  /** Null where the kernel bounds all processes of a command together, or there is no sandbox; else why it does not. */
  readonly totalsUnbounded: string | null;
  /** The tools that there are in every workspace whatever its settings say, those that are off among them. */
  tools(): readonly ToolListing[];
  /**
   * Those of somebody in a workspace: the built-in ones, what their providers make possible, and what its MCP servers,
   * language servers and skills bring.
   */
  toolsIn(asker: Asker): Promise<readonly ToolListing[]>;
  /** MCP servers that somebody keeps: how they are, and what they offer. */
  readonly mcp: McpServersAtHand;
  /** The skills that somebody's runs in a workspace find, those that are off or broken among them. */
  skillsOf(asker: Asker): Promise<readonly FoundSkill[]>;
  /** The files of such a skill. */
  listSkillFolder(folder: string): {
    readonly files: readonly FoundSkillFile[];
    readonly truncated: boolean;
  };
  /** Takes up the settings as they stand now, for what is listed; runs do so by themselves. */
  refresh(): Promise<void>;
  /** From now on many people share this runtime: see `shared`. The demonstration answers only when it is named. */
  share(): void;
  /** How many runs are at work in this process. */
  activeRuns(): number;
  runCounts(): RunCounts;
  /** What waits in this process for a thread, and how much may: searches of files, and pages to be converted. */
  readonly threadQueues: Readonly<Record<'searches' | 'pages', KeptThreads['queue']>>;
  /** How many runs there may be before another is refused. */
  readonly limits: RunLimits;
  /** Interrupts what is at work or hands it over, waits until that is stored, stops. */
  close(): Promise<void>;
}

const defaultLease: LeaseTimes = { leaseMs: 10_000, renewMs: 3000 };

const defaultLimits: RunLimits = { queuedInSession: 100, inProcess: 2000 };

/** Builds a runtime from settings: providers, tools, permissions. Probes once whether a sandbox works here. */
export async function createRuntime(config: ClientConfig, options: RuntimeOptions = {}): Promise<Runtime> {
  checkHooks(config);
  const transcript = options.transcript ?? createMemoryTranscript();
  const clock = options.clock ?? systemClock;
  const log = options.log ?? createLog('warn');
  const tracing = options.tracing ?? noTracing;
  const parts = await createLiveParts(
    { config, providers: options.providers ?? literalProviders(config) },
    {
      settings: options.settings,
      demo: options.demo ?? false,
      ownProviders: options.ownProviders,
      shared: options.shared ?? false,
      hiddenPaths: options.hiddenPaths ?? [],
      expand: options.expand ?? (async (value) => value),
      mcpLogins: options.mcpLogins ?? keepLoginsInMemory(),
      ownMcpServers: options.ownMcpServers ?? noOwnServers,
      providerSilenceMs: options.providerSilenceMs ?? 120_000,
      contextFiles: options.contextFiles ?? [],
      skillFolders: options.skillFolders ?? [],
      skillKeeper: options.skills,
      outbound: options.outbound,
      findSearchEngine: options.findSearchEngine ?? (async () => null),
      log,
      tracing,
    },
  );
  const profiles = createProfiles({
    source: options.profiles,
    directory: options.agentsDirectory,
    shared: () => parts.now.shared,
  });
  const placeOf = placesOf(options.workspacePath);
  const hub = createEventHub();
  const termsOf = options.workspaceTerms ?? (async () => noTerms);
  const settingsOf =
    options.workspaceSettings ?? (async (_workspaceId: string, settings: ClientConfig) => settings);
  const titlePartsOf = async (asker: Asker) => {
    const { providers, chosen } = await parts.of(asker);
    return { providers, config: chosen(await settingsOf(asker.workspaceId, parts.now.config)) };
  };
  const titles = createTitleWriter(titlePartsOf, transcript, log);
  const preparing = options.preparing ?? ((work) => work());
  const openScope = scopeOpener({
    ...options,
    parts,
    termsOf,
    settingsOf,
    profiles,
    placeOf,
    start: (query) => runs.begin(query),
    wake: (runId) => wake(runId),
    transcript,
    hub,
    clock,
    log,
    tracing,
    preparing,
  });
  const lease = options.lease ?? defaultLease;
  const leftCommands = watchLeftCommands({ jobs: parts.jobs, transcript, everyMs: lease.renewMs, log });
  const workspacePlace = options.workspacePlace ?? options.workspacePath ?? currentFolder;
  const runs: RunsAtWork = workOnRuns({
    transcript,
    hub,
    log,
    titles,
    openScope,
    preparing,
    lease,
    endCommandsOf: (runId) => parts.jobs.endThoseOf(new Set([runId])),
    limits: options.limits ?? defaultLimits,
    handsOver: options.handsOver ?? false,
    workspacePlace,
    needsFiles: (name) =>
      name !== corpusSearchName &&
      name !== planStepName &&
      !parts.now.toolset.tools.some((tool) => tool.name === name && tool.needsNoFiles),
  });

  return {
    get providers() {
      return parts.now.providers.ids;
    },
    get totalsUnbounded() {
      return parts.now.toolset.totalsUnbounded;
    },
    get networkAllowed() {
      return parts.now.toolset.networkAllowed;
    },
    get sandboxUnavailable() {
      return parts.now.toolset.sandboxUnavailable;
    },
    tools: () => {
      const { toolset, extensions } = parts.now;
      return [...toolset.list(), ...extensions.flatMap((extension) => extension.listing?.() ?? [])];
    },
    toolsIn: async (asker) => {
      const { workspaceId } = asker;
      const now = await parts.of(asker);
      const { workspacePath } = await placeOf(workspaceId);
      const config = await settingsOf(workspaceId, now.config);
      const tools = await listTools(now, await parts.placeOf(asker, workspacePath), config);
      const disabled = config.options?.disabled_tools ?? [];
      return [...tools, corpusSearchListing(disabled), planStepListing(disabled)];
    },
    listSkillFolder,
    skillsOf: async (asker) => {
      const { extensions } = await parts.refresh();
      const { workspacePath } = await placeOf(asker.workspaceId);
      const place = await parts.placeOf(asker, workspacePath);
      const found = extensions.map((extension) => extension.skills?.(place) ?? []);
      return (await Promise.all(found)).flat();
    },
    media: async (kind, choice, asker) => {
      const { config, media } = await parts.of(asker);
      return media.find(kind, await settingsOf(asker.workspaceId, config), choice);
    },
    embedding: async ({ providerSettingId, ...choice }) => {
      // Whoever chose it may use it; who asks for vectors later need not even see it.
      const kept = providerSettingId === null ? null : { userId: '', workspaceId: '', providerSettingId };
      const { embeddings, wanted } = kept
        ? await parts.of(kept)
        : { ...(await parts.refresh()), wanted: undefined };
      return embeddings.find({ ...choice, provider: wanted ?? choice.provider });
    },
    reranking: async (name, asker) => {
      const { providers, rerankings } = await parts.of(asker);
      return rerankings.find(providers.resolve(name));
    },
    mcp: mcpServersAtHand(parts.mcp, async (workspaceId) => {
      const { workspacePath } = await placeOf(workspaceId);
      return { workspacePath };
    }),
    ...askedModels(() => parts.now, parts.refresh),
    modelsOf: async (asker) => {
      const known = await parts.of(asker);
      return askedModels(
        () => known,
        async () => known,
      );
    },
    countTokens: estimateInput,
    refresh: async () => {
      const { toolset } = await parts.refresh();
      await toolset.present();
    },
    share: () => parts.share(),
    activeRuns: () => runs.counts().active,
    runCounts: () => runs.counts(),
    threadQueues: { searches: searchQueue, pages: conversionQueue },
    limits: options.limits ?? defaultLimits,
    profile: async (slug, workspaceId) => profiles.find(slug, await placeOf(workspaceId)),
    profiles: async (workspaceId) => profiles.own(await placeOf(workspaceId)),
    async check({ agentSlug, model }, asker) {
      const { workspaceId } = asker;
      if (agentSlug !== undefined) await profiles.find(agentSlug, await placeOf(workspaceId));
      if (model === undefined) return;
      const [{ providers, ofPerson }, terms] = await Promise.all([parts.of(asker), termsOf(workspaceId)]);
      providers.resolve(model ?? ofPerson ?? terms.model);
    },
    start: (query) => runs.begin(query),
    estimate: async (query) =>
      estimateRun(await openScope(query, newId('run'), new AbortController()), query),
    follow: (runId, follow) => followEvents(runId, follow, transcript, hub),
    async planPutBack(workspaceId, files, changedIn = []) {
      const { toolset } = await parts.refresh();
      const { workspacePath } = await placeOf(workspaceId);
      const plan = await planPutBack(workspacePath, toolset.pathRules, files);
      requireFilesHere(plan, changedIn, await workspacePlace(workspaceId));
      return plan;
    },
    forgetFiles(sessionId, realPaths) {
      const memory = parts.now.toolset.fileMemory(sessionId);
      for (const path of realPaths) memory.forget(path);
    },
    todos: (sessionId, runId) => readTodos(transcript, sessionId, runId),
    inspect: (asked, signal) =>
      inspectSession(asked, { parts, openScope, settingsOf, placeOf, transcript }, signal),
    reviewLeftCommands: () => leftCommands.review(),
    forgetSessions: async (sessionIds) => {
      await Promise.all(sessionIds.map((sessionId) => parts.jobs.endSession(sessionId)));
    },
    wake,
    async close() {
      await runs.close();
      await leftCommands.stop();
      await titles.close();
      await parts.close();
    },
  };

  function wake(runId: string): void {
    hub.notify(runId);
    runs.heedInterrupt(runId);
  }
}
