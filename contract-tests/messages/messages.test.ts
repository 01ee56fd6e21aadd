/** The vendor's own SDK against the Messages surface of the live server: answers, streams, sessions. */
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventFaults, faults } from '../contract.ts';
import { readEvents } from '../wire-stream.ts';
import { hello, model, startVendor, type Vendor } from './vendor.ts';

let live: Vendor['live'];
let sdk: Vendor['sdk'];
beforeAll(async () => {
  ({ live, sdk } = await startVendor());
});
afterAll(() => live?.stop());
beforeEach(() => live.upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

const reply = { type: 'text', text: 'You said: Hello' };

test('an answer comes whole, from one call of the model, with the settings of the request', async () => {
  const request = { ...hello, system: 'Be brief.', temperature: 0.5, stop_sequences: ['END'] };
  const { data: message, response } = await sdk.messages.create(request).withResponse();
  expect(faults('MessagesResponse', message)).toEqual([]);
  expect(message).toMatchObject({ role: 'assistant', model, content: [reply], stop_reason: 'end_turn' });
  expect(message.usage.output_tokens).toBeGreaterThan(0);
  expect(response.headers.get('request-id')).toBe(response.headers.get('x-request-id'));
  const calls = await live.upstream.requests();
  expect(calls).toHaveLength(1);
  expect(calls[0]?.body).toMatchObject({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ],
    max_tokens: 100,
    temperature: 0.5,
    stop: ['END'],
  });
});

test('the SDK puts a streamed answer together', async () => {
  const stream = sdk.messages.stream(hello);
  const pieces: string[] = [];
  stream.on('text', (text) => pieces.push(text));
  const message = await stream.finalMessage();
  expect(message).toMatchObject({ content: [reply], stop_reason: 'end_turn' });
  expect(message.usage.output_tokens).toBeGreaterThan(0);
  expect(pieces.length).toBeGreaterThan(1);
  expect(await live.upstream.requests()).toHaveLength(1);
});

test('the events of a stream come in the exact order, and nothing after message_stop', async () => {
  const response = await live.post('/v1/messages', { ...hello, stream: true });
  expect(response.headers.get('Content-Type')).toBe('text/event-stream');
  const events = await readEvents(response);
  expect(events.flatMap((event) => eventFaults('MessagesStreamEvent', event))).toEqual([]);
  const names = events.map(({ event }) => event).filter((name) => name !== 'ping');
  expect(names.join(' ')).toMatch(
    /^message_start content_block_start( content_block_delta)+ content_block_stop message_delta message_stop$/,
  );
  expect(events.map(({ data }) => JSON.parse(data).type)).toEqual(events.map(({ event }) => event));
});

test('stop reasons and an empty answer are put in the vendor words', async () => {
  await live.upstream.script([{ reply: { text: 'Much', stop_reason: 'max_tokens' } }]);
  expect(await sdk.messages.create(hello)).toMatchObject({ stop_reason: 'max_tokens' });
  expect(await sdk.messages.stream(hello).finalMessage()).toMatchObject({ stop_reason: 'max_tokens' });
  await live.upstream.script([{ reply: { text: '' } }]);
  expect(await sdk.messages.create(hello)).toMatchObject({ content: [], stop_reason: 'end_turn' });
  expect(await sdk.messages.stream(hello).finalMessage()).toMatchObject({ content: [] });
});

test('a key is taken as x-api-key and as bearer, but not two different ones at once', async () => {
  const authToken = live.server.operatorKey;
  const bearer = new Anthropic({ baseURL: live.server.url, authToken, apiKey: null, maxRetries: 0 });
  expect(await bearer.messages.create(hello)).toMatchObject({ content: [reply] });
  const { data } = await live.client.POST('/api/v1/auth/api-keys', { body: { name: 'Another' } });
  const both = await fetch(`${live.server.url}/v1/messages`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${authToken}`,
      'x-api-key': data.key,
      'Content-Type': 'application/json',
    },
    body: JSON.stringify(hello),
  });
  expect(both.status).toBe(401);
  expect(await both.json()).toMatchObject({ error: { type: 'authentication_error' } });
});

describe('with a session', () => {
  async function inSession(sessionId: string, messages: Anthropic.MessageParam[]) {
    const options = { headers: { 'x-service-session-id': sessionId } };
    const { data, response } = await sdk.messages.create({ ...hello, messages }, options).withResponse();
    return { ...data, sessionId: response.headers.get('x-service-session-id') };
  }

  async function textsOf(sessionId: string): Promise<string[]> {
    const params = { path: { session_id: sessionId } };
    const { data } = await live.client.GET('/api/v1/sessions/{session_id}/messages', { params });
    return data.data.map(
      ({ role, parts }) => `${role}: ${parts.map((part) => ('text' in part ? part.text : ''))}`,
    );
  }

  const first = { role: 'user' as const, content: 'First' };
  const answer = { role: 'assistant' as const, content: 'You said: First' };
  const second = { role: 'user' as const, content: 'Second' };
  const twoTurns = [
    'user: First',
    'assistant: You said: First',
    'user: Second',
    'assistant: You said: Second',
  ];

  test.each([
    ['the whole history is sent', [first, answer, second]],
    ['only what is new is sent', [second]],
  ])('a conversation goes on over two turns where %s', async (_, messages) => {
    const { data: session } = await live.client.POST('/api/v1/sessions', { body: {} });
    expect((await inSession(session.id, [first])).sessionId).toBe(session.id);
    expect((await inSession(session.id, messages)).sessionId).toBe(session.id);
    expect(await textsOf(session.id)).toEqual(twoTurns);
    const calls = await live.upstream.requests();
    expect(calls).toHaveLength(2);
    const body = calls[1]?.body as { messages: { role: string; content: string }[] } | undefined; // the vendor's form
    expect(body?.messages.filter(({ role }) => role !== 'system').map(({ content }) => content)).toEqual([
      'First',
      'You said: First',
      'Second',
    ]);
  });

  test('a history that differs goes on in a session of its own, and leaves the other as it was', async () => {
    const { data: session } = await live.client.POST('/api/v1/sessions', { body: {} });
    await inSession(session.id, [first]);
    const changed = { role: 'assistant' as const, content: 'Something else' };
    const { sessionId } = await inSession(session.id, [first, changed, second]);
    expect(sessionId).toMatch(/^ses_/);
    expect(sessionId).not.toBe(session.id);
    expect(await textsOf(session.id)).toEqual(twoTurns.slice(0, 2));
  });

  test('a streamed turn is kept too', async () => {
    const { data: session } = await live.client.POST('/api/v1/sessions', { body: {} });
    const options = { headers: { 'x-service-session-id': session.id } };
    const message = await sdk.messages.stream({ ...hello, messages: [first] }, options).finalMessage();
    expect(message.content).toMatchObject([{ text: 'You said: First' }]);
    expect(await textsOf(session.id)).toEqual(twoTurns.slice(0, 2));
  });

  test('without a session header nothing is kept', async () => {
    const count = async () => (await live.client.GET('/api/v1/metrics')).data.sessions;
    const before = await count();
    await sdk.messages.create(hello);
    expect(await count()).toBe(before);
  });
});
