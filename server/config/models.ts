/** Looks whether the models of the settings can be asked. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import type { ProviderCandidate } from './providers.ts';

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
