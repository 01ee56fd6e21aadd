/** Azure's addresses, as people have them from its portal and its documentation. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { answerOf, definitionOf, latestBody, openDefined, request } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

beforeEach(async () => {
  await upstream.script([{ reply: { text: 'Hello.' } }]);
});

const deployment = '/openai/deployments/scripted-1/chat/completions?api-version=2024-10-21';

test.each([
  ['', '/openai/v1/chat/completions'],
  ['/', '/openai/v1/chat/completions'],
  ['/openai', '/openai/v1/chat/completions'],
  ['/openai/v1/', '/openai/v1/chat/completions'],
  ['?api-version=2024-10-21', deployment],
  ['/openai/?api-version=2024-10-21', deployment],
  ['/openai/deployments/another/chat/completions?api-version=2024-10-21', deployment],
])('a base_url that ends in %j is asked at %s', async (end, path) => {
  const connect = async () => ({ baseUrl: upstream.url + end, apiKey: 'k' });
  await answerOf(openDefined(definitionOf('azure', upstream, { connect })), request('Hi'));
  expect((await upstream.latest(() => true)).path).toBe(path);
});

test('a deployment whose model reasons is asked as models are that do, whatever it is called', async () => {
  const models = [{ id: 'scripted-1', settings: { id: 'scripted-1', can_reason: true } }];
  const model = openDefined(definitionOf('azure', upstream, { models }));
  await answerOf(model, request('Hi', { reasoningEffort: 'low', temperature: 0.5 }));
  const body = await latestBody(upstream);
  expect(body).toMatchObject({ reasoning_effort: 'low', max_completion_tokens: 500 });
  expect(body).not.toHaveProperty('max_tokens');
  expect(body).not.toHaveProperty('temperature');
});
