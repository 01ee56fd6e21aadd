/** Vectors of texts through each vendor's client, over HTTP. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { Problem } from '../../problem.ts';
import type { SpentByCall } from '../transcript.ts';
import { createEmbeddings, type EmbeddingWanted } from './embeddings.ts';
import { asked, definitionOf, operatorFetch, providerTypes, type TestedType } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const makers = providerTypes.filter((type) => type !== 'anthropic');
const texts = ['heat transfer of a wing', 'heat transfer of a cone', 'the price of cheese'];

function openFor(type: TestedType, wanted: Partial<EmbeddingWanted> = {}) {
  const embeddings = createEmbeddings({
    definitions: [definitionOf(type, upstream)],
    timeouts: { silenceMs: 5000 },
    fetch: operatorFetch,
  });
  const spent: SpentByCall[] = [];
  const model = embeddings.find({ provider: type, model: 'vectors-1', dimensions: null, ...wanted });
  return {
    spent,
    ask: (some: readonly string[]) =>
      model.ask(some, {
        signal: AbortSignal.timeout(5000),
        spent: async (spending) => void spent.push(spending),
      }),
  };
}

describe.each(makers)('%s', (type) => {
  test('gives a vector for each text in their order, and tells what was used', async () => {
    await upstream.script([
      { when: { task: 'embedding', model: 'vectors-1' }, reply: { usage: { input: 21 } } },
    ]);
    const { ask, spent } = openFor(type);
    const [one = [], two = [], other = []] = await ask(texts);
    expect([one.length, two.length, other.length]).toEqual([64, 64, 64]);
    expect(cosine(one, two)).toBeGreaterThan(cosine(one, other) + 0.1);
    // Gemini counts nothing here.
    const input_tokens = type === 'gemini' ? 0 : 21;
    expect(spent).toEqual([
      {
        model: `${type}:vectors-1`,
        usage: { input_tokens, output_tokens: 0, cached_input_tokens: 0 },
        cost: null,
      },
    ]);
    expect(await ask([texts[2] ?? ''])).toEqual([other]);
    const [request] = (await asked(upstream)).slice(-1);
    expect(request?.headers).toMatchObject({ 'x-team': 'blue' });
  });

  test('makes vectors as long as is wanted', async () => {
    await upstream.script([{ when: { task: 'embedding' }, reply: {} }]);
    const [vector] = await openFor(type, { dimensions: 16 }).ask(texts);
    expect(vector).toHaveLength(16);
  });

  test('says what a failure means', async () => {
    await upstream.script([{ when: { task: 'embedding' }, fail: { kind: 'status', status: 429 } }]);
    await expect(openFor(type).ask(texts)).rejects.toMatchObject({ code: 'provider_rate_limited' });
    await upstream.script([{ when: { task: 'embedding' }, fail: { kind: 'status', status: 401 } }]);
    await expect(openFor(type).ask(texts)).rejects.toMatchObject({ code: 'provider_refused' });
    await upstream.script([{ when: { task: 'embedding' }, fail: { kind: 'wrong_json' } }]);
    await expect(openFor(type).ask(texts)).rejects.toBeInstanceOf(Problem);
  });
});

test('anthropic has no such models, and what is no provider has none either', () => {
  expect(() => openFor('anthropic')).toThrow(
    expect.objectContaining({
      code: 'embedder_unsuited',
      message: expect.stringContaining(
        'type anthropic, whose vendor has no models that turn texts into vectors',
      ),
    }),
  );
  expect(() => openFor('openai', { provider: 'gone' })).toThrow(
    expect.objectContaining({ code: 'embedder_unsuited', message: expect.stringContaining('are: openai.') }),
  );
});

function cosine(one: readonly number[], other: readonly number[]): number {
  const dot = (left: readonly number[], right: readonly number[]) =>
    left.reduce((sum, value, at) => sum + value * (right[at] ?? 0), 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}
