/** What providers say was used, which may be anything: as much of it counts as can be true, and no quota is moved by the rest. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Json, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { type RawProvider, sayEvents, sayWhole, startRawProvider } from '../test-raw-provider.ts';

let provider: RawProvider;
let app: TestApp;

beforeAll(async () => {
  provider = await startRawProvider();
  const place = { base_url: `${provider.url}/v1`, api_key: 'the-key', models: [{ id: 'm' }] };
  const dear = { id: 'dear', cost_per_1m_in: 1e300, cost_per_1m_out: 1e300 };
  app = await testApp({
    config: {
      providers: {
        chat: { ...place, type: 'openai-compat' },
        dear: { ...place, type: 'openai-compat', models: [dear] },
        vendor: { ...place, type: 'anthropic' },
        google: { ...place, type: 'gemini', base_url: `${provider.url}/v1beta` },
      },
    },
  });
});

afterAll(async () => {
  await app.close();
  await provider.stop();
});

/** Answers on every wire, and says that this many tokens were read, and three written. */
function saysRead(read: Json): void {
  provider.says((response, { url, body }) => {
    if (url.includes('/messages')) sayMessage(response, read, body.stream === true);
    else if (url.includes('Generate'))
      sayEvents(response, {
        candidates: [
          { content: { role: 'model', parts: [{ text: 'Yes.' }] }, finishReason: 'STOP', index: 0 },
        ],
        usageMetadata: { promptTokenCount: read, candidatesTokenCount: 3 },
      });
    else {
      const usage = { prompt_tokens: read, completion_tokens: 3 };
      const choice = (said: Json) => ({ index: 0, ...said, finish_reason: 'stop' });
      if (body.stream) {
        sayEvents(response, { choices: [choice({ delta: { content: 'Yes.' } })], usage }, '[DONE]');
      } else sayWhole(response, { choices: [choice({ message: { content: 'Yes.' } })], usage });
    }
    response.end();
  });
}

function sayMessage(response: Parameters<typeof sayEvents>[0], read: Json, streamed: boolean): void {
  const usage = { input_tokens: read, output_tokens: 3 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_sequence: null, usage };
  const text = { type: 'text', text: 'Yes.' };
  if (!streamed) sayWhole(response, { ...message, content: [text], stop_reason: 'end_turn' });
  else
    sayEvents(
      response,
      { type: 'message_start', message: { ...message, content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Yes.' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
      { type: 'message_stop' },
    );
}

interface Way {
  readonly way: string;
  readonly path: string;
  readonly body: Json;
}
const messages = [{ role: 'user', content: 'Is it?' }];
const asked = (model: string, stream: boolean): Way => ({
  way: `${model}, ${stream ? 'streamed' : 'whole'}`,
  path: '/v1/messages',
  body: { model, stream, max_tokens: 100, messages },
});
const ways = [
  ...['chat:m', 'vendor:m', 'google:m'].flatMap((model) => [asked(model, false), asked(model, true)]),
  { way: 'a run', path: '/api/v1/query', body: { prompt: 'Is it?', model: 'chat:m' } },
];

/** Someone new, with what they have used. */
async function person(name: string) {
  await untilFarFromMidnight(20_000);
  const { token } = await app.register(name);
  const used = async () => {
    const { body } = await app.request('GET', '/api/v1/usage?group_by=model', { token });
    return body.data.reduce((sum: number, { usage }: Json) => sum + usage.input_tokens, 0);
  };
  return { token, used };
}

let people = 0;

test.each(ways.flatMap((way) => [-1_000_000, 1e30, 'abc', 7.4].map((said) => ({ ...way, said }))))(
  '$way: $said tokens are counted as far as they can be',
  async ({ path, body, said }) => {
    people += 1;
    const { token, used } = await person(`p${people}`);
    saysRead(said);
    const answer = await app.stream('POST', path, { token, body });
    const text = await answer.text();
    // What is no number is no answer for a client that checks it, and tests hold to the contract what is passed on as it is.
    if (body.model !== 'vendor:m' && said !== 'abc') expect(answer.status, text).toBe(200);
    expect(await used()).toBe(said === 7.4 ? 7 : 0);
  },
);

test('a price that no model has is none that is known', async () => {
  const { token } = await person('ada');
  saysRead(1000);
  const body = { model: 'dear:dear', max_tokens: 100, messages };
  expect(await app.request('POST', '/v1/messages', { token, body })).toMatchObject({ status: 200 });
  const { body: run } = await app.request('POST', '/api/v1/query', {
    ...{ token, body: { prompt: 'Is it?', model: 'dear:dear' } },
  });
  expect(run).toMatchObject({ stop_reason: 'end_turn', cost: null });
});
