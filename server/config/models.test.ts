/** What is said of models that cannot be asked. */
import { expect, test } from 'vitest';
import type { ClientConfig } from '../contract/config.ts';
import { checkModels } from './models.ts';
import type { ProviderCandidate } from './providers.ts';

function provider(id: string, ...models: string[]): ProviderCandidate {
  const listed = models.map((model) => ({ id: model, name: model }));
  return { id, name: id, type: 'openai-compat', connect: () => ({}), models: listed, origin: 'settings' };
}

const candidates = [
  provider('bare'),
  provider('ollama', 'qwen3:8b', 'llama4'),
  provider('openai', 'gpt-5.2', 'llama4'),
];
const large = (providerId: string): ClientConfig => ({
  models: { large: { provider: providerId, model: 'chosen' } },
});

test('a model whose provider cannot be used is warned of', () => {
  expect(checkModels(large('openai'), candidates)).toEqual([]);
  expect(checkModels({}, candidates)).toEqual([]);
  expect(checkModels(large('gone'), candidates)).toMatchObject([
    { severity: 'warning', pointer: '/models/large/provider', expected: 'one of bare, ollama, openai' },
  ]);
});
