/** Which settings files and folders count, for the server and for a command that has it inside. */
import { dirname, join } from 'node:path';
import {
  findPlaces,
  followSettings,
  formatDiagnostic,
  globalPlaces,
  homeDirectory,
  type LiveSettings,
  operatorGuidance,
  personalGuidance,
  type SettingsPlaces,
  workspacePlaces,
} from '../config/config.ts';
import type { Store } from '../store/store.ts';
import { workspaceFolders } from '../workspaces.ts';
import type { ServicesInput } from './input.ts';

/** `serve` reads the global file alone, and takes up what changes in it. */
export async function followGlobalSettings({
  settings,
  environment,
  log,
}: ServicesInput): Promise<LiveSettings> {
  const place = { ...environment, SERVICE_GLOBAL_CONFIG: settings.globalConfigDirectory };
  const followed = await followSettings(globalPlaces(place, homeDirectory()));
  followed.onChange((_loaded, problems) => {
    if (problems.length === 0) log.info('the settings have changed, and count as they are now');
    for (const problem of problems)
      log.error(`the settings go on as they were: ${formatDiagnostic(problem)}`);
  });
  return followed;
}

/** A person's own guidance counts in their own command alone, never for those who share a server. */
export function guidanceOf({ settings, environment, project }: ServicesInput) {
  const folder = project
    ? dirname(globalPlaces(environment, homeDirectory()).globalFile)
    : settings.globalConfigDirectory;
  const guidance = project
    ? personalGuidance(environment, homeDirectory(), folder)
    : operatorGuidance(folder, settings.skillsDirectory);
  return { ...guidance, agentsDirectory: join(folder, 'agents') };
}

export function foldersOf({ settings, project, log }: ServicesInput, store: Store, keyDirectory: string) {
  const { workspacesDirectory, workspaceRoots, dataDirectory, globalConfigDirectory } = settings;
  const rules = {
    workspacesDirectory,
    projectFolder: project?.folder ?? null,
    roots: workspaceRoots,
    ownFolders: [dataDirectory, workspacesDirectory, globalConfigDirectory, keyDirectory],
  };
  const pathOf = async (workspaceId: string) => (await store.workspaces.terms(workspaceId))?.path ?? null;
  const exists = async (workspaceId: string) => (await store.workspaces.terms(workspaceId)) !== null;
  return workspaceFolders(rules, { pathOf, exists, forget: store.deletedWorkspaces.forget }, log);
}

/** The settings files of a workspace. In the command they are those that the command itself reads. */
export async function placesOf(
  { settings, environment, project }: ServicesInput,
  folder: string,
): Promise<SettingsPlaces> {
  if (!project) return workspacePlaces(folder, settings);
  return { ...(await findPlaces(folder, environment, homeDirectory())), dataHome: project.keyDirectory };
}
