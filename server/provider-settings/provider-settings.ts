/** The model providers that people and admins keep on the server: how they are written, shown, and used. The face of this folder. */
import type {
  CustomModelWrite,
  ProviderSetting,
  ProviderSettingCreate,
  ProviderSettingUpdate,
} from '../contract/api.ts';
import { type ProvidersForQueries, providersForQueries } from './for-runs.ts';
import type { ProviderSettingsParts } from './parts.ts';

export { createProviderAsking, type ProviderAsking } from './asking.ts';
export { createDefaultModels, type DefaultModels } from './default-models.ts';
export { createProviderOauths, type ProviderOauths } from './oauth.ts';

import { withCustomModel, withoutCustomModel } from './custom-models.ts';
import { type KnownModels, knownModels, type VendorKnowledge } from './known-models.ts';
import { showSetting } from './shown.ts';
import type { SettingContent, StoredSetting } from './stored.ts';
import { changeSetting, writeSetting } from './written.ts';

/** What is known of the models of a setting, and what somebody says of one. */
export interface ProviderSettings extends ProvidersForQueries {
  /** What is to be stored of a new one. Throws `invalid_request`. */
  write(id: string, body: ProviderSettingCreate): Promise<SettingContent>;
  /** What is to be stored of one that a merge patch changes. Throws `invalid_request`. */
  change(stored: StoredSetting, patch: ProviderSettingUpdate): Promise<SettingContent>;
  /** What is to be stored of one that describes a model, or describes it otherwise. Throws `invalid_request` or `too_many_settings`. */
  describe(stored: StoredSetting, modelId: string, model: CustomModelWrite): Promise<SettingContent>;
  /** What is to be stored of one that describes it no longer. Throws `invalid_request` or `not_found`. */
  undescribe(stored: StoredSetting, modelId: string): Promise<SettingContent>;
  models(stored: StoredSetting): Promise<KnownModels>;
  /** Everything but its secrets. */
  show(stored: StoredSetting): Promise<ProviderSetting>;
}

export function createProviderSettings(
  parts: ProviderSettingsParts,
  knowledge: VendorKnowledge,
): ProviderSettings {
  return {
    write: (id, body) => writeSetting(parts, id, body),
    change: (stored, patch) => changeSetting(parts, stored, patch),
    describe: (stored, modelId, model) => withCustomModel(parts, stored, modelId, model),
    undescribe: (stored, modelId) => withoutCustomModel(parts, stored, modelId),
    models: (stored) => knownModels(parts, knowledge, stored),
    show: (stored) => showSetting(parts, stored),
    ...providersForQueries(parts),
  };
}
