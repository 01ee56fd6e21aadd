/** Answers that break off, and what they have used: it is counted, for the model that was asked. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';

let upstream: Upstream;
let app: TestApp;

beforeAll(async () => {
  upstream = await startUpstream();
  const models = ['big', 'small'].map((id) => ({ id, cost_per_1m_in: 1, cost_per_1m_out: 1 }));
  const house = { type: 'anthropic' as const, base_url: `${upstream.url}/v1`, api_key: 'k', models };
  app = await testApp({
    config: {
      models: { large: { provider: 'house', model: 'big', fallbacks: ['house:small'] } },
      providers: { house },
      options: { limits: { max_attempts: 2 } },
    },
  });
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

/** The run of a query that has come to its end, and what the meter says of each model. */
async function asked({ token }: Account): Promise<{ readonly run: Json; readonly metered: Json[] }> {
  await untilFarFromMidnight(20_000);
  const { body } = await app.request('POST', '/api/v1/query', { token, body: { prompt: 'Go.' } });
  const run = (await app.request('GET', `/api/v1/runs/${body.run_id}`, { token })).body;
  const usage = await app.request('GET', '/api/v1/usage?group_by=model', { token });
  return { run, metered: usage.body.data };
}

test('what a provider says at the beginning that it has read counts where nothing follows', async () => {
  const usage = { input: 500, cached: 200, output: 5 };
  await upstream.script(
    [
      { times: 1, reply: { text: 'Lost.', usage }, fail: { kind: 'cut', after_chunks: 1 } },
      { reply: { text: 'Done.', usage } },
    ],
    ['big', 'small'],
  );
  const { run, metered } = await asked(await app.register('bob'));
  const twice = { input_tokens: 1000, cached_input_tokens: 400, output_tokens: 5 };
  expect(run).toMatchObject({ status: 'completed', steps: 1, usage: twice });
  expect(metered).toMatchObject([{ model: 'house:big', usage: twice, cost: run.cost }]);
});

test('arguments that break off in the answer of a fallback are metered as its own', async () => {
  const call = { name: 'glob', arguments: { pattern: 'x'.repeat(200) } };
  await upstream.script(
    [
      { when: { model: '^big' }, fail: { kind: 'status', status: 401 } },
      { times: 1, reply: { tool_calls: [call] }, fail: { kind: 'cut', after_chunks: 8 } },
      { reply: { text: 'Done.', usage: { input: 100, output: 5 } } },
    ],
    ['big', 'small'],
  );
  const { run, metered } = await asked(await app.register('ada'));
  expect(run).toMatchObject({ status: 'completed', steps: 1 });
  // More than the answer that came to its end.
  expect(run.usage.output_tokens).toBeGreaterThan(5);
  const ofModel = (name: string) => metered.find(({ model }) => model === name);
  expect(ofModel('house:big')).toMatchObject({ requests: 1, usage: { input_tokens: 0, output_tokens: 0 } });
  expect(ofModel('house:small')).toMatchObject({ usage: run.usage, cost: run.cost });
});

test('what a model wrote before a fallback took its place has its own price, and the run a cost', async () => {
  const usage = { input: 500, output: 5 };
  await upstream.script(
    [
      { when: { model: '^big' }, reply: { text: 'Lost.', usage }, fail: { kind: 'cut', after_chunks: 1 } },
      { reply: { text: 'Done.', usage } },
    ],
    ['big', 'small'],
  );
  const { run, metered } = await asked(await app.register('eve'));
  expect(run).toMatchObject({ status: 'completed', cost: expect.any(Number) });
  const costs = metered.map(({ model, cost }) => [model, cost > 0]).toSorted();
  expect(costs).toEqual([
    ['house:big', true],
    ['house:small', true],
  ]);
  expect(metered.reduce((sum, { cost }) => sum + cost, 0)).toBeCloseTo(run.cost, 9);
});
