/** Where the guidance for agents lies that belongs to no project: the person's at a terminal, the operator's on a server. */
import { join } from 'node:path';
import { type Environment, personalFolder } from './places.ts';

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
