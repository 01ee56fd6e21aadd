/** What a model writes comes clean, however its vendor cuts and names the pieces. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { serveAnswers } from '../../outbound/test-server.ts';
import { answerOf, definitionOf, openDefined, request, textOf } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

/** A model that says these pieces, as they are. */
async function saying(...deltas: object[]) {
  const said = deltas.map((delta) => ({ choices: [{ delta }] }));
  const frames = [...said, { choices: [{ delta: {}, finish_reason: 'stop' }] }].map(
    (piece) => `data: ${JSON.stringify(piece)}\n\n`,
  );
  const { url } = await serveAnswers((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`${frames.join('')}data: [DONE]\n\n`);
  });
  const connect = async () => ({ baseUrl: `${url}/v1`, apiKey: 'test-key' });
  const model = openDefined(definitionOf('openai-compat', upstream, { connect }));
  return await answerOf(model, request('Hi'));
}

test('a character stays whole that comes in two pieces, in thoughts and in the answer', async () => {
  const [first, second] = ['\ud83d', '\ude00'];
  const parts = await saying(
    { reasoning_content: `Hm ${first}` },
    { reasoning_content: second },
    { content: first },
    { content: `${second}${first}` },
    { content: `${second}!` },
  );
  expect(textOf(parts)).toBe('😀😀!');
  expect(parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('')).toBe('Hm 😀');
});

test('half a character stands where it was written', async () => {
  const parts = await saying(
    { reasoning_content: '\ud83d' },
    { content: '\ude00 a' },
    { content: 'b \ud83d' },
  );
  expect(parts.slice(0, -1)).toEqual([
    { type: 'reasoning', text: '\ufffd' },
    { type: 'text', text: '\ufffd a' },
    { type: 'text', text: 'b ' },
    { type: 'text', text: '\ufffd' },
  ]);
});

test('calls that a provider gives one id have two, and their arguments go with them', async () => {
  const call = (path: string) => ({ name: 'view', id: 'same', arguments: { path } });
  await upstream.script([{ reply: { tool_calls: [call('a'), call('b')] } }]);
  const parts = await answerOf(openDefined(definitionOf('anthropic', upstream)), request('Hi'));
  const calls = parts.filter((part) => part.type === 'tool_use');
  expect(calls.map(({ input }) => input)).toEqual([{ path: 'a' }, { path: 'b' }]);
  expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
  for (const { id, input } of calls) {
    const pieces = parts.map((part) => (part.type === 'tool_input' && part.id === id ? part.json : ''));
    expect(JSON.parse(pieces.join(''))).toEqual(input);
  }
});
