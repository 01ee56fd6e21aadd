/** The settings of people: finds service.json, reads it, and says what stands in it and what is wrong with it. */
export { dataDirectory } from './data-directory.ts';
export { type Diagnostic, formatDiagnostic, type Place, SettingsError } from './diagnostic.ts';
export type { SettingChange } from './edit-setting.ts';
export {
  type Explanation,
  explainSetting,
  type FlatSetting,
  flattenSettings,
  type SettingMention,
} from './explain.ts';
export { withLock } from './file-lock.ts';
export { operatorGuidance, personalGuidance } from './guidance-places.ts';
export { followSettings } from './live-settings.ts';
export { loadSettings } from './load.ts';
export type {
  IgnoredSection,
  LiveSettings,
  LoadedSettings,
  Origin,
  SettingsLayer,
  SettingsPlaces,
} from './loaded-settings.ts';
export { knownDataFolder, localDataFolder, makeDataFolder } from './local-data.ts';
export { maskSecrets } from './mask-secrets.ts';
export { discoverLocalProviders, expandSetting, reviewLayer, setSetting, unsetSetting } from './on-demand.ts';
export { findPlaces, globalPlaces } from './places.ts';
export { pointerKeys } from './pointer.ts';
export type { ListedProvider } from './provider-list.ts';
export type { ProviderCandidate } from './providers.ts';
export {
  checkModels,
  checkTemplates,
  followProviders,
  listProviders,
  resolveProviders,
} from './providers-on-demand.ts';
export { checkFile } from './read-layers.ts';
export { replaceFile } from './replace-file.ts';
export type { ResolvedSettings } from './resolved-settings.ts';
export {
  isLoopback,
  localServerSettings,
  readServerSettings,
  type ServerSettings,
  ServerSettingsError,
} from './server-settings.ts';
export { listKeys, pointerToKey } from './setting-keys.ts';
export type { Review } from './trust-review.ts';
export {
  readTrust,
  recordTrust,
  revokeTrust,
  type TrustEntry,
  TrustStoreError,
} from './trust-store.ts';
export { withoutSecrets } from './url-secrets.ts';
