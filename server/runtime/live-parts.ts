/** The parts of a runtime that follow its settings: the providers and the tools. Built anew only when the settings change. */
import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { ClientConfig } from '../contract/config.ts';
import type { Log } from '../log.ts';
import { createOutbound, type Outbound } from '../outbound/outbound.ts';
import type { Tracing } from '../tracing.ts';
import type { ExpandSetting, Extension, ExtensionPlace } from './extension.ts';
import { createExtensions } from './extensions.ts';
import type { LoginKeeper } from './mcp/login-keeper.ts';
import type { Mcp } from './mcp/mcp.ts';
import type { OwnMcpServers } from './mcp/own-servers.ts';
import { callCarryingTrace, carryingTrace } from './models/traced-model.ts';
import { detectSandbox } from './processes/sandbox.ts';
import { createEmbeddings, type Embeddings } from './providers/embeddings.ts';
import { createMedia, type Media } from './providers/media.ts';
import {
  type Asker,
  type FindOwnProviders,
  type OwnProviders,
  withOwnModels,
} from './providers/own-providers.ts';
import { createProviders, type ProviderDefinition, type Providers } from './providers/providers.ts';
import { createRerankings, type Rerankings } from './providers/reranking.ts';
import type { SkillKeeper } from './skills/skill-keeper.ts';
import { createJobs, type Jobs } from './tools/jobs.ts';
import type { FindSearchEngine } from './tools/search-engine.ts';
import { prepareToolsets, type Toolset } from './toolset.ts';

/** What a runtime works with; the same objects as long as nothing changed. */
export interface RuntimeSettings {
  readonly config: ClientConfig;
  /** The model providers, the default first. */
  readonly providers: readonly ProviderDefinition[];
}

/** One state of the settings, and what was built from it. */
export interface Parts {
  readonly config: ClientConfig;
  /** Whether many people share them. */
  readonly shared: boolean;
  readonly providers: Providers;
  readonly media: Media;
  readonly embeddings: Embeddings;
  readonly rerankings: Rerankings;
  readonly toolset: Toolset;
  readonly extensions: readonly Extension[];
}

export interface PartsOfAsker extends Parts {
  /** Settings of a workspace, with what counts in the place of their models for whoever asks. */
  readonly chosen: (settings: ClientConfig) => ClientConfig;
  /** The id of the one provider that they want. */
  readonly wanted?: string | undefined;
  /** The model that they have chosen themselves for whatever names none. */
  readonly ofPerson?: string | undefined;
}

export interface LiveParts {
  /** As they were when last looked at. */
  readonly now: Parts;
  /** The commands in the background, whatever the settings are. */
  readonly jobs: Pick<Jobs, 'list' | 'endSession' | 'runs' | 'endThoseOf'>;
  readonly mcp: Mcp;
  /** The workspace folder, with what whoever asks has of their own there. */
  placeOf(asker: Asker, workspacePath: string): Promise<ExtensionPlace>;
  /** As the settings stand now. */
  refresh(): Promise<Parts>;
  /** The same as they are for whoever asks: with the providers that they have of their own. Throws Problem. */
  of(asker: Asker): Promise<PartsOfAsker>;
  /** From now on many people share these parts. */
  share(): void;
  /** Ends what the extensions have started. */
  close(): Promise<void>;
}

export interface LivePartsOptions {
  /** Asked for the settings as they stand; those given at the start count for good if absent. */
  readonly settings?: (() => Promise<RuntimeSettings>) | undefined;
  readonly ownProviders?: FindOwnProviders | undefined;
  readonly demo: boolean;
  readonly shared: boolean;
  readonly hiddenPaths: readonly string[];
  readonly expand: ExpandSetting;
  readonly mcpLogins: LoginKeeper;
  readonly ownMcpServers: OwnMcpServers;
  readonly providerSilenceMs: number;
  /** See RuntimeOptions. */
  readonly contextFiles: readonly string[];
  readonly skillFolders: readonly string[];
  readonly skillKeeper?: SkillKeeper | undefined;
  /** The guard of outgoing requests; one of its own if absent. */
  readonly outbound?: Outbound | undefined;
  readonly findSearchEngine: FindSearchEngine;
  readonly log: Log;
  readonly tracing: Tracing;
}

/** Builds the parts for the first time. Probes once whether a sandbox works here. */
export async function createLiveParts(first: RuntimeSettings, options: LivePartsOptions): Promise<LiveParts> {
  let { shared } = options;
  const jobs = createJobs();
  const outbound = options.outbound ?? createOutbound({ shared: () => shared });
  const { findSearchEngine } = options;
  // Where they really lie: commands and tools may come there by other names.
  const hiddenPaths = await Promise.all(
    options.hiddenPaths.map((path) => realpath(path).catch(() => resolve(path))),
  );
  const sandbox = await detectSandbox({ hiddenPaths, mayBeRoot: () => !shared });
  const toolsetOf = prepareToolsets({ sandbox, jobs, outbound, findSearchEngine, hiddenPaths });
  const firstSettings = { config: first.config, shared };
  const { all: extensions, mcp } = createExtensions({ ...options, first: firstSettings, sandbox, outbound });
  let settings = first;
  const reached = () => ({
    definitions: settings.providers,
    timeouts: { silenceMs: options.providerSilenceMs },
    fetch: carryingTrace(outbound.fetchFor('operator'), options.tracing),
    accountFetch: carryingTrace(outbound.fetchFor('account'), options.tracing),
    tracing: options.tracing,
  });
  const build = (): Parts => ({
    config: settings.config,
    shared,
    media: createMedia(reached()),
    embeddings: createEmbeddings(reached()),
    rerankings: createRerankings(reached()),
    providers: createProviders({
      // The definitions come from the settings of the installation, or of the program that embeds this.
      ...reached(),
      defaultModel: largeModel(settings.config),
      demo: options.demo && !shared,
      call: callCarryingTrace(outbound.callFor('operator'), options.tracing),
      accountCall: callCarryingTrace(outbound.callFor('account'), options.tracing),
    }),
    toolset: toolsetOf(settings.config, shared),
    extensions,
  });
  let now = build();
  await now.toolset.present();
  const applyToExtensions = () =>
    Promise.all(extensions.map((extension) => extension.apply({ config: settings.config, shared })));
  async function refresh(): Promise<Parts> {
    const newest = (await options.settings?.()) ?? settings;
    if (newest.config === settings.config && newest.providers === settings.providers) return now;
    settings = newest;
    now = build();
    await applyToExtensions();
    return now;
  }
  return {
    get now() {
      return now;
    },
    jobs,
    mcp,
    placeOf: async (asker, workspacePath) => ({
      workspacePath,
      asker: { userId: asker.userId, workspaceId: asker.workspaceId, bound: asker.bound },
      ownMcpServers: await options.ownMcpServers.of(asker),
    }),
    refresh,
    async of(asker) {
      const [parts, own] = await Promise.all([refresh(), options.ownProviders?.(asker)]);
      const find = options.ownProviders;
      return own && find ? withOwn(parts, own, asker, () => find(asker)) : { ...parts, chosen: asItIs };
    },
    share() {
      shared = true;
      now = build();
      void applyToExtensions();
    },
    async close() {
      await Promise.all([jobs.close(), ...extensions.map((extension) => extension.close())]);
      if (!options.outbound) await outbound.close();
    },
  };
}

const asItIs = (settings: ClientConfig) => settings;

function withOwn(
  parts: Parts,
  own: OwnProviders,
  { providerSettingId }: Asker,
  current: () => Promise<OwnProviders>,
): PartsOfAsker {
  // Most have none, and need not be asked again at each model call.
  if (own.providers.length === 0 && Object.keys(own.models).length === 0) return { ...parts, chosen: asItIs };
  const chosen = (settings: ClientConfig) => withOwnModels(settings, own);
  const wanted = providerSettingId === undefined ? undefined : own.providers[0]?.id;
  const providers = parts.providers.with(own, current);
  const media = parts.media.with(own);
  const embeddings = parts.embeddings.with(own);
  const rerankings = parts.rerankings.with(own);
  const { ofPerson } = own.models;
  const changed = { config: chosen(parts.config), chosen, wanted, ofPerson };
  return { ...parts, ...changed, providers, media, embeddings, rerankings };
}

/** The model that queries mean which name none. */
function largeModel({ models }: ClientConfig): string | null {
  return models?.large ? `${models.large.provider}:${models.large.model}` : null;
}
