/** The tools of this runtime on this machine: which there are, which are off, and why. */

import { parseDuration } from '../clock.ts';
import type { Tool as ToolListing } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import type { Sandbox, SandboxUnavailable } from './sandbox.ts';
import type { Jobs } from './tools/jobs.ts';
import type { FileMemory, Tool } from './tools/tool.ts';
import { builtInTools, createFileMemory } from './tools/tools.ts';

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
}

/** A timer that is to wait longer fires at once. */
const longestTimeoutMs = 2 ** 31 - 1;

/** What it answers builds the tools that the settings leave, for one person or for many. */
export function prepareToolsets(
  sandbox: Sandbox | SandboxUnavailable,
  jobs: Jobs,
): (config: ClientConfig, shared: boolean) => Toolset {
  const memories = new Map<string, FileMemory>();
  const build = (config: ClientConfig, requireSandbox: boolean, disabled: readonly string[]) =>
    builtInTools({
      sandbox,
      jobs,
      requireSandbox,
      disabled,
      ls: { max_depth: config.tools?.ls?.max_depth ?? 0, max_items: config.tools?.ls?.max_items ?? 1000 },
      grep: { timeoutMs: Math.min(parseDuration(config.tools?.grep?.timeout ?? '5s'), longestTimeoutMs) },
    });
  return (config, shared) => {
    const disabled = config.options?.disabled_tools ?? [];
    const tools = build(config, shared, disabled);
    return {
      tools,
      sandboxUnavailable: 'unavailable' in sandbox ? sandbox.unavailable : null,
      totalsUnbounded: 'unavailable' in sandbox ? null : sandbox.totalsUnbounded,
      hookSandbox: shared ? sandbox : null,
      list: () => build(config, false, []).map((tool) => listing(tool, tools, disabled)),
      fileMemory: (sessionId) => remembered(memories, sessionId),
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
  return disabled.includes(name) ? 'options.disabled_tools' : 'no sandbox on this machine';
}
