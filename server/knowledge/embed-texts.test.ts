/** What an embedder is asked where it refuses a text. */
import { expect, test } from 'vitest';
import { Problem } from '../problem.ts';
import { embedTexts } from './embed-texts.ts';
import { createProviderEmbedder } from './provider-embedder.ts';

test('what one request has answered is not asked for again where the next is refused', async () => {
  const asked: string[] = [];
  const embedder = createProviderEmbedder({
    choice: {
      identity: 'x',
      providerSettingId: null,
      provider: 'p',
      model: 'm',
      dimensions: 2,
      asksDimensions: false,
    },
    batchSize: 4,
    model: {
      name: 'p/m',
      async ask(texts) {
        asked.push(...texts);
        if (texts.includes('text 31')) throw new Problem('provider_request_refused', 'Not that one.');
        return texts.map(() => [1, 0]);
      },
    },
  });
  const texts = Array.from({ length: 32 }, (_, at) => `text ${at}`);
  const vectors = await embedTexts(embedder, texts, AbortSignal.timeout(60_000));
  expect(vectors.map((vector) => vector !== null)).toEqual(texts.map((text) => text !== 'text 31'));
  for (const text of texts.slice(0, 28)) expect(asked.filter((one) => one === text)).toHaveLength(1);
});
