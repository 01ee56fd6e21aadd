/** Answers that should be kept for the key of their request, where they cannot be. */
import { expect, test } from 'vitest';
import { startTestServer } from './test-server.ts';

test('an answer that cannot be kept is given all the same, and the log says so', async () => {
  const body = {
    ...{ id: 'msg_01k9w6r3h2e7xv5q0c8m4b1tza', type: 'message', role: 'assistant', model: 'demo:demo-1' },
    ...{ content: [], stop_reason: 'end_turn', stop_sequence: null },
    usage: { input_tokens: 2, output_tokens: 16 },
  };
  const server = await startTestServer({
    handlers: { createMessage: async () => ({ status: 200, body }) },
    keeps: () => Promise.reject(new Error('the database is away')),
  });
  const answer = await server.request('POST', '/v1/messages', {
    token: 'login',
    headers: { 'idempotency-key': 'once' },
    body: { model: 'demo:demo-1', max_tokens: 16, messages: [{ role: 'user', content: 'Hello' }] },
  });
  await server.close();
  expect(answer).toMatchObject({ status: 200, json: body });
  expect(server.log).toContainEqual(
    expect.objectContaining({ msg: 'an answer could not be kept for its Idempotency-Key' }),
  );
});
