/** An agent profile: who answers, with which instructions, and what it leaves of a run's tools and rights. */
import type { Agent, PermissionMode } from '../../contract/api.ts';

/** A profile narrows what a run may do; it never widens it. */
export type Profile = Readonly<
  Pick<
    Agent,
    'slug' | 'name' | 'description' | 'instructions' | 'tools' | 'model' | 'permission_mode' | 'source'
  >
>;

/** Whether a profile leaves a run this tool. The tool `plan` waits for a person: only who names it has it. */
export function leavesTool({ tools }: Pick<Profile, 'tools'>, name: string): boolean {
  if (name === 'plan') return tools?.includes('plan') ?? false;
  const fits = (tool: string) => (tool.endsWith('*') ? name.startsWith(tool.slice(0, -1)) : tool === name);
  return tools === null || tools.some(fits);
}

/** From what asks least to what asks most. */
const modes: readonly PermissionMode[] = ['bypass', 'accept_edits', 'ask', 'deny_unlisted', 'read_only'];

/** The stricter of the two: a profile is a ceiling, not a right. */
export function stricterMode(mode: PermissionMode, ceiling: PermissionMode | null): PermissionMode {
  return ceiling !== null && modes.indexOf(ceiling) > modes.indexOf(mode) ? ceiling : mode;
}
