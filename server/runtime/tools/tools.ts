// The built-in tools of the agent runtime, as one list.

import type { Outbound } from '../../outbound/outbound.ts';
import { builtInProfiles } from '../agents/builtin-profiles.ts';
import { leavesTool } from '../agents/profile.ts';
import { findExecutable } from '../processes/executable.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import { agentTool } from './agent.ts';
import { askUserTool } from './ask-user.ts';
import { bashTool } from './bash.ts';
import { downloadTool } from './download.ts';
import { editTool } from './edit.ts';
import { fetchTool } from './fetch.ts';
import { globTool } from './glob.ts';
import { grepTool } from './grep.ts';
import { jobKillTool, jobOutputTool } from './job-tools.ts';
import type { Jobs } from './jobs.ts';
import { type LsLimits, lsTool } from './ls.ts';
import { memorySaveTool, memorySearchTool } from './memory-tools.ts';
import { multieditTool } from './multiedit.ts';
import { planTool } from './plan.ts';
import type { FindSearchEngine } from './search-engine.ts';
import { todosTool } from './todos.ts';
import type { Tool } from './tool.ts';
import { viewTool } from './view.ts';
import { webSearchTool } from './web-search.ts';
import { writeTool } from './write.ts';

export { createFileMemory } from './file-memory.ts';

/** What the installation says about its tools. */
export interface BuiltInToolsOptions {
  readonly sandbox: Sandbox | SandboxUnavailable;
  /** Reaches the web for the tools. */
  readonly outbound: Outbound;
  /** Asked at each search of the web. */
  readonly findSearchEngine: FindSearchEngine;
  /** The commands at work in the background. */
  readonly jobs: Jobs;
  readonly ls: LsLimits;
  readonly grep: { readonly timeoutMs: number };
  /** Names of tools that do not exist for the agent. */
  readonly disabled: readonly string[];
  /** True in `multi`: no command without a working sandbox, no path outside the workspace. */
  readonly requireSandbox: boolean;
  /** Folders of the service itself, whose files no tool touches. */
  readonly hiddenPaths?: readonly string[];
  /** Whether commands in the sandbox reach the network. */
  readonly allowNetwork: boolean;
  /** Folders outside of the workspace that commands in the sandbox may read: absolute paths. */
  readonly readablePaths?: readonly string[];
  /** Where ripgrep is; looked for on the PATH when left out, not used when null. */
  readonly ripgrepPath?: string | null;
}

/** Builds the tools that exist under these options. */
export function builtInTools(options: BuiltInToolsOptions): readonly Tool[] {
  const { requireSandbox, hiddenPaths = [], allowNetwork, readablePaths = [] } = options;
  const rules = { requireSandbox, hiddenPaths };
  const sandbox = 'unavailable' in options.sandbox ? null : options.sandbox;
  const ripgrepPath = options.ripgrepPath === undefined ? findExecutable('rg') : options.ripgrepPath;
  const { timeoutMs } = options.grep;
  const tools = [
    viewTool(rules),
    lsTool(rules, options.ls),
    globTool(rules),
    // In `multi` ripgrep is confined too: a command of another call may exchange folders for links while it walks.
    grepTool(rules, { timeoutMs, ripgrepPath, sandbox: options.requireSandbox ? sandbox : null }),
    editTool(rules),
    multieditTool(rules),
    writeTool(rules),
    ...(sandbox || !options.requireSandbox
      ? [
          bashTool({ sandbox, allowNetwork, readablePaths, jobs: options.jobs }),
          jobOutputTool(options.jobs),
          jobKillTool(options.jobs),
        ]
      : []),
    fetchTool(options.outbound),
    downloadTool(rules, options.outbound),
    webSearchTool(options.findSearchEngine),
    askUserTool(),
    todosTool(),
    planTool(),
    memorySaveTool(),
    memorySearchTool(),
    // A run has this tool with the agents of its workspace.
    agentTool(builtInProfiles.filter((profile) => !leavesTool(profile, 'plan'))),
  ];
  return tools.filter((tool) => !options.disabled.includes(tool.name));
}
