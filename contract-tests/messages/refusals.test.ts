/** What the vendor's SDK is told when the server, or the provider behind it, does not answer. */
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventFaults, faults } from '../contract.ts';
import { readEvents } from '../wire-stream.ts';
import { failureOf, hello, startVendor, type Vendor } from './vendor.ts';

let live: Vendor['live'];
let sdk: Vendor['sdk'];
beforeAll(async () => {
  ({ live, sdk } = await startVendor());
});
afterAll(() => live?.stop());
beforeEach(() => live.upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

describe('refused', () => {
  const client = (apiKey: string) => new Anthropic({ baseURL: live.server.url, apiKey, maxRetries: 0 });
  const nobodys = { headers: { 'x-service-session-id': 'ses_01k9w6r3h2e7xv5q0c8m4b1tzz' } };
  // Past the types of the SDK, which knows better.
  const wrong = (body: object) => ({ ...hello, ...body }) as typeof hello;

  test.each([
    [
      'a wrong key',
      Anthropic.AuthenticationError,
      'authentication_error',
      () => client('sk-wrong').messages.create(hello),
    ],
    [
      'an unknown model',
      Anthropic.NotFoundError,
      'not_found_error',
      () => sdk.messages.create(wrong({ model: 'no:such' })),
    ],
    [
      'an unknown session',
      Anthropic.NotFoundError,
      'not_found_error',
      () => sdk.messages.create(hello, nobodys),
    ],
    [
      'less than no tokens',
      Anthropic.BadRequestError,
      'invalid_request_error',
      () => sdk.messages.create(wrong({ max_tokens: -1 })),
    ],
    [
      'a tool without a schema',
      Anthropic.BadRequestError,
      'invalid_request_error',
      () => sdk.messages.create(wrong({ tools: [{ name: 't' }] })),
    ],
    [
      'an image of nothing',
      Anthropic.BadRequestError,
      'invalid_request_error',
      () =>
        sdk.messages.create(
          wrong({ messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }),
        ),
    ],
  ] as const)('%s is an error of its class, with the id of the request', async (_, Kind, type, call) => {
    const error = await failureOf(call());
    expect(error).toBeInstanceOf(Kind);
    expect(error.requestID).toMatch(/^req_/);
    expect(faults('MessagesError', error.error)).toEqual([]);
    expect(error.error).toMatchObject({ error: { type }, request_id: error.requestID });
    expect(await live.upstream.requests()).toEqual([]);
  });

  test('a key without the scope is a permission error that names it', async () => {
    const body = { name: 'Reads only', scopes: ['sessions:read' as const] };
    const { data } = await live.client.POST('/api/v1/auth/api-keys', { body });
    const error = await failureOf(client(data.key).messages.create(hello));
    expect(error).toBeInstanceOf(Anthropic.PermissionDeniedError);
    expect(error.message).toContain('messages');
  });
});

describe('a provider that fails', () => {
  const cases = [
    ['refuses the key', 502, 'api_error', { fail: { kind: 'status', status: 401 } }],
    ['limits the rate', 529, 'overloaded_error', { fail: { kind: 'status', status: 429 } }],
    ['will not take it', 400, 'invalid_request_error', { fail: { kind: 'status', status: 400 } }],
    ['breaks', 502, 'api_error', { fail: { kind: 'status', status: 500 } }],
    ['is overloaded', 529, 'overloaded_error', { fail: { kind: 'status', status: 529 } }],
    ['cuts the connection', 502, 'api_error', { fail: { kind: 'cut' } }],
    ['answers with garbage', 502, 'api_error', { fail: { kind: 'garbage' } }],
  ] as const;

  test.each(cases)('and %s is one call and one clear error, whole', async (_, status, type, rule) => {
    await live.upstream.script([rule]);
    const error = await failureOf(sdk.messages.create(hello));
    expect(error).toMatchObject({ status, error: { error: { type } } });
    expect(error.message).not.toContain('the-key-of-the-upstream');
    expect(await live.upstream.requests()).toHaveLength(1);
  });

  test.each(cases)(
    'and %s before the first piece is a status, streamed too',
    async (_, status, type, rule) => {
      await live.upstream.script([rule]);
      const error = await failureOf(sdk.messages.stream(hello).finalMessage());
      expect(error).toMatchObject({ status, error: { error: { type } } });
    },
  );

  test('and cuts its answer in the middle ends the stream in an error event', async () => {
    await live.upstream.script([
      { reply: { text: 'Half an answer' }, fail: { kind: 'cut', after_chunks: 2 } },
    ]);
    const events = await readEvents(await live.post('/v1/messages', { ...hello, stream: true }));
    expect(events.flatMap((event) => eventFaults('MessagesStreamEvent', event))).toEqual([]);
    expect(events.map(({ event }) => event)).toContain('content_block_delta');
    expect(events.at(-1)?.event).toBe('error');
    expect(events.filter(({ event }) => event === 'error' || event === 'message_stop')).toHaveLength(1);
    const whole = await failureOf(sdk.messages.create(hello));
    expect(whole.status).toBe(502);
    expect(await failureOf(sdk.messages.stream(hello).finalMessage())).toBeInstanceOf(Anthropic.APIError);
  });
});
