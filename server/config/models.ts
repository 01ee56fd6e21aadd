/** Chooses the model that a name, or no name, means. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import type { ProviderCandidate } from './providers.ts';

/** A model of a provider that can be used. */
export interface ModelChoice {
  readonly provider: ProviderCandidate;
  readonly modelId: string;
  /** `<provider>:<model_id>` */
  readonly name: string;
}

/**
 * The model of that name; without a name, the large model of the settings, else the default of the first provider
 * that has one. Null where there is none. A name splits at its first colon only after a known provider: model ids
 * have colons too.
 */
export function chooseModel(
  config: ClientConfig,
  candidates: readonly ProviderCandidate[],
  requested?: string,
): ModelChoice | null {
  if (requested !== undefined) return namedModel(requested, candidates);
  const large = config.models?.large;
  const provider = candidates.find(({ id }) => id === large?.provider);
  if (large && provider) return choice(provider, large.model);
  return firstDefault(candidates);
}

/** A warning for each model of the settings whose provider is not among those that can be used. */
export function checkModels(config: ClientConfig, candidates: readonly ProviderCandidate[]): Diagnostic[] {
  return (['large', 'small'] as const).flatMap((kind) => {
    const provider = config.models?.[kind]?.provider;
    if (provider === undefined || candidates.some(({ id }) => id === provider)) return [];
    const ids = candidates.map(({ id }) => id).join(', ');
    return [
      {
        severity: 'warning',
        place: null,
        pointer: `/models/${kind}/provider`,
        message: 'This provider cannot be used, so the model has no effect',
        expected: ids ? `one of ${ids}` : null,
        remedy: 'Add the provider to providers, or name another.',
      },
    ];
  });
}

function namedModel(name: string, candidates: readonly ProviderCandidate[]): ModelChoice | null {
  const colon = name.indexOf(':');
  const provider = candidates.find(({ id }) => id === name.slice(0, Math.max(0, colon)));
  if (provider) return colon < name.length - 1 ? choice(provider, name.slice(colon + 1)) : null;
  const listing = candidates.find(({ models }) => models.some(({ id }) => id === name));
  return listing ? choice(listing, name) : null;
}

function firstDefault(candidates: readonly ProviderCandidate[]): ModelChoice | null {
  for (const provider of candidates) {
    const [model] = provider.models;
    if (model) return choice(provider, model.id);
  }
  return null;
}

function choice(provider: ProviderCandidate, modelId: string): ModelChoice {
  return { provider, modelId, name: `${provider.id}:${modelId}` };
}
