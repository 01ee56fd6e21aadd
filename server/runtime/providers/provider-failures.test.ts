/** What is read out of the words of a provider that refuses: they may be as long as it likes. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { failureOf } from './provider-failures.ts';

function refusal(message: string) {
  return failureOf(Object.assign(new Error(message), { statusCode: 400, responseBody: message }), []);
}

test('the lengths stand in the message, in the words of one vendor', () => {
  const { code, message } = refusal('prompt is too long: 205000 tokens > 200000 maximum');
  expect(code).toBe('provider_prompt_too_long');
  expect(message).toContain('prompt is too long: 205000 tokens > 200000 maximum');
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
