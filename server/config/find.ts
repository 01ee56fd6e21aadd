/** Where settings files are. */
import { isAbsolute, join, resolve } from 'node:path';
import type { Environment } from './variables.ts';

/** The person's own settings, for every project. Whether the file is there is for the reader to find out. */
export function globalSettingsFile(environment: Environment, homeDirectory: string): string {
  const named = environment.SERVICE_GLOBAL_CONFIG;
  if (named) return resolve(named, 'service.json');
  const configured = environment.XDG_CONFIG_HOME;
  // The XDG specification has relative paths ignored.
  const base = configured && isAbsolute(configured) ? configured : join(homeDirectory, '.config');
  return join(base, 'service', 'service.json');
}
