/** Where the command works: its folder, and the settings that count there. */
import { lstat } from 'node:fs/promises';
import type { LoadedSettings, SettingsPlaces } from '../../server/config/config.ts';
import { CommandFailure, exitCodes } from './failures.ts';
import { homeFolder } from './home-folder.ts';

let named: string | null = null;

/** `-C`: from here on the folder is the current one, for everything that the command does. */
export function enterFolder(folder: string | undefined): void {
  if (folder === undefined) return;
  try {
    process.chdir(folder);
    process.env.PWD = process.cwd();
    named = folder;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // chdir throws nothing else
    throw new CommandFailure(
      `The folder ${folder} cannot be entered (${code}). Name one that is there.`,
      exitCodes.usage,
    );
  }
}

/** The folder as `-C` named it; null where the command works in the one that it was called in. */
export function namedFolder(): string | null {
  return named;
}

/** Where the settings files of the current folder are. */
export async function currentPlaces(): Promise<SettingsPlaces> {
  const { findPlaces } = await import('../../server/config/config.ts');
  return await findPlaces(currentFolder(), process.env, homeFolder());
}

function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    throw new CommandFailure(
      'The current folder is gone. Go to one that is there, or name one with -C.',
      exitCodes.usage,
    );
  }
}

/** The settings as they count in the current folder. Throws SettingsError with every error of every file. */
export async function currentSettings(): Promise<LoadedSettings> {
  const { loadSettings } = await import('../../server/config/config.ts');
  return await loadSettings(await currentPlaces());
}

/** Every place of a settings file with its scope, from the farthest to the nearest. */
export function placesOfFiles({ globalFile, projectFiles, workspaceFile }: SettingsPlaces) {
  return [
    { scope: 'global', file: globalFile },
    ...projectFiles.map((file) => ({ scope: 'project', file })),
    ...(workspaceFile === null ? [] : [{ scope: 'workspace', file: workspaceFile }]),
  ];
}

/** Whether a settings file is there; a folder of that name is none. */
export async function isThere(file: string): Promise<boolean> {
  return await lstat(file).then(
    (facts) => !facts.isDirectory(),
    () => false, // Whatever stands in the way, reading it says so.
  );
}
