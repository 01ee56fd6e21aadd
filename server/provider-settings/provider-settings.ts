/** The model providers that people and admins keep on the server: how they are written, shown, and used. The face of this folder. */
import type { ProviderSetting, ProviderSettingCreate, ProviderSettingUpdate } from '../contract/api.ts';
import { type ProvidersForQueries, providersForQueries } from './for-runs.ts';
import type { ProviderSettingsParts } from './parts.ts';

export { createDefaultModels, type DefaultModels } from './default-models.ts';
export { createProviderOauths, type ProviderOauths } from './oauth.ts';

import { showSetting } from './shown.ts';
import type { SettingContent, StoredSetting } from './stored.ts';
import { changeSetting, writeSetting } from './written.ts';

export interface ProviderSettings extends ProvidersForQueries {
  /** What is to be stored of a new one. Throws `invalid_request`. */
  write(id: string, body: ProviderSettingCreate): Promise<SettingContent>;
  /** What is to be stored of one that a merge patch changes. Throws `invalid_request`. */
  change(stored: StoredSetting, patch: ProviderSettingUpdate): Promise<SettingContent>;
  /** Everything but its secrets. */
  show(stored: StoredSetting): Promise<ProviderSetting>;
}

export function createProviderSettings(parts: ProviderSettingsParts): ProviderSettings {
  return {
    write: (id, body) => writeSetting(parts, id, body),
    change: (stored, patch) => changeSetting(parts, stored, patch),
    show: (stored) => showSetting(parts, stored),
    ...providersForQueries(parts),
  };
}
