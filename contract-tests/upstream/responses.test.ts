// OpenAI's own SDK judges the Responses dialect.
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let client: OpenAI;

beforeAll(async () => {
  upstream = await startUpstream();
  client = new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: 'sk-test', maxRetries: 0 });
});
afterAll(() => upstream.stop());

const model = 'gpt-scripted';
const tools = ['weather', 'clock'].map((name) => ({
  type: 'function' as const, // Narrows the literal for the SDK.
  name,
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
}));
const twoTools = {
  reasoning: 'two things at once',
  text: 'I look.',
  tool_calls: [
    { name: 'weather', arguments: { city: 'Oslo' } },
    { name: 'clock', arguments: { city: 'Rome' } },
  ],
  chunk_size: 4,
};

test('a plain answer has the text, the status and the usage', async () => {
  await upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]);
  const response = await client.responses.create({ model, input: 'good morning', instructions: 'be kind' });
  expect(response.output_text).toBe('You said: good morning');
  expect(response).toMatchObject({
    id: expect.stringMatching(/^resp_[0-9a-f]{48}$/),
    status: 'completed',
    usage: { input_tokens: 4, output_tokens: 4, total_tokens: 8 },
  });
});

test('the stream of the SDK ends with the same response that the plain call gives', async () => {
  await upstream.script([{ reply: twoTools }]);
  const request = { model, input: 'go', tools };
  const stream = client.responses.stream(request);
  const types: string[] = [];
  const numbers: number[] = [];
  stream.on('event', (event) => {
    types.push(event.type);
    if ('sequence_number' in event) numbers.push(event.sequence_number);
  });
  const streamed = await stream.finalResponse();
  const plain = await client.responses.create(request);
  const shape = (response: typeof plain) =>
    response.output.map((item) => [item.type, 'arguments' in item ? item.arguments : null]);
  expect(shape(plain)).toEqual([
    ['reasoning', null],
    ['message', null],
    ['function_call', '{"city":"Oslo"}'],
    ['function_call', '{"city":"Rome"}'],
  ]);
  expect(streamed.output.map((item) => [item.type, 'arguments' in item ? item.arguments : null])).toEqual(
    shape(plain),
  );
  expect(streamed.output_text).toBe('I look.');
  expect(numbers).toEqual(numbers.map((_, at) => at));
  expect(types.slice(0, 2)).toEqual(['response.created', 'response.in_progress']);
  expect(types.at(-1)).toBe('response.completed');
  expect(types.filter((type) => type === 'response.function_call_arguments.delta')).toHaveLength(8);
  expect(types.filter((type) => type === 'response.reasoning_summary_text.delta').length).toBeGreaterThan(1);
});

test('tool results make the round trip, with the whole input and with previous_response_id', async () => {
  await upstream.script([
    { when: { step: 0 }, reply: twoTools },
    { when: { step: 1, tool_results: 2 }, reply: { text: 'Last: {{last_tool_result}}' } },
  ]);
  const first = await client.responses.create({ model, input: 'go', tools });
  const outputs = first.output.flatMap((item) =>
    item.type === 'function_call'
      ? [{ type: 'function_call_output' as const, call_id: item.call_id, output: `${item.name} ok` }] // Narrows the literal.
      : [],
  );
  const byId = await client.responses.create({
    model,
    input: outputs,
    previous_response_id: first.id,
    tools,
  });
  expect(byId.output_text).toBe('Last: clock ok');
  const references = first.output.map((item) => ({ type: 'item_reference' as const, id: String(item.id) })); // Narrows.
  const input = [{ role: 'user' as const, content: 'go' }, ...references, ...outputs]; // Narrows the literal.
  const byReference = await client.responses.create({ model, input, tools });
  expect(byReference.output_text).toBe('Last: clock ok');
});

test('an answer that ran into its limit is incomplete, streamed and plain', async () => {
  await upstream.script([{ reply: { text: 'cut sh', stop_reason: 'max_tokens' } }]);
  const expected = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  expect(await client.responses.create({ model, input: 'x' })).toMatchObject(expected);
  expect(await client.responses.stream({ model, input: 'x' }).finalResponse()).toMatchObject(expected);
});

test('errors arrive as the error classes of the SDK, before and inside the stream', async () => {
  await upstream.script([
    { times: 1, fail: { kind: 'status', status: 429, retry_after: '3' } },
    {
      reply: { text: 'not all of this' },
      fail: { kind: 'error_frame', after_chunks: 4, message: 'fell over' },
    },
  ]);
  await expect(client.responses.create({ model, input: 'x' })).rejects.toBeInstanceOf(OpenAI.RateLimitError);
  const stream = await client.responses.create({ model, input: 'x', stream: true });
  const error = await Array.fromAsync(stream).catch((it: unknown) => it);
  expect(error).toBeInstanceOf(OpenAI.APIError);
  expect(error).toMatchObject({ message: expect.stringContaining('fell over') });
});

const call = { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' };
const output = { type: 'function_call_output', call_id: 'call_1', output: 'x' };
test.each<[string, object, number, string]>([
  ['no input', { input: undefined }, 400, "'input'"],
  [
    'an orphan output',
    { input: [output] },
    400,
    'No tool call found for function call output with call_id call_1',
  ],
  ['a call without its output', { input: [call] }, 400, 'No tool output found for function call call_1'],
  ['an unknown item', { input: [{ type: 'thing' }] }, 400, "'input[0].type'"],
  [
    'output text from a user',
    { input: [{ role: 'user', content: [{ type: 'output_text', text: 'x' }] }] },
    400,
    "'input[0].content[0].type'",
  ],
  ['an unknown earlier response', { previous_response_id: 'resp_0' }, 400, "'resp_0' not found"],
  ['a reference to nothing', { input: [{ type: 'item_reference', id: 'msg_0' }] }, 404, "'msg_0' not found"],
  ['a parameter of the other dialect', { messages: [] }, 400, "Unknown parameter: 'messages'"],
])('a request with %s is refused', async (_, wrong, status, message) => {
  await upstream.script([{ reply: { text: 'never' } }]);
  const refused = client.post('/responses', { body: { model, input: 'x', ...wrong } });
  await expect(refused).rejects.toMatchObject({ status, message: expect.stringContaining(message) });
});
