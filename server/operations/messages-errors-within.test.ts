/** Errors that a provider tells within its answer: they mean what they would mean with a status of their own. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { type RawProvider, sayEvents, startRawProvider } from '../test-raw-provider.ts';

let provider: RawProvider;
let app: TestApp;
let ada: Account;

beforeAll(async () => {
  provider = await startRawProvider();
  const place = { base_url: `${provider.url}/v1`, api_key: 'the-key-of-ours', models: [{ id: 'm' }] };
  app = await testApp({
    config: {
      options: { limits: { max_attempts: 1 } },
      providers: { chat: { ...place, type: 'openai-compat' }, vendor: { ...place, type: 'anthropic' } },
    },
  });
  ada = await app.register('ada');
});

afterAll(async () => {
  await app.close();
  await provider.stop();
});

/** The first that the provider says is this error. */
async function ask(model: string, error: Json) {
  provider.says((response) => {
    sayEvents(response, model === 'chat:m' ? { error } : { type: 'error', error });
    response.end();
  });
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { model, stream: true, max_tokens: 100, messages };
  return app.request('POST', '/v1/messages', { token: ada.token, body });
}

const long =
  "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";

test.each<[string, Json, number, RegExp]>([
  [
    'chat:m',
    { type: 'invalid_request_error', code: 'context_length_exceeded', message: long },
    400,
    /^prompt is too long: 9000/,
  ],
  ['chat:m', { type: 'BadRequestError', code: 400, message: long }, 400, /^prompt is too long: 9000/],
  ['chat:m', { code: '429', message: 'Slow down' }, 529, /limits the rate/],
  ['chat:m', { code: 401, message: 'Wrong: the-key-of-ours' }, 502, /refused our credential/],
  ['chat:m', { type: 'insufficient_quota', message: 'x' }, 502, /wants to be paid/],
  ['chat:m', { type: 'server_error', message: 'x' }, 502, /failed or cut its answer/],
  ['chat:m', 'upstream timeout', 504, /took too long/],
  [
    'vendor:m',
    { type: 'invalid_request_error', message: 'prompt is too long: 9000 tokens > 8000 maximum' },
    400,
    /^prompt is too long: 9000/,
  ],
  ['vendor:m', { type: 'invalid_request_error', message: 'x' }, 400, /refused the request with status 400/],
  ['vendor:m', { type: 'authentication_error', message: 'x' }, 502, /refused our credential/],
  ['vendor:m', { type: 'permission_error', message: 'x' }, 502, /refused our credential/],
  ['vendor:m', { type: 'billing_error', message: 'x' }, 502, /wants to be paid/],
  ['vendor:m', { type: 'not_found_error', message: 'x' }, 502, /does not know the model/],
  ['vendor:m', { type: 'request_too_large', message: 'x' }, 400, /^prompt is too long/],
  ['vendor:m', { type: 'rate_limit_error', message: 'x' }, 529, /limits the rate/],
  ['vendor:m', { type: 'timeout_error', message: 'x' }, 504, /took too long/],
  ['vendor:m', { type: 'overloaded_error', message: 'x' }, 529, /overloaded/],
  ['vendor:m', { type: 'api_error', message: 'x' }, 502, /failed or cut its answer/],
])('%s: %o', async (model, error, status, words) => {
  const { status: told, body } = await ask(model, error);
  expect({ status: told, message: body.error.message }).toEqual({
    status,
    message: expect.stringMatching(words),
  });
});
