/** What a program that has the runtime inside gives it. */
import type { Clock } from '../clock.ts';
import type { PermissionRule } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Log } from '../log.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Tracing } from '../tracing.ts';
import type { ProfileSource } from './agents/profiles.ts';
import type { ExpandSetting } from './extension.ts';
import type { RuntimeSettings } from './live-parts.ts';
import type { LoginKeeper } from './mcp/login-keeper.ts';
import type { OwnMcpServers } from './mcp/own-servers.ts';
import type { MemoryKeeper } from './memory-keeper.ts';
import type { FindOwnProviders } from './providers/own-providers.ts';
import type { ProviderDefinition } from './providers/providers.ts';
import type { LeaseTimes } from './runs/lease-keeper.ts';
import type { Preparing } from './runs/run-scope.ts';
import type { RunLimits } from './runs/runs-at-work.ts';
import type { SkillKeeper } from './skills/skill-keeper.ts';
import type { FindPassages } from './tools/corpus-search.ts';
import type { FindSearchEngine } from './tools/search-engine.ts';
import type { Transcript } from './transcript.ts';
import type { WorkspaceTerms } from './workspace-terms.ts';

/** What a program may hand in; everything has a default that works alone. */
export interface RuntimeOptions {
  /** Where sessions are kept; in memory if absent. */
  readonly transcript?: Transcript;
  /** The model providers, the default first; those of the settings, taken literally, if absent. */
  readonly providers?: readonly ProviderDefinition[];
  /** Asked for the settings as they stand, at each run and each tool call; without it they never change. */
  readonly settings?: () => Promise<RuntimeSettings>;
  /** Whether the built-in demonstration answers where no provider is configured. */
  readonly demo?: boolean;
  /** The folder that a session's tools work in; the current one if absent. */
  readonly workspacePath?: (workspaceId: string) => Promise<string>;
  /** What holds for all of a workspace; nothing if absent. Asked at each run and at each tool call. */
  readonly workspaceTerms?: (workspaceId: string) => Promise<WorkspaceTerms>;
  /**
   * The rules of a session as they are now, and of an agent's those of the session that a person sees; those that a query
   * says if absent. Asked at each tool call.
   */
  readonly sessionRules?: (sessionId: string, ofAgent: boolean) => Promise<readonly PermissionRule[]>;
  /** The settings that count for runs in a workspace, made of those of the runtime; these themselves if absent. */
  readonly workspaceSettings?: (workspaceId: string, settings: ClientConfig) => Promise<ClientConfig>;
  /** The providers that people and workspaces have of their own; none if absent. Asked at each run and model call. */
  readonly ownProviders?: FindOwnProviders;
  /** Agent profiles besides those that are built in or stand in files. */
  readonly profiles?: ProfileSource;
  /** The folder with the person's own agent profiles as files; none if absent. */
  readonly agentsDirectory?: string;
  /** Whether many people share this runtime: commands then run only inside a sandbox, and nothing leaves the workspace. */
  readonly shared?: boolean;
  /** Folders that no command may see: the data directory above all. */
  readonly hiddenPaths?: readonly string[];
  /** Replaces variables and commands in the entries of servers; without it they are taken literally. */
  readonly expand?: ExpandSetting;
  /** Files of the person or the operator whose text every model is given; those of projects are found by their names. */
  readonly contextFiles?: readonly string[];
  /** Keeps what is to be known in later conversations; agents remember nothing if absent. */
  readonly memories?: MemoryKeeper;
  /** Folders with skills of the person or the operator; those of projects are found by their names. */
  readonly skillFolders?: readonly string[];
  /** Keeps skills of people, workspaces and organizations; without one there are files alone. */
  readonly skills?: SkillKeeper;
  /** The guard of outgoing requests; one of its own if absent. */
  readonly outbound?: Outbound;
  /** Where logins to remote MCP servers are kept; in memory if absent. */
  readonly mcpLogins?: LoginKeeper;
  /** What searches the web, asked at each search and each step; nothing does if absent. */
  readonly findSearchEngine?: FindSearchEngine;
  /** The MCP servers that people, workspaces and organizations keep; none if absent. Asked at each step. */
  readonly ownMcpServers?: OwnMcpServers;
  /** Searches the corpus that a query names again, for its agent; without it no agent can. */
  readonly findPassages?: FindPassages;
  /** Names that folder among those of all nodes that share the transcript; null where it is not there. The path if absent. */
  readonly workspacePlace?: (workspaceId: string) => Promise<string | null>;
  /**
   * Called around what is looked up before a run begins, and around each step: in there, one who is asked the same twice
   * may answer alike.
   */
  readonly preparing?: Preparing;
  readonly lease?: LeaseTimes;
  /**
   * Whether runs that are at work when the runtime closes are left to other processes with the same transcript, or to the
   * next start; interrupted if absent. Those for whose answer somebody waits on a connection are interrupted anyway.
   */
  readonly handsOver?: boolean;
  readonly limits?: RunLimits;
  /** How long a person has to answer; 15 minutes if absent. */
  readonly answerWithinMs?: number;
  /** How long a provider may be silent; 2 minutes if absent. */
  readonly providerSilenceMs?: number;
  /** The most model calls of one run; 50 if absent. */
  readonly stepLimit?: number;
  /** The first pause before a failed model call is repeated; 500 ms if absent. */
  readonly retryPauseMs?: number;
  readonly clock?: Clock;
  readonly log?: Log;
  /** Told of runs, steps, model calls and tool calls as they begin and end; nobody is if absent. */
  readonly tracing?: Tracing;
}
