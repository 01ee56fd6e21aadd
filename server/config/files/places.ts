/** Where settings files are. Whether they are there is for the reader to find out. */
import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { SettingsError } from '../diagnostic.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';
import { findGitRoot } from './git-root.ts';

/** Variables of the process, as far as they say where files are. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The home of this person; empty where the machine knows none. */
export function homeDirectory(): string {
  try {
    return homedir();
  } catch {
    return ''; // Without HOME, a user who is in no list of users.
  }
}

/**
 * The places of one working directory: the person's own, and those of the project around it. Throws SettingsError
 * where the working directory is gone, or no one folder holds the person's own settings.
 */
export async function findPlaces(
  workingDirectory: string,
  environment: Environment,
  homeDirectory: string,
): Promise<SettingsPlaces> {
  refuseRelative(environment, 'SERVICE_GLOBAL_CONFIG');
  refuseRelative(environment, 'SERVICE_SKILLS_DIR');
  const here = await realDirectory(resolve(workingDirectory));
  const projectRoot = (await findGitRoot(here)) ?? here;
  return {
    ...personalPlaces(environment, homeDirectory),
    workingDirectory: here,
    projectRoot,
    projectFiles: foldersBetween(projectRoot, here).flatMap((folder) => [
      join(folder, 'service.json'),
      join(folder, '.service.json'),
    ]),
    workspaceFile: join(projectRoot, '.service', 'service.json'),
  };
}

/** The places of the person alone, for what belongs to no project. */
export function globalPlaces(environment: Environment, homeDirectory: string): SettingsPlaces {
  return {
    ...personalPlaces(environment, homeDirectory),
    workingDirectory: homeDirectory,
    projectRoot: homeDirectory,
    projectFiles: [],
    workspaceFile: null,
  };
}

/**
 * The places of a workspace of a server: nothing above its folder is looked at. `dataDirectory` is where the server
 * keeps what is its own.
 */
export function workspacePlaces(
  folder: string,
  { globalConfigDirectory, dataDirectory }: { globalConfigDirectory: string; dataDirectory: string },
): SettingsPlaces {
  return {
    workingDirectory: folder,
    projectRoot: folder,
    globalFile: join(globalConfigDirectory, 'service.json'),
    projectFiles: [join(folder, 'service.json'), join(folder, '.service.json')],
    workspaceFile: join(folder, '.service', 'service.json'),
    dataHome: dataDirectory,
  };
}

function personalPlaces(
  environment: Environment,
  home: string,
): Pick<SettingsPlaces, 'globalFile' | 'dataHome'> {
  const { XDG_DATA_HOME: named } = environment;
  return {
    globalFile: globalSettingsFile(environment, home),
    dataHome: join(
      personalFolder(named, home, '.local', 'share') ?? refuseHome(environment, home),
      'service',
    ),
  };
}

/** The person's own settings, for every project. */
function globalSettingsFile(environment: Environment, home: string): string {
  const { SERVICE_GLOBAL_CONFIG: named, XDG_CONFIG_HOME: configured } = environment;
  if (named) return resolve(named, 'service.json');
  const folder = personalFolder(configured, home, '.config') ?? refuseHome(environment, home);
  return join(folder, 'service', 'service.json');
}

/**
 * The folder that a variable names, else the usual one below the home; null where neither is a place of its own. The XDG
 * specification has relative paths ignored.
 */
export function personalFolder(
  named: string | undefined,
  home: string,
  ...below: readonly string[]
): string | null {
  if (named && isAbsolute(named)) return named;
  return isAbsolute(home) ? join(home, ...below) : null;
}

/** As for a folder that is named so: what a project has there would count as the person's own. */
function refuseHome({ HOME: named }: Environment, home: string): never {
  const what = named === undefined && !home ? 'not set' : JSON.stringify(home);
  throw refusal(`HOME is ${what}, and your own settings are kept below it`, 'Set it to an absolute path.');
}

/** A folder of the person's own would be another one in each project, and the project's to fill. */
function refuseRelative(environment: Environment, variable: string): void {
  const { [variable]: named } = environment;
  if (!named || isAbsolute(named)) return;
  throw refusal(
    `${variable} is ${JSON.stringify(named)}, which is another folder in each project`,
    'Set it to an absolute path.',
  );
}

async function realDirectory(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // realpath rejects with nothing else
    throw refusal(
      `The working directory ${folder} cannot be used (${code})`,
      'Go to a folder that is there.',
    );
  }
}

function refusal(message: string, remedy: string): SettingsError {
  return new SettingsError([
    { severity: 'error', place: null, pointer: '', message, expected: null, remedy },
  ]);
}

/** From the root down to the folder, both included. */
function foldersBetween(root: string, folder: string): string[] {
  const steps = relative(root, folder).split(sep).filter(Boolean);
  return [root, ...steps.map((_, index) => join(root, ...steps.slice(0, index + 1)))];
}
