/** Looks whether the models of the settings can be asked. */
import type { ClientConfig } from '../contract/config.ts';
import { builtInProviders } from './built-in-providers.ts';
import type { Diagnostic } from './diagnostic.ts';
import { nearest } from './nearest.ts';
import type { ProviderCandidate } from './providers.ts';

/** A warning for each model of the settings that cannot be asked: its provider cannot, or has no such model. */
export function checkModels(config: ClientConfig, candidates: readonly ProviderCandidate[]): Diagnostic[] {
  return (['large', 'small'] as const).flatMap((kind) => {
    const chosen = config.models?.[kind];
    if (!chosen) return [];
    const provider = candidates.find(({ id }) => id === chosen.provider);
    if (!provider) return [unusable(kind, candidates, remedyFor(chosen.provider, config))];
    const models = provider.models.map(({ id }) => id);
    return provider.onlyListed && !models.includes(chosen.model) ? [unknown(kind, chosen.model, models)] : [];
  });
}

/** What the provider lacks: what is wrong with one that the settings name is told of itself. */
function remedyFor(id: string, { providers = {}, options = {} }: ClientConfig): string {
  if (Object.hasOwn(providers, id)) return 'Mend the provider, or name another.';
  const builtIn = options.disable_default_providers ? undefined : builtInProviders.get(id);
  return builtIn
    ? `Set ${builtIn.keyVariable}, or name another provider.`
    : 'Add the provider to providers, or name another.';
}

function unusable(kind: string, candidates: readonly ProviderCandidate[], remedy: string): Diagnostic {
  const ids = candidates.map(({ id }) => id).join(', ');
  return {
    severity: 'warning',
    place: null,
    pointer: `/models/${kind}/provider`,
    message: 'This provider cannot be used, so the model has no effect',
    expected: ids ? `one of ${ids}` : null,
    remedy,
  };
}

function unknown(kind: string, model: string, models: readonly string[]): Diagnostic {
  const meant = nearest(model, models);
  return {
    severity: 'warning',
    place: null,
    pointer: `/models/${kind}/model`,
    message: `The provider has no such model, so its first one is asked: ${models[0]}`,
    expected: `one of ${models.join(', ')}`,
    remedy: meant
      ? `Did you mean ${JSON.stringify(meant)}?`
      : 'Name one of them, or add it to the models of the provider.',
  };
}
