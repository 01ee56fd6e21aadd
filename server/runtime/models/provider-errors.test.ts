/** What a run does about each kind of error, whatever the type of its provider: ask again, ask another, or report. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { asked, isGoogles, providerTypes } from '../providers/test-providers.ts';
import { doneOf, errorOf, modelRuntime, told } from '../test-models.ts';
import { testQuery } from '../test-query.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const answer = { reply: { text: 'Hello there.' } };
const broken = { reply: { text: 'An answer that breaks off in its middle.' } };
const status = (code: number, more = {}) => ({ fail: { kind: 'status', status: code, ...more } });
const unknownKey = status(401);
const cut = { ...broken, fail: { kind: 'cut', after_chunks: 3 } };
const ends = { ...broken, fail: { kind: 'end', after_chunks: 3 } };
const hangs = { ...broken, fail: { kind: 'hang', after_chunks: 2 } };
const noMoney = status(429, { code: 'insufficient_quota', message: 'Check your plan and billing details.' });
const unwanted = status(400, { code: 'content_filter', message: 'Refused by our content policy.' });

describe.each(providerTypes)('a run that asks a provider of the type %s', (type) => {
  test.each<[string, object, string]>([
    ['a limited rate', status(429), 'provider_rate_limited'],
    ['overload', status(529), 'provider_rate_limited'],
    ['a failure', status(500), 'provider_failed'],
    ['a time-out of the provider', status(504), 'provider_timeout'],
    ['a stream that is cut', cut, 'provider_failed'],
    ['a stream that ends too early', ends, 'provider_failed'],
  ])('asks again after %s, and completes', async (_what, failure, code) => {
    await upstream.script([{ times: 1, ...failure }, answer]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Hi');
    expect(doneOf(events)).toMatchObject({ content: [{ type: 'text', text: 'Hello there.' }] });
    expect(told(events, 'model_retried')).toMatchObject([{ attempt: 2, code }]);
    expect(await asked(upstream)).toHaveLength(2);
  });

  test('waits as long as its provider says', async () => {
    await upstream.script([{ times: 1, ...status(429, { retry_after: '1' }) }, answer]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(told(await ask('Hi'), 'model_retried')).toMatchObject([{ wait_ms: 1000 }]);
  });

  test.each<[string, object, string]>([
    ['a key that is refused', unknownKey, 'provider_refused'],
    ['an account without money', noMoney, 'provider_refused'],
    ['a model that is not there', status(404), 'provider_refused'],
    ['silence', hangs, 'provider_timeout'],
  ])('asks the next model of the settings after %s, at once', async (_what, failure, code) => {
    await upstream.script([{ when: { model: 'big' }, ...failure }, answer]);
    const { ask } = await modelRuntime(upstream, {
      type,
      large: { fallbacks: ['house:other'] },
      // The next one has to answer within it, on a busy machine too.
      ...(failure === hangs && { runtime: { providerSilenceMs: 2000 } }),
    });
    const events = await ask('Hi');
    expect(told(events, 'model_replaced')).toMatchObject([{ from: 'house:big', to: 'house:other', code }]);
    expect(told(events, 'model_retried')).toEqual([]);
    expect(doneOf(events)).toMatchObject({ model: 'house:other', stop_reason: 'end_turn' });
    // Vertex AI is asked once more with a new token, which comes without a pause.
    const again = type === 'vertexai' && failure === unknownKey;
    expect(await asked(upstream)).toHaveLength(again ? 3 : 2);
  });

  test('asks the next model where the first stays overloaded', async () => {
    await upstream.script([{ when: { model: 'big' }, ...status(529) }, answer]);
    const { ask } = await modelRuntime(upstream, {
      type,
      large: { fallbacks: ['house:other'] },
      options: { limits: { max_attempts: 2 } },
    });
    const events = await ask('Hi');
    expect(told(events, 'model_retried')).toHaveLength(1);
    expect(doneOf(events)).toMatchObject({ model: 'house:other' });
  });

  test.each<[string, object, RegExp]>([
    ['a wrong request', status(400), /^provider_request_refused: .*status 400/],
    ['content that is refused', unwanted, /^provider_request_refused: .*content/],
  ])('reports %s to its reader, and asks nobody else', async (_what, failure, said) => {
    await upstream.script([failure]);
    const { ask } = await modelRuntime(upstream, { type, large: { fallbacks: ['house:other'] } });
    expect(errorOf(await ask('Hi'))).toMatch(said);
    expect(await asked(upstream)).toHaveLength(1);
  });

  test('sums up a conversation that its provider finds too long, and goes on', async () => {
    const message = isGoogles(type)
      ? 'The input token count (9) exceeds the maximum number of tokens allowed (8).'
      : "This model's maximum context length is 8 tokens: the prompt is too long.";
    await upstream.script([
      { when: { system: '^Sum up the conversation' }, reply: { text: 'We said hello.' } },
      { when: { last_user: 'Go on' }, times: 1, ...status(400, { message }) },
      answer,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    await ask('Hi');
    const events = await ask('Go on');
    expect(told(events, 'session_summarized')).toMatchObject([{ reason: 'prompt_refused' }]);
    expect(doneOf(events)).toMatchObject({ content: [{ type: 'text', text: 'Hello there.' }] });
  });

  test('tells an answer that its provider refused to write as a refusal', async () => {
    await upstream.script([{ reply: { text: 'I may n', stop_reason: 'refusal' } }]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(doneOf(await ask('Hi'))).toMatchObject({ stop_reason: 'refusal' });
  });
});

describe('a run whose answer breaks off, since the conversation has become too long', () => {
  const usage = { input: 900, output: 100 };
  const script = [
    { when: { system: '^Sum up the conversation' }, reply: { text: 'We said hello.', usage } },
    {
      ...{
        when: { last_user: 'Go on' },
        times: 1,
        reply: { text: 'A beginning that goes no further.', usage },
      },
      fail: {
        ...{ kind: 'error_frame', after_chunks: 4, status: 400, code: 'context_length_exceeded' },
        message: 'prompt is too long: 9 tokens > 8 maximum',
      },
    },
    { reply: { text: 'Hello there.', usage } },
  ];

  test('sums it up and answers anew: what was seen of the first answer is stored, and paid for', async () => {
    await upstream.script(script);
    const { ask, transcript } = await modelRuntime(upstream);
    await ask('Hi');
    const events = await ask('Go on');
    const done = doneOf(events);
    expect(done.content).toEqual([{ type: 'text', text: 'Hello there.' }]);
    const shown = events.flatMap(({ name, data }) => (name === 'message' ? [data.message_id] : []));
    const messages = await transcript.readMessages(done.session_id);
    const beginning = messages.find(({ id }) => id === shown[0]);
    expect(beginning).toMatchObject({ stop_reason: 'interrupted', excluded: false });
    expect(JSON.stringify(beginning?.parts)).toContain('A beginning');
    const used = messages.filter(({ run_id }) => run_id === done.run_id).map((message) => message.usage);
    expect(used.filter((of) => (of?.output_tokens ?? 0) > 0)).toHaveLength(3);
    expect(done.usage.output_tokens).toBe(used.reduce((sum, of) => sum + (of?.output_tokens ?? 0), 0));
  });

  test('ends with the error where its reader cannot take the beginning back', async () => {
    await upstream.script(script);
    const { ask, transcript } = await modelRuntime(upstream);
    await ask('Hi');
    const events = await ask('Go on', { trigger: 'messages' });
    expect(errorOf(events)).toContain('provider_prompt_too_long');
    expect(told(events, 'session_summarized')).toEqual([]);
    const messages = await transcript.readMessages(testQuery('').session.id);
    // Neither is for any model to see again.
    expect(messages.slice(-2)).toMatchObject([
      { role: 'user', excluded: true },
      { role: 'assistant', stop_reason: 'error', excluded: true },
    ]);
  });
});

test('a prompt that is refused goes with the beginning of an answer that was asked for again', async () => {
  await upstream.script([{ times: 1, ...cut }, unwanted]);
  const { ask, transcript } = await modelRuntime(upstream);
  expect(errorOf(await ask('Hi'))).toContain('provider_request_refused');
  expect(await transcript.readMessages(testQuery('').session.id)).toMatchObject([
    { role: 'user', excluded: true },
    { role: 'assistant', stop_reason: 'interrupted', excluded: true },
  ]);
});

test('a run sums up what llama.cpp says is more than its window, and goes on', async () => {
  const said = 'the request exceeds the available context size, try increasing it';
  const error = { ...{ code: 400, message: said, type: 'exceed_context_size_error' }, n_prompt_tokens: 9000 };
  const body = JSON.stringify({ error: { ...error, n_ctx: 4096 } });
  await upstream.script([
    { when: { system: '^Sum up the conversation' }, reply: { text: 'We said hello.' } },
    {
      when: { last_user: 'Go on' },
      times: 1,
      ...status(400, { body, content_type: 'application/json' }),
    },
    answer,
  ]);
  const { ask } = await modelRuntime(upstream);
  await ask('Hi');
  const events = await ask('Go on');
  expect(told(events, 'session_summarized')).toMatchObject([{ reason: 'prompt_refused' }]);
  expect(doneOf(events)).toMatchObject({ content: [{ type: 'text', text: 'Hello there.' }] });
});
