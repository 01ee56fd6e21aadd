/** Decides whether a tool call may run, must not, or needs a person. */
import { isAbsolute, relative, resolve } from 'node:path';
import type { PermissionMode, PermissionRule } from '../contract/api.ts';
import type { PermissionNeed } from './tools/tool.ts';
import type { Grant } from './transcript.ts';

/** What counts in the decision about one call. */
export interface PermissionContext {
  readonly workspacePath: string;
  readonly mode: PermissionMode;
  /** The session's own rules. */
  readonly rules: readonly PermissionRule[];
  /** `permissions.allowed_tools` of the settings: `tool` or `tool:action`. */
  readonly allowedTools: readonly string[];
  /** Whether a hook allows this very call. */
  readonly hookAllows: boolean;
  /** What people have granted for the session or its workspace. */
  readonly grants: readonly Grant[];
}

export type Verdict =
  | { readonly verdict: 'allow' | 'ask' }
  /** The reason is told to the model. */
  | { readonly verdict: 'deny'; readonly reason: string };

/**
 * Any deny ends it (those of hooks have ended it before); then come the mode, the lists, what was granted before, what a
 * hook allows; last of all a person is asked. A hook stands in for that person, so it does not loosen a mode.
 */
export function decide(toolName: string, need: PermissionNeed | null, context: PermissionContext): Verdict {
  if (context.rules.some(({ tool, decision }) => tool === toolName && decision === 'deny'))
    return { verdict: 'deny', reason: `A rule of this session denies the tool ${toolName}.` };
  if (!need) return { verdict: 'allow' };
  const changes = need.action === 'write' || need.action === 'execute';
  if (context.mode === 'read_only' && changes)
    return { verdict: 'deny', reason: 'This run may only read: its permission mode is read_only.' };
  if (isAllowed(toolName, need, context)) return { verdict: 'allow' };
  if (context.mode === 'deny_unlisted')
    return {
      verdict: 'deny',
      reason: `No rule allows the tool ${toolName}, and the permission mode is deny_unlisted.`,
    };
  return { verdict: context.hookAllows ? 'allow' : 'ask' };
}

function isAllowed(
  toolName: string,
  { action, path }: PermissionNeed,
  { mode, rules, allowedTools, grants, workspacePath }: PermissionContext,
): boolean {
  if (mode === 'bypass') return true;
  const outside = liesOutside(path, workspacePath);
  if (mode === 'accept_edits' && action === 'write' && !outside) return true;
  return (
    rules.some((rule) => rule.tool === toolName && rule.decision === 'allow') ||
    allowedTools.includes(toolName) ||
    allowedTools.includes(`${toolName}:${action}`) ||
    grants.some((grant) => grant.toolName === toolName && grant.action === action && !outside)
  );
}

/** A grant or a mode that covers the workspace says nothing about the rest of the machine. */
function liesOutside(path: string, workspacePath: string): boolean {
  const way = relative(workspacePath, resolve(workspacePath, path));
  return way === '..' || way.startsWith('../') || isAbsolute(way);
}
