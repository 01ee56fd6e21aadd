/** Providers that answer without an end: read no further than an answer can go, in bounded memory. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { serveAnswers } from '../../outbound/test-server.ts';
import { ModelFailure } from '../models/model.ts';
import {
  answerOf,
  openDefined,
  operatorFetch,
  placeOf,
  providerTypes,
  request,
  type TestedType,
} from './test-providers.ts';

const mebibyte = 1024 ** 2;

/** OpenAI is asked by another API at its own address. */
const readings = [...providerTypes, 'responses'] as const;
type Reading = (typeof readings)[number];

/** What a model says to a server that sends this again and again, and how much was sent. */
async function askOf(
  piece: string,
  { status = 200, type = 'text/event-stream', reading = 'openai-compat' as Reading } = {},
) {
  let sent = 0;
  const bytes = Buffer.from(piece);
  const pour = (response: ServerResponse) => {
    do sent += bytes.length;
    while (!response.destroyed && response.write(bytes));
    response.once('drain', () => pour(response));
  };
  const { url } = await serveAnswers((asked, response) => {
    if (asked.url === '/token') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ access_token: 'test-token', expires_in: 3600, token_type: 'Bearer' }));
      return;
    }
    response.writeHead(status, { 'content-type': type });
    pour(response);
  });
  const failure = await answerOf(opened(reading, url), request('Hello')).catch((error: unknown) => error);
  if (!(failure instanceof ModelFailure)) throw new Error('It answered');
  return { failure, sent };
}

function opened(reading: Reading, url: string) {
  const type: TestedType = reading === 'responses' ? 'openai' : reading;
  const { base_url, api_key } = placeOf(type, url);
  const models = [{ id: 'scripted-1' }];
  if (reading !== 'responses')
    return openDefined({
      ...{ id: 'theirs', type, models },
      connect: async () => ({ baseUrl: base_url, apiKey: api_key }),
    });
  const definition = { id: 'theirs', type, models, connect: async () => ({ apiKey: api_key }) };
  return openDefined(definition, undefined, 'scripted-1', (input, init) =>
    operatorFetch(String(input).replace('https://api.openai.com', url), init),
  );
}

const words = (text: string) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`;
const withoutEnd = {
  'one line': 'data: '.padEnd(16_384, 'x'),
  'lines of one event': 'data: x\n'.repeat(2000),
  comments: ': wait\n'.repeat(2000),
};

test.each(readings.flatMap((reading) => Object.keys(withoutEnd).map((name) => ({ reading, name }))))(
  '$reading: $name without an end are a failure, and not read for ever',
  async ({ reading, name }) => {
    const piece = withoutEnd[name as keyof typeof withoutEnd]; // these are its names
    const { failure, sent } = await askOf(piece, { reading });
    expect(failure).toMatchObject({ code: 'provider_failed' });
    expect(sent).toBeLessThan(64 * mebibyte);
  },
);

test('words without an end are a failure, and not read for ever', async () => {
  const { failure, sent } = await askOf(words('x'.repeat(16_000)));
  expect(failure).toMatchObject({ code: 'provider_failed' });
  expect(sent).toBeLessThan(64 * mebibyte);
});

test.each(readings)('%s: an answer in one piece that has no end is a failure', async (reading) => {
  const { failure, sent } = await askOf(' '.repeat(16_000), { reading, type: 'application/json' });
  expect(failure).toMatchObject({ code: 'provider_failed' });
  expect(sent).toBeLessThan(64 * mebibyte);
});

describe('an answer of more values than can be held', () => {
  const values = '{},'.repeat(5000);

  test.each(
    readings
      .filter((reading) => reading !== 'openai-compat')
      .flatMap((reading) => [
        { reading, type: 'application/json' },
        { reading, type: 'text/event-stream' },
      ]),
  )('$reading: $type is given up long before the bytes are too many', async ({ reading, type }) => {
    const { failure, sent } = await askOf(values, { reading, type });
    expect(failure).toMatchObject({ code: 'provider_failed' });
    expect(sent).toBeLessThan(16 * mebibyte);
  });

  test.each(['application/json', 'text/event-stream'])('openai-compat: %s is a failure', async (type) => {
    const more = Array.from({ length: 600_000 }, () => ({}));
    const said = { role: 'assistant', content: 'Hello' };
    const answer = JSON.stringify({ choices: [{ delta: said, message: said, finish_reason: 'stop' }], more });
    const { url } = await serveAnswers((_, response) => {
      response.writeHead(200, { 'content-type': type });
      response.end(type === 'application/json' ? answer : `data: ${answer}\n\ndata: [DONE]\n\n`);
    });
    const failure = await answerOf(opened('openai-compat', url), request('Hello')).catch(
      (error: unknown) => error,
    );
    expect(failure).toMatchObject({ code: 'provider_failed' });
  });
});

test.each(readings)('%s: a refusal without an end is read as far as its words can be', async (reading) => {
  const piece = 'the context length is 8 tokens '.repeat(1000);
  const { failure, sent } = await askOf(piece, { status: 400, reading });
  expect(failure).toMatchObject({ code: 'provider_prompt_too_long' });
  expect(failure.cause).toMatchObject({ responseBody: expect.stringMatching(/^[\s\S]{100,16000}$/) });
  expect(sent).toBeLessThan(10 * mebibyte);
});
