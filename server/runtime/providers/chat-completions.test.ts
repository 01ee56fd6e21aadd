/** Answers of chat completions as servers that imitate OpenAI write them: read by hand as the AI SDK reads them. */
import { setTimeout } from 'node:timers/promises';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { expect, test } from 'vitest';
import { serveAnswers, testOutbound } from '../../outbound/test-server.ts';
import { cpuMsOf } from '../../test-cpu.ts';
import { ModelFailure, type ModelRequest } from '../models/model.ts';
import { streamFromSdk } from './ai-sdk.ts';
import { openaiCompat } from './openai-compat.ts';
import type { AnsweringModel } from './provider-factory.ts';
import { Silence } from './silence.ts';
import { request } from './test-providers.ts';
import { Thoughts } from './thoughts.ts';

const usage = {
  prompt_tokens: 9,
  completion_tokens: 4,
  prompt_tokens_details: { cached_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 1 },
};
const said = (delta: object) => ({ id: 'c1', choices: [{ index: 0, delta }] });
const called = (...tool_calls: object[]) => said({ tool_calls });
const ended = (finish_reason: string) => ({ choices: [{ delta: {}, finish_reason }], usage });
const framed = (pieces: readonly object[]) =>
  pieces.map((piece) => `data: ${JSON.stringify(piece)}\n\n`).join('');

const streams: Readonly<Record<string, string>> = {
  'words, and a use behind the reason': framed([
    said({ role: 'assistant', content: '' }),
    said({ content: 'Grüße ' }),
    said({ content: '👋' }),
    { choices: [{ delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage },
  ]),
  'lines that end as on Windows, comments, names and data in two lines': framed([
    said({ content: 'a' }),
    ended('length'),
  ])
    .replace('data: {', ': hello\n\nevent: x\nid: 1\ndata: {\ndata: ')
    .replaceAll('\n', '\r\n'),
  'data without a space': framed([said({ content: 'a' }), ended('stop')]).replaceAll('data: ', 'data:'),
  'thoughts under either name': framed([
    said({ reasoning_content: 'hm' }),
    said({ reasoning: ', so' }),
    said({ content: 'a' }),
    ended('stop'),
  ]),
  'content in parts': framed([
    said({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
    said({ content: [{ type: 'text', text: 'a' }, { type: 'other' }] }),
    ended('stop'),
  ]),
  'a refusal': framed([said({ refusal: 'I will not.' }), ended('stop')]),
  'a filter': framed([said({ content: 'a' }), ended('content_filter')]),
  'a reason that nobody knows': framed([said({ content: 'a' }), ended('bored')]),
  'two calls at once': framed([
    called({ index: 0, id: 'a', function: { name: 'view', arguments: '' } }),
    called({ index: 1, id: 'b', function: { name: 'ls', arguments: '{"p":' } }),
    called(
      { index: 0, function: { arguments: '{"path":"x"}' } },
      { index: 1, function: { arguments: '1}' } },
    ),
    ended('tool_calls'),
  ]),
  'arguments before the name': framed([
    called({ index: 0, id: 'a', function: { arguments: '{"path":' } }),
    called({ index: 0, function: { name: 'view', arguments: '"x"}' } }),
    ended('tool_calls'),
  ]),
  'a call whose name never comes': framed([
    called({ index: 0, id: 'a', function: { arguments: '{}' } }),
    ended('tool_calls'),
  ]),
  'calls without an index, one after the other': framed([
    called({ id: 'a', function: { name: 'view', arguments: '{"path":"x"}' } }),
    called({ id: 'b', function: { name: 'view', arguments: '{"path":"y"}' } }),
    ended('tool_calls'),
  ]),
  'arguments that are no JSON': framed([
    called({ index: 0, id: 'a', function: { name: 'view', arguments: '{"path' } }),
    ended('tool_calls'),
  ]),
  'no use at all': framed([said({ content: 'a' }), { choices: [{ delta: {}, finish_reason: 'stop' }] }]),
  'no reason': framed([said({ content: 'a' })]),
  'reasons that are empty': framed([{ choices: [{ delta: { content: 'a' }, finish_reason: '' }] }]),
  'an error within': framed([
    said({ content: 'a' }),
    { error: { message: 'Insufficient_quota: billing', type: 'x', code: 402 } },
  ]),
  'what is no JSON': `${framed([said({ content: 'a' })])}data: {oops\n\n`,
  'what has no choices': `${framed([said({ content: 'a' })])}data: {"hello":1}\n\n`,
  nothing: '',
};

/** What is said, in our words, whatever pieces it came in; or what the failure means. */
async function heardOf(model: AnsweringModel, more: Partial<ModelRequest> = {}, silenceMs = 20_000) {
  const parts: object[] = [];
  try {
    const call = {
      ...{ model, name: 'own:m', type: 'openai-compat' as const, request: request('Hi', more) },
      ...{ signal: new AbortController().signal, silence: new Silence(silenceMs), secrets: [] },
      vendor: { options: {}, changeBody: null },
      thoughts: new Thoughts({ id: 'own', type: 'openai-compat' }),
      separatesResults: false,
      wantsNine: false,
    };
    for await (const part of streamFromSdk(call)) parts.push(part);
  } catch (error) {
    if (!(error instanceof ModelFailure)) throw error;
    parts.push({ failed: error.code, remedy: error.remedy });
  }
  return parts;
}

async function opened(type: string, answer: (streamed: boolean) => string) {
  const server = await serveAnswers(async (asked, response) => {
    const body = JSON.parse(Buffer.concat(await asked.toArray()).toString());
    const text = Buffer.from(answer(body.stream === true));
    response.writeHead(200, { 'content-type': type });
    // Cut where it hurts: within letters, too.
    for (let at = 0; at < text.length; at += 7) response.write(text.subarray(at, at + 7));
    response.end();
  });
  const outbound = testOutbound();
  const [fetch, call] = [outbound.fetchFor('operator'), outbound.callFor('operator')];
  const { signal } = new AbortController();
  const byHand = await openaiCompat(
    { id: 'own', baseUrl: server.url, changeBody: null, fetch, call, signal },
    'm',
  );
  const bySdk = createOpenAICompatible({
    name: 'own',
    baseURL: server.url,
    includeUsage: true,
    fetch,
  }).chatModel('m');
  return { byHand, bySdk };
}

test.each(Object.entries(streams))('%s: by hand as by the SDK', async (_what, stream) => {
  const { byHand, bySdk } = await opened('text/event-stream', () => stream);
  const expected = await heardOf(bySdk);
  expect(await heardOf(byHand)).toEqual(expected);
  expect(expected.length).toBeGreaterThan(0);
  // Nor does its end change anything, which some servers leave out.
  const marked = await opened('text/event-stream', () => `${stream}data: [DONE]\n\n`);
  expect(await heardOf(marked.byHand)).toEqual(await heardOf(marked.bySdk));
});

test('one that sends pieces without a word is still at work', async () => {
  const { url } = await serveAnswers(async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let times = 0; times < 20; times += 1) {
      response.write(framed([{ choices: [{ delta: { role: 'assistant', content: '' } }] }]));
      await setTimeout(100);
    }
    response.end(framed([said({ content: 'a' }), ended('stop')]));
  });
  const outbound = testOutbound();
  const [fetch, call] = [outbound.fetchFor('operator'), outbound.callFor('operator')];
  const { signal } = new AbortController();
  const model = await openaiCompat({ id: 'own', baseUrl: url, changeBody: null, fetch, call, signal }, 'm');
  expect(await heardOf(model, {}, 1000)).toContainEqual({ type: 'text', text: 'a' });
});

test('an empty reason is none: a stream that is cut has not ended, and one that has ended stays so', async () => {
  const empty = { choices: [{ delta: { content: 'a' }, finish_reason: '' }] };
  const { byHand: cut } = await opened('text/event-stream', () => framed([empty]));
  expect((await heardOf(cut)).at(-1)).toEqual({ failed: 'provider_failed', remedy: 'retry' });
  const { byHand: whole } = await opened('text/event-stream', () => framed([ended('length'), empty]));
  expect((await heardOf(whole)).at(-1)).toMatchObject({ stopReason: 'max_tokens' });
});

const message = {
  content: 'a',
  reasoning_content: 'hm',
  tool_calls: [{ id: 'a', type: 'function', function: { name: 'view', arguments: '{"path":"x"}' } }],
};
const whole = JSON.stringify({ id: 'c1', choices: [{ message, finish_reason: 'tool_calls' }], usage });

test('what nobody reads before its end comes in one piece where it is short, and says the same', async () => {
  const asked: boolean[] = [];
  const { byHand } = await opened('application/json', (streamed) => {
    asked.push(streamed);
    return whole;
  });
  const heard = await heardOf(byHand, { whole: true, maxTokens: 1000 });
  expect(heard.filter((part) => !('json' in part))).toEqual([
    { type: 'reasoning', text: 'hm' },
    { type: 'text', text: 'a' },
    { type: 'tool_use', id: 'a', name: 'view', input: { path: 'x' } },
    {
      ...{ type: 'finish', stopReason: 'tool_use' },
      usage: { input_tokens: 9, output_tokens: 4, cached_input_tokens: 3 },
    },
  ]);
  // Some answer so whatever they are asked for.
  expect(await heardOf(byHand)).toEqual(heard);
  await heardOf(byHand, { whole: true, maxTokens: 100_000 });
  expect(asked).toEqual([false, true, true]);
});

test.each([
  [
    'xAI',
    { completion_tokens: 9, total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } },
    103,
  ],
  ['Gemini', { completion_tokens: 9, total_tokens: 135 }, 103],
  [
    'OpenAI',
    { completion_tokens: 103, total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } },
    103,
  ],
  ['one that counts no sum', { completion_tokens: 9 }, 9],
  ['one whose sum is less', { completion_tokens: 9, total_tokens: 32 }, 9],
])('what was thought is counted as %s counts it, whole and in pieces', async (_vendor, counted, written) => {
  const piece = {
    choices: [{ message: { content: 'a' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 32, ...counted },
  };
  const used = { usage: { input_tokens: 32, output_tokens: written, cached_input_tokens: 0 } };
  const whole = await opened('application/json', () => JSON.stringify(piece));
  expect((await heardOf(whole.byHand)).at(-1)).toMatchObject(used);
  const streamed = await opened('text/event-stream', () => framed([piece]));
  expect((await heardOf(streamed.byHand)).at(-1)).toMatchObject(used);
});

test.each<[string, (object | readonly object[])[]]>([
  ['in one piece', [[...calls(12_000), ...Array<object>(12_000).fill({ function: {} })]]],
  ['in many pieces', Array.from({ length: 40 }, () => calls(300))],
  [
    'of which most have no name',
    [calls(900), ...Array.from({ length: 20 }, () => Array(900).fill({ function: {} }))],
  ],
])('calls without end are not taken, and are no hour of work: %s', async (_what, pieces) => {
  const stream = pieces
    .map((tool_calls) => `data: ${JSON.stringify({ choices: [{ delta: { tool_calls } }] })}\n\n`)
    .join('');
  const { byHand } = await opened('text/event-stream', () => stream);
  let heard: unknown[] = [];
  const spent = await cpuMsOf(async () => {
    heard = await heardOf(byHand);
  });
  expect(spent).toBeLessThan(4000);
  expect(heard.at(-1)).toMatchObject({ failed: 'provider_failed' });
});

function calls(count: number): object[] {
  return Array.from({ length: count }, () => ({ function: { name: 'a' } }));
}
