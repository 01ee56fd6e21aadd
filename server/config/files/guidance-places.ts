/** Where the guidance for agents lies that belongs to no project: the person's at a terminal, the operator's on a server. */
import { join } from 'node:path';
import { type Environment, personalFolder } from './places.ts';

/** Files and folders that need not be there. */
export interface GuidancePlaces {
  readonly contextFiles: readonly string[];
  /** The nearer to the person's own settings, the later: of two skills with one name the last counts. */
  readonly skillFolders: readonly string[];
}

/** What lies beside the global service.json, and the skills of a folder that may be elsewhere. */
export function operatorGuidance(globalFolder: string, skillsFolder: string): GuidancePlaces {
  return { contextFiles: [join(globalFolder, 'SERVICE.md')], skillFolders: [skillsFolder] };
}

/** Also what a person keeps for agents of every make. `SERVICE_SKILLS_DIR` names another folder of their own skills. */
export function personalGuidance(
  environment: Environment,
  homeDirectory: string,
  globalFolder: string,
): GuidancePlaces {
  const own = operatorGuidance(globalFolder, environment.SERVICE_SKILLS_DIR || join(globalFolder, 'skills'));
  const below = (named: string | undefined, folder: string, ...names: readonly string[]) => {
    const found = personalFolder(named, homeDirectory, folder);
    return found === null ? [] : [join(found, ...names)];
  };
  const { XDG_CONFIG_HOME: settings } = environment;
  return {
    contextFiles: [...below(settings, '.config', 'AGENTS.md'), ...own.contextFiles],
    skillFolders: [
      ...below(undefined, '.claude', 'skills'),
      ...below(undefined, '.agents', 'skills'),
      ...below(settings, '.config', 'agents', 'skills'),
      ...own.skillFolders,
    ],
  };
}
