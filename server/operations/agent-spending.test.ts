/** What agents below agents use: told in every sum, and counted for the limits of the run that they began with until it ends. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, readEvents, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const priced = { models: [{ id: 'm', cost_per_1m_in: 1, cost_per_1m_out: 1 }] };
  app = await testApp({
    config: {
      models: { large: { provider: 'local', model: 'm' } },
      options: { limits: { max_agent_depth: 2, max_agents: 2, max_tokens: 6000 } },
      providers: { local: { ...scriptedProvider(upstream, 'm'), ...priced } },
    },
  });
  ada = await app.register('ada');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const send = (method: string, path: string, body?: object): Promise<Json> =>
  app.request(method, `/api/v1${path}`, { token: ada.token, ...(body && { body }) });
const errand = (prompt: string) => [
  { name: 'agent', arguments: { description: 'An errand', prompt, agent_slug: 'coder' } },
];
/** Answers the errand with one of its own, or with a text, for so many tokens read. */
const reply = (input: number, calls?: Json) => ({
  ...(calls ? { tool_calls: calls } : { text: 'Found.' }),
  usage: { input, output: 1 },
});

test('what the agent of an agent uses counts in the session of both, in the metrics and the event, as in the report', async () => {
  await untilFarFromMidnight(20_000);
  await upstream.script([
    { when: { step: 0, last_user: '^Top' }, reply: reply(1, errand('Deeper.')) },
    { when: { step: 0, last_user: '^Deeper' }, reply: reply(10, errand('Deepest.')) },
    { when: { step: 0, last_user: '^Deepest' }, reply: reply(5000) },
    { reply: reply(1) },
  ]);
  const { body: done } = await send('POST', '/query', { prompt: 'Top' });
  const session = (await send('GET', `/sessions/${done.session_id}`)).body;
  const [report] = (await send('GET', '/usage')).body.data;
  expect(report.usage).toMatchObject({ input_tokens: 5013, output_tokens: 5 });
  expect([session.usage, session.cost]).toEqual([report.usage, report.cost]);
  expect((await send('GET', '/metrics')).body.usage).toEqual(report.usage);
  const [child] = (await send('GET', `/sessions?parent_id=${session.id}`)).body.data;
  expect(child.usage.input_tokens).toBe(5011);
});

test('the session of an agent stays until the run that it began with has ended: its limits count what was used there', async () => {
  await upstream.script([
    { when: { step: 0, last_user: '^Top' }, reply: reply(1, errand('One.')) },
    { when: { last_user: '^One' }, reply: reply(7000) },
    { when: { last_user: '^Top' }, reply: reply(1, errand('Two.')) },
    { reply: reply(1) },
  ]);
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token: ada.token,
    body: { prompt: 'Top' },
  });
  const ends: Json[] = [];
  let agent = '';
  for await (const { event, data } of readEvents(response)) {
    if (data.type === 'agent_finished') {
      agent = `/sessions/${data.session_id}`;
      ends.push((await send('DELETE', agent)).body.code);
    }
    if (event === 'done') ends.push(data.stop_reason);
  }
  expect(ends).toEqual(['session_busy', 'token_limit']);
  expect((await send('DELETE', agent)).status).toBe(204);
});
