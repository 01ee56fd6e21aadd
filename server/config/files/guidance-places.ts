/** Where the guidance for agents lies that belongs to no project: the person's at a terminal, the operator's on a server. */
import { join } from 'node:path';
import { baseFolder, type Environment } from './places.ts';

/** Files and folders that need not be there. */
export interface GuidancePlaces {
  readonly contextFiles: readonly string[];
  /** The nearer to the person's own settings, the later: of two skills with one name the last counts. */
  readonly skillFolders: readonly string[];
}

/** Beside the global service.json. `SERVICE_SKILLS_DIR` names another folder of skills. */
export function operatorGuidance(environment: Environment, globalFolder: string): GuidancePlaces {
  return {
    contextFiles: [join(globalFolder, 'SERVICE.md')],
    skillFolders: [environment.SERVICE_SKILLS_DIR || join(globalFolder, 'skills')],
  };
}

/** Also what a person keeps for agents of every make. */
export function personalGuidance(
  environment: Environment,
  homeDirectory: string,
  globalFolder: string,
): GuidancePlaces {
  const own = operatorGuidance(environment, globalFolder);
  const settings = baseFolder(environment.XDG_CONFIG_HOME, join(homeDirectory, '.config'));
  return {
    contextFiles: [join(settings, 'AGENTS.md'), ...own.contextFiles],
    skillFolders: [
      join(homeDirectory, '.claude', 'skills'),
      join(homeDirectory, '.agents', 'skills'),
      join(settings, 'agents', 'skills'),
      ...own.skillFolders,
    ],
  };
}
