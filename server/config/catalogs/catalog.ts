/** What catalogues know of models, put beside what the settings say of them. */
import type { CatalogModel } from '../../contract/api.ts';
import type { ProviderModel } from '../../contract/config.ts';
import type { OutboundLimits } from '../../outbound/outbound.ts';
import type { CandidateModel, ProviderCandidate } from '../providers/providers.ts';

/** What is known of models: by provider, then by model; of several entries for a model the one that counts most first. */
export type Catalog = ReadonlyMap<string, ReadonlyMap<string, readonly ProviderModel[]>>;

export const emptyCatalog: Catalog = new Map();

/** What one look at the URL of a catalogue may cost. */
export const catalogLimits: OutboundLimits = { maxBytes: 4 * 1024 * 1024, totalMs: 15_000 };

/** Why a URL gives no catalogue, in words for the operator that hold none of the other server's. */
export class CatalogError extends Error {}

/** One catalogue of several, of which a later one counts before an earlier one. */
export function joinCatalogs(catalogs: readonly (readonly CatalogModel[])[]): Catalog {
  const joined = new Map<string, Map<string, readonly ProviderModel[]>>();
  for (const models of catalogs) {
    for (const [provider, entries] of byProvider(models)) {
      const known = joined.get(provider) ?? new Map<string, readonly ProviderModel[]>();
      joined.set(provider, known);
      for (const [id, entry] of entries) known.set(id, [entry, ...(known.get(id) ?? [])]);
    }
  }
  return joined;
}

/** The last entry of a catalogue for a model is the one that counts. */
function byProvider(models: readonly CatalogModel[]): Map<string, Map<string, ProviderModel>> {
  const found = new Map<string, Map<string, ProviderModel>>();
  for (const { provider, ...model } of models) {
    const entries = found.get(provider) ?? new Map<string, ProviderModel>();
    found.set(provider, entries.set(model.id, model));
  }
  return found;
}

/** A provider as far as its models go. */
type WithModels = Pick<ProviderCandidate, 'id' | 'models' | 'onlyListed'>;

/** The provider, with what it lists itself after what it is said to have; catalogues count before what it says of them. */
export function withDiscovered<Provider extends WithModels>(
  provider: Provider,
  discovered: readonly ProviderModel[],
): Provider {
  if (discovered.length === 0) return provider;
  const byId = new Map(discovered.map((model) => [model.id, model]));
  const own = provider.models.map((model) => {
    const found = byId.get(model.id);
    return found ? { ...model, known: [...(model.known ?? []), found] } : model;
  });
  const listed = new Set(own.map(({ id }) => id));
  const more = discovered.filter(({ id }) => !listed.has(id));
  return {
    ...provider,
    models: [
      ...own,
      ...more.map((found) => ({ id: found.id, name: found.name ?? found.id, known: [found] })),
    ],
  };
}

/** The provider, with what is known of its models; those that only a catalogue knows come after its own. */
export function withCatalog<Provider extends WithModels>(provider: Provider, catalog: Catalog): Provider {
  const known = catalog.get(provider.id);
  if (!known) return provider;
  const own = provider.models.map((model) => described(model, known.get(model.id)));
  const listed = new Set(own.map(({ id }) => id));
  // Of a provider that is known to have no other models none is made up; what makes vectors, pictures or sound needs no name there.
  if (provider.onlyListed) return { ...provider, models: own, unlisted: known };
  const more = [...known].filter(([id]) => !listed.has(id));
  return {
    ...provider,
    models: [...own, ...more.map(([id, entries]) => described({ id, name: id }, entries))],
  };
}

function described(model: CandidateModel, known: readonly ProviderModel[] | undefined): CandidateModel {
  if (!known) return model;
  const first = <Key extends keyof ProviderModel>(key: Key) => known.find((entry) => entry[key])?.[key];
  const contextWindow = model.contextWindow ?? first('context_window');
  const maxOutputTokens = model.maxOutputTokens ?? first('default_max_tokens');
  return {
    ...model,
    name: model.settings?.name ?? first('name') ?? model.name,
    ...(contextWindow !== undefined && { contextWindow }),
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    known: [...known, ...(model.known ?? [])],
  };
}
