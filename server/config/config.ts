/** The settings of people: finds service.json, reads it, and says what stands in it and what is wrong with it. */
import { readFile } from 'node:fs/promises';
import type { ClientConfig } from '../contract/config.ts';
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import { globalSettingsFile } from './find.ts';
import { parseSettings } from './parse.ts';

export { dataDirectory } from './data-directory.ts';
export { type Diagnostic, formatDiagnostic, SettingsError } from './diagnostic.ts';
export {
  type SettingChange,
  type SettingEdit,
  type SettingValue,
  setSetting,
  unsetSetting,
} from './edit-setting.ts';
export type { LiveSettings } from './loaded-settings.ts';
export { discoverLocalProviders } from './local-providers.ts';
export { writeProjectIgnore } from './project-ignore.ts';
export type { ProviderCandidate } from './providers.ts';
export { followProviders, type ResolvedSettings } from './resolved-settings.ts';
export {
  isLoopback,
  localServerSettings,
  readServerSettings,
  type ServerSettings,
  ServerSettingsError,
} from './server-settings.ts';
export { type Review, type ReviewSection, reviewLayer } from './trust-review.ts';
export {
  readTrust,
  recordTrust,
  revokeTrust,
  type Trust,
  type TrustEntry,
  type TrustedFile,
  TrustStoreError,
} from './trust-store.ts';

/** The global settings and where they were found. */
export interface LoadedSettings {
  readonly config: ClientConfig;
  /** Null where there is no file. */
  readonly file: string | null;
  /** Warnings only: with an error nothing is loaded. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads the global settings, once. Throws SettingsError with everything that keeps them from being used. */
export async function loadGlobalConfig(
  environment: NodeJS.ProcessEnv,
  homeDirectory: string,
): Promise<LoadedSettings> {
  const file = globalSettingsFile(environment, homeDirectory);
  const bytes = await readIfThere(file);
  if (!bytes) return { config: {}, file: null, diagnostics: [] };
  const { config, diagnostics } = parseSettings(bytes, file);
  if (!config) throw new SettingsError(diagnostics);
  return { config, file, diagnostics };
}

async function readIfThere(file: string): Promise<Uint8Array | null> {
  try {
    return await readFile(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // readFile rejects with nothing else
    if (code === 'ENOENT') return null;
    throw new SettingsError([unreadable(file, code)]);
  }
}

function unreadable(file: string, code: string): Diagnostic {
  const remedy =
    code === 'ENOTDIR'
      ? 'Let SERVICE_GLOBAL_CONFIG name the folder that holds service.json, not the file.'
      : 'Let it be a file that this user may read, or remove it.';
  const place = { file, line: 1, column: 1 };
  return {
    severity: 'error',
    place,
    pointer: '',
    message: `The file cannot be read (${code})`,
    expected: null,
    remedy,
  };
}
