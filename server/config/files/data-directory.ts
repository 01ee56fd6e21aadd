/** Where the data of a project is: the sessions of `service run`, its files and its log. */
import { join, resolve } from 'node:path';
import type { LoadedSettings } from '../loaded-settings.ts';

/**
 * The data directory, absolute. Unless somebody says otherwise it belongs to the project, wherever in it the command
 * is started; a relative path that somebody wrote starts at the working directory, as the reference has it.
 */
export function dataDirectory({ places, config }: Pick<LoadedSettings, 'places' | 'config'>): string {
  const written = config.options?.data_directory;
  return written === undefined
    ? join(places.projectRoot, '.service')
    : resolve(places.workingDirectory, written);
}
