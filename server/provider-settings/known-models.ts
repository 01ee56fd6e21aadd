/** The models of a provider setting: those that it describes, that catalogues and the program know, that its provider lists. */
import { type ProviderCandidate, withCatalog, withDiscovered } from '../config/config.ts';
import type { KnownModel, KnownModelSource, ModelDiscovery } from '../contract/api.ts';
import type { ProviderModel } from '../contract/config.ts';
import { discoveredModels } from './discovered.ts';
import { openSetting } from './opened.ts';
import type { ProviderSettingsParts } from './parts.ts';
import type { StoredSetting } from './stored.ts';

/** As far as what is known of models needs it. */
export type ModelsOfProvider = Pick<ProviderCandidate, 'id' | 'models' | 'onlyListed' | 'flatRate'>;

/** What the program knows by itself, and how it puts everything together. */
export interface VendorKnowledge {
  vendorModels(providerId: string): Promise<readonly { readonly id: string; readonly name: string }[]>;
  describe(
    provider: ModelsOfProvider,
    modelId: string,
  ): Promise<{
    readonly settings: ProviderModel;
    readonly contextWindow: number | null;
    readonly maxOutputTokens: number | null;
    readonly rates: { readonly [Kind in 'in' | 'out' | 'written' | 'read']: number | null };
  }>;
}

/** A model, before what is known of it is looked up. */
export interface ModelSources {
  readonly id: string;
  readonly sources: KnownModelSource[];
}

export interface KnownModels {
  /** By their ids. */
  readonly all: readonly ModelSources[];
  describe(model: ModelSources): Promise<KnownModel>;
  /** What was last heard of the provider's own list. */
  readonly discovery: ModelDiscovery;
}

/** Also of a setting that cannot be used: what it lacks may be just what this shows. */
export async function knownModels(
  parts: ProviderSettingsParts,
  knowledge: VendorKnowledge,
  stored: StoredSetting,
): Promise<KnownModels> {
  const [discovered, catalog, found] = await Promise.all([
    discoveredModels(parts, stored),
    parts.catalog(),
    parts.discoveries.find(stored.id),
  ]);
  const { candidate } = await openSetting(parts, stored);
  const provider = candidate ?? withCatalog(withDiscovered(described(stored), discovered), catalog);
  const program = provider.onlyListed ? [] : await knowledge.vendorModels(provider.id);
  const listed = {
    custom: new Set((stored.entry.models ?? []).map(({ id }) => id)),
    catalog: new Set([...(catalog.get(provider.id)?.keys() ?? []), ...program.map(({ id }) => id)]),
    discovered: new Set(discovered.map(({ id }) => id)),
  } satisfies Record<KnownModelSource, ReadonlySet<string>>;
  const ids = [...new Set([...provider.models, ...program].map(({ id }) => id))].toSorted(byCode);
  const names = new Map(program.map(({ id, name }) => [id, name]));
  return {
    all: ids.map((id) => ({ id, sources: sourcesOf(id, listed) })),
    describe: (model) => shown(provider, knowledge, model, names),
    discovery: {
      refreshing: found?.refreshing ?? false,
      model_count: discovered.length,
      discovered_at: time(found?.discoveredAt),
      checked_at: time(found?.checkedAt),
      fault: found?.fault ?? null,
    },
  };
}

function described({ providerId, entry }: StoredSetting): ModelsOfProvider {
  const models = (entry.models ?? []).map((settings) => ({
    id: settings.id,
    name: settings.name ?? settings.id,
    settings,
  }));
  return {
    ...{ id: providerId, models },
    ...(models.length > 0 && { onlyListed: true }),
    ...(entry.flat_rate && { flatRate: true }),
  };
}

const sources: readonly KnownModelSource[] = ['custom', 'catalog', 'discovered'];

/** The model that is asked of a built-in provider where nobody names one is known by the program alone. */
function sourcesOf(
  id: string,
  listed: Readonly<Record<KnownModelSource, ReadonlySet<string>>>,
): KnownModelSource[] {
  const found = sources.filter((source) => listed[source].has(id));
  return found.length > 0 ? found : ['catalog'];
}

async function shown(
  provider: ModelsOfProvider,
  knowledge: VendorKnowledge,
  { id, sources: from }: ModelSources,
  names: ReadonlyMap<string, string>,
): Promise<KnownModel> {
  const { settings, contextWindow, maxOutputTokens, rates } = await knowledge.describe(provider, id);
  return {
    id,
    model: `${provider.id}:${id}`,
    name: settings.name ?? names.get(id) ?? id,
    sources: from,
    context_window: contextWindow,
    default_max_tokens: maxOutputTokens,
    cost_per_1m_in: rates.in,
    cost_per_1m_out: rates.out,
    cost_per_1m_in_cached: rates.written,
    cost_per_1m_out_cached: rates.read,
    can_reason: settings.can_reason ?? null,
    reasoning_levels: [...(settings.reasoning_levels ?? [])],
    default_reasoning_effort: settings.default_reasoning_effort ?? null,
    supports_attachments: settings.supports_attachments ?? null,
    options: settings.options ?? null,
  };
}

/** As cursors go on, whatever language somebody speaks. */
function byCode(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

function time(ms: number | null | undefined): string | null {
  return ms == null ? null : new Date(ms).toISOString();
}
