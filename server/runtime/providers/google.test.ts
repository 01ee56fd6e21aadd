/** What is Google's own: thoughts and their signatures, settings in an object, words for the quota. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ModelRequest } from '../models/model.ts';
import { answerOf, definitionOf, googleTypes, latestBody, openDefined, request } from './test-providers.ts';

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

describe.each(googleTypes)('%s', (type) => {
  const opened = (modelId: string) => openDefined(definitionOf(type, upstream), 5000, modelId);
  const generation = async () => (await latestBody(upstream)).generationConfig;

  test('an effort is a level for newer models, and a number of tokens for older ones', async () => {
    await answerOf(opened('gemini-3.8-flash'), request('Hi', { reasoningEffort: 'low' }));
    expect(await generation()).toMatchObject({
      thinkingConfig: { includeThoughts: true, thinkingLevel: 'low' },
    });
    await answerOf(opened('gemini-2.5-flash'), request('Hi', { reasoningEffort: 'low' }));
    expect(await generation()).toMatchObject({
      thinkingConfig: { includeThoughts: true, thinkingBudget: expect.any(Number) },
    });
  });

  test('thoughts are shown where thinking is asked for, and left to the model otherwise', async () => {
    await answerOf(opened('gemini-3.8-flash'), request('Hi', { think: true }));
    expect(await generation()).toMatchObject({ thinkingConfig: { includeThoughts: true } });
    await answerOf(opened('gemini-3.8-flash'), request('Hi'));
    expect(await generation()).not.toHaveProperty('thinkingConfig');
  });

  test.each(['gemini-3.8-flash', 'gemini-2.5-flash'])(
    'penalties are sent to %s where it takes them',
    async (id) => {
      const penalties = { frequencyPenalty: 0.5, presencePenalty: -0.5 };
      await answerOf(opened(id), request('Hi', penalties));
      const sent = await generation();
      if (type === 'gemini' && id === 'gemini-2.5-flash') expect(sent).not.toHaveProperty('frequencyPenalty');
      else expect(sent).toMatchObject(penalties);
    },
  );

  test('the signature of a call goes back with its result, or what stands for one that is lost', async () => {
    const call = { name: 'view', arguments: { path: 'a.txt' } };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [call] } },
      { reply: { text: 'Done.' } },
    ]);
    const tools = [{ name: 'view', description: 'Reads a file.', inputSchema: { type: 'object' } }];
    const model = opened('gemini-3.8-flash');
    const first = await answerOf(model, request('Read.', { tools }));
    const calls = first.filter((part) => part.type === 'tool_use');
    const messages: ModelRequest['messages'] = [
      ...request('Read.').messages,
      { role: 'assistant', parts: calls },
      {
        role: 'tool',
        parts: calls.map(({ id, name }) => ({
          type: 'tool_result',
          tool_use_id: id,
          name,
          content: 'x',
          is_error: false,
        })),
      },
    ];
    for (const [opener, signature] of [
      [model, /^[\w+/]{80,}=*$/],
      [opened('gemini-3.8-flash'), /^skip_thought_signature_validator$/],
    ] as const) {
      await answerOf(opener, request('', { messages, tools }));
      expect(await latestBody(upstream)).toMatchObject({
        contents: [{}, { parts: [{ thoughtSignature: expect.stringMatching(signature) }] }, {}],
      });
    }
  });

  test('fields of its own are added to its settings, and none of them makes up the conversation', async () => {
    const providerOptions = {
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
      generationConfig: { seed: 5, maxOutputTokens: 1 },
      contents: [],
      systemInstruction: { parts: [{ text: 'evil' }] },
      system_instruction: { parts: [{ text: 'evil' }] },
      cachedContent: 'cachedContents/evil',
    };
    await answerOf(opened('scripted-1'), request('Hi', { providerOptions }));
    const body = await latestBody(upstream);
    expect(body).toMatchObject({
      safetySettings: providerOptions.safetySettings,
      generationConfig: { seed: 5, maxOutputTokens: 500 },
    });
    expect(JSON.stringify(body)).not.toContain('evil');
  });

  test.each([
    ['7', 'provider_rate_limited', 7000],
    [undefined, 'provider_refused', null],
  ])('its quota is a rate where it says when to come back (%s)', async (retry_after, code, retryAfterMs) => {
    const message = 'You exceeded your current quota, please check your plan and billing details.';
    const fail = { kind: 'status', status: 429, message, ...(retry_after && { retry_after }) };
    await upstream.script([{ fail }]);
    const failed = answerOf(opened('scripted-1'), request('Hi'));
    await expect(failed).rejects.toMatchObject({ code, retryAfterMs });
  });

  test.each([
    ...['OTHER', 'FINISH_REASON_UNSPECIFIED', 'LANGUAGE', 'MALFORMED_RESPONSE'],
    ...['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS'],
  ])('an answer that it broke off is none: %s', async (finish_reason) => {
    await upstream.script([{ reply: { text: 'So far', finish_reason } }]);
    const failed = answerOf(opened('scripted-1'), request('Hi'));
    await expect(failed).rejects.toMatchObject({ code: 'provider_failed', remedy: 'retry' });
  });

  test.each([
    ['STOP', 'end_turn'],
    ['MAX_TOKENS', 'max_tokens'],
    ['RECITATION', 'refusal'],
    ['A_REASON_OF_TOMORROW', 'end_turn'],
  ])('an answer that it ended by %s stays one', async (finish_reason, stopReason) => {
    await upstream.script([{ reply: { text: 'So far', finish_reason } }]);
    expect((await answerOf(opened('scripted-1'), request('Hi'))).at(-1)).toMatchObject({ stopReason });
  });

  test('a key that it takes for a wrong argument is told as a key', async () => {
    const message = 'API key not valid. Please pass a valid API key.';
    await upstream.script([{ fail: { kind: 'status', status: 400, code: 'API_KEY_INVALID', message } }]);
    await expect(answerOf(opened('scripted-1'), request('Hi'))).rejects.toMatchObject({
      remedy: 'replace',
      message: expect.stringContaining('credential'),
    });
  });
});

test.each(['', '/', '/v1beta', '/v1beta/'])(
  'Gemini is found with the version and without it: %j',
  async (end) => {
    const connect = async () => ({ baseUrl: upstream.url + end, apiKey: 'k' });
    await answerOf(openDefined(definitionOf('gemini', upstream, { connect })), request('Hi'));
    expect((await upstream.latest(() => true)).path).toMatch(/^\/v1beta\/models\//);
  },
);
