/** What the provider of a setting has listed of its models: read as if anything could stand there. */
import type { ProviderModel } from '../contract/config.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** As many models of one provider are kept; the largest known gateway lists some hundreds. */
const mostModels = 2000;

/** The models that are listed at another address are not those of this setting. */
export function placeOf({ entry }: Pick<StoredSetting, 'entry'>): string {
  return `${entry.type ?? ''} ${entry.base_url ?? ''}`;
}

/** Never throws for what is stored. */
export async function discoveredModels(
  { discoveries, log }: Pick<ProviderSettingsParts, 'discoveries' | 'log'>,
  stored: Pick<StoredSetting, 'id' | 'entry' | 'discoveredMark'>,
): Promise<readonly ProviderModel[]> {
  if (stored.discoveredMark === null) return [];
  const found = await discoveries.find(stored.id);
  if (found?.place !== placeOf(stored)) return [];
  try {
    return readableModels(JSON.parse(found.models ?? '[]'));
  } catch (error) {
    log.warn(
      { err: error, provider_setting_id: stored.id },
      'the models that a provider listed cannot be read; refresh them',
    );
    return [];
  }
}

/** Of a list that came from somewhere else what can be one of our models; the first of two with one id. */
export function readableModels(list: unknown): readonly ProviderModel[] {
  if (!Array.isArray(list)) return [];
  const models = new Map<string, ProviderModel>();
  for (const entry of list) {
    const model = modelIn(entry);
    if (model && !models.has(model.id) && models.size < mostModels) models.set(model.id, model);
  }
  return [...models.values()];
}

const controls = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u;

function modelIn(entry: unknown): ProviderModel | null {
  if (typeof entry !== 'object' || entry === null) return null;
  const { id, name, context_window, default_max_tokens } = entry as Record<string, unknown>;
  if (!isLine(id)) return null;
  return {
    id,
    ...(isLine(name) && { name }),
    ...(isCount(context_window) && { context_window }),
    ...(isCount(default_max_tokens) && { default_max_tokens }),
  };
}

function isLine(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 200 && !controls.test(value);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 1_000_000_000;
}
