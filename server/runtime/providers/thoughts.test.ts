/** Thoughts of servers that imitate OpenAI: some want them back with the tool calls that they led to. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { doneOf, modelRuntime } from '../test-models.ts';

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
