/** Providers that answer without an end: read no further than an answer can go, in bounded memory. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { serveAnswers } from '../../outbound/test-server.ts';
import { ModelFailure } from '../models/model.ts';
import { answerOf, openDefined, request } from './test-providers.ts';

const mebibyte = 1024 ** 2;

/** What a model says to a server that sends this again and again, and how much was sent. */
async function askOf(piece: string, { status = 200, type = 'text/event-stream' } = {}) {
  let sent = 0;
  const bytes = Buffer.from(piece);
  const pour = (response: ServerResponse) => {
    do sent += bytes.length;
    while (!response.destroyed && response.write(bytes));
    response.once('drain', () => pour(response));
  };
  const { url } = await serveAnswers((_request, response) => {
    response.writeHead(status, { 'content-type': type });
    pour(response);
  });
  const model = openDefined({
    ...{ id: 'theirs', type: 'openai-compat', models: [{ id: 'scripted-1' }] },
    connect: async () => ({ baseUrl: `${url}/v1`, apiKey: 'test-key' }),
  });
  const failure = await answerOf(model, request('Hello')).catch((error: unknown) => error);
  if (!(failure instanceof ModelFailure)) throw new Error('It answered');
  return { failure, sent };
}

const words = (text: string) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`;

test.each([
  ['one line', 'data: '.padEnd(16_384, 'x'), 64],
  ['lines of one event', 'data: x\n'.repeat(2000), 64],
  ['words', words('x'.repeat(16_000)), 64],
  ['comments', ': wait\n'.repeat(2000), 64],
])('%s without an end are a failure, and not read for ever', async (_, piece, mostMebibytes) => {
  const { failure, sent } = await askOf(piece);
  expect(failure).toMatchObject({ code: 'provider_failed' });
  expect(sent).toBeLessThan(mostMebibytes * mebibyte);
});

test('a refusal without an end is read as far as its words can be', async () => {
  const { failure, sent } = await askOf('the context length is 8 tokens '.repeat(1000), { status: 400 });
  expect(failure).toMatchObject({ code: 'provider_prompt_too_long' });
  expect(failure.cause).toMatchObject({ responseBody: expect.stringMatching(/^[\s\S]{100,4000}$/) });
  expect(sent).toBeLessThan(10 * mebibyte);
});
