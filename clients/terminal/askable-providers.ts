/** The providers that a run in this place finds, and what answers where it finds none. */
import type { LoadedSettings, ProviderCandidate } from '../../server/config/config.ts';

/** How long model servers on this machine may take to say that they are there; the agent gives them as long. */
const discoveryMs = 500;

/** The built-in demonstration, under the names that the agent knows it by. */
export const demonstration = {
  provider: 'demo',
  modelId: 'demo-1',
  name: 'The built-in demonstration',
} as const;

/** What a person is told where it answers. */
export const noProvider = {
  message:
    'No model provider can be asked, so that the built-in demonstration answers: a script, and no model.',
  remedy: 'Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or add a provider to "providers" in service.json.',
} as const;

/** In order of preference: those of the settings and the environment, then servers on this machine. No command of a template is run. */
export async function findProviders(
  config: LoadedSettings['config'],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<readonly ProviderCandidate[]> {
  const { discoverLocalProviders, resolveProviders } = await import('../../server/config/config.ts');
  const [{ candidates }, discovered] = await Promise.all([
    resolveProviders(config, environment),
    discoverLocalProviders(fetch, discoveryMs),
  ]);
  const known = new Set(candidates.map(({ id }) => id));
  return [...candidates, ...discovered.filter(({ id }) => !known.has(id))];
}
