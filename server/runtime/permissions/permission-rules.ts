/** The rules that count for one call: the session's, those of the settings, and what people granted, in one form. */
import type { PermissionRule } from '../../contract/api.ts';
import type { Grant } from '../transcript.ts';
import { type CommandPattern, commandPattern } from './permission-pattern.ts';

/** A rule about calls of one tool. */
export interface CallRule {
  /** Null for every call. */
  readonly pattern: string | null;
  /** The same, read as the words of a command. */
  readonly words: CommandPattern | null;
}

/** The session's rules about a tool, with one decision. */
export function rulesFor(
  rules: readonly PermissionRule[],
  decision: PermissionRule['decision'],
  toolName: string,
): readonly CallRule[] {
  return rules
    .filter((rule) => rule.decision === decision && meansTool(rule.tool, toolName))
    .map(({ pattern }) => callRule(pattern ?? null));
}

/** Entries of `permissions.allowed_tools`: `tool`, `tool:action`, `tool(pattern)`, `tool:action(pattern)`. */
export function allowancesFor(
  entries: readonly string[],
  toolName: string,
  action: string,
): readonly CallRule[] {
  return entries.flatMap((entry) => {
    const [, tool = '', wanted, pattern] = /^([\w-]+\*?)(?::([a-z]+))?(?:\(([\s\S]+)\))?$/.exec(entry) ?? [];
    const meant = meansTool(tool, toolName) && (wanted === undefined || wanted === action);
    return meant ? [callRule(pattern ?? null)] : [];
  });
}

/** What was granted for this tool and action. A grant of old, without a pattern, covered every command: it counts no more. */
export function grantsFor(grants: readonly Grant[], toolName: string, action: string): readonly CallRule[] {
  return grants
    .filter((grant) => grant.toolName === toolName && grant.action === action)
    .filter(({ pattern }) => pattern !== null || action !== 'execute')
    .map(({ pattern }) => callRule(pattern));
}

/** Whether the name of a rule is that of the tool, or with `*` at its end begins like it. */
export function meansTool(name: string, toolName: string): boolean {
  return name.endsWith('*') ? name !== '*' && toolName.startsWith(name.slice(0, -1)) : name === toolName;
}

function callRule(pattern: string | null): CallRule {
  return { pattern, words: pattern === null ? null : commandPattern(pattern) };
}
