/** Skills: found in folders, the service's own among them, named to the model, loaded when it asks for one. */
import { keepNewest } from '../../keep-newest.ts';
import type { Extension, ExtensionParts, ExtensionPlace, ExtensionState } from '../extension.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { findSkills, isWhole } from './find-skills.ts';
import type { FoundSkill } from './found-skill.ts';
import type { ReadSkill, Skill } from './skill.ts';
import type { KeptSkills } from './skill-keeper.ts';
import { folderIn, skillTool } from './skill-tool.ts';

/** More than these nobody chooses from. */
const maxListed = 200;

/** What a look has found for one person in one workspace. */
interface Look {
  readonly skills: readonly ReadSkill[];
  readonly disabled: KeptSkills['disabled'];
}

/** More looks than these are not remembered; whoever was forgotten has theirs again with the next step. */
const mostLooks = 1000;

const nothingKept: KeptSkills = { skills: [], disabled: new Map() };

/** Builds the extension. It looks anew each time: a skill that is put there counts from the next step on. */
export function createSkills({ first, skillFolders, skillKeeper }: ExtensionParts): Extension {
  let { config, shared } = first;
  const looks = new Map<string, Look>();
  const offBySettings = () => config.options?.disabled_skills ?? [];
  const look = async (place: ExtensionPlace): Promise<Look> => {
    const named = config.options?.skills_paths ?? [];
    const { workspacePath, asker } = place;
    const kept = asker && skillKeeper ? await skillKeeper.forRuns(asker) : nothingKept;
    const skills = await findSkills({ workspacePath, shared, personal: skillFolders, named, kept });
    const found = { skills, disabled: kept.disabled };
    keepNewest(looks, keyOf(place), found, mostLooks);
    return found;
  };
  const lookedAt = (place: ExtensionPlace) => looks.get(keyOf(place)) ?? { skills: [], disabled: new Map() };
  const disabledBy = (name: string, { disabled }: Look) =>
    offBySettings().includes(name) ? ('settings' as const) : (disabled.get(name) ?? null);
  const usable = (found: Look): readonly Skill[] =>
    found.skills
      .filter(isWhole)
      .filter(({ name, forModels }) => forModels && disabledBy(name, found) === null);
  return {
    name: 'skills',
    async apply(settings) {
      ({ config, shared } = settings);
    },
    async tools(place) {
      const skills = usable(await look(place));
      return skills.length > 0 ? [skillTool(skills)] : [];
    },
    async instructions(place) {
      return render(usable(await look(place)).slice(0, maxListed));
    },
    readableFolders(place) {
      // Each is an argument of the sandbox, of which there are only so many; others are read once they are loaded.
      const named = usable(lookedAt(place)).slice(0, maxListed);
      const folders = named.map(({ folder }) => folder);
      return folders.filter((folder) => !liesWithin(place.workspacePath, folder));
    },
    async readableByResults(results) {
      const folders = results.map(folderIn).filter((folder) => folder !== null);
      const kept = await Promise.all(folders.map(async (folder) => await skillKeeper?.isKept(folder)));
      return folders.filter((_, at) => kept[at]);
    },
    states(place) {
      const found = lookedAt(place);
      return found.skills.map((skill) => stateOf(skill, disabledBy(skill.name, found)));
    },
    async skills(place) {
      const found = await look(place);
      return found.skills.map((skill) => listed(skill, disabledBy(skill.name, found)));
    },
    async close() {
      looks.clear();
    },
  };
}

/** Two people in one folder may have different skills. */
function keyOf({ workspacePath, asker }: ExtensionPlace): string {
  return JSON.stringify([workspacePath, asker?.userId, asker?.workspaceId, asker?.bound]);
}

function listed(skill: ReadSkill, disabledBy: FoundSkill['disabledBy']): FoundSkill {
  const { name, source, id = null } = skill;
  const common = { name, source, id, disabledBy };
  if (!isWhole(skill))
    return {
      ...{ ...common, description: null, folder: null, forModels: false },
      failed: skill.failed,
      text: skill.text ?? null,
    };
  const { description, folder, text, forModels } = skill;
  return { ...common, description, folder, text, failed: null, forModels };
}

function render(skills: readonly Skill[]): string {
  if (skills.length === 0) return '';
  const lines = skills.map(({ name, description }) => `- ${name}: ${description.replaceAll(/\s+/g, ' ')}`);
  return ['Skills you can load with the tool skill, each before work of its kind:', ...lines].join('\n');
}

const reasons = {
  settings: 'options.disabled_skills names it',
  organization: 'the organization has disabled it',
  workspace: 'the workspace has disabled it',
  user: 'you have disabled it',
} as const;

function stateOf(skill: ReadSkill, disabledBy: FoundSkill['disabledBy']): ExtensionState {
  const { name, source } = skill;
  const off = (detail: string) => ({ name, source, state: 'disabled', detail }) as const;
  if (!isWhole(skill)) return { name, source, state: 'failed', detail: skill.failed };
  if (disabledBy !== null) return off(reasons[disabledBy]);
  if (!skill.forModels) return off('only people may use it');
  return { name, source, state: 'ready', detail: null };
}
