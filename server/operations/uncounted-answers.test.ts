/** Providers that do not say what was used: it is estimated, so that quotas of tokens and of cost bind there as well. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { type RawProvider, sayEvents, sayWhole, startRawProvider } from '../test-raw-provider.ts';

const said = 'hello '.repeat(700);
/** About what a text of so many bytes has in tokens. */
const written = Math.ceil(said.length / 3.5);

let provider: RawProvider;
let app: TestApp;
let ada: Account;
let names = 0;

beforeAll(async () => {
  provider = await startRawProvider();
  const place = { api_key: 'the-key', models: [{ id: 'm', cost_per_1m_in: 1000, cost_per_1m_out: 1000 }] };
  app = await testApp({
    config: {
      models: { large: { provider: 'chat', model: 'm' } },
      providers: {
        chat: { ...place, type: 'openai-compat', base_url: `${provider.url}/v1` },
        vendor: { ...place, type: 'anthropic', base_url: `${provider.url}/v1` },
      },
    },
  });
  provider.says((response, { url, body }) => {
    if (url.includes('/messages')) sayMessage(response, body.stream === true);
    else if (body.stream) {
      const choice = { index: 0, delta: { content: said }, finish_reason: 'stop' };
      sayEvents(response, { choices: [choice] }, '[DONE]');
    } else sayWhole(response, { choices: [{ index: 0, message: { content: said }, finish_reason: 'stop' }] });
    response.end();
  });
});
afterAll(async () => {
  await app.close();
  await provider.stop();
});
beforeEach(async () => {
  await untilFarFromMidnight(20_000);
  names += 1;
  ada = await app.register(`ada-${names}`);
});

/** Its contract has it say something. */
function sayMessage(response: Parameters<typeof sayEvents>[0], streamed: boolean): void {
  const usage = { input_tokens: 0, output_tokens: 0 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_sequence: null, usage };
  if (!streamed)
    sayWhole(response, { ...message, content: [{ type: 'text', text: said }], stop_reason: 'end_turn' });
  else
    sayEvents(
      response,
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: said } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
      { type: 'message_stop' },
    );
}

const send = (method: string, path: string, body?: object): Promise<Json> =>
  app.request(method, path, { token: ada.token, ...(body && { body }) });
const message = (model: string, stream: boolean) =>
  send('POST', '/v1/messages', {
    ...{ model, stream, max_tokens: 5000, messages: [{ role: 'user', content: 'x '.repeat(500) }] },
  });

test.each<[string, () => Promise<Json>]>([
  ['a query', () => send('POST', '/api/v1/query', { prompt: 'x '.repeat(500) })],
  ['a call', () => message('chat:m', false)],
  ['a streamed call', () => message('chat:m', true)],
  ['a call in the words of its provider', () => message('vendor:m', false)],
  ['a streamed call in the words of its provider', () => message('vendor:m', true)],
])('%s is metered as it was read and written, and refused once a quota is used up', async (_, ask) => {
  const limits = { tokens: { month: { hard: 10 } }, cost: { month: { hard: 0.0001 } } };
  await send('PUT', `/api/v1/quotas/user/${ada.user.id}`, { limits });
  expect((await ask()).status).toBe(200);
  const [{ usage, cost }] = (await send('GET', '/api/v1/usage?group_by=user')).body.data;
  expect(usage.input_tokens).toBeGreaterThan(200);
  expect(usage.output_tokens / written).toBeCloseTo(1, 0);
  expect(cost).toBeCloseTo((usage.input_tokens + usage.output_tokens) / 1000, 5);
  expect((await ask()).status).toBe(429);
});

test('what was estimated is what a query or a call is told to have used', async () => {
  const query = await send('POST', '/api/v1/query', { prompt: 'x '.repeat(500) });
  expect(query.body.usage.output_tokens).toBe(written);
  expect(query.body.cost).toBeGreaterThan(1);
  const { body } = await message('chat:m', false);
  expect(body.usage).toMatchObject({ output_tokens: written });
});
