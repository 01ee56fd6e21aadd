/** Skills that lie in no folder of a project: checked when they come in, and laid out for the runs that have them. */
import type { Log } from '../log.ts';
import type { KeptSkill, KeptSkills, SkillKeeper } from '../runtime/runtime.ts';
import type { SkillsForRuns, Store, StoredSkill } from '../store/store.ts';
import { type CheckedSkill, checkUpload } from './check-skill.ts';
import { shownFault } from './shown-fault.ts';
import { createSkillFolders, OtherFiles } from './skill-folders.ts';

export {
  openSkillRepositories,
  repositoryLimits,
  type SkillRepositoryBook,
} from './skill-repositories.ts';

export interface SkillBook extends SkillKeeper {
  /** All that is wrong with the text of a SKILL.md or a zip archive, or the skill that it is. */
  check(bytes: Uint8Array): CheckedSkill;
  /** Removes what was laid out and nobody has any more; answers with how many. */
  sweep(now: Date): Promise<number>;
}

export interface SkillBookParts {
  readonly store: Pick<Store, 'skills' | 'keptRequests'>;
  /** Where skills are laid out. */
  readonly directory: string;
  readonly log: Log;
}

export function openSkillBook({ store, directory, log }: SkillBookParts): SkillBook {
  const folders = createSkillFolders(directory, log);
  // What has not changed is asked for at each step, and lies where it lay.
  const laidOut = new WeakMap<object, Promise<KeptSkills>>();
  const lay = async ({ id, name, digest, source }: StoredSkill): Promise<KeptSkill[]> => {
    try {
      // Those who wait for a connection have to read the files first.
      const alone = store.keptRequests.holds();
      const folder = await folders.lay({ name, digest, files: () => store.skills.files(id), alone });
      return [{ id, source, folder }];
    } catch (error) {
      // A change meanwhile is no fault; of damaged rows the message says what to do.
      if (error instanceof OtherFiles) log.warn({ skill: id }, error.message);
      else log.error({ err: error, skill: id }, 'a skill could not be laid out: runs do without it');
      return [];
    }
  };
  const layAll = async ({ skills, disabled }: SkillsForRuns): Promise<KeptSkills> => ({
    skills: (await Promise.all(skills.map(lay))).flat(),
    disabled,
  });
  return {
    check(bytes) {
      const checked = checkUpload(bytes);
      return { ...checked, faults: checked.faults.map(shownFault) };
    },
    async forRuns(asker) {
      const counting = await store.skills.forRuns(asker);
      const laying = laidOut.get(counting) ?? layAll(counting);
      laidOut.set(counting, laying);
      return laying;
    },
    isKept: (folder) => folders.isLaid(folder),
    sweep: (now) => folders.sweep(now, (digest) => store.skills.hasDigest(digest)),
  };
}
