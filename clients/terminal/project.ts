/** The settings of the folder that a command runs an agent in, and what of them is trusted. */
import type { LiveSettings, LoadedSettings } from '../../server/config/config.ts';
import { canAsk } from './ask.ts';
import { CommandFailure, exitCodes } from './failures.ts';
import { currentPlaces } from './places.ts';
import { describeIgnored, noticeSettings } from './settings-notices.ts';

/** The folder with its settings, which follow their files until they are closed. */
export interface Project {
  readonly loaded: LoadedSettings;
  readonly settings: LiveSettings;
}

/** Reads the settings, without a word about what is odd in them. */
export async function openProject(): Promise<Project> {
  const { followSettings } = await import('../../server/config/config.ts');
  const settings = await followSettings(await currentPlaces());
  return { settings, loaded: await settings.current() };
}

/** What a run does about what is odd in its settings. */
export interface ProjectWishes {
  /** Ends the command instead of leaving out what is not trusted. */
  readonly trustRequired: boolean;
  /** Says nothing that is no failure. */
  readonly quiet: boolean;
}

/**
 * Reads the settings for a run: says what is odd in them, and lets the person at the terminal trust what is not trusted
 * yet. Elsewhere what is left out is said, and the run goes on without.
 */
export async function openProjectForRun({ trustRequired, quiet }: ProjectWishes): Promise<Project> {
  let project = await openProject();
  const asks = !trustRequired && !quiet && canAsk();
  if (project.loaded.ignored.length > 0 && asks) project = await askForTrust(project);
  const { ignored } = project.loaded;
  if (trustRequired && ignored.length > 0) {
    project.settings.close();
    throw new CommandFailure(
      `Nothing was run.\n${ignored.map(describeIgnored).join('\n')}`,
      exitCodes.untrusted,
    );
  }
  if (!quiet) noticeSettings(project.loaded);
  return project;
}

/** What is trusted now counts: the files are read anew. */
async function askForTrust(project: Project): Promise<Project> {
  const { offerTrust } = await import('./commands/trust.ts');
  project.settings.close();
  await offerTrust(project.loaded.places);
  return await openProject();
}
