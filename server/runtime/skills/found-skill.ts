/** A skill as it is listed for people: what agents have of it, and why not. */
import type { SkillSwitchScope } from './skill-keeper.ts';

export interface FoundSkill {
  readonly name: string;
  /** Null where it is broken. */
  readonly description: string | null;
  readonly source: 'builtin' | 'user' | 'project' | 'repository';
  /** Of one that is kept; null for what lies in a folder that somebody else writes. */
  readonly id: string | null;
  /** The real path of its folder; null where it is broken. */
  readonly folder: string | null;
  /** Of its SKILL.md; null where that cannot be read. */
  readonly text: string | null;
  /** Why it is broken. */
  readonly failed: string | null;
  /** Whether a model may load it by itself. */
  readonly forModels: boolean;
  readonly disabledBy: 'settings' | SkillSwitchScope | null;
}

/** A file beside the instructions. */
export interface FoundSkillFile {
  readonly path: string;
  readonly size: number;
  readonly executable: boolean;
}
