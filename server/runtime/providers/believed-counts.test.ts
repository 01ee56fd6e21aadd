/** What embedding and reranking models say they have read, which may be anything: as much of it counts as can be true. */
import { expect, test } from 'vitest';
import { serveAnswers } from '../../outbound/test-server.ts';
import type { MediaCall } from '../models/media.ts';
import type { SpentByCall } from '../transcript.ts';
import { createEmbeddings } from './embeddings.ts';
import { createRerankings } from './reranking.ts';
import { operatorFetch } from './test-providers.ts';

const counts: readonly [said: number, believed: number][] = [
  [21, 21],
  [7.4, 7],
  [-1_000_000, 0],
  [1e30, 0],
];

/** What a call has used of a server that says it was so much. */
async function used(
  said: number,
  ask: (options: Parameters<typeof createRerankings>[0], call: MediaCall) => Promise<unknown>,
) {
  const { url } = await serveAnswers((_asked, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const data = [{ index: 0, embedding: [1, 2] }];
    const results = [{ index: 0, relevance_score: 1 }];
    const usage = { prompt_tokens: said, total_tokens: said };
    response.end(JSON.stringify({ data, results, usage }));
  });
  const settings = { id: 'm', cost_per_1m_in: 1, cost_per_1m_out: 1 };
  const spent: SpentByCall[] = [];
  await ask(
    {
      definitions: [
        {
          ...{ id: 'theirs', type: 'openai-compat', models: [{ id: 'm', settings }] },
          connect: async () => ({ baseUrl: `${url}/v1` }),
        },
      ],
      timeouts: { silenceMs: 5000 },
      fetch: operatorFetch,
    },
    { signal: AbortSignal.timeout(5000), spent: async (spending) => void spent.push(spending) },
  );
  return spent.map(({ usage, cost }) => ({ tokens: usage.input_tokens, cost }));
}

const expected = (tokens: number) => [{ tokens, cost: tokens === 0 ? null : tokens / 1_000_000 }];

test.each(counts)('%d tokens of a text that became a vector are %d', async (said, believed) => {
  const spent = await used(said, (options, call) =>
    createEmbeddings(options).find({ provider: 'theirs', model: 'm', dimensions: null }).ask(['x'], call),
  );
  expect(spent).toEqual(expected(believed));
});

test.each(counts)('%d tokens of texts that were put into order are %d', async (said, believed) => {
  const spent = await used(said, (options, call) =>
    createRerankings(options)
      .find('theirs:m')
      .ask({ query: 'x', texts: ['x'] }, call),
  );
  expect(spent).toEqual(expected(believed));
});
