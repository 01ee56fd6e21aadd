/** Skills: found in folders, the service's own among them, named to the model, loaded when it asks for one. */
import type { Extension, ExtensionParts, ExtensionPlace, ExtensionState } from '../extension.ts';
import { liesWithin } from '../guidance/project-folders.ts';
import { findSkills, isWhole } from './find-skills.ts';
import type { ReadSkill, Skill } from './skill.ts';
import { skillTool } from './skill-tool.ts';

/** More than these nobody chooses from. */
const maxListed = 200;

/** Builds the extension. It looks anew each time: a skill that is put there counts from the next step on. */
export function createSkills({ first, skillFolders }: ExtensionParts): Extension {
  let { config, shared } = first;
  const seen = new Map<string, readonly ReadSkill[]>();
  const disabled = () => config.options?.disabled_skills ?? [];
  const find = async ({ workspacePath }: ExtensionPlace) => {
    const named = config.options?.skills_paths ?? [];
    const skills = await findSkills({ workspacePath, shared, personal: skillFolders, named });
    seen.set(workspacePath, skills);
    return skills;
  };
  const usable = (skills: readonly ReadSkill[]): readonly Skill[] =>
    skills.filter(isWhole).filter(({ name, forModels }) => forModels && !disabled().includes(name));
  return {
    name: 'skills',
    async apply(settings) {
      ({ config, shared } = settings);
    },
    async tools(place) {
      const skills = usable(await find(place));
      return skills.length > 0 ? [skillTool(skills)] : [];
    },
    async instructions(place) {
      return render(usable(await find(place)).slice(0, maxListed));
    },
    readableFolders({ workspacePath }) {
      const folders = usable(seen.get(workspacePath) ?? []).map(({ folder }) => folder);
      return folders.filter((folder) => !liesWithin(workspacePath, folder));
    },
    states: ({ workspacePath }) => (seen.get(workspacePath) ?? []).map((skill) => stateOf(skill, disabled())),
    async close() {
      seen.clear();
    },
  };
}

function render(skills: readonly Skill[]): string {
  if (skills.length === 0) return '';
  const lines = skills.map(({ name, description }) => `- ${name}: ${description.replaceAll(/\s+/g, ' ')}`);
  return ['Skills you can load with the tool skill, each before work of its kind:', ...lines].join('\n');
}

function stateOf(skill: ReadSkill, disabled: readonly string[]): ExtensionState {
  const { name, source } = skill;
  const off = (detail: string) => ({ name, source, state: 'disabled', detail }) as const;
  if (!isWhole(skill)) return { name, source, state: 'failed', detail: skill.failed };
  if (disabled.includes(name)) return off('options.disabled_skills names it');
  if (!skill.forModels) return off('only people may use it');
  return { name, source, state: 'ready', detail: null };
}
