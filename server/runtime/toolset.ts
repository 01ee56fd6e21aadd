/** The tools of this runtime on this machine: which there are, which are off, and why. */

import { parseDuration } from '../clock.ts';
import type { Tool as ToolListing } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import { settingDefaults } from '../contract/setting-defaults.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { guidancePath } from './guidance/guidance-file.ts';
import type { Sandbox, SandboxUnavailable } from './processes/sandbox.ts';
import type { Jobs } from './tools/jobs.ts';
import type { FindSearchEngine } from './tools/search-engine.ts';
import type { FileMemory, Tool } from './tools/tool.ts';
import { type BuiltInToolsOptions, builtInTools, createFileMemory } from './tools/tools.ts';
import { webSearchName } from './tools/web-search.ts';
import type { PathRules } from './tools/workspace-path.ts';

/** How many sessions' reading is remembered at once; a forgotten session must view a file again before it edits. */
const rememberedSessions = 1000;

export interface Toolset {
  /** Those that the settings leave, whether or not they can be used just now. */
  readonly tools: readonly Tool[];
  /** Those of them that can be used now: whether there is a search engine is asked each time. */
  present(): Promise<readonly Tool[]>;
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** Whether the settings let commands in the sandbox reach the network. */
  readonly networkAllowed: boolean;
  /** Null where the kernel bounds all processes of a command together, or there is no sandbox; else why it does not. */
  readonly totalsUnbounded: string | null;
  /** Where hooks have to run; null for one person, whose own commands they are. */
  readonly hookSandbox: Sandbox | SandboxUnavailable | null;
  /** Every built-in tool, those that are off among them, as `present` found them last. */
  list(): readonly ToolListing[];
  /** What a session has read. */
  fileMemory(sessionId: string): FileMemory;
  /** What the installation says about paths. */
  readonly pathRules: PathRules;
}

/** A timer that is to wait longer fires at once. */
const longestTimeoutMs = 2 ** 31 - 1;

export interface ToolsetParts {
  readonly sandbox: Sandbox | SandboxUnavailable;
  readonly jobs: Jobs;
  readonly outbound: Outbound;
  readonly findSearchEngine: FindSearchEngine;
  /** Real paths of the folders of the service itself. */
  readonly hiddenPaths: readonly string[];
}

/** What it answers builds the tools that the settings leave, for one person or for many. */
export function prepareToolsets({
  sandbox,
  jobs,
  outbound,
  findSearchEngine,
  hiddenPaths,
}: ToolsetParts): (config: ClientConfig, shared: boolean) => Toolset {
  const memories = new Map<string, FileMemory>();
  let canSearch = false;
  const usable = (tools: readonly Tool[]) =>
    canSearch ? tools : tools.filter(({ name }) => name !== webSearchName);
  const build = (config: ClientConfig, more: Pick<BuiltInToolsOptions, 'requireSandbox' | 'disabled'>) =>
    builtInTools({
      ...more,
      findSearchEngine,
      sandbox,
      jobs,
      outbound,
      hiddenPaths,
      allowNetwork: allowsNetwork(config),
      readablePaths: (config.tools?.bash?.readable_paths ?? []).map((path) => guidancePath(path, '/')),
      ls: {
        max_depth: config.tools?.ls?.max_depth ?? settingDefaults['tools.ls.max_depth'],
        max_items: config.tools?.ls?.max_items ?? settingDefaults['tools.ls.max_items'],
      },
      grep: {
        timeoutMs: Math.min(
          parseDuration(config.tools?.grep?.timeout ?? settingDefaults['tools.grep.timeout']),
          longestTimeoutMs,
        ),
      },
    });
  return (config, shared) => {
    const disabled = config.options?.disabled_tools ?? [];
    const tools = build(config, { requireSandbox: shared, disabled });
    return {
      tools,
      async present() {
        canSearch = (await findSearchEngine()) !== null;
        return usable(tools);
      },
      sandboxUnavailable: 'unavailable' in sandbox ? sandbox.unavailable : null,
      networkAllowed: allowsNetwork(config),
      totalsUnbounded: 'unavailable' in sandbox ? null : sandbox.totalsUnbounded,
      hookSandbox: shared ? sandbox : null,
      list: () =>
        build(config, { requireSandbox: false, disabled: [] }).map((tool) =>
          listing(tool, usable(tools), disabled),
        ),
      fileMemory: (sessionId) => remembered(memories, sessionId),
      pathRules: { requireSandbox: shared, hiddenPaths },
    };
  };
}

function remembered(memories: Map<string, FileMemory>, sessionId: string): FileMemory {
  const memory = memories.get(sessionId) ?? createFileMemory();
  // Set anew, so that the session longest unused is the first to be forgotten.
  memories.delete(sessionId);
  memories.set(sessionId, memory);
  const [oldest] = memories.keys();
  if (oldest && memories.size > rememberedSessions) memories.delete(oldest);
  return memory;
}

function listing(tool: Tool, present: readonly Tool[], disabled: readonly string[]): ToolListing {
  return {
    name: tool.name,
    source: 'builtin',
    description: tool.description,
    input_schema: tool.inputSchema,
    needs_permission: tool.needsPermission,
    disabled_by: disabledBy(tool.name, present, disabled),
  };
}

function disabledBy(name: string, present: readonly Tool[], disabled: readonly string[]): string | null {
  if (present.some((tool) => tool.name === name)) return null;
  if (disabled.includes(name)) return 'options.disabled_tools';
  return name === webSearchName ? 'no search engine is set' : 'no sandbox on this machine';
}

function allowsNetwork({ tools }: ClientConfig): boolean {
  return tools?.bash?.network ?? settingDefaults['tools.bash.network'];
}
