/** Thoughts that are sent back: some servers that imitate OpenAI want them, and Anthropic refuses those that fit no more. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { doneOf, modelRuntime } from '../test-models.ts';
import { testQuery } from '../test-query.ts';
import { answerOf, openOwnAnthropic, request } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const look = { name: 'glob', arguments: { pattern: '*' } };

/** What each request sent of the thoughts before the tool calls, oldest first. */
async function sentThoughts(): Promise<(string | null)[]> {
  const requests = await upstream.requests();
  return requests.map(({ body }) => {
    const { messages } = body as { messages: { tool_calls?: object[]; reasoning_content?: string }[] };
    return messages.find(({ tool_calls }) => tool_calls)?.reasoning_content ?? null;
  });
}

test('are sent back within the run, and in a later one once the provider says that it misses them', async () => {
  const refusal = 'The reasoning_content in the thinking mode must be passed back to the API.';
  await upstream.script([
    { when: { step: 0, last_user: 'One' }, reply: { reasoning: 'Let me look.', tool_calls: [look] } },
    { times: 1, when: { last_user: 'Two' }, fail: { kind: 'status', status: 400, message: refusal } },
    { reply: { text: 'Done.' } },
  ]);
  const { ask } = await modelRuntime(upstream, { type: 'openai-compat' });
  expect(doneOf(await ask('One')).stop_reason).toBe('end_turn');
  expect(await sentThoughts()).toEqual([null, 'Let me look.']);
  expect(doneOf(await ask('Two')).stop_reason).toBe('end_turn');
  expect(await sentThoughts()).toEqual([null, 'Let me look.', null, 'Let me look.']);
});

test('are not sent to one that gave none, and a refusal for anything else is one', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [look] } },
    { fail: { kind: 'status', status: 400, message: 'The temperature is too high.' } },
  ]);
  const { ask } = await modelRuntime(upstream, { type: 'openai-compat' });
  expect((await ask('One')).at(-1)).toMatchObject({ name: 'error' });
  expect(await sentThoughts()).toEqual([null, null]);
});

/** A model that binds its thoughts to all that stands before them. */
const bindingModel = 'claude-opus-5-5';

/** How many thoughts each request sent, oldest first. */
async function thoughtCounts(): Promise<number[]> {
  const requests = await upstream.requests();
  return requests.map(({ body }) => JSON.stringify(body).match(/"type":"thinking"/g)?.length ?? 0);
}

test('are given up where Anthropic refuses them: what stands before them has changed since; later runs know', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: { reasoning: 'Let me look.', tool_calls: [look] } },
    { reply: { reasoning: 'I see.', text: 'Done.' } },
  ]);
  const { ask } = await modelRuntime(upstream, { type: 'anthropic', large: { model: bindingModel } });
  const { session } = testQuery('');
  for (const systemPrompt of ['Be brief.', 'Be brief.', 'Be kind.', 'Be stern.'])
    expect(doneOf(await ask('Look', { session: { ...session, systemPrompt } })).stop_reason).toBe('end_turn');
  // Those of the run itself are sent back all along.
  expect(await thoughtCounts()).toEqual([0, 1, 2, 3, 4, 0, 1, 0, 1]);
});

test.each([undefined, true])(
  'are left out by Anthropic itself where it can be told to, thinking asked for: %s',
  async (think) => {
    await upstream.script([{ reply: { text: 'Done.' } }]);
    const thought = { type: 'reasoning' as const, text: 'Hm.', signature: 'of another conversation' };
    const [question] = request('Hi').messages;
    const said = { role: 'assistant' as const, parts: [thought, { type: 'text' as const, text: 'Hello.' }] };
    const messages = question ? [question, said, question] : [];
    const model = openOwnAnthropic(upstream, bindingModel);
    const answer = await answerOf(model, request('', { messages, maxTokens: 4000, ...(think && { think }) }));
    expect(answer.at(-1)).toMatchObject({ stopReason: 'end_turn' });
    expect(await upstream.requests()).toMatchObject([
      {
        status: 200,
        body: {
          max_tokens: 4000,
          thinking: {
            ...(think && { type: 'adaptive' }),
            block_binding: { prefix_mismatch_behavior: 'drop_block' },
          },
        },
      },
    ]);
  },
);
