/** What is said of models that cannot be asked. */
import { expect, test } from 'vitest';
import type { ClientConfig } from '../../contract/config.ts';
import { checkModels } from './models.ts';
import type { ProviderCandidate } from './providers.ts';

function provider(id: string, ...models: string[]): ProviderCandidate {
  const listed = models.map((model) => ({ id: model, name: model }));
  const connect = async () => ({});
  return {
    id,
    name: id,
    type: 'openai-compat',
    connect,
    models: listed,
    onlyListed: listed.length > 0,
    origin: 'settings',
  };
}

const candidates = [
  provider('bare'),
  provider('ollama', 'qwen3:8b', 'llama4'),
  provider('openai', 'gpt-5.2', 'llama4'),
];
const large = (providerId: string): ClientConfig => ({
  models: { large: { provider: providerId, model: 'gpt-5.2' } },
});

test('a model whose provider cannot be used is warned of', () => {
  expect(checkModels(large('openai'), candidates)).toEqual([]);
  expect(checkModels({}, candidates)).toEqual([]);
  expect(checkModels(large('gone'), candidates)).toMatchObject([
    { severity: 'warning', pointer: '/models/large/provider', expected: 'one of bare, ollama, openai' },
  ]);
});

test('a model without its provider says what the provider lacks', () => {
  const remedies = [large('anthropic'), { ...large('gone'), providers: { gone: {} } }, large('gone')].map(
    (config) => checkModels(config, candidates)[0]?.remedy,
  );
  expect(remedies).toEqual([
    'Set ANTHROPIC_API_KEY, or name another provider.',
    'Mend the provider, or name another.',
    'Add the provider to providers, or name another.',
  ]);
});

test('a model that its provider does not have is warned of, with the nearest', () => {
  const config: ClientConfig = { models: { small: { provider: 'ollama', model: 'lama4' } } };
  expect(checkModels(config, candidates)).toMatchObject([
    {
      severity: 'warning',
      pointer: '/models/small/model',
      expected: 'one of qwen3:8b, llama4',
      remedy: 'Did you mean "llama4"?',
    },
  ]);
});

test('fallbacks that cannot be asked are warned of, each in its place', () => {
  const fallbacks = ['openai:gpt-5.2', 'gone:model', 'ollama:lama4', 'bare:any:thing'];
  const config: ClientConfig = { models: { large: { provider: 'openai', model: 'gpt-5.2', fallbacks } } };
  expect(checkModels(config, candidates)).toMatchObject([
    { severity: 'warning', pointer: '/models/large/fallbacks/1' },
    { severity: 'warning', pointer: '/models/large/fallbacks/2', remedy: 'Did you mean "llama4"?' },
  ]);
});
