/** What is known of models: of vendors by the list that is part of the program, of the rest by the settings. */
import { expect, test } from 'vitest';
import type { ProviderModel } from '../../contract/config.ts';
import type { TokenCount } from '../models/model.ts';
import { modelFacts } from './catalogue.ts';

const million = 1_000_000;

function facts(id: string, modelId: string, settings?: Omit<ProviderModel, 'id'>, flatRate = false) {
  const models = settings ? [{ id: modelId, settings: { id: modelId, ...settings } }] : [];
  return modelFacts({ id, models, flatRate }, modelId);
}

function count(input: number, output: number, read = 0, written = 0): TokenCount {
  return {
    input_tokens: input,
    output_tokens: output,
    cached_input_tokens: read,
    cacheWriteTokens: written,
  };
}

test('the models of vendors have their windows and prices without a word in the settings', async () => {
  const sonnet = await facts('anthropic', 'claude-sonnet-4-20250514');
  expect(sonnet.contextWindow).toBe(200_000);
  expect(sonnet.price(count(million, 0))).toBe(3);
  expect(sonnet.price(count(0, million))).toBe(15);
  expect(sonnet.price(count(million, 0, million))).toBe(0.3);
  expect(sonnet.price(count(million, 0, 0, million))).toBe(3.75);
  expect(sonnet.price(count(0, 0))).toBe(0);
  const gpt = await facts('openai', 'gpt-5.2');
  expect(gpt.contextWindow).toBe(400_000);
  expect(gpt.price(count(1000, 100))).toBe(0.00315);
});

test('the models that are asked where none is chosen have a price and a window', async () => {
  for (const [provider, model] of [
    ['openai', 'gpt-5.2'],
    ['anthropic', 'claude-sonnet-5'],
    ['gemini', 'gemini-3.8-flash'],
    ['vertexai', 'gemini-3.8-flash'],
  ] as const) {
    const { contextWindow, price } = await facts(provider, model);
    expect(contextWindow).toBeGreaterThan(100_000);
    expect(price(count(1000, 1000))).toBeGreaterThan(0);
  }
});

test('long prompts cost more where their vendor wants more for them', async () => {
  const { price } = await facts('google', 'gemini-2.5-pro');
  expect(price(count(100_000, 0))).toBe(0.125);
  expect(price(count(300_000, 0))).toBe(0.75);
});

test.each([
  ['house', 'claude-sonnet-4-20250514'],
  ['my-anthropic', 'claude-sonnet-4-20250514'],
  ['anthropic', 'no-such-model'],
])('nothing is known of %s:%s: not by a name that is like a vendor’s', async (provider, model) => {
  const { contextWindow, maxOutputTokens, price } = await facts(provider, model);
  expect({ contextWindow, maxOutputTokens }).toEqual({ contextWindow: null, maxOutputTokens: null });
  expect(price(count(1, 1))).toBeNull();
});

test('what the settings say counts before the list, price by price', async () => {
  const model = 'claude-sonnet-4-20250514';
  const own = await facts('anthropic', model, {
    context_window: 50_000,
    cost_per_1m_out: 1,
    default_max_tokens: 4096,
  });
  expect(own).toMatchObject({ contextWindow: 50_000, maxOutputTokens: 4096 });
  expect(own.price(count(million, million))).toBe(4);
  const cheap = await facts('anthropic', model, { cost_per_1m_in: 1 });
  // A price of the list for cached tokens would be of another price for the rest.
  expect(cheap.price(count(million, 0, million))).toBe(1);
  const free = await facts('anthropic', model, { cost_per_1m_in: 0, cost_per_1m_out: 0 });
  expect(free.price(count(million, million))).toBe(0);
  const unsaid = await facts('anthropic', model, { context_window: 0, default_max_tokens: 0 });
  expect(unsaid).toMatchObject({ contextWindow: 200_000, maxOutputTokens: null });
});

test('a price that the settings leave out is that of a short call, though the list has another for long ones', async () => {
  const half = await facts('gemini', 'gemini-2.5-pro', { cost_per_1m_out: 10 });
  expect(half.price(count(10_000, 0))).toBe(0.0125);
});

test('what stays in the cache for an hour, and searches of the web, cost what the list says', async () => {
  const { price } = await facts('anthropic', 'claude-sonnet-4-20250514');
  const written = count(100_000, 0, 0, 100_000);
  expect(price(written)).toBe(0.375);
  expect(price({ ...written, longCacheWriteTokens: 100_000 })).toBe(0.6);
  expect(price({ ...count(0, 0), webSearches: 100 })).toBe(1);
  const own = await facts('anthropic', 'claude-sonnet-4-20250514', { cost_per_1m_in: 1 });
  expect(own.price({ ...written, longCacheWriteTokens: 100_000, webSearches: 100 })).toBe(0.1 + 1);
});

test('a price that the settings leave out is unknown only where it is needed', async () => {
  const { price } = await facts('house', 'big', { cost_per_1m_in: 2 });
  expect(price(count(million, 0, 500_000, 100_000))).toBe(2);
  expect(price(count(million, 1))).toBeNull();
});

test('`providers.*.models[].cost_per_1m_in_cached` is the price of what is written to the cache', async () => {
  const { price } = await facts('house', 'big', {
    cost_per_1m_in: 2,
    cost_per_1m_out: 8,
    cost_per_1m_in_cached: 2.5,
  });
  expect(price(count(million, 0, 0, 400_000))).toBe(1.2 + 1);
});

test('prices are whole billionths of a dollar', async () => {
  const { price } = await facts('house', 'big', { cost_per_1m_in: 0.1, cost_per_1m_out: 0.3 });
  for (const tokens of [1, 3, 7, 333, 12_345]) {
    const cost = price(count(tokens, tokens)) ?? Number.NaN;
    expect(cost).toBe(Math.round(cost * 1e9) / 1e9);
  }
});

test('a flat rate makes each call free, known or not', async () => {
  expect((await facts('house', 'big', undefined, true)).price(count(million, million))).toBe(0);
  expect((await facts('openai', 'gpt-5.2', undefined, true)).price(count(million, million))).toBe(0);
});
