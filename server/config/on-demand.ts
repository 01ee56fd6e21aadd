/** What few callers of this folder need, loaded when one of them calls: each file read costs every start of the command. */
import type { fetchCatalog as FetchCatalog } from './catalogs/fetch-catalog.ts';
import type { patchSettings as PatchSettings } from './editing/edit-patch.ts';
import type { setSetting as SetSetting, unsetSetting as UnsetSetting } from './editing/edit-setting.ts';
import type { discoverLocalProviders as DiscoverLocalProviders } from './providers/local-providers.ts';
import type { expandSetting as ExpandSetting } from './templates/expand-setting.ts';
import type { reviewLayer as ReviewLayer } from './trust/trust-review.ts';

/** Sets one setting. Throws SettingsError, and writes nothing, where the file would not be right afterwards. */
export const setSetting: typeof SetSetting = async (...given) =>
  (await import('./editing/edit-setting.ts')).setSetting(...given);

/** Removes one setting, and the objects that would be left empty. Throws SettingsError where the file does not have it. */
export const unsetSetting: typeof UnsetSetting = async (...given) =>
  (await import('./editing/edit-setting.ts')).unsetSetting(...given);

/** Asks both servers at once. Whichever is not there, slow, or without models is left out. */
export const discoverLocalProviders: typeof DiscoverLocalProviders = async (...given) =>
  (await import('./providers/local-providers.ts')).discoverLocalProviders(...given);

/** Null where the URL still has the version that is known already. Throws CatalogError. */
export const fetchCatalog: typeof FetchCatalog = async (...given) =>
  (await import('./catalogs/fetch-catalog.ts')).fetchCatalog(...given);

/** What the person is asked to trust in this file. `previous` is the text of the review that was trusted last. */
export const reviewLayer: typeof ReviewLayer = async (...given) =>
  (await import('./trust/trust-review.ts')).reviewLayer(...given);

/** One entry of the settings with its variables and commands replaced. Throws ExpansionError, which never shows a value. */
export const expandSetting: typeof ExpandSetting = async (...given) =>
  (await import('./templates/expand-setting.ts')).expandSetting(...given);

/** Merges a JSON merge patch into the workspace file. Throws SettingsError or RestrictedSettings, and writes nothing then. */
export const patchSettings: typeof PatchSettings = async (...given) =>
  (await import('./editing/edit-patch.ts')).patchSettings(...given);
