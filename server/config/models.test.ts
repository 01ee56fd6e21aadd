/** Which model a name, or no name, means. */
import { describe, expect, test } from 'vitest';
import type { ClientConfig } from '../contract/config.ts';
import { checkModels, chooseModel } from './models.ts';
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

describe('with a name', () => {
  test.each([
    ['openai:gpt-5.2', 'openai:gpt-5.2'],
    ['openai:not-listed', 'openai:not-listed'],
    ['ollama:qwen3:8b', 'ollama:qwen3:8b'],
    ['bare:anything', 'bare:anything'],
    ['qwen3:8b', 'ollama:qwen3:8b'],
    ['gpt-5.2', 'openai:gpt-5.2'],
    ['llama4', 'ollama:llama4'],
  ])('%s means %s', (name, meant) => {
    expect(chooseModel(large('openai'), candidates, name)?.name).toBe(meant);
  });

  test.each(['nowhere:model', 'unlisted', 'openai:', ':gpt-5.2', '', ':'])('%j means nothing', (name) => {
    expect(chooseModel(large('openai'), candidates, name)).toBeNull();
  });
});

describe('without a name', () => {
  test('the large model of the settings is meant', () => {
    const chosen = chooseModel(large('openai'), candidates);
    expect(chosen).toMatchObject({ name: 'openai:chosen', modelId: 'chosen', provider: { id: 'openai' } });
  });

  test('else the default of the first provider that has one', () => {
    expect(chooseModel({}, candidates)?.name).toBe('ollama:qwen3:8b');
    expect(chooseModel(large('gone'), candidates)?.name).toBe('ollama:qwen3:8b');
  });

  test('nothing is meant where there is no model', () => {
    expect(chooseModel({}, [])).toBeNull();
    expect(chooseModel({}, [provider('bare')])).toBeNull();
  });
});

test('a model whose provider cannot be used is warned of', () => {
  expect(checkModels(large('openai'), candidates)).toEqual([]);
  expect(checkModels({}, candidates)).toEqual([]);
  expect(checkModels(large('gone'), candidates)).toMatchObject([
    { severity: 'warning', pointer: '/models/large/provider', expected: 'one of bare, ollama, openai' },
  ]);
});
