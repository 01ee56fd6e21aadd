/** What the runtime asks of whoever keeps skills that lie in no folder of the project: whose they are is the keeper's matter. */

/** A skill that is kept, as it lies in a folder of its own. */
export interface KeptSkill {
  readonly id: string;
  /** The real path of its folder, which bears its name; nothing but the keeper writes there. */
  readonly folder: string;
  /** Whether somebody has created it here, or it was taken from a git repository. */
  readonly source: 'user' | 'repository';
}

/** Who has disabled a name. */
export type SkillSwitchScope = 'organization' | 'workspace' | 'user';

/** What is kept for somebody's runs in a workspace. */
export interface KeptSkills {
  /** They count before every file; of two with one name the later. */
  readonly skills: readonly KeptSkill[];
  /** The names that are not to be offered, each with the farthest scope that has said so. */
  readonly disabled: ReadonlyMap<string, SkillSwitchScope>;
}

export interface SkillKeeper {
  /** Asked at each step: the folders are there when it resolves. */
  forRuns(asker: {
    readonly userId: string;
    readonly workspaceId: string;
    readonly bound?: boolean | undefined;
  }): Promise<KeptSkills>;
  /** Whether a skill lies there as it was laid out once, of whomever: nobody finds such a path without having been told. */
  isKept(folder: string): Promise<boolean>;
}
