/** When OpenAI is asked by its Responses API, and what that brings: thoughts that last from one tool call to the next. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ModelRequest } from '../models/model.ts';
import { speaksResponses } from './openai-responses.ts';
import { answerOf, latestBody, openResponses, request } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

beforeEach(() => upstream.script([{ reply: { text: 'Hello.' } }]));

const asked = {
  type: 'openai',
  baseUrl: undefined,
  modelId: 'gpt-5.1',
  model: undefined,
  fields: {},
} as const;

test.each([
  ['a model that reasons, at OpenAI', {}, true],
  ['one of its older ones', { modelId: 'o3-mini' }, true],
  ['OpenAI by its name', { baseUrl: 'https://api.openai.com/v1' }, true],
  ['OpenAI in Europe', { baseUrl: 'https://eu.api.openai.com/v1' }, true],
  ['a model that the settings say reasons', { modelId: 'new', model: { id: 'new', can_reason: true } }, true],
  ['fields that both ways know', { fields: { service_tier: 'flex' } }, true],
  ['a model that does not reason', { modelId: 'gpt-4.1' }, false],
  ['a model that only talks', { modelId: 'gpt-5-chat-latest' }, false],
  ['a model that the settings say does not', { model: { id: 'gpt-5.1', can_reason: false } }, false],
  ['a server that imitates OpenAI', { baseUrl: 'http://127.0.0.1:8080/v1' }, false],
  ['a name that only looks like it', { baseUrl: 'https://api.openai.com.example/v1' }, false],
  ['another type', { type: 'openai-compat' }, false],
  ['fields of the other way', { fields: { reasoning_effort: 'high' } }, false],
] as const)('%s: %o', (_, more, expected) => {
  expect(speaksResponses({ ...asked, ...more })).toBe(expected);
});

test('what the model thought goes back to it with the results, sealed, and nothing stays at OpenAI', async () => {
  await upstream.script([
    {
      when: { step: 0 },
      reply: { reasoning: 'I need the file.', tool_calls: [{ name: 'view', arguments: { path: 'a.txt' } }] },
    },
    { reply: { text: 'It says {{last_tool_result}}.' } },
  ]);
  const model = openResponses(upstream);
  const tools: ModelRequest['tools'] = [
    {
      name: 'view',
      description: 'Reads a file.',
      inputSchema: { type: 'object', properties: { path: { type: 'string' }, limit: { type: 'integer' } } },
    },
  ];
  const first = await answerOf(model, request('Read it.', { tools, reasoningEffort: 'high' }));
  expect(await latestBody(upstream)).toMatchObject({
    store: false,
    include: ['reasoning.encrypted_content'],
    reasoning: { effort: 'high' },
    // An argument that may be left out stays one.
    tools: [{ type: 'function', name: 'view', strict: false }],
  });
  const calls = first.filter((part) => part.type === 'tool_use');
  const [call] = calls;
  const messages: ModelRequest['messages'] = [
    ...request('Read it.').messages,
    { role: 'assistant', parts: calls },
    {
      role: 'tool',
      parts: [
        { type: 'tool_result', tool_use_id: call?.id ?? '', name: 'view', content: 'A', is_error: false },
      ],
    },
  ];
  await answerOf(model, request('', { messages, tools }));
  const { input } = await latestBody(upstream);
  expect(input).toEqual([
    expect.objectContaining({ role: 'developer' }),
    expect.objectContaining({ role: 'user' }),
    {
      type: 'reasoning',
      id: expect.stringMatching(/^rs_/),
      encrypted_content: Buffer.from('I need the file.').toString('base64'),
      summary: [{ type: 'summary_text', text: 'I need the file.' }],
    },
    expect.objectContaining({ type: 'function_call', call_id: call?.id, name: 'view' }),
    expect.objectContaining({ type: 'function_call_output', call_id: call?.id, output: 'A' }),
  ]);
});

test('a summary is asked for only by who wants thoughts, and never fewer tokens than OpenAI gives', async () => {
  await answerOf(openResponses(upstream), request('Hi', { maxTokens: 1, reasoningEffort: 'low' }));
  const body = await latestBody(upstream);
  expect(body.max_output_tokens).toBe(16);
  expect(body.reasoning).toEqual({ effort: 'low' });
  await answerOf(openResponses(upstream), request('Hi', { think: true }));
  expect((await latestBody(upstream)).reasoning).toEqual({ summary: 'auto' });
});

test('fields of the settings are added, and never make up the conversation', async () => {
  const providerOptions = {
    service_tier: 'flex',
    previous_response_id: 'resp_1',
    input: [],
    instructions: 'x',
  };
  await answerOf(openResponses(upstream, { providerOptions }), request('Hi'));
  const body = await latestBody(upstream);
  expect(body).toMatchObject({ service_tier: 'flex', input: [{ role: 'developer' }, { role: 'user' }] });
  expect(body).not.toHaveProperty('previous_response_id');
  expect(body).not.toHaveProperty('instructions');
});
