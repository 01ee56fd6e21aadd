/** What is read out of the words of a provider that refuses: they may be as long as it likes. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { failureOf } from './provider-failures.ts';

function refusal(message: string, statusCode = 400) {
  return failureOf(Object.assign(new Error(message), { statusCode, responseBody: message }), []);
}

test('the lengths stand in the message, in the words of one vendor', () => {
  const { code, message } = refusal('prompt is too long: 205000 tokens > 200000 maximum');
  expect(code).toBe('provider_prompt_too_long');
  expect(message).toContain('prompt is too long: 205000 tokens > 200000 maximum');
});

test.each<[string, string, string, object?]>([
  [
    'llama.cpp',
    'the request exceeds the available context size. try increasing the context size',
    ': 9000 tokens > 4096 maximum',
    { code: 400, type: 'exceed_context_size_error', n_prompt_tokens: 9000, n_ctx: 4096 },
  ],
  [
    'llama.cpp of today',
    'request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it',
    ': 9000 tokens > 4096 maximum',
  ],
  [
    'xAI',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ': 537812 tokens > 131072 maximum',
  ],
  [
    'Kimi',
    'Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)',
    ': 300000 tokens > 262144 maximum',
  ],
  [
    'Copilot',
    'prompt token count of 150001 exceeds the limit of 128000',
    ': 150001 tokens > 128000 maximum',
    { code: 'model_max_prompt_tokens_exceeded' },
  ],
  [
    'vLLM',
    'The decoder prompt (length 5000) is longer than the maximum model length of 4096.',
    ': 5000 tokens > 4096 maximum',
    { type: 'BadRequestError', code: 400 },
  ],
  ['Qwen', 'Range of input length should be [1, 129024]', ' for the model'],
  ['GLM', 'Prompt exceeds max length', ' for the model', { code: '1261' }],
])('%s says in words of its own that a conversation is too long', (_vendor, message, lengths, more) => {
  const failure = refusal(JSON.stringify({ error: { message, ...more } }));
  expect(failure).toMatchObject({ code: 'provider_prompt_too_long', remedy: 'shorten' });
  expect(failure.message).toContain(`prompt is too long${lengths}`);
});

test.each<[string, number, string, string]>([
  ['a tool that is about bills', 400, 'Invalid function name mcp__billing__list.v2', 'request_refused'],
  [
    'an empty account at Anthropic',
    400,
    'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.',
    'refused',
  ],
  ['a limit at OpenAI', 400, '{"error":{"code":"billing_hard_limit_reached"}}', 'refused'],
  ['a quota at OpenAI', 429, 'Please check your plan and billing details.', 'refused'],
  ['a project at Google', 403, 'This API method requires billing to be enabled.', 'refused'],
])('the word for bills is only where it means ours: %s', (_what, status, words, code) => {
  const failure = refusal(words, status);
  expect(failure.code).toBe(`provider_${code}`);
  expect(failure.message.includes('wants to be paid')).toBe(code === 'refused');
});

test.each([
  ['digits', '9'.repeat(200_000)],
  ['lengths of a context', 'context length is 1 '.repeat(20_000)],
])('%s without end are read in time', async (_what, words) => {
  let code = '';
  const spent = await cpuMsOf(() => {
    code = refusal(`prompt is too long ${words}`).code;
  });
  expect(code).toBe('provider_prompt_too_long');
  expect(spent).toBeLessThan(500);
});
