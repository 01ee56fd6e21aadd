/** The settings of people: finds service.json, reads it, and says what stands in it and what is wrong with it. */

export {
  type Catalog,
  CatalogError,
  catalogLimits,
  emptyCatalog,
  joinCatalogs,
  withCatalog,
  withDiscovered,
} from './catalogs/catalog.ts';
export { type Diagnostic, formatDiagnostic, type Place, SettingsError } from './diagnostic.ts';
export type { PatchedFile } from './editing/edit-patch.ts';
export type { SettingChange } from './editing/edit-setting.ts';
export {
  type Explanation,
  explainSetting,
  type FlatSetting,
  flattenSettings,
  type SettingMention,
} from './explain.ts';
export { dataDirectory } from './files/data-directory.ts';
export { withLock } from './files/file-lock.ts';
export { operatorGuidance, personalGuidance } from './files/guidance-places.ts';
export { knownDataFolder, localDataFolder, makeDataFolder } from './files/local-data.ts';
export { findPlaces, globalPlaces, homeDirectory, workspacePlaces } from './files/places.ts';
export { closeToOthers } from './files/private-folder.ts';
export { replaceFile } from './files/replace-file.ts';
export { hasSchema, schemaBeside } from './files/schema-copy.ts';
export { followSettings } from './live-settings.ts';
export { loadSettings, loadUsable } from './load.ts';
export type {
  IgnoredSection,
  LiveSettings,
  LoadedSettings,
  Origin,
  SettingsLayer,
  SettingsPlaces,
} from './loaded-settings.ts';
export { isLoopback } from './loopback.ts';
export { maskSecrets } from './mask-secrets.ts';
export {
  discoverLocalProviders,
  expandSetting,
  fetchCatalog,
  patchSettings,
  reviewLayer,
  setSetting,
  unsetSetting,
} from './on-demand.ts';
export { pointerKeys } from './pointer.ts';
export type { ListedProvider } from './providers/provider-list.ts';
export type { LiteralProvider, ProviderCandidate } from './providers/providers.ts';
export {
  checkModels,
  checkTemplates,
  followProviders,
  listProviders,
  resolveLiteral,
  resolveProviders,
} from './providers/providers-on-demand.ts';
export {
  askTokenEndpoint,
  revokeToken,
  secureUrl,
  type TokenAnswer,
  TokenEndpointError,
} from './providers/token-endpoint.ts';
export { checkFile } from './read-layers.ts';
export type { ResolvedSettings } from './resolved-settings.ts';
export { RestrictedSettings } from './restricted-settings.ts';
export { needsTrustAt } from './schema-marks.ts';
export { listKeys, pointerToKey } from './setting-keys.ts';
export type { Review } from './trust/trust-review.ts';
export {
  readTrust,
  recordTrust,
  revokeTrust,
  type Trust,
  type TrustEntry,
  TrustStoreError,
} from './trust/trust-store.ts';
export { hidesSecret, withoutSecrets } from './url-secrets.ts';
