/** What somebody says of one model of a provider setting: a change of the setting like any other. */
import type { CustomModelWrite } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { SettingContent, StoredSetting } from './stored.ts';
import { changeSetting } from './written.ts';

/** As the contract has it for the setting as a whole. */
const mostModels = 200;

/** Throws `invalid_request` or `too_many_settings`. */
export async function withCustomModel(
  parts: ProviderSettingsParts,
  stored: StoredSetting,
  id: string,
  model: CustomModelWrite,
): Promise<SettingContent> {
  const models = stored.entry.models ?? [];
  const written = { ...model, id };
  const there = models.some((one) => one.id === id);
  if (!there && models.length >= mostModels)
    throw new Problem(
      'too_many_settings',
      `The setting describes ${mostModels} models already; take back what was said of one that is not needed.`,
    );
  const changed = there ? models.map((one) => (one.id === id ? written : one)) : [...models, written];
  return await changeSetting(parts, stored, { models: changed });
}

/** Throws `invalid_request`, or `not_found` where nothing was said of it. */
export async function withoutCustomModel(
  parts: ProviderSettingsParts,
  stored: StoredSetting,
  id: string,
): Promise<SettingContent> {
  const models = stored.entry.models ?? [];
  const left = models.filter((one) => one.id !== id);
  if (left.length === models.length)
    throw new Problem('not_found', 'The setting does not describe such a model.');
  return await changeSetting(parts, stored, { models: left });
}
