/** The tools of this runtime on this machine: which there are, which are off, and why. */

import { parseDuration } from '../clock.ts';
import type { Tool as ToolListing } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Sandbox, SandboxUnavailable } from './processes/sandbox.ts';
import type { Jobs } from './tools/jobs.ts';
import type { SearchEngine } from './tools/search-engine.ts';
import { searxng } from './tools/searxng.ts';
import { type FileMemory, type Tool, ToolInputError } from './tools/tool.ts';
import { type BuiltInToolsOptions, builtInTools, createFileMemory } from './tools/tools.ts';
import type { PathRules } from './tools/workspace-path.ts';

/** How many sessions' reading is remembered at once; a forgotten session must view a file again before it edits. */
const rememberedSessions = 1000;

export interface Toolset {
  readonly tools: readonly Tool[];
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** Null where the kernel bounds all processes of a command together, or there is no sandbox; else why it does not. */
  readonly totalsUnbounded: string | null;
  /** Where hooks have to run; null for one person, whose own commands they are. */
  readonly hookSandbox: Sandbox | SandboxUnavailable | null;
  /** Every built-in tool, those that are off among them. */
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
  /** Where a SearXNG answers; without one there is no search of the web. */
  readonly webSearchUrl: string | null;
  /** Real paths of the folders of the service itself. */
  readonly hiddenPaths: readonly string[];
}

/** What it answers builds the tools that the settings leave, for one person or for many. */
export function prepareToolsets({
  sandbox,
  jobs,
  outbound,
  webSearchUrl,
  hiddenPaths,
}: ToolsetParts): (config: ClientConfig, shared: boolean) => Toolset {
  const memories = new Map<string, FileMemory>();
  const searchEngine = webSearchUrl === null ? null : searxng(webSearchUrl, outbound);
  const build = (
    config: ClientConfig,
    more: Pick<BuiltInToolsOptions, 'requireSandbox' | 'disabled' | 'searchEngine'>,
  ) =>
    builtInTools({
      ...more,
      sandbox,
      jobs,
      outbound,
      hiddenPaths,
      ls: { max_depth: config.tools?.ls?.max_depth ?? 0, max_items: config.tools?.ls?.max_items ?? 1000 },
      grep: { timeoutMs: Math.min(parseDuration(config.tools?.grep?.timeout ?? '5s'), longestTimeoutMs) },
    });
  return (config, shared) => {
    const disabled = config.options?.disabled_tools ?? [];
    const tools = build(config, { requireSandbox: shared, disabled, searchEngine });
    return {
      tools,
      sandboxUnavailable: 'unavailable' in sandbox ? sandbox.unavailable : null,
      totalsUnbounded: 'unavailable' in sandbox ? null : sandbox.totalsUnbounded,
      hookSandbox: shared ? sandbox : null,
      list: () =>
        build(config, { requireSandbox: false, disabled: [], searchEngine: searchEngine ?? noEngine }).map(
          (tool) => listing(tool, tools, disabled),
        ),
      fileMemory: (sessionId) => remembered(memories, sessionId),
      pathRules: { requireSandbox: shared, hiddenPaths },
    };
  };
}

/** Stands where there is none, so that lists can say what there would be. */
const noEngine: SearchEngine = {
  search: () => Promise.reject(new ToolInputError('There is no search engine here.')),
};

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
  return name === 'web_search' ? 'SERVICE_WEB_SEARCH_URL is not set' : 'no sandbox on this machine';
}
