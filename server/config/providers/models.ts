/** Looks whether the models of the settings can be asked. */
import type { ClientConfig } from '../../contract/config.ts';
import type { Diagnostic } from '../diagnostic.ts';
import { nearest } from '../nearest.ts';
import { builtInProviders } from './built-in-providers.ts';
import type { ProviderCandidate } from './providers.ts';

/** A warning for each model of the settings that cannot be asked: its provider cannot, or has no such model. */
export function checkModels(config: ClientConfig, candidates: readonly ProviderCandidate[]): Diagnostic[] {
  return (['large', 'small'] as const).flatMap((kind) => {
    const chosen = config.models?.[kind];
    if (!chosen) return [];
    const standIns = (chosen.fallbacks ?? []).map((name, index) => {
      const colon = name.indexOf(':');
      const place = `/models/${kind}/fallbacks/${index}`;
      return {
        provider: name.slice(0, colon),
        model: name.slice(colon + 1),
        places: { provider: place, model: place },
      };
    });
    const places = { provider: `/models/${kind}/provider`, model: `/models/${kind}/model` };
    return [{ ...chosen, places }, ...standIns].flatMap((named) => check(named, config, candidates));
  });
}

/** A model as the settings name it, and where they do. */
interface NamedModel {
  readonly provider: string;
  readonly model: string;
  readonly places: { readonly provider: string; readonly model: string };
}

function check(
  { provider: id, model, places }: NamedModel,
  config: ClientConfig,
  candidates: readonly ProviderCandidate[],
): Diagnostic[] {
  const provider = candidates.find((candidate) => candidate.id === id);
  if (!provider) return [unusable(places.provider, candidates, remedyFor(id, config))];
  const models = provider.models.map((known) => known.id);
  return provider.onlyListed && !models.includes(model) ? [unknown(places.model, model, models)] : [];
}

/** What the provider lacks: what is wrong with one that the settings name is told of itself. */
function remedyFor(id: string, { providers = {}, options = {} }: ClientConfig): string {
  if (Object.hasOwn(providers, id)) return 'Mend the provider, or name another.';
  const builtIn = options.disable_default_providers ? undefined : builtInProviders.get(id);
  return builtIn
    ? `Set ${[builtIn.keyVariable, ...builtIn.needs].join(' and ')}, or name another provider.`
    : 'Add the provider to providers, or name another.';
}

function unusable(pointer: string, candidates: readonly ProviderCandidate[], remedy: string): Diagnostic {
  const ids = candidates.map(({ id }) => id).join(', ');
  return {
    severity: 'warning',
    place: null,
    pointer,
    message: 'This provider cannot be used, so the model has no effect',
    expected: ids ? `one of ${ids}` : null,
    remedy,
  };
}

function unknown(pointer: string, model: string, models: readonly string[]): Diagnostic {
  const meant = nearest(model, models);
  return {
    severity: 'warning',
    place: null,
    pointer,
    message: `The provider has no such model, so its first one is asked: ${models[0]}`,
    expected: `one of ${models.join(', ')}`,
    remedy: meant
      ? `Did you mean ${JSON.stringify(meant)}?`
      : 'Name one of them, or add it to the models of the provider.',
  };
}
