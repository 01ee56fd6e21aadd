/** Answers that are made to cost the vendors' own clients much. */
import { createOpenAI } from '@ai-sdk/openai';
import { expect, test } from 'vitest';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { cpuMsOf } from '../../test-cpu.ts';
import { streamFromSdk } from './ai-sdk.ts';
import { heldFetch } from './held-answers.ts';
import { Silence } from './silence.ts';
import { request } from './test-providers.ts';
import { Thoughts } from './thoughts.ts';

/** What a client of the vendor's makes of these calls, each list of them in an event of its own. */
async function outcomeOf(pieces: readonly (readonly object[])[]) {
  const events = pieces.map((tool_calls) => ({
    ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
    choices: [{ index: 0, delta: { tool_calls } }],
  }));
  const { url } = await serveAnswers((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
    response.end('data: [DONE]\n\n');
  });
  const fetch = heldFetch(testOutbound().fetchFor('operator'), () => undefined);
  const model = createOpenAI({ baseURL: url, apiKey: 'key', fetch }).chat('m');
  const call = {
    ...{ model, name: 'own:m', type: 'openai' as const, request: request('Hi'), secrets: [] },
    ...{ signal: new AbortController().signal, silence: new Silence(20_000) },
    vendor: { options: {}, changeBody: null },
    thoughts: new Thoughts({ id: 'own', type: 'openai' }),
    separatesResults: false,
    wantsNine: false,
  };
  const parts: string[] = [];
  try {
    for await (const part of streamFromSdk(call)) parts.push(part.type);
  } catch (error) {
    parts.push(error instanceof Error ? error.message : String(error));
  }
  return parts.at(-1);
}

const named = (at: number) => ({
  ...{ index: at, id: `call_${at}`, type: 'function' },
  function: { name: 'view', arguments: '{}' },
});
const many = (count: number) => Array.from({ length: count }, (_, at) => named(at));

/** All of them at one place. */
const crowd = (count: number, called: object) =>
  Array.from({ length: count }, (_, at) => ({
    index: 0,
    id: 'name' in called ? `c${at}` : null,
    function: called,
  }));

test('many calls in one event are read', async () => {
  expect(await outcomeOf([many(500)])).not.toMatch(/wrote more/);
});

test.each([
  ['in one event', [[...crowd(15_000, { name: 'view', arguments: '{}' }), ...crowd(15_000, {})]]],
  ['in many', Array.from({ length: 200 }, (_, piece) => many(20).map((_call, at) => named(piece * 20 + at)))],
])('calls without end %s end the answer, and are no hour of work', async (_where, pieces) => {
  let outcome: string | undefined;
  const spent = await cpuMsOf(async () => {
    outcome = await outcomeOf(pieces);
  });
  expect(outcome).toMatch(/^The model provider (wrote more than any answer holds|failed or cut its answer)/);
  expect(spent).toBeLessThan(2000);
});
